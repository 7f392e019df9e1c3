"""A run is gone on with in its own words, and only with attempts that can stand beside those that it has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from main import content
from sregym.cli.app import build
from sregym.cli.entry import run
from sregym.cli.resume import in_its_own_words, lock_to_go_on_with
from sregym.errors import ClusterError, PrerequisiteError
from sregym.judge import OfflineJudge
from sregym.results import ClusterFacts, RunFolder, RunLock

REPO = Path(__file__).parents[3]
PROBLEM = "scale_pod_zero_hotel_reservation"
JUDGE = OfflineJudge().fingerprint().as_json()


async def lock(**facts: Any) -> RunLock:
    return await RunLock.collect(**{"run_id": "r", "repo": REPO, "profile": "lite", "judge": JUDGE, **facts})


async def a_run(results: Path, **facts: Any) -> RunFolder:
    folder = RunFolder.create(results)
    folder.write_lock(await lock(**facts))
    return folder


@pytest.mark.parametrize("form", [("--resume", "{}"), ("--resume={}",), ("--resume", "{}/results.csv")])
async def test_resume_alone_means_as_that_run_was_started(tmp_path: Path, form: Sequence[str]) -> None:
    folder = await a_run(tmp_path, command=("main.py", "--agent", "nop", "--resume", "/old", "--suite", "smoke"))
    (folder.path / "results.csv").touch()
    words = in_its_own_words([word.format(folder.path) for word in form])
    assert words[:-1] == ["--agent", "nop", "--suite", "smoke", "--resume"]
    assert words[-1].startswith(str(folder.path))


@pytest.mark.parametrize("tokens", [[], ["demo"], ["--agent", "nop", "--resume", "/nowhere"], ["--resume"]])
def test_any_other_command_line_is_left_as_it_is(tokens: Sequence[str]) -> None:
    assert in_its_own_words(tokens) == list(tokens)


async def test_a_run_that_does_not_say_how_it_was_started_needs_its_arguments(tmp_path: Path) -> None:
    folder = await a_run(tmp_path, command=())
    with pytest.raises(PrerequisiteError) as caught:
        in_its_own_words(["--resume", str(folder.path)])
    assert "--agent" in caught.value.cure


async def test_a_new_run_has_the_lock_of_now(tmp_path: Path) -> None:
    now = await lock()
    assert lock_to_go_on_with(RunFolder.create(tmp_path), now) == now


async def test_a_run_is_named_by_its_id_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SREGYM_RESULTS_DIR", str(tmp_path))
    folder = await a_run(tmp_path, command=("main.py", "--agent", "nop"))
    assert in_its_own_words(["--resume", folder.run_id])[:2] == ["--agent", "nop"]


async def test_what_is_no_run_is_refused_and_the_newest_runs_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SREGYM_RESULTS_DIR", str(tmp_path))
    runs = [await a_run(tmp_path, command=("main.py", "--agent", "nop")) for _ in range(2)]
    (tmp_path / "verify-1").mkdir()
    (runs[0].path / "notes.txt").touch()
    for wrong in (tmp_path, tmp_path / "verify-1", runs[0].path / "notes.txt", runs[0].path / "run.lock.json"):
        with pytest.raises(PrerequisiteError, match="there is no run in") as caught:
            in_its_own_words(["--resume", str(wrong)])
        assert all(str(one.path) in caught.value.cure for one in runs)


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ({"model": "openai/a"}, {"model": "openai/b"}, "model: openai/a, now openai/b"),
        ({"profile": "full"}, {"profile": "lite"}, "profile: full, now lite"),
        ({"judge": {**JUDGE, "tau": "1/2"}}, {}, "tau: 1/2, now 7/9"),
        ({"seeds": {"users": 1}}, {"seeds": {"users": 2}}, "seeds: users 1, now users 2"),
        ({"problems": {"a": 1}}, {"problems": {"a": 2}}, "problems: a 1, now a 2"),
        ({"internet_access": "open"}, {"internet_access": "filtered"}, "internet_access: open, now filtered"),
        (
            {"model": "a", "reasoning_effort": "low"},
            {"model": "a", "reasoning_effort": None},
            "reasoning_effort: low, now None",
        ),
        (
            {"model": "a", "budget": {"tokens": 5.0}},
            {"model": "a", "budget": {}},
            "budget: tokens 5.0, now none",
        ),
        ({"timeouts_s": {"session": 60}}, {"timeouts_s": {"session": 90}}, "timeouts_s: session 60"),
        ({"agents": {"a": "1"}}, {"agents": {"a": "2"}}, "agents: a 1, now a 2"),
        ({"agent_endpoints": ("a",)}, {"agent_endpoints": ()}, "agent_endpoints: "),
        ({"noise": True}, {"noise": False}, "noise: True, now False"),
    ],
)
async def test_what_changes_scores_is_refused(
    tmp_path: Path, before: dict[str, Any], now: dict[str, Any], said: str
) -> None:
    folder = await a_run(tmp_path, **before)
    with pytest.raises(PrerequisiteError) as caught:
        lock_to_go_on_with(folder, await lock(**now))
    assert said in caught.value.message
    assert "start a new run" in caught.value.cure


async def test_a_run_may_be_given_more_to_do(tmp_path: Path) -> None:
    folder = await a_run(tmp_path, problems={"a": 1}, agents={"nop": "1"}, command=("main.py", "--agent", "nop"))
    more = {"problems": {"b": 3}, "agents": {"react": "2"}, "model": "m", "reasoning_effort": "low"}
    merged = lock_to_go_on_with(folder, await lock(command=("main.py", "--agent", "react"), **more))
    assert merged.problems == {"a": 1, "b": 3}
    assert merged.agents == {"nop": "1", "react": "2"}
    assert (merged.model, merged.reasoning_effort) == ("m", "low")
    assert merged.command == ("main.py", "--agent", "react")
    alone = await lock(command=("main.py", "--resume", str(folder.path)))
    assert lock_to_go_on_with(folder, alone).command == ("main.py", "--agent", "nop")


async def test_a_lock_of_an_older_version_lacks_a_field_and_contradicts_nothing(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path)
    older = (await lock(model="m")).model_dump(mode="json", exclude={"reasoning_effort"})
    (folder.path / "run.lock.json").write_text(json.dumps(older), encoding="utf-8")
    assert lock_to_go_on_with(folder, await lock(model="m", reasoning_effort="low")).reasoning_effort == "low"


async def test_images_of_attempts_before_stay_in_the_lock() -> None:
    first = (await lock()).on(ClusterFacts(provider="kind"), {"a": "1"})
    assert first.on(ClusterFacts(provider="kind"), {"b": "2"}).app_images == {"a": "1", "b": "2"}


async def test_other_code_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = await a_run(tmp_path, repo=tmp_path)
    lock_to_go_on_with(folder, await lock())
    assert "the run began with" in capsys.readouterr().err


def test_the_command_line_goes_on_and_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reached: list[str] = []

    async def prepare(*_: object, **__: object) -> None:
        reached.append("prepare")
        raise ClusterError("far enough")

    monkeypatch.setattr("sregym.cli.run.prepare", prepare)
    monkeypatch.setenv("SREGYM_RESULTS_DIR", str(tmp_path))
    for name in ("AGENT_MODEL_ID", "AGENT_REASONING_EFFORT", "SREGYM_AGENT_TIMEOUT", "SREGYM_HEALTHY_PHASE"):
        monkeypatch.delenv(name, raising=False)
    words = ["--problem", PROBLEM, "--agent", "nop", "--judge-model", "offline"]
    # Interrupted before the site was ready.
    monkeypatch.setattr("sys.argv", ["main.py", *words])
    assert run(build(content)) == 4
    (folder,) = tmp_path.iterdir()
    assert f"go on with: python main.py --resume {folder}" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["main.py", "--resume", str(folder)])
    assert run(build(content)) == 4
    assert len(reached) == 2
    more = [*words, "--agent", "restart", "--n-attempts", "2", "--resume", str(folder)]
    monkeypatch.setattr("sys.argv", ["main.py", *more])
    assert run(build(content)) == 4
    assert len(reached) == 3
    assert in_its_own_words(["--resume", str(folder)]) == more
    capsys.readouterr()
    for changed in (["--seed", "2"], ["--agent-timeout", "60"], ["--allow-agent-endpoint", "http://10.0.0.1:80"]):
        monkeypatch.setattr("sys.argv", ["main.py", *words, *changed, "--resume", str(folder)])
        assert run(build(content)) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert "was run otherwise" in said
        assert "go on with:" not in said
    assert len(reached) == 3
    assert (folder / "run.lock.json").is_file()


@pytest.mark.parametrize("there_before", [True, False])
def test_a_run_that_is_refused_leaves_no_folder_and_one_that_is_resumed_stays(
    there_before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    if there_before:
        results.mkdir()

    async def prepare(*_: object, **__: object) -> None:
        assert len(list(results.iterdir())) == 1
        raise PrerequisiteError("no Docker", cure="start it")

    monkeypatch.setattr("sregym.cli.run.prepare", prepare)
    monkeypatch.setenv("SREGYM_RESULTS_DIR", str(results))
    monkeypatch.setattr("sys.argv", ["main.py"])
    words = ["--problem", PROBLEM, "--agent", "nop", "--judge-model", "offline"]
    assert run(build(content), words) == 2
    assert "go on with" not in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == ([results] if there_before else [])
    folder = anyio.run(a_run, results)
    assert run(build(content), [*words, "--resume", str(folder.path)]) == 2
    assert (folder.path / "run.lock.json").is_file()
