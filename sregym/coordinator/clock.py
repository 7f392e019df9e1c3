"""Where an attempt's seconds go.

Phases are named stretches of wall time (seconds). Proof windows and the healthy phase are booked apart, as they belong
to the problem; agent time is the agent's. What is left is overhead: ours to keep small.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio

HEALTHY = "healthy"
AGENT = "agent"


@dataclass
class PhaseClock:
    """Books phases; `hold_s` is time spent in proof windows inside other phases."""

    phases: dict[str, float] = field(default_factory=dict)
    hold_s: float = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Books the block under `name`, also when it raises."""
        begun = anyio.current_time()
        try:
            yield
        finally:
            self.book(name, anyio.current_time() - begun)

    def book(self, name: str, seconds: float) -> None:
        """Adds seconds to a phase."""
        self.phases[name] = round(self.phases.get(name, 0.0) + seconds, 3)

    @property
    def overhead_s(self) -> float:
        """Everything but the agent's time, the healthy phase and the proof windows."""
        own = sum(seconds for name, seconds in self.phases.items() if name not in (HEALTHY, AGENT))
        return round(own - self.hold_s, 3)

    def record(self) -> Mapping[str, float]:
        return dict(self.phases)


@dataclass
class SessionClock:
    """The agent's clock (docs/results.md, "Times"): starts at the hand-over; capped at `limit_s` seconds.

    Time that the judge or the probes take is not in it, because submissions are stamped when they arrive.
    """

    limit_s: float
    started_at: float | None = None
    diagnosis_at: float | None = None
    mitigation_at: float | None = None

    def start(self) -> None:
        self.started_at = anyio.current_time()

    def _since(self, moment: float | None) -> float | None:
        if self.started_at is None:
            return None
        return self.limit_s if moment is None else round(min(moment - self.started_at, self.limit_s), 3)

    @property
    def ttd_s(self) -> float | None:
        """Time to diagnosis; the cap where none was submitted, None where the incident was never handed over."""
        return self._since(self.diagnosis_at)

    @property
    def ttm_s(self) -> float | None:
        """Time to the mitigation submit, likewise."""
        return self._since(self.mitigation_at)
