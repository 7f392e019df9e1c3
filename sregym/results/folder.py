"""The folder of a run, and how attempts get into it so that nothing finished is ever lost.

    results/<run-id>/
      run.lock.json
      results.csv                              all agents
      <agent>_ALL_results.csv                  one agent
      <agent>/<problem>/run_<n>/
        attempt.json   events.jsonl   logs/

`attempt.json` is written first and is the truth; the CSV files are rebuilt from all of them. Each is replaced as a
whole, so a kill at any moment leaves complete files.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from sregym.errors import PrerequisiteError
from sregym.results.atomic import write_atomically
from sregym.results.lock import RunLock
from sregym.results.record import AttemptRecord
from sregym.results.rows import text_of

LOCK_NAME = "run.lock.json"
CSV_NAME = "results.csv"
ATTEMPT_NAME = "attempt.json"
NEWEST = 3
"""How many runs are named to somebody who named none."""
_SAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, kw_only=True)
class AttemptFolder:
    """Where one attempt writes."""

    path: Path

    @property
    def record(self) -> Path:
        return self.path / ATTEMPT_NAME

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def logs(self) -> Path:
        return self.path / "logs"


@dataclass(frozen=True, kw_only=True)
class RunResults:
    """A run as it was read back. `lock` is None where the run was killed before it had one."""

    path: Path
    lock: RunLock | None
    attempts: Sequence[AttemptRecord]


def new_run_id(now: datetime | None = None) -> str:
    """Sorts by time; two runs started in the same second differ."""
    return f"{now or datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """A run's folder, open for writing."""

    path: Path
    made: tuple[Path, ...] = ()
    """The folders that were made for it, itself first."""

    @classmethod
    def create(cls, results: Path, run_id: str | None = None) -> RunFolder:
        """Makes a new folder. Raises PrerequisiteError where it exists or cannot be made."""
        path = results / (run_id or new_run_id())
        missing = tuple(one for one in (path, *path.parents) if not one.exists())
        try:
            path.mkdir(parents=True)
        except FileExistsError as error:
            cure = "choose another run id, or resume that run"
            raise PrerequisiteError(f"there are results in {path} already", cure=cure) from error
        except OSError as error:
            raise PrerequisiteError(f"{path} cannot be made: {error.strerror}", cure="choose another folder") from error
        return cls(path=path, made=missing)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing folder. Raises PrerequisiteError where there is none."""
        if not path.is_dir():
            raise PrerequisiteError(f"there is no run in {path}", cure="give the path of a folder under results/")
        return cls(path=path)

    @classmethod
    def find(cls, named: Path, results: Path) -> RunFolder:
        """The run that somebody names: by its folder, its results.csv, or its id below `results`.

        Raises PrerequisiteError where that names no run.
        """
        given = named.expanduser()
        if given.name == CSV_NAME and given.is_file():
            given = given.parent
        for path in (given, results / named):
            if (path / LOCK_NAME).is_file():
                return cls(path=path.resolve())
        newest = ", ".join(str(one) for one in newest_runs(results))
        raise PrerequisiteError(
            f"there is no run in {named}: no folder with a {LOCK_NAME}",
            cure=f"give a run's folder, its {CSV_NAME}, or its id; the newest are {newest}"
            if newest
            else f"start one: there are none in {results} yet",
        )

    @property
    def run_id(self) -> str:
        return self.path.name

    def write_lock(self, lock: RunLock) -> None:
        """Writes `run.lock.json`."""
        write_atomically(self.path / LOCK_NAME, lock.model_dump_json(indent=2) + "\n")

    def discard(self) -> None:
        """Takes back `create`, where nothing has been written since but the lock."""
        if self.made:
            (self.path / LOCK_NAME).unlink(missing_ok=True)
        with suppress(OSError):  # somebody else has put something in, and keeps it
            for folder in self.made:
                folder.rmdir()

    def attempt(self, *, agent: str, problem: str, attempt: int) -> AttemptFolder:
        """The folder of an attempt, with its `logs/`, made where it is not there yet."""
        place = AttemptFolder(path=self.path / _safe(agent) / _safe(problem) / f"run_{attempt}")
        place.logs.mkdir(parents=True, exist_ok=True)
        return place

    def write(self, record: AttemptRecord) -> Path:
        """Writes the attempt, then the CSV files anew. Returns the path of its `attempt.json`."""
        place = self.attempt(agent=record.agent.name, problem=record.problem.id, attempt=record.attempt)
        write_atomically(place.record, record.to_json())
        everything = list(attempts_in(self.path))
        own = [one for one in everything if one.agent.name == record.agent.name]
        write_atomically(self.path / f"{_safe(record.agent.name)}_ALL_results.csv", text_of(own))
        write_atomically(self.path / CSV_NAME, text_of(everything))
        return place.record


def _safe(name: str) -> str:
    return _SAFE.sub("_", name).strip(".") or "_"


def newest_runs(results: Path, count: int = NEWEST) -> list[Path]:
    """The folders of the last runs, the newest first."""
    found = sorted((one.parent for one in results.glob(f"*/{LOCK_NAME}")), key=lambda one: one.name)
    return found[: -count - 1 : -1]


def attempts_in(path: Path) -> Iterator[AttemptRecord]:
    """All attempts of a run, by start time. Raises PrerequisiteError for one that cannot be read."""
    found = [_read_attempt(one) for one in sorted(path.glob(f"*/*/run_*/{ATTEMPT_NAME}"))]
    yield from sorted(found, key=lambda one: (one.times.started_at, one.problem.id, one.attempt))


def _read_attempt(path: Path) -> AttemptRecord:
    try:
        return AttemptRecord.model_validate_json(path.read_text(encoding="utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        cure = "it was written by another version, or by hand; move it away"
        raise PrerequisiteError(f"{path} is no record of an attempt: {error}", cure=cure) from error


def load_run(path: Path) -> RunResults:
    """Reads a run back. Raises PrerequisiteError where there is none or it cannot be read."""
    RunFolder.open(path)
    lock_path = path / LOCK_NAME
    try:
        lock = RunLock.model_validate_json(lock_path.read_text(encoding="utf-8")) if lock_path.exists() else None
    except (ValidationError, UnicodeDecodeError) as error:
        cure = "it was written by another version, or by hand"
        raise PrerequisiteError(f"{lock_path} cannot be read: {error}", cure=cure) from error
    return RunResults(path=path, lock=lock, attempts=tuple(attempts_in(path)))
