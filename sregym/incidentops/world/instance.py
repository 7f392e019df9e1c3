"""What one incident is made of, before anything happens: the frozen value that a scenario draws from a seed.

Times are ticks (one simulated minute); tick 0 is the moment the on-call engineer is paged, history is negative.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sregym.incidentops.world.topology import Match, Setting, Value

Level = Literal["easy", "medium", "hard"]
LEVELS: tuple[Level, ...] = ("easy", "medium", "hard")
HISTORY_TICKS = 14  # how much of the past is simulated before the page


@dataclass(frozen=True, kw_only=True, slots=True)
class When:
    """A condition on the world's own state: a running setting, or a deploy that is live."""

    service: str
    key: str = ""
    match: Match | None = None
    deploy: str = ""  # a version: holds while it is the live one
    unless_key: str = ""  # another setting of the service, which lifts the condition
    unless: Match | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LogRule:
    """Lines that appear on `service` while an effect's level lies in [`above`, `below`)."""

    service: str
    level: str
    text: str
    above: float = 0.05
    below: float = 99.0
    every: int = 1  # ticks between two appearances
    clue: bool = False  # reading it is evidence of the cause


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """A level that rises while its condition holds and falls afterwards, with what it does to one service.

    Gauges are what a level of 1.0 adds: `error` and `capacity` are shares (capacity is lost), the others
    have the unit of their metric.
    """

    name: str
    on: str
    cause: int | None  # index of the cause it belongs to; None for distractors
    when: When | None = None
    starts: int = -6
    ends: int | None = None
    start_level: float = 0.0
    rise: float = 0.25
    fall: float = 0.5
    cap: float = 1.0
    crash_to: float | None = None  # at the cap the process dies and comes back at this level
    restart_clears: bool = False
    error: float = 0.0
    latency_ms: float = 0.0
    memory_mb: float = 0.0
    cpu_pct: float = 0.0
    queue: float = 0.0
    disk_pct: float = 0.0
    lag_s: float = 0.0
    connections: float = 0.0
    capacity: float = 0.0
    demand_rps: float = 0.0
    logs: tuple[LogRule, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Deploy:
    """One release of a service; `config` holds (key, old, new) that a rollback puts back."""

    version: str
    previous: str
    author: str
    tick: int
    summary: str
    diff: tuple[str, ...]
    config: tuple[tuple[str, Value, Value], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One tool call, as data."""

    tool: str
    arguments: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """One root cause: the component and mechanism to be named, and the condition that must go."""

    component: str
    mechanism: str
    accepted: tuple[str, ...] = ()  # other mechanisms that describe it rightly
    also_components: tuple[str, ...] = ()  # other components that are a right answer
    when: When | None = None  # None: nothing to repair (it has passed)
    evidence: tuple[Call, ...] = ()  # the readings that show it, best first
    repair: tuple[Call, ...] = ()  # one right repair; others that remove the condition are right too


@dataclass(frozen=True, kw_only=True, slots=True)
class Instance:
    """A whole incident, drawn from (scenario, level, seed)."""

    scenario: str
    level: Level
    seed: int
    incident_id: str
    title: str
    severity: str
    paged_service: str
    hour: int
    minute: int
    date: str
    settings: dict[str, dict[str, Setting]]  # service -> key -> as it is when the page arrives
    declared: dict[str, dict[str, Value]]  # what the configuration repository says
    deploys: dict[str, tuple[Deploy, ...]]  # oldest first
    effects: tuple[Effect, ...]
    causes: tuple[Cause, ...]
    par_steps: int
    max_steps: int
    log_page: int
    noise: tuple[float, ...]
