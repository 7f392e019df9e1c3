"""Episodes: determinism, what the oracle can do, what restart-everything cannot, and the shaping rewards."""

from __future__ import annotations

import json
import random
from dataclasses import asdict

import pytest

from sregym.incidentops import scoring
from sregym.incidentops.episode import Episode, StepResult
from sregym.incidentops.errors import EpisodeError
from sregym.incidentops.policies.base import play
from sregym.incidentops.policies.oracle import Oracle
from sregym.incidentops.scenarios import build, catalogue
from sregym.incidentops.server.tools import TOOLS
from sregym.incidentops.world.instance import LEVELS

TASKS = [(scenario, level) for scenario in catalogue().ids for level in LEVELS]


def transcript(scenario: str, level: str, seed: int, *, calls_seed: int = 5) -> bytes:
    rng = random.Random(calls_seed)
    episode = Episode(build(scenario, level, seed))
    seen: list[object] = [episode.briefing()]
    while not episode.done:
        name = rng.choice([tool for tool in TOOLS if tool != "resolve_incident"])
        arguments = {"service": rng.choice(episode.world.names)} if name != "get_alerts" else {}
        if name == "patch_config":
            key = rng.choice(sorted(episode.instance.settings[arguments["service"]]))
            arguments |= {"key": key, "value": str(rng.randint(0, 50))}
        seen.append(asdict(episode.step(name, arguments)))
    return json.dumps(seen, sort_keys=True).encode()


@pytest.mark.parametrize(("scenario", "level"), TASKS)
def test_same_seed_and_calls_give_the_same_bytes(scenario: str, level: str) -> None:
    first = transcript(scenario, level, 3)
    build.cache_clear()
    assert transcript(scenario, level, 3) == first
    assert transcript(scenario, level, 4) != first


@pytest.mark.parametrize(("scenario", "level"), TASKS)
def test_the_oracle_solves_every_level(scenario: str, level: str) -> None:
    for seed in range(4):
        instance = build(scenario, level, seed)
        played = play(Episode(instance), Oracle(instance))
        assert played.score.score >= 0.95, (seed, played.score)


@pytest.mark.parametrize(("scenario", "level"), TASKS)
def test_a_page_is_firing_when_the_episode_starts(scenario: str, level: str) -> None:
    for seed in range(4):
        assert Episode(build(scenario, level, seed)).world.alerts.firing()


@pytest.mark.parametrize(("scenario", "level"), TASKS)
def test_restarting_everything_repairs_nothing(scenario: str, level: str) -> None:
    instance = build(scenario, level, 0)
    episode = Episode(instance)
    for name in episode.world.names:
        episode.step("restart_service", {"service": name})
    for _ in range(6):
        episode.step("get_alerts", {})
    end = episode.end()
    if not end.nothing_to_repair:
        assert not (all(end.gone) and end.healthy_later)


@pytest.mark.parametrize(("scenario", "level"), TASKS)
def test_doing_nothing_does_not_help_where_something_is_broken(scenario: str, level: str) -> None:
    episode = Episode(build(scenario, level, 0))
    for _ in range(12):
        episode.step("get_alerts", {})
    end = episode.end()
    assert end.nothing_to_repair or not end.healthy_later


def step(episode: Episode, tool: str, **arguments: object) -> StepResult:
    return episode.step(tool, arguments)


def test_information_is_paid_once() -> None:
    episode = Episode(build("single-service-down", "easy", 0))
    service = episode.instance.causes[0].component
    assert step(episode, "inspect_config", service=service).reward == scoring.DIAGNOSTIC
    assert step(episode, "inspect_config", service=service).reward == 0.0


def test_a_change_to_a_service_that_nobody_looked_at_is_blind() -> None:
    episode = Episode(build("single-service-down", "easy", 0))
    assert step(episode, "restart_service", service="db").reward == scoring.BLIND


def test_the_right_repair_after_a_look_is_rewarded_and_a_wrong_one_is_not() -> None:
    instance = build("single-service-down", "easy", 0)
    service = instance.causes[0].component
    other = next(name for name in ("search", "payments") if name != service)
    episode = Episode(instance)
    step(episode, "inspect_config", service=service)
    step(episode, "get_metrics", service=other)
    assert step(episode, "rollback_deploy", service=other).reward == scoring.WRONG_FIX
    repair = instance.causes[0].repair[0]
    assert episode.step(repair.tool, repair.arguments).parts == {"correct_fix": scoring.FIX}


def test_rolling_back_the_release_that_brought_the_setting_is_right_too() -> None:
    instance = build("single-service-down", "easy", 1)
    episode = Episode(instance)
    service = instance.causes[0].component
    step(episode, "get_recent_deploys", service=service)
    assert step(episode, "rollback_deploy", service=service).parts == {"correct_fix": scoring.FIX}
    for _ in range(4):
        step(episode, "get_alerts")
    assert episode.end().healthy_later


def test_a_careless_patch_breaks_the_service() -> None:
    episode = Episode(build("false-alarm", "easy", 0))
    step(episode, "inspect_config", service="db")
    assert "harmful_fix" in step(episode, "patch_config", service="db", key="wal_level", value="minimal").parts
    step(episode, "get_alerts")
    assert step(episode, "run_healthcheck", service="db").result["status"] == "unhealthy"


def test_an_ended_episode_takes_no_step() -> None:
    episode = Episode(build("false-alarm", "easy", 0))
    for _ in range(episode.instance.max_steps):
        last = step(episode, "get_alerts")
    assert last.done
    assert last.parts["out_of_steps"] == scoring.OUT_OF_STEPS
    with pytest.raises(EpisodeError):
        step(episode, "get_alerts")


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("reboot", {}, "known: get_alerts"),
        ("get_metrics", {"service": "redis"}, "known: api, payments"),
        ("get_metrics", {}, "service is missing"),
        ("get_metrics", {"service": "db", "x": 1}, "unknown: x"),
        ("get_metrics", {"service": 3}, "must be string"),
        ("get_metrics", [], "must be an object"),
        ("search_logs", {"service": "db", "query": "a" * 5000}, "at most"),
        ("patch_config", {"service": "db", "key": "nope", "value": 1}, "it has: autovacuum"),
        ("patch_config", {"service": "db", "key": "max_connections", "value": "many"}, "is an int"),
        ("resolve_incident", {"incident_id": "INC-0", "root_cause": "x", "resolution": "y"}, "open: INC-"),
    ],
)
def test_a_wrong_call_says_what_would_be_right(tool: str, arguments: object, says: str) -> None:
    result = Episode(build("false-alarm", "easy", 0)).step(tool, arguments)
    assert not result.ok
    assert result.error is not None
    assert says in result.error
    assert result.reward == scoring.INVALID
