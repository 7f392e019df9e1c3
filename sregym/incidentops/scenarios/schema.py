"""The form of a scenario file.

Every string may hold `{name}` of a draw or of the drawn case; a string that is only `{name}` becomes the
drawn value with its type. `levels` on an entry limits it to these difficulty levels. `after` counts ticks from
the drawn onset of the fault.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from sregym.incidentops.mechanisms import MECHANISMS
from sregym.incidentops.world.instance import LEVELS, Level
from sregym.incidentops.world.topology import Frozen, Operator, Value

Text = str | list[str]  # a list: one of them is drawn
Number = float | str  # a template that ends as a number is allowed


ONSET: dict[Level, tuple[int, int]] = {"easy": (-6, -4), "medium": (-8, -5), "hard": (-10, -7)}


class ForLevels(Frozen):
    """An entry that may be limited to some levels."""

    levels: list[Level] = Field(default_factory=lambda: list(LEVELS))


class Draw(Frozen):
    """How one name gets its value; exactly one kind is given."""

    choice: list[Value] | None = None
    integer: tuple[int, int] | None = None
    step: int = 1
    add: tuple[str, int] | None = None  # another integer draw plus a constant
    hexadecimal: int | None = None  # so many digits
    service_except: list[str] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Draw:
        kinds = (self.choice, self.integer, self.add, self.hexadecimal, self.service_except)
        if sum(kind is not None for kind in kinds) != 1:
            raise ValueError("a draw has exactly one of choice, integer, add, hexadecimal, service_except")
        return self


class MatchSpec(Frozen):
    """A comparison whose value may be a template."""

    op: Operator
    value: Value | list[Value]


class SettingSpec(ForLevels):
    """A setting that differs from the healthy company's when the page arrives (or is added to it)."""

    service: str
    key: str
    value: Value
    declared: Value | None = None  # None: the repository says the same
    type: Literal["str", "int", "bool"] | None = None
    safe: MatchSpec | None = None
    reload: Literal["hot", "restart"] | None = None
    restart_when_hard: bool = False


class DeploySpec(ForLevels):
    """A release made shortly before the onset."""

    service: str
    summary: Text
    diff: list[str]
    config: list[tuple[str, Value, Value]] = Field(default_factory=list)  # (key, old, new)
    before_onset: int = 1


class LogSpec(ForLevels):
    """See `world.instance.LogRule`."""

    service: str
    level: Literal["DEBUG", "INFO", "WARN", "ERROR"]
    text: Text
    above: float = 0.05
    below: float = 99.0
    every: int = 1
    clue: bool = False


class WhenSpec(Frozen):
    """See `world.instance.When`; `deploy: true` means the release that this file adds to the service."""

    service: str
    key: str = ""
    match: MatchSpec | None = None
    deploy: bool = False
    unless_key: str = ""
    unless: MatchSpec | None = None

    @model_validator(mode="after")
    def _one_condition(self) -> WhenSpec:
        if self.deploy is bool(self.key) or bool(self.key) is not (self.match is not None):
            raise ValueError("a condition is either `deploy: true` or a key with a match")
        return self


class EffectSpec(ForLevels):
    """See `world.instance.Effect`."""

    name: str
    at: str
    when: Literal["cause", "always"] = "cause"
    cause: int | None = 0
    after: int = 0
    lasts: int | None = None  # ticks; None: while the condition holds
    start_level: float = 0.0
    rise: Number = 0.25
    fall: Number = 0.5
    easy_fall: float | None = None  # on the easy level what is full empties by itself
    cap: float = 1.0
    crash_to: float | None = None
    restart_clears: bool = False
    error: Number = 0
    latency_ms: Number = 0
    memory_mb: Number = 0
    cpu_pct: Number = 0
    queue: Number = 0
    disk_pct: Number = 0
    lag_s: Number = 0
    connections: Number = 0
    capacity: Number = 0
    demand_rps: Number = 0
    logs: list[LogSpec] = Field(default_factory=list)


class CallSpec(ForLevels):
    """One tool call."""

    tool: str
    arguments: dict[str, Value] = Field(default_factory=dict)


class CauseSpec(Frozen):
    """See `world.instance.Cause`."""

    component: str
    mechanism: str
    accepted: list[str] = Field(default_factory=list)
    also_components: list[str] = Field(default_factory=list)
    when: WhenSpec | None = None
    evidence: list[CallSpec] = Field(min_length=2)
    repair: list[CallSpec] = Field(default_factory=list)

    @model_validator(mode="after")
    def _known_mechanisms(self) -> CauseSpec:
        for name in (self.mechanism, *self.accepted):
            if name not in MECHANISMS:
                raise ValueError(f"unknown mechanism {name!r}; known: {', '.join(MECHANISMS)}")
        return self


class Scenario(Frozen):
    """One scenario file."""

    id: str
    title: str
    about: str  # for the documentation: what breaks, how it shows, what is right
    incident_titles: list[str] = Field(min_length=2)
    draws: dict[str, Draw] = Field(default_factory=dict)
    cases: list[dict[str, Any]] = Field(min_length=1)
    more_cases: list[dict[str, Any]] = Field(default_factory=list)  # a second, independent case, other service
    settings: list[SettingSpec] = Field(default_factory=list)
    deploys: list[DeploySpec] = Field(default_factory=list)
    effects: list[EffectSpec] = Field(min_length=1)
    causes: list[CauseSpec] = Field(min_length=1)
    onset: dict[Level, tuple[int, int]] = ONSET
    distractors: bool = True
