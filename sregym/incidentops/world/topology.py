"""The healthy company as data: services, their calls, limits and settings.

Read once from `topology.yaml` and frozen. Rates are requests/s, times milliseconds, memory MiB.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sregym.incidentops.errors import ScenarioError

Value = str | int | bool
Operator = Literal["==", "!=", "<", "<=", ">", ">=", "in", "not_in", "contains", "lacks"]


class Frozen(BaseModel):
    """Base of everything read from YAML: unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Match(Frozen):
    """A comparison of one setting's value with a constant."""

    op: Operator
    value: Value | list[Value]

    def holds(self, actual: Value) -> bool:
        """Whether `actual` satisfies the comparison; values of unlike types never compare as ordered."""
        want = self.value
        if isinstance(want, list):
            return (actual in want) if self.op == "in" else (actual not in want)
        if self.op == "==":
            return actual == want
        if self.op == "!=":
            return actual != want
        if self.op in ("contains", "lacks"):
            return (str(want) in _items(str(actual))) is (self.op == "contains")
        if isinstance(actual, str) or isinstance(want, str):
            return False
        return {"<": actual < want, "<=": actual <= want, ">": actual > want, ">=": actual >= want}[self.op]

    @model_validator(mode="after")
    def _lists_only_for_membership(self) -> Match:
        if (self.op in ("in", "not_in")) is not isinstance(self.value, list):
            raise ValueError(f"operator {self.op} and value {self.value!r} do not fit")
        return self


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")]


class Setting(Frozen):
    """One configuration key of a service."""

    key: str
    type: Literal["str", "int", "bool"]
    value: Value
    vary: list[Value] = Field(default_factory=list)
    reload: Literal["hot", "restart"] = "hot"
    safe: Match | None = None


class Connections(Frozen):
    """Database connections in use when healthy, and the setting that limits them."""

    base: int
    limit_key: str


class Service(Frozen):
    """One service of the healthy company."""

    summary: str
    capacity_rps: float
    p95_ms: float
    slo_p95_ms: float
    memory_mb: float
    memory_limit_mb: float
    cpu_pct: float
    disk_pct: float
    calls: dict[str, float] = Field(default_factory=dict)
    connections: Connections
    queue_depth: float | None = None
    queue_alert: float = 0
    replication: bool = False
    ambient: list[str]
    config: list[Setting]


class Topology(Frozen):
    """The whole company; `services` are ordered so that callers come before the services they call."""

    users_rps: float
    services: dict[str, Service]

    @model_validator(mode="after")
    def _callers_first(self) -> Topology:
        names = list(self.services)
        for position, (name, service) in enumerate(self.services.items()):
            for callee in service.calls:
                if callee not in names[position + 1 :]:
                    raise ValueError(f"{name} calls {callee}, which must stand later in the file")
        return self

    @property
    def names(self) -> list[str]:
        """Service names in call order."""
        return list(self.services)


@cache
def company() -> Topology:
    """The topology that every episode starts from.

    Raises:
        ScenarioError: the file does not follow its schema.
    """
    text = (Path(__file__).parent / "topology.yaml").read_text(encoding="utf-8")
    try:
        return Topology.model_validate(yaml.safe_load(text))
    except ValidationError as error:
        raise ScenarioError(f"topology.yaml: {error}") from error
