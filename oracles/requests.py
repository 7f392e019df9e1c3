"""Checks of what users get: success of real requests, as recorded outside the cluster.

A window with too few answers, or whose requests were sent late, is *unknown*: neither health nor failure may be read
from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from oracles.workloads import EndpointsOwned, RolledOut
from sregym.api import AllOf, Check, Look, Observation, OperationStats, Topology, TrafficWindow

LATE_SHARE = 0.05
"""Above this share of late requests the generator, not the application, decides the picture."""


@dataclass(frozen=True, kw_only=True)
class _Requests(Check):
    """Requests of some operations over the last seconds."""

    what: ClassVar[str]
    operations: tuple[str, ...]
    over: float

    @property
    def title(self) -> str:
        return f"{self.what}: {', '.join(self.operations)}"

    @property
    def span_s(self) -> float:
        return self.over

    async def look(self, at: Look) -> Observation:
        window = await at.traffic.window(self.over)
        late = _too_late(window)
        return self.unknown(late) if late else self.judged(window)

    def judged(self, window: TrafficWindow) -> Observation:
        """What a window, whose requests were sent in time, says."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class OperationsSucceed(_Requests):
    """Of each operation at least that share of requests succeeded over the last seconds."""

    what = "requests succeed"
    at_least: float = 0.95
    over: float = 8.0
    minimum: int = 2
    """Fewer requests of an operation than this say nothing."""

    def judged(self, window: TrafficWindow) -> Observation:
        seen = {name: window.of(name) for name in self.operations}
        evidence = {name: _tell(stats) for name, stats in seen.items()}
        poor = [name for name, stats in seen.items() if stats.sent and _rate(stats) < self.at_least]
        if poor:
            return self.not_yet("; ".join(f"{name}: {evidence[name]}" for name in poor), **evidence)
        few = [name for name, stats in seen.items() if stats.sent < self.minimum]
        if few:
            return self.unknown(
                f"too few requests to tell: {', '.join(f'{n}: {seen[n].sent}' for n in few)}", **evidence
            )
        return self.holding(**evidence)


@dataclass(frozen=True, kw_only=True)
class OperationsFail(_Requests):
    """Of the operations together at most that share of requests succeeded over the last seconds: users are hurt."""

    what = "requests fail"
    at_most: float = 0.5
    over: float = 6.0
    minimum: int = 5

    def judged(self, window: TrafficWindow) -> Observation:
        stats = window.of(*self.operations)
        if stats.sent < self.minimum:
            return self.unknown(f"too few requests to tell: {stats.sent}")
        if _rate(stats) <= self.at_most:
            return self.holding(requests=_tell(stats))
        return self.not_yet(f"users are not hurt enough: {_tell(stats)}", requests=_tell(stats))


def app_serves(
    topology: Topology, *, operations: tuple[str, ...] | None = None, over: float = 8.0, at_least: float = 0.95
) -> Check:
    """The whole app: every workload of the topology is there and rolled out, users reach it, every operation succeeds.

    `operations` narrows what users do where a problem's load has only some of them.
    """
    wanted = operations if operations is not None else tuple(one.name for one in topology.operations)
    return AllOf(
        RolledOut(tuple(one.name for one in topology.services)),
        EndpointsOwned(topology.entry, topology.entry),
        OperationsSucceed(operations=wanted, over=over, at_least=at_least),
    )


RARE = 0.07
"""The share that rare operations get while an oracle looks: some requests in each window, and few rows of new data."""


def shown_mix(topology: Topology) -> dict[str, float]:
    """The application's mix with rare operations raised, so that each is seen in every window."""
    total = sum(one.weight for one in topology.operations)
    return {one.name: max(RARE, one.weight / total) for one in topology.operations}


def _too_late(window: TrafficWindow) -> str:
    if window.late_share <= LATE_SHARE:
        return ""
    return f"the load generator was late with {window.late_share:.0%} of its requests"


def _rate(stats: OperationStats) -> float:
    return stats.success_rate or 0.0


def _tell(stats: OperationStats) -> str:
    why = ", ".join(f"{reason} x{count}" for reason, count in sorted(stats.failures.items()))
    return f"{stats.ok} of {stats.sent} succeeded" + (f" ({why})" if why else "")
