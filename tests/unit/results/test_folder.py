"""Nothing that was finished is lost, and what is read back is what was written."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sregym.errors import PrerequisiteError
from sregym.judge import OfflineJudge
from sregym.results import RunFolder, RunLock, Status, load_run
from sregym.results.atomic import write_atomically
from tests.unit.results.records import FAILED, PASSED, RIGHT, attempt, judged, unscored_diagnosis

REPO = Path(__file__).parents[3]


def rows(path: Path) -> list[dict[str, str]]:
    csv.field_size_limit(10_000_000)
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def test_a_run_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path)
    lock = asyncio.run(
        RunLock.collect(
            run_id=folder.run_id,
            repo=REPO,
            profile="lite",
            judge=OfflineJudge().fingerprint().as_json(),
            problems={"a": 1},
            seeds={"load": 7},
        )
    )
    folder.write_lock(lock)
    first = attempt("a", diagnosis=judged(RIGHT), mitigation=PASSED)
    second = attempt("b", diagnosis=judged("unknown"), mitigation=FAILED, minutes=5)
    for one in (second, first):
        folder.write(one)
    run = load_run(folder.path)
    assert run.lock == lock
    assert list(run.attempts) == [first, second]


def test_the_lock_says_what_scores_depend_on() -> None:
    lock = asyncio.run(
        RunLock.collect(run_id="r", repo=REPO, profile="lite", judge=OfflineJudge().fingerprint().as_json())
    )
    assert len(lock.code.revision) == 40
    assert lock.code.dirty is not None
    assert lock.packages["pydantic"]
    assert lock.machine.cpus >= 1
    assert json.loads(lock.model_dump_json())["tau"] == "7/9"


def test_outside_a_checkout_the_code_has_no_revision(tmp_path: Path) -> None:
    lock = asyncio.run(
        RunLock.collect(run_id="r", repo=tmp_path, profile="lite", judge=OfflineJudge().fingerprint().as_json())
    )
    assert lock.code.revision == ""
    assert lock.code.dirty is None


def test_csv_has_the_columns_of_the_field(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path)
    folder.write(attempt(diagnosis=judged(RIGHT), mitigation=PASSED))
    folder.write(attempt(agent="nop", diagnosis=judged("unknown"), mitigation=FAILED, minutes=3))
    assert [one["agent"] for one in rows(folder.path / "results.csv")] == ["playbook", "nop"]
    (row,) = rows(folder.path / "playbook_ALL_results.csv")
    wanted = ["success", "accuracy", "judgment", "reasoning", "composite_score", "dimensions", "checklist"]
    wanted += ["submission", "error"]
    for name in ["problem_id", "attempt", "TTL", "TTM", "timed_out", "agent_timeout_seconds", "deploy_failed"]:
        assert name in row
    assert {f"Diagnosis.{name}" for name in wanted} <= set(row)
    assert (row["Diagnosis.success"], row["Mitigation.success"], row["end_to_end"]) == ("True", "True", "True")
    assert json.loads(row["Diagnosis.dimensions"]) == {"localization": 1.0, "characterization": 1.0, "scope": 1.0}
    assert len(json.loads(row["Diagnosis.checklist"])) == 9
    assert row["schema_version"] == "2"
    assert (row["model_calls"], row["cost_usd"], row["internet_access"]) == ("", "", "filtered")


def test_unscored_leaves_success_empty(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path)
    folder.write(
        attempt(diagnosis=unscored_diagnosis(), mitigation=PASSED, status=Status.UNSCORED, reason="judge failed")
    )
    folder.write(attempt("void", status=Status.VOID, reason="the fault did not bite", minutes=1))
    unscored, void = rows(folder.path / "results.csv")
    assert (unscored["Diagnosis.success"], unscored["Mitigation.success"]) == ("", "True")
    assert unscored["Diagnosis.error"] == "no usable answer after 6 tries"
    assert (void["Diagnosis.success"], void["Mitigation.success"], void["deploy_failed"]) == ("", "", "True")


def test_a_second_write_replaces_the_first(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path)
    folder.write(attempt(diagnosis=judged("unknown"), mitigation=FAILED))
    folder.write(attempt(diagnosis=judged(RIGHT), mitigation=PASSED))
    (row,) = rows(folder.path / "results.csv")
    assert row["Diagnosis.success"] == "True"


def test_names_cannot_leave_the_run_folder(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path)
    place = folder.attempt(agent="../../evil", problem="a/b", attempt=1)
    assert folder.path in place.path.resolve().parents


def test_a_run_id_is_used_once(tmp_path: Path) -> None:
    RunFolder.create(tmp_path, "x")
    with pytest.raises(PrerequisiteError, match="already"):
        RunFolder.create(tmp_path, "x")


def test_what_cannot_be_read_says_which_file(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="no run"):
        load_run(tmp_path / "absent")
    folder = RunFolder.create(tmp_path)
    place = folder.attempt(agent="nop", problem="a", attempt=1)
    place.record.write_text("{", encoding="utf-8")
    with pytest.raises(PrerequisiteError, match=r"attempt\.json"):
        load_run(folder.path)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "file"
    write_atomically(target, "old")

    def disk_full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(target, "new")
    assert target.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


WRITER = """
import itertools, sys
from pathlib import Path
from sregym.results import RunFolder
from tests.unit.results.records import *
folder = RunFolder.open(Path(sys.argv[1]))
diagnosis = judged(RIGHT)
for n in itertools.count(1):
    folder.write(attempt(number=n, diagnosis=diagnosis, mitigation=PASSED, minutes=n))
    print(n, flush=True)
"""


def test_a_kill_at_any_moment_loses_nothing_finished(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path)
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder.path)], stdout=subprocess.PIPE, text=True, cwd=REPO
    )
    assert child.stdout
    child.stdout.readline()
    time.sleep(0.2)
    child.send_signal(signal.SIGKILL)
    rest = child.communicate()[0].split()
    finished = int(rest[-1]) if rest else 1
    run = load_run(folder.path)
    assert len(run.attempts) in (finished, finished + 1)
    assert len(rows(folder.path / "results.csv")) in (finished - 1, finished, finished + 1)
