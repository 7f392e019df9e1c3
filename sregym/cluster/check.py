"""The one `Check` type: symptom, health and oracles are all made of it.

A check looks once at the present and says what it saw: it HOLDS, NOT_YET (with the reason), CANNOT hold any more
without somebody's action (so that waiting for it is useless), or UNKNOWN because the look itself failed. Waiting is
not a check's business: `waits.until` and `waits.holds` do it, by watching what `watches()` names and by polling what
must be probed. Unknown is never healthy, and never unhealthy either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from sregym.cluster.contract import Reader, Selection, Shell
from sregym.cluster.traffic import Traffic
from sregym.errors import ClusterError


class State(StrEnum):
    HOLDS = "holds"
    NOT_YET = "not-yet"
    CANNOT = "cannot"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What one look showed. `evidence` is JSON and is kept with the verdict."""

    check: str
    state: State
    reason: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    parts: Sequence[Observation] = ()

    @property
    def holds(self) -> bool:
        return self.state is State.HOLDS

    def leaves(self) -> list[Observation]:
        """The observations at the bottom of the tree, in order."""
        return [leaf for part in self.parts for leaf in part.leaves()] if self.parts else [self]


class Look(Protocol):
    """What a check may look at."""

    @property
    def namespace(self) -> str:
        """The app's namespace: fills in references that name none."""

    @property
    def reader(self) -> Reader: ...

    @property
    def shell(self) -> Shell: ...

    @property
    def traffic(self) -> Traffic: ...


class Check(ABC):
    """One condition. Subclasses are frozen dataclasses; they implement `look` and, if it can be watched, `watches`."""

    @property
    def title(self) -> str:
        """How this check is called in tables; unique enough to find it again."""
        return type(self).__name__

    @property
    def span_s(self) -> float:
        """How many seconds of the past one look covers (a traffic window); 0 for a look at the present alone."""
        return 0.0

    def watches(self, namespace: str) -> Sequence[Selection]:
        """What to watch so that a change is seen at once; empty for a check that must be probed."""
        return ()

    @abstractmethod
    async def look(self, at: Look) -> Observation:
        """Looks once. May raise ClusterError, which `observe` turns into UNKNOWN."""

    async def observe(self, at: Look) -> Observation:
        """`look`, with a failed look reported as UNKNOWN instead of raised."""
        try:
            return await self.look(at)
        except (ClusterError, TimeoutError, OSError) as error:
            return Observation(check=self.title, state=State.UNKNOWN, reason=f"{type(error).__name__}: {error}")

    def holding(self, **evidence: Any) -> Observation:
        return Observation(check=self.title, state=State.HOLDS, evidence=evidence)

    def not_yet(self, reason: str, **evidence: Any) -> Observation:
        return Observation(check=self.title, state=State.NOT_YET, reason=reason, evidence=evidence)

    def cannot(self, reason: str, **evidence: Any) -> Observation:
        return Observation(check=self.title, state=State.CANNOT, reason=reason, evidence=evidence)

    def unknown(self, reason: str, **evidence: Any) -> Observation:
        return Observation(check=self.title, state=State.UNKNOWN, reason=reason, evidence=evidence)


@dataclass(frozen=True)
class _Several(Check):
    """Several checks as one. A subclass says what their observations amount to."""

    joined: ClassVar[str]
    parts: tuple[Check, ...]

    def __init__(self, *parts: Check) -> None:
        object.__setattr__(self, "parts", parts)

    @property
    def title(self) -> str:
        return f"{self.joined}: " + ", ".join(part.title for part in self.parts)

    @property
    def span_s(self) -> float:
        return max((part.span_s for part in self.parts), default=0.0)

    def watches(self, namespace: str) -> Sequence[Selection]:
        return [selection for part in self.parts for selection in part.watches(namespace)]

    async def look(self, at: Look) -> Observation:
        seen = [await part.observe(at) for part in self.parts]
        state, telling = self.amounts_to(seen)
        reason = "; ".join(one.reason for one in telling)
        return Observation(check=self.title, state=state, reason=reason, parts=seen)

    def amounts_to(self, seen: Sequence[Observation]) -> tuple[State, Sequence[Observation]]:
        """The state of the whole, and the observations that are its reason."""
        raise NotImplementedError


class AllOf(_Several):
    """Holds when every part holds. UNKNOWN outweighs NOT_YET only where no part is known to be wrong."""

    joined = "all of"

    def amounts_to(self, seen: Sequence[Observation]) -> tuple[State, Sequence[Observation]]:
        for state in (State.CANNOT, State.NOT_YET, State.UNKNOWN):
            if bad := [one for one in seen if one.state is state]:
                return state, bad
        return State.HOLDS, []


class AnyOf(_Several):
    """Holds when at least one part holds."""

    joined = "any of"

    def amounts_to(self, seen: Sequence[Observation]) -> tuple[State, Sequence[Observation]]:
        states = {one.state for one in seen}
        if State.HOLDS in states:
            return State.HOLDS, []
        return next((state for state in (State.UNKNOWN, State.NOT_YET) if state in states), State.CANNOT), seen


@dataclass(frozen=True)
class Not(Check):
    """Holds when the part is known not to hold. UNKNOWN stays UNKNOWN."""

    part: Check

    @property
    def title(self) -> str:
        return f"not: {self.part.title}"

    @property
    def span_s(self) -> float:
        return self.part.span_s

    def watches(self, namespace: str) -> Sequence[Selection]:
        return self.part.watches(namespace)

    async def look(self, at: Look) -> Observation:
        seen = await self.part.observe(at)
        if seen.state is State.UNKNOWN:
            return Observation(check=self.title, state=State.UNKNOWN, reason=seen.reason, parts=[seen])
        if seen.holds:
            return Observation(check=self.title, state=State.NOT_YET, reason="it holds", parts=[seen])
        return Observation(check=self.title, state=State.HOLDS, evidence={"because": seen.reason}, parts=[seen])
