"""What the users of the application experience, as the load generator outside the cluster records it.

Only the records' shape stands here, so that checks can be written against it; `sregym.load` makes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class OperationStats:
    """Requests of one operation that were *scheduled* in a window (open loop).

    `failures` counts by reason (`http_500`, `timeout`, `connect`, `bad_body`, ...). Latencies in milliseconds are of
    successful requests; None where there was none.
    """

    sent: int = 0
    ok: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None

    @property
    def success_rate(self) -> float | None:
        """Share of successful requests in [0, 1]; None where nothing was sent: unknown, not healthy."""
        return self.ok / self.sent if self.sent else None


@dataclass(frozen=True, kw_only=True)
class TrafficWindow:
    """Complete seconds of traffic. `late_share` is the share of arrivals sent later than scheduled (0..1)."""

    seconds: float
    rate: float
    operations: Mapping[str, OperationStats]
    late_share: float = 0.0

    def of(self, *names: str) -> OperationStats:
        """The sum over the named operations (all, where none is named); percentiles are dropped in a sum of several."""
        chosen = [self.operations.get(name, OperationStats()) for name in names or tuple(self.operations)]
        if len(chosen) == 1:
            return chosen[0]
        failures: dict[str, int] = {}
        for stats in chosen:
            for reason, count in stats.failures.items():
                failures[reason] = failures.get(reason, 0) + count
        return OperationStats(sent=sum(s.sent for s in chosen), ok=sum(s.ok for s in chosen), failures=failures)


@dataclass(frozen=True, kw_only=True)
class LoadPhase:
    """A stretch of load: requests a second (all operations), for so many seconds (None: until the next phase)."""

    rate: float
    seconds: float | None = None
    operations: Mapping[str, float] | None = None
    """Mix by operation name (weights); None: the application's own mix."""


class Traffic(Protocol):
    """The running load."""

    async def window(self, over: float, *, until_s_ago: float = 0.0) -> TrafficWindow:
        """The last `over` seconds of finished records. Raises Unavailable where the generator is dead or silent."""

    async def phase(self, phase: LoadPhase) -> None:
        """Switches to another phase; returns when it has begun. After its seconds the base phase comes back."""

    @property
    def base(self) -> LoadPhase:
        """The steady phase that the application runs under."""
