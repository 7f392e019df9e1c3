"""The plain API, Gymnasium, and recorded trajectories."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from gymnasium.utils.env_checker import check_env

from sregym.incidentops import trajectory
from sregym.incidentops.episode import Episode
from sregym.incidentops.errors import EpisodeError
from sregym.incidentops.gym_env import IncidentOpsGym
from sregym.incidentops.policies import POLICIES, play
from sregym.incidentops.scenarios import build
from sregym.incidentops.store import Store
from sregym.incidentops.training import IncidentOps


def test_the_plain_api_keeps_one_episode_in_its_store() -> None:
    store = Store()
    env = IncidentOps(store=store)
    for seed in range(4):
        briefing = env.reset(seed=seed)
        assert briefing["incident_id"].startswith("INC-")
        step = env.step("get_alerts")
        assert (step.reward, step.done) == (0.05, False)
    assert len(store.episodes()) == 1
    with pytest.raises(EpisodeError):
        IncidentOps().step("get_alerts")


def test_gymnasium_s_checker_passes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(IncidentOpsGym(render_mode="ansi"), skip_render_check=True)


def test_gymnasium_tells_closing_from_running_out_of_steps() -> None:
    env = IncidentOpsGym(scenario="false-alarm", level="easy")
    observation, info = env.reset(seed=3)
    assert info["incident_id"] in observation["text"]
    action = {"tool": 0, "service": 0, "query": "", "key": "", "value": "", "root_cause": "", "resolution": ""}
    for left in range(29, -1, -1):
        observation, _, terminated, truncated, _ = env.step(action)
        assert observation["steps_left"] == left
        assert (terminated, truncated) == (False, left == 0)
    env.reset(seed=3)
    close = action | {"tool": 9, "root_cause": "none: false alarm", "resolution": "nothing to do"}
    _, _, terminated, truncated, info = env.step(close)
    assert (terminated, truncated) == (True, False)
    assert info["score"]["root_cause"] == 1.0


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_recording_replays_to_the_same_bytes(policy: str, tmp_path: Path) -> None:
    instance = build("noisy-neighbour", "hard", 5)
    played = play(Episode(instance), POLICIES[policy](instance))
    path = tmp_path / "t.jsonl"
    path.write_text(trajectory.write_line(trajectory.record(played)) + "\n")
    (line,) = trajectory.read(path)
    replayed, results = trajectory.replay(line)
    assert replayed.same
    assert len(results) == len(played.calls)
    line["seed"] += 1
    assert not trajectory.replay(line)[0].same


def test_files_that_are_no_recordings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("{}\n[]\n")
    lines = trajectory.read(path)
    with pytest.raises(EpisodeError, match="not a trajectory"):
        trajectory.replay(next(lines))
    with pytest.raises(EpisodeError, match="no JSON object"):
        next(lines)


def test_atif_has_a_step_for_every_call() -> None:
    instance = build("expired-certificate", "medium", 2)
    played = play(Episode(instance), POLICIES["oracle"](instance))
    document = json.loads(json.dumps(trajectory.atif(played)))
    assert document["schema_version"] == "ATIF-v1.7"
    assert [step["step_id"] for step in document["steps"]] == list(range(1, len(played.calls) + 2))
    agent = [step for step in document["steps"] if step["source"] == "agent"]
    assert all(s["tool_calls"][0]["tool_call_id"] == s["observation"]["results"][0]["source_call_id"] for s in agent)
    assert document["final_metrics"]["total_steps"] == len(document["steps"])
