"""Checks of a bounded queue and of the retries in front of it, from the application's own counters.

Counters are read from the pods themselves, twice, a few seconds apart: what was counted before does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sregym.api import Check, Look, Observation, Ref, Selection, dig
from sregym.cluster import waits
from sregym.cluster.objects import DEPLOYMENT, POD
from sregym.errors import Unavailable

APART_S = 4.0
"""Time between two readings."""


@dataclass(frozen=True, kw_only=True)
class Counters:
    """Where a workload's pods show their counters (Prometheus text)."""

    workload: str
    selector: str
    port: int


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The least and the most that a setting may be to count as in force: far above what a repair would choose, no
    setting limits anything."""

    least: float
    most: float

    def hold(self, value: float) -> bool:
        return self.least <= value <= self.most


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What two readings say of the queue and the calls into it."""

    depth: float
    grown: float
    attempts: float
    requests: float
    limit: float
    capacity: float

    @property
    def attempts_per_request(self) -> float | None:
        return self.attempts / self.requests if self.requests else None

    def tell(self) -> str:
        tries = self.attempts_per_request
        shown = "no requests" if tries is None else f"{tries:.1f} attempts a request"
        return f"queue {self.depth:.0f} ({self.grown:+.0f} in {APART_S:g} s), {shown}"


@dataclass(frozen=True, kw_only=True)
class QueueFlows(Check):
    """The queue is short, its admission control is in force, and callers seldom try again."""

    caller: Counters
    callee: Counters
    at_most_waiting: float = 5.0
    at_most_attempts: float = 2.1
    limit: Bounds = Bounds(least=1.0, most=10_000.0)
    capacity: Bounds = Bounds(least=1.0, most=10_000.0)

    @property
    def title(self) -> str:
        return f"{self.callee.workload}'s queue flows"

    @property
    def span_s(self) -> float:
        return APART_S

    async def look(self, at: Look) -> Observation:
        seen = await read(at, self.caller, self.callee)
        evidence = {"queue": seen.depth, "limit": seen.limit, "capacity": seen.capacity, "attempts": seen.attempts}
        if not (self.limit.hold(seen.limit) and self.capacity.hold(seen.capacity)):
            return self.not_yet(
                f"admission control is not in force: {seen.limit:g}/s, {seen.capacity:g} places", **evidence
            )
        tries = seen.attempts_per_request
        if tries is None:
            return self.unknown("no requests reached it", **evidence)
        if seen.depth > self.at_most_waiting or tries > self.at_most_attempts:
            return self.not_yet(seen.tell(), **evidence)
        return self.holding(**evidence)


@dataclass(frozen=True, kw_only=True)
class QueueStuck(Check):
    """The queue is long and does not shrink, and callers try again and again: the collapse feeds itself."""

    caller: Counters
    callee: Counters
    at_least_waiting: float = 20.0
    at_least_attempts: float = 2.0

    @property
    def title(self) -> str:
        return f"{self.callee.workload}'s queue is stuck"

    @property
    def span_s(self) -> float:
        return APART_S

    async def look(self, at: Look) -> Observation:
        seen = await read(at, self.caller, self.callee)
        tries = seen.attempts_per_request or 0.0
        # A full queue swings by a few places between two readings.
        stuck = seen.depth >= self.at_least_waiting and seen.grown > -0.1 * seen.depth
        if stuck and tries >= self.at_least_attempts:
            return self.holding(queue=seen.depth, attempts_per_request=round(tries, 2))
        return self.not_yet(seen.tell())


async def read(at: Look, caller: Counters, callee: Counters) -> Reading:
    """Two readings of both sides. Raises Unavailable where a side shows nothing."""
    first_caller, first_callee = await _scrape(at, caller), await _scrape(at, callee)
    await waits.elapse(APART_S, why="two readings of counters")
    then_caller, then_callee = await _scrape(at, caller), await _scrape(at, callee)
    depth = then_callee["rate_queue_depth"]
    return Reading(
        depth=depth,
        grown=depth - first_callee["rate_queue_depth"],
        attempts=_grown(first_caller, then_caller, "search_rate_attempts_total"),
        requests=_grown(first_caller, then_caller, "search_requests_total"),
        limit=then_callee["rate_backend_qps_limit"],
        capacity=then_callee["rate_queue_capacity"],
    )


def _grown(first: Mapping[str, float], then: Mapping[str, float], name: str) -> float:
    # A counter that fell belongs to a process that started in between.
    return max(0.0, then[name] - first[name])


async def _scrape(at: Look, source: Counters) -> Mapping[str, float]:
    """Sums over the workload's ready pods, except for settings, of which the largest counts."""
    totals: dict[str, float] = {}
    pods = await at.reader.list(Selection(kind=POD, namespace=at.namespace, labels=source.selector))
    for one in pods:
        address = dig(one, "status", "podIP")
        if not address or dig(one, "metadata", "deletionTimestamp"):
            continue
        reply = await at.shell.request(f"http://{address}:{source.port}/metrics")
        if reply.status != 200:
            raise Unavailable(f"{source.workload} shows no metrics: {reply.error or reply.status}")
        for name, value in parse(reply.body).items():
            setting = name.endswith(("_limit", "_capacity"))
            totals[name] = max(totals.get(name, 0.0), value) if setting else totals.get(name, 0.0) + value
    if not totals:
        raise Unavailable(f"{Ref(DEPLOYMENT, source.workload)} has no pod that shows metrics")
    return totals


def parse(text: str) -> dict[str, float]:
    """Samples without labels of a Prometheus text page."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name and not line.startswith("#") and "{" not in name:
            try:
                found[name] = float(value.split()[0])
            except (ValueError, IndexError):
                continue
    return found
