"""The baselines over the whole suite: whatever they reach is graded, with what a model cost and without its key."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio.to_thread
import pytest

from sregym.results import AttemptRecord, Status, load_run
from sregym.results.record import Grade
from tests.live.command import ON_CLUSTER, call
from tests.support.scripted_model import COMPLETION_TOKENS, PROMPT_TOKENS, Say, Use, scripted_model

pytestmark = [pytest.mark.live, pytest.mark.acceptance, pytest.mark.timeout(7200)]

WITHIN_S = 7000.0
KEY = "sk-live-secret-0123456789abcdef"
SCALED = "scale_pod_zero_hotel_reservation"
ZEROES = ".items[] | select(.spec.replicas == 0) | .metadata.name"
TURNS = (
    Use("bash", {"command": "kubectl -n hotel-reservation get deployments,pods,services"}),
    Use(
        "bash",
        {
            "command": f"cd /tmp; kubectl -n hotel-reservation get deployments -o json | jq -r '{ZEROES}'"
            " | xargs -r -n 1 kubectl -n hotel-reservation scale --replicas=1 deployment"
        },
    ),
    Use(
        "submit",
        {
            "solution": "The Deployment profile has been scaled to zero replicas, so its Service has no endpoints; the"
            " frontend cannot reach profile, and searches and recommendations fail."
        },
    ),
    Use("submit", {"solution": ""}),
    Say("done"),
)
"""A model that knows of one kind of incident."""


async def attempts_of(agents: Sequence[str], folder: Path, *model: str) -> Sequence[AttemptRecord]:
    """Every agent on every problem of the suite, by the command line."""
    words = [word for one in agents for word in ("--agent", one)]
    arguments = ["--suite", "smoke", *words, "--judge-model", "offline", "--healthy-phase", "5", *model, *ON_CLUSTER]
    code, said = await anyio.to_thread.run_sync(partial(call, *arguments, folder=folder, within=WITHIN_S))
    assert code == 0, said
    (run,) = [path async for path in anyio.Path(folder / "results").iterdir()]
    attempts = load_run(Path(run)).attempts
    assert {one.status for one in attempts} == {Status.GRADED}, said
    return attempts


def passed_by(agent: str, attempts: Sequence[AttemptRecord]) -> set[str]:
    return {one.problem.id for one in attempts if one.agent.name == agent and one.end_to_end is Grade.PASSED}


async def test_what_restarts_and_rollbacks_reach_is_graded(tmp_path: Path) -> None:
    attempts = await attempts_of(("restart", "rollback"), tmp_path)
    assert {one.agent.name for one in attempts} == {"restart", "rollback"}
    assert all(one.submissions for one in attempts)


async def test_what_rules_and_a_model_reach_is_graded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted_model(TURNS) as model:
        for name, value in {
            "AGENT_API_BASE": model.base,
            "AGENT_API_KEY": KEY,
            "AGENT_INPUT_PRICE": "3",
            "AGENT_OUTPUT_PRICE": "15",
        }.items():
            monkeypatch.setenv(name, value)
        attempts = await attempts_of(("playbook", "react"), tmp_path, "--model", "local/scripted")
        asked = len(model.requests)
    assert passed_by("react", attempts) == {SCALED}
    assert passed_by("playbook", attempts) > passed_by("react", attempts)
    used = [one.usage for one in attempts if one.agent.name == "react"]
    assert {(one.calls, one.failed, one.unmetered) for one in used} == {(4, 0, 0)}
    assert {(one.tokens_in, one.tokens_out) for one in used} == {(4 * PROMPT_TOKENS, 4 * COMPLETION_TOKENS)}
    assert all(one.cost_usd == pytest.approx(4e-6 * (3 * PROMPT_TOKENS + 15 * COMPLETION_TOKENS)) for one in used)
    assert asked == 4 * len(used)
    assert set(model.keys) == {f"Bearer {KEY}"}
    async for path in anyio.Path(tmp_path).rglob("*"):
        assert not await path.is_file() or KEY.encode() not in await path.read_bytes(), path
