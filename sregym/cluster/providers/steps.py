"""A build as a small graph of steps with a content-addressed cache.

A step's key is a hash over its name, its fingerprint (pinned versions, recipe files) and the keys of the steps it
needs; its result is a folder `steps/<name>/<key>` that appears at once, by rename, when the step has succeeded. So a
build that was killed goes on where it was, a changed recipe rebuilds what depends on it and nothing else, and two
versions live side by side. What each step said is kept in `logs/`, how long it took in `builds.jsonl`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import anyio

from sregym import process
from sregym.cluster.providers.exclusive import exclusive
from sregym.cluster.providers.host import GIB, require_space
from sregym.errors import ClusterError, CommandError, PrerequisiteError, SregymError, is_disk_full
from sregym.progress import Outcome, Progress

KEY_LENGTH = 16
"""Hex digits of a key that are used in names."""


class Lane(StrEnum):
    """What a step mostly uses. One CPU step runs at a time (compilers use all cores by themselves)."""

    CPU = "cpu"
    IO = "io"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing to build.

    Attributes:
        title: What the user sees.
        fingerprint: Everything from outside that the result depends on; see `fingerprint_of`.
        run: Fills `context.out`. Anything may be left half-done when it raises.
        needs: Names of steps whose results it uses.
        still_valid: Asked before a cached result is used; for results that live outside the folder (Docker images).
    """

    name: str
    title: str
    fingerprint: str
    run: Callable[[StepContext], Awaitable[None]]
    needs: tuple[str, ...] = ()
    lane: Lane = Lane.IO
    still_valid: Callable[[Path], Awaitable[bool]] | None = None


@dataclass(frozen=True, kw_only=True)
class StepContext:
    """What a running step has at hand."""

    step: Step
    key: str
    out: Path
    """Its result folder, empty at the start."""
    work: Path
    """Scratch that stays between runs of this step (downloads)."""
    results: Mapping[str, Path]
    """Result folders of the steps it needs."""
    log: Path
    note: Callable[[str], None]

    async def run(
        self,
        argv: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | Path | None = None,
        check: bool = True,
    ) -> process.Completed:
        """Run a command with its output in this step's log and its last line shown as progress."""
        return await process.run(argv, cwd=cwd, env=env, stdin=stdin, check=check, log=self.log, on_line=self.note)


class BuildError(ClusterError):
    """A step of a build failed. Names the step, its log and the last lines of it."""

    def __init__(self, step: Step, *, log: Path, cause: BaseException) -> None:
        super().__init__(f"building failed at the step `{step.name}` ({step.title})\n{cause}\nlog: {log}")
        self.step = step.name
        self.log = log


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One line of `builds.jsonl`."""

    step: str
    key: str
    outcome: Outcome
    seconds: float
    at: str


@dataclass(kw_only=True)
class Builder:
    """Runs graphs of steps. `cache` is our cache folder; may be deleted at any time."""

    cache: Path
    progress: Progress
    space_needed: int = GIB
    """Free bytes below which no step is started."""
    _cpu: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))

    async def build(self, steps: Iterable[Step], *, wanted: Iterable[str]) -> dict[str, Path]:
        """Build the wanted steps and what they need; what is in the cache is taken from there.

        Returns: the result folder of every step that was involved.

        Raises:
            BuildError: A step failed. The others have been cancelled; what succeeded is kept.
            PrerequisiteError: The disk is full.
        """
        plan = _plan({step.name: step for step in steps}, wanted)
        keys: dict[str, str] = {}
        for step in plan:
            keys[step.name] = step_key(step, keys)
        finished = {step.name: anyio.Event() for step in plan}
        results: dict[str, Path] = {}

        async def one(step: Step) -> None:
            for need in step.needs:
                await finished[need].wait()
            results[step.name] = await self._have(step, keys[step.name], results)
            finished[step.name].set()

        lock = self.cache / "build.lock"
        async with exclusive(lock, self.progress, waiting_for="another build on this machine"):
            try:
                async with anyio.create_task_group() as tasks:
                    for step in plan:
                        tasks.start_soon(one, step)
            except* SregymError as group:
                raise _first(group) from group
        return results

    def expected_seconds(self, step: str) -> float | None:
        """How long the step took when it was last built here."""
        times = [t.seconds for t in self.timings() if t.step == step and t.outcome is Outcome.DONE]
        return times[-1] if times else None

    def timings(self) -> list[Timing]:
        """Every step that ran here, oldest first."""
        try:
            lines = self._ledger.read_text(encoding="utf-8").splitlines()
        except OSError:
            return []
        return [timing for line in lines if (timing := _timing(line))]

    async def _have(self, step: Step, key: str, results: Mapping[str, Path]) -> Path:
        folder = self.cache / "steps" / step.name / key[:KEY_LENGTH]
        if await _usable(step, folder):
            self.progress.finished(step.title, Outcome.CACHED, seconds=0.0)
            return folder
        if step.lane is Lane.CPU:
            async with self._cpu:
                await self._make(step, key, folder, results)
        else:
            await self._make(step, key, folder, results)
        return folder

    async def _make(self, step: Step, key: str, folder: Path, results: Mapping[str, Path]) -> None:
        require_space(self.cache, needed=self.space_needed, purpose=f"building ({step.title})")
        started = time.monotonic()
        outcome = Outcome.CANCELLED
        self.progress.started(step.title, expected_s=self.expected_seconds(step.name))
        try:
            context = self._context(step, key, folder, results)
            await step.run(context)
            _publish(context.out, folder)
            outcome = Outcome.DONE
        except Exception as error:
            outcome = Outcome.FAILED
            if (explained := _explained(step, self._log(step), error, self.cache)) is None:
                raise
            raise explained from error
        finally:
            seconds = time.monotonic() - started
            self.progress.finished(step.title, outcome, seconds=seconds)
            self._book(step, key, outcome, seconds)

    def _context(self, step: Step, key: str, folder: Path, results: Mapping[str, Path]) -> StepContext:
        partial = folder.with_name(folder.name + ".partial")
        work = self.cache / "work" / step.name
        log = self._log(step)
        shutil.rmtree(partial, ignore_errors=True)
        for path in (partial, work, log.parent):
            path.mkdir(parents=True, exist_ok=True)
        log.write_text(f"# {step.title}, key {key}, {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}\n", encoding="utf-8")
        return StepContext(
            step=step,
            key=key,
            out=partial,
            work=work,
            results={need: results[need] for need in step.needs},
            log=log,
            note=lambda line: self.progress.note(step.title, line),
        )

    def _log(self, step: Step) -> Path:
        return self.cache / "logs" / f"{step.name}.log"

    def _book(self, step: Step, key: str, outcome: Outcome, seconds: float) -> None:
        """Write down how long it took. A ledger that cannot be written is no reason to fail."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        line = {"step": step.name, "key": key[:KEY_LENGTH], "outcome": outcome, "seconds": round(seconds, 2), "at": at}
        with contextlib.suppress(OSError), self._ledger.open("a", encoding="utf-8") as ledger:
            ledger.write(json.dumps(line) + "\n")

    @property
    def _ledger(self) -> Path:
        return self.cache / "builds.jsonl"


def step_key(step: Step, keys: Mapping[str, str]) -> str:
    """The key of a step, given those of the steps it needs."""
    digest = hashlib.sha256()
    for part in (step.name, step.fingerprint, *(keys[need] for need in step.needs)):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()


def fingerprint_of(*, values: Sequence[str] = (), paths: Sequence[Path] = ()) -> str:
    """A hash over texts and over files or whole folders (relative names, contents and executable bits)."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(b"v\0" + value.encode() + b"\0")
    for root in paths:
        for path in sorted(p for p in (root.rglob("*") if root.is_dir() else [root]) if p.is_file()):
            name = str(path.relative_to(root)) if root.is_dir() else path.name
            executable = b"x" if path.stat().st_mode & 0o111 else b"-"
            digest.update(b"f\0" + name.encode() + b"\0" + executable + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _plan(steps: Mapping[str, Step], wanted: Iterable[str]) -> list[Step]:
    """The wanted steps and what they need, needs first."""
    plan: dict[str, Step] = {}

    def add(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"steps need each other: {' -> '.join((*path, name))}")
        if name in plan:
            return
        for need in steps[name].needs:
            add(need, (*path, name))
        plan[name] = steps[name]

    for name in wanted:
        add(name, ())
    return list(plan.values())


async def _usable(step: Step, folder: Path) -> bool:
    return folder.is_dir() and (step.still_valid is None or await step.still_valid(folder))  # noqa: ASYNC240


def _publish(partial: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def _timing(line: str) -> Timing | None:
    """One line of the ledger; None for one that was cut short by a kill or a full disk."""
    try:
        values = json.loads(line)
        return Timing(**{**values, "outcome": Outcome(values["outcome"])})
    except (ValueError, TypeError, KeyError):
        return None


def _explained(step: Step, log: Path, error: Exception, cache: Path) -> SregymError | None:
    """What the failure of a step means to the user; None where that is not known here."""
    if is_disk_full(error):
        return PrerequisiteError(
            f"the disk is full: the step `{step.name}` ({step.title}) could not write\nlog: {log}",
            cure=f"free some space where {cache} and Docker's data are; what was built so far is kept",
        )
    return BuildError(step, log=log, cause=error) if isinstance(error, (CommandError, OSError)) else None


def _first(group: BaseExceptionGroup[SregymError]) -> SregymError:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, SregymError)
    return error
