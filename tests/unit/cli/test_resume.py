"""A run is gone on with in its own words, and only with attempts that can stand beside those that it has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from apps.images import HOST_SIDE, STEPS, recipes_for
from sregym.catalogue import Catalogue
from sregym.cli.app import build
from sregym.cli.entry import run
from sregym.cli.resume import in_its_own_words, lock_to_go_on_with
from sregym.coordinator.lab import Content
from sregym.errors import PrerequisiteError
from sregym.judge import OfflineJudge
from sregym.results import RunFolder, RunLock

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


async def test_a_run_that_was_killed_before_it_had_a_lock_needs_its_arguments(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path)
    with pytest.raises(PrerequisiteError) as caught:
        in_its_own_words(["--resume", str(folder.path)])
    assert "--agent" in caught.value.cure
    now = await lock()
    assert lock_to_go_on_with(folder, now) == now


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ({"model": "openai/a"}, {"model": "openai/b"}, "model: openai/a, now openai/b"),
        ({"profile": "full"}, {}, "profile: full, now lite"),
        ({"judge": {**JUDGE, "tau": "1/2"}}, {}, "tau: 1/2, now 7/9"),
        ({"seeds": {"users": 1}}, {"seeds": {"users": 2}}, "seeds: users 1, now users 2"),
        ({"problems": {"a": 1}}, {"problems": {"a": 2}}, "problems: a 1, now a 2"),
        ({"internet_access": "open"}, {}, "internet_access: open, now filtered"),
        ({"reasoning_effort": "low"}, {}, "reasoning_effort: low, now None"),
        ({"budget": {"tokens": 5.0}}, {}, "budget: tokens 5.0, now none"),
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
    merged = lock_to_go_on_with(folder, await lock(problems={"b": 3}, agents={"restart": "2"}))
    assert merged.problems == {"a": 1, "b": 3}
    assert merged.agents == {"nop": "1", "restart": "2"}
    assert merged.command == ("main.py", "--agent", "nop")


async def test_other_code_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = await a_run(tmp_path, repo=tmp_path)
    lock_to_go_on_with(folder, await lock())
    assert "the run began with" in capsys.readouterr().err


def test_the_command_line_refuses_before_anything_is_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def content() -> Content:
        catalogue = Catalogue.discover("problems")
        return Content(catalogue=catalogue, app_images=recipes_for, host_images=HOST_SIDE, steps=STEPS)

    reached: list[str] = []

    async def prepare(*_: object, **__: object) -> None:
        reached.append("prepare")
        raise PrerequisiteError("far enough", cure="none")

    monkeypatch.setattr("sregym.cli.run.prepare", prepare)
    monkeypatch.setenv("SREGYM_RESULTS_DIR", str(tmp_path))
    words = ["--problem", PROBLEM, "--agent", "nop", "--judge-model", "offline"]

    async def started() -> RunFolder:
        return await a_run(
            tmp_path,
            command=("main.py", *words),
            seeds={"users": 1},
            timeouts_s={"session": 1800.0, "healthy": 120.0},
        )

    folder = anyio.run(started)
    assert run(build(content), ["--resume", str(folder.path)]) == 2
    assert reached == ["prepare"]
    capsys.readouterr()
    assert run(build(content), [*words, "--seed", "2", "--resume", str(folder.path)]) == 2
    assert reached == ["prepare"]
    assert "seeds: users 1, now users 2" in " ".join(capsys.readouterr().err.split())
