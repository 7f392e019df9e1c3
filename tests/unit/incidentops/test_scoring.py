"""Scores: exact figures, one tree, canaries below their ceilings, and no free points without diagnosis."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sregym.incidentops import adversary, scoring
from sregym.incidentops.episode import Episode
from sregym.incidentops.evaluate import evaluate
from sregym.incidentops.models import ToolCallAction
from sregym.incidentops.policies import Oracle, play
from sregym.incidentops.scenarios import build
from sregym.incidentops.scoring import End, Ledger
from sregym.incidentops.server.environment import IncidentEnvironment

CANARIES = Path(adversary.__file__).parent / "validation" / "canaries" / "canaries.jsonl"


def ledger(**changes: Any) -> Ledger:
    values: dict[str, Any] = {
        "steps": 10, "clues": ["0/search_logs", "0/get_metrics"], "fixed": [True], "clues_at_fix": [2],
        "verified": [True], "changes": 1, "resolved": True,
    }  # fmt: skip
    return Ledger(**(values | changes))


GOOD = End(gone=(True,), nothing_to_repair=False, healthy_now=True, healthy_later=True)
BROKEN = End(gone=(False,), nothing_to_repair=False, healthy_now=False, healthy_later=False)
EARLY = End(gone=(True,), nothing_to_repair=False, healthy_now=False, healthy_later=True)
HALF = End(gone=(True, False), nothing_to_repair=False, healthy_now=False, healthy_later=False)


@pytest.mark.parametrize(
    ("kept", "end", "root_cause", "score"),
    [
        (ledger(), GOOD, 1.0, 1.0),
        (ledger(), GOOD, 0.0, 0.6),
        (ledger(), GOOD, 0.4, 0.76),
        (ledger(steps=20), GOOD, 1.0, 0.975),
        (ledger(steps=30), GOOD, 1.0, 0.95),
        (ledger(blind=1), GOOD, 1.0, 0.95),
        (ledger(unneeded=1), GOOD, 1.0, 0.975),
        (ledger(unneeded=5), GOOD, 1.0, 0.95),
        (ledger(verified=[False]), GOOD, 1.0, 0.95),
        (ledger(clues_at_fix=[1]), GOOD, 1.0, 0.95),
        (ledger(), EARLY, 1.0, 0.75),
        (ledger(verified=[False]), BROKEN, 1.0, 0.45),
        (ledger(verified=[False], clues_at_fix=[0]), BROKEN, 0.0, 0.0),
        (ledger(resolved=False), GOOD, 0.0, 0.1),
        (ledger(verified=[True, False], clues_at_fix=[2, -1], fixed=[True, False]), HALF, 0.5, 0.375),
    ],
)
def test_the_score_is_what_the_documentation_says(kept: Ledger, end: End, root_cause: float, score: float) -> None:
    graded = scoring.grade(ledger=kept, end=end, root_cause=root_cause, par=10, limit=30)
    assert graded.score == pytest.approx(score)


def test_the_rubric_tree_gives_the_reward_and_the_same_score() -> None:
    env = IncidentEnvironment()
    observation = env.reset(scenario="cascading-failure", level="hard", seed=3)
    policy, last = Oracle(build("cascading-failure", "hard", 3)), None
    briefing = observation.incident or {}
    episode = Episode(build("cascading-failure", "hard", 3))
    while not observation.done:
        call = policy.act(briefing=briefing, last=last)
        last = episode.step(call.tool, call.arguments)
        observation = env.step(ToolCallAction(tool_name=call.tool, arguments=call.arguments))
        assert observation.reward == last.reward
    names = dict(env.rubric.named_rubrics())
    assert {"step.diagnostic", "step.blind_action", "score.outcome.root_cause", "score.process.verified"} <= set(names)
    assert episode.score is not None
    assert names["score"].last_score == pytest.approx(episode.score.score)
    assert names["score.process"].last_score == pytest.approx(episode.score.process)
    assert names["step.terminal"].last_score == pytest.approx(scoring.TERMINAL * episode.score.score)


@pytest.mark.parametrize("line", CANARIES.read_text().splitlines(), ids=lambda line: json.loads(line)["name"])
def test_canaries_stay_below_their_ceiling(line: str) -> None:
    canary = json.loads(line)
    episode = Episode(build(canary["scenario"], canary["level"], canary["seed"]))
    for call in canary["calls"]:
        episode.step(call["tool"], call["arguments"])
    assert episode.score is not None
    assert episode.score.score < canary["expected_below"]


def test_policies_stand_in_the_expected_order() -> None:
    rows = {row.policy: row for row in evaluate(policies=["oracle", "rules", "restart", "random"], seeds=range(2))
            if row.group == "all"}  # fmt: skip
    assert rows["oracle"].lowest >= 0.95
    assert 0.4 < rows["rules"].score < 0.8
    assert rows["restart"].score < 0.25
    assert rows["random"].score < 0.25


def test_no_single_blind_call_scores() -> None:
    arena = adversary.Arena(adversary.tasks([0]))
    assert max(found.mean for found in adversary.exhaustive(arena, length=1)) < 0.5


def test_a_reading_can_be_sold_only_once() -> None:
    instance = build("resource-leak", "medium", 1)
    episode = Episode(instance)
    for _ in range(28):
        episode.step("search_logs", {"service": instance.causes[0].component, "query": ""})
    assert episode.reward_sum <= 2 * scoring.DIAGNOSTIC


def test_the_sum_of_the_oracle_s_rewards_has_a_bound() -> None:
    instance = build("two-independent-faults", "easy", 0)
    played = play(Episode(instance), Oracle(instance))
    assert played.reward_sum < 2.0
