"""How long work tells the user where it is.

Work reports to a `Progress`; who shows it (a live table, plain lines, nothing) is decided by the command. Several steps
may be open at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class Outcome(StrEnum):
    """How a step ended."""

    DONE = "done"
    CACHED = "cached"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Progress(Protocol):
    """Receives what long work has to say. Implementations never raise and never block."""

    def started(self, step: str, *, expected_s: float | None = None) -> None:
        """A step begins; `expected_s` is how long it took before, if known (seconds)."""

    def note(self, step: str, line: str) -> None:
        """The newest line of a step that runs."""

    def finished(self, step: str, outcome: Outcome, *, seconds: float) -> None:
        """A step ended."""


class Silent:
    """Shows nothing."""

    def started(self, step: str, *, expected_s: float | None = None) -> None: ...

    def note(self, step: str, line: str) -> None: ...

    def finished(self, step: str, outcome: Outcome, *, seconds: float) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Finished:
    """One step as `Recorded` remembers it."""

    step: str
    outcome: Outcome
    seconds: float


@dataclass
class Recorded:
    """Keeps everything, for tests and for time tables."""

    begun: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    ended: list[Finished] = field(default_factory=list)

    def started(self, step: str, *, expected_s: float | None = None) -> None:
        self.begun.append(step)

    def note(self, step: str, line: str) -> None:
        self.lines.append(line)

    def finished(self, step: str, outcome: Outcome, *, seconds: float) -> None:
        self.ended.append(Finished(step=step, outcome=outcome, seconds=seconds))


@contextmanager
def step(progress: Progress, name: str, *, expected_s: float | None = None) -> Iterator[None]:
    """Report a block of work as one step."""
    started = time.monotonic()
    outcome = Outcome.CANCELLED
    progress.started(name, expected_s=expected_s)
    try:
        yield
        outcome = Outcome.DONE
    except Exception:
        outcome = Outcome.FAILED
        raise
    finally:
        progress.finished(name, outcome, seconds=time.monotonic() - started)
