"""The mutable part of a world: everything that a step may change and that is written to SQLite."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from sregym.incidentops.world.instance import Deploy
from sregym.incidentops.world.topology import Value


class Sample(NamedTuple):
    """One service's metrics in one tick. A tuple type because thousands are made a second."""

    rps: float
    error: float  # share of requests, 0..1
    p95_ms: float
    cpu_pct: float
    memory_mb: float
    disk_pct: float
    queue: float
    lag_s: float
    connections: float
    connection_limit: int


class LogLine(NamedTuple):
    """One log line; `clue` is the index of the cause it gives evidence of, or -1."""

    tick: int
    second: int
    service: str
    level: str
    text: str
    clue: int


@dataclass(slots=True)
class ServiceState:
    """One service: its settings as stored and as running, its releases, and whether it is coming up."""

    name: str
    version: str
    stored: dict[str, Value]
    running: dict[str, Value]
    deploys: list[Deploy]
    rolled_back: set[str] = field(default_factory=set)
    restarting: int = 0
    crashed: bool = False
    restarts: int = 0
    broken: set[str] = field(default_factory=set)  # settings that hold an unsafe value


@dataclass(slots=True)
class Alert:
    """One alert instance."""

    service: str
    rule: str
    severity: str
    state: Literal["firing", "resolved"]
    since: int
    until: int | None = None
    text: str = ""


@dataclass(slots=True)
class Change:
    """A change that somebody made while the incident ran."""

    tick: int
    service: str
    text: str
