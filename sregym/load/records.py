"""From the generator's lines to windows of traffic.

A window counts requests that *ended* in it: right at once when an outage begins or ends, and never waiting for those
still under way. Lateness counts by when a request was due.
"""

from __future__ import annotations

import json
import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sregym.cluster.traffic import OperationStats, TrafficWindow
from sregym.errors import Unavailable

KEPT_S = 7200.0
REASONS = {"body": "bad_body"}
SHARES = (("p50", 0.5), ("p90", 0.4), ("p95", 0.05), ("p99", 0.04), ("max", 0.01))
"""What a one-second summary stands for where single requests are not recorded: so much of them took at most that."""


@dataclass(frozen=True)
class Latency:
    """`weight` requests that took `ms`."""

    ms: float
    weight: float = 1.0


@dataclass(kw_only=True)
class Second:
    """One window line of one operation. `latencies` are of successful requests."""

    begun: float
    seconds: float
    operation: str
    scheduled: int
    late: int
    ok: int
    failures: Mapping[str, int]
    latencies: list[Latency] = field(default_factory=list)


class Records:
    """The running account. Fed with the generator's lines, asked for windows."""

    def __init__(self) -> None:
        self._seconds: deque[Second] = deque()
        self._pending: dict[str, list[Latency]] = {}
        self._summary: Mapping[str, Any] | None = None
        self.phases: list[str] = []
        """Names of the phases that have begun, oldest first."""
        self.errors: list[str] = []

    def feed(self, line: str) -> str:
        """Takes one line in. Returns its kind. Raises Unavailable for a line that is none of the generator's."""
        try:
            row = json.loads(line)
            kind = str(row["kind"])
        except (ValueError, KeyError, TypeError) as error:
            raise Unavailable(f"the load generator said something else than a record: {line[:200]!r}") from error
        match kind:
            case "request" if row["outcome"] == "ok":
                self._pending.setdefault(row["operation"], []).append(Latency(row["latency_ms"]))
            case "window":
                self._close(row)
            case "phase":
                self.phases.append(row["name"])
            case "error":
                self.errors.append(row["message"])
            case "summary":
                self._summary = row
        return kind

    @property
    def summary(self) -> Mapping[str, Any] | None:
        """The generator's own account of the whole run, once it has ended."""
        return self._summary

    @property
    def last(self) -> float | None:
        """End of the newest complete second (Unix time); None before the first."""
        return self._seconds[-1].begun + self._seconds[-1].seconds if self._seconds else None

    def window(self, over: float, *, until_s_ago: float = 0.0) -> TrafficWindow:
        """The complete seconds in a stretch of time that ends `until_s_ago` before the newest one's end.

        Shorter than `over` where there is no more. Raises Unavailable where there is nothing at all.
        """
        if self.last is None:
            raise Unavailable("the load generator has not finished its first second")
        end = self.last - until_s_ago
        chosen = [s for s in self._seconds if s.begun + s.seconds <= end + 0.01 and s.begun >= end - over - 0.01]
        if not chosen:
            raise Unavailable(f"no traffic was recorded in the {over:g} s that ended {until_s_ago:g} s ago")
        lasted = max(s.begun + s.seconds for s in chosen) - min(s.begun for s in chosen)
        scheduled = sum(s.scheduled for s in chosen)
        return TrafficWindow(
            seconds=round(lasted, 3),
            rate=scheduled / lasted,
            operations={name: _stats(rows) for name, rows in _by_operation(chosen).items()},
            late_share=sum(s.late for s in chosen) / scheduled if scheduled else 0.0,
        )

    def _close(self, row: Mapping[str, Any]) -> None:
        latencies = self._pending.pop(row["operation"], [])
        if not latencies and row["ok"] and row["latency_ms"]:
            latencies = [Latency(row["latency_ms"][key], share * row["ok"]) for key, share in SHARES]
        self._seconds.append(
            Second(
                begun=row["t"],
                seconds=row["seconds"],
                operation=row["operation"],
                scheduled=row["scheduled"],
                late=row["missed"],
                ok=row["ok"],
                failures={_reason(name): count for name, count in row["reasons"].items()},
                latencies=latencies,
            )
        )
        while self._seconds[0].begun < row["t"] - KEPT_S:
            self._seconds.popleft()


def _reason(name: str) -> str:
    return name.replace("status_", "http_") if name.startswith("status_") else REASONS.get(name, name)


def _by_operation(seconds: Iterable[Second]) -> dict[str, list[Second]]:
    found: dict[str, list[Second]] = {}
    for one in seconds:
        found.setdefault(one.operation, []).append(one)
    return found


def _stats(seconds: Sequence[Second]) -> OperationStats:
    failures: Counter[str] = Counter()
    for one in seconds:
        failures.update(one.failures)
    ok = sum(one.ok for one in seconds)
    latencies = sorted((latency for one in seconds for latency in one.latencies), key=lambda latency: latency.ms)
    return OperationStats(
        sent=ok + failures.total(),
        ok=ok,
        failures=dict(failures),
        p50_ms=quantile(latencies, 0.50),
        p95_ms=quantile(latencies, 0.95),
        p99_ms=quantile(latencies, 0.99),
    )


def quantile(latencies: Sequence[Latency], share: float) -> float | None:
    """The smallest latency that at least this share of requests did not exceed; None where there are none."""
    total = math.fsum(latency.weight for latency in latencies)
    reached = 0.0
    for latency in latencies:
        reached += latency.weight
        if reached >= share * total - 1e-9:
            return latency.ms
    return None
