"""What happens in a run, as typed events: one JSON line each, one file an attempt. Nobody prints; the command line
renders these.

An event's name is dotted, `stage.entered`, and its fields are JSON values. The file is the record that results are
explained from, so it is flushed at every line and survives a SIGKILL up to the last one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened. `at` is wall-clock UTC; durations inside `data` are seconds."""

    name: str
    data: Mapping[str, Any] = field(default_factory=dict)
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def line(self) -> str:
        """The event as one line of JSON."""
        body = {"v": SCHEMA_VERSION, "at": self.at.isoformat(timespec="milliseconds"), "event": self.name, **self.data}
        return json.dumps(body, default=str, ensure_ascii=False)


class Emit(Protocol):
    """How every part tells what it does: `emit("wait.ended", what=..., seconds=1.2)`."""

    def __call__(self, name: str, /, **data: Any) -> None: ...


def silent(name: str, /, **data: Any) -> None:
    """An `Emit` that nobody listens to."""


class EventLog:
    """Writes events to a file and hands them to listeners. A context manager; also an `Emit`."""

    def __init__(self, path: Path, *listeners: Callable[[Event], None]) -> None:
        self._path = path
        self._listeners = listeners

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a", encoding="utf-8")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __call__(self, name: str, /, **data: Any) -> None:
        event = Event(name=name, data=data)
        self._file.write(event.line() + "\n")
        self._file.flush()
        for listen in self._listeners:
            listen(event)
