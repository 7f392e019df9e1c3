"""`main.py results`: a run's table again, and what it lacks."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from main import content
from sregym.cli.app import build
from sregym.cli.entry import run
from sregym.results import RunFolder, Status
from tests.unit.cli.test_resume import a_run
from tests.unit.results.records import PASSED, RIGHT, attempt, judged

PROBLEM = "missing_config_key_hotel_reservation"


@pytest.fixture
def cut_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run of four attempts that made one."""
    monkeypatch.setenv("SREGYM_RESULTS_DIR", str(tmp_path))
    command = ("main.py", "--agent", "playbook", "--n-attempts=2")
    folder = anyio.run(
        lambda: a_run(tmp_path, agents={"playbook": "1"}, problems={PROBLEM: 1, "b": 1}, command=command)
    )
    folder.write(attempt(PROBLEM, diagnosis=judged(RIGHT), mitigation=PASSED))
    return folder


def test_the_table_and_what_is_missing(cut_short: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(build(content), ["results", cut_short.run_id]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "1 attempt: 1 graded" in said
    assert f"missing, of 4 attempts: playbook at b #1, playbook at b #2, playbook at {PROBLEM} #2" in said
    assert f"go on with: python main.py --resume {cut_short.path}" in said


def test_it_as_json(cut_short: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(build(content), ["results", str(cut_short.path / "results.csv"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["problem"]["id"] for one in told["attempts"]] == [PROBLEM]
    assert {"agent": "playbook", "problem": PROBLEM, "attempt": 2} in told["missing"]


def test_a_whole_run_lacks_nothing_and_a_void_attempt_is_to_be_made_again(
    cut_short: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    for problem, number in ((PROBLEM, 2), ("b", 1), ("b", 2)):
        cut_short.write(attempt(problem, number=number, diagnosis=judged(RIGHT), mitigation=PASSED))
    assert run(build(content), ["results", cut_short.run_id]) == 0
    assert "go on with" not in capsys.readouterr().out
    cut_short.write(attempt("b", number=2, status=Status.VOID, reason="the fault did not bite"))
    assert run(build(content), ["results", cut_short.run_id]) == 0
    assert "to be made again: 1 go on with" in " ".join(capsys.readouterr().out.split())


def test_what_is_no_run_is_refused(cut_short: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(build(content), ["results", "nothing"]) == 2
    assert cut_short.run_id in " ".join(capsys.readouterr().err.split())
