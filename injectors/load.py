"""Faults in the load: what users do, for a while, differently."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sregym.api import Fault, FaultContext, LoadPhase


@dataclass(frozen=True, kw_only=True)
class LoadBurst(Fault):
    """More requests a second for a while; the steady load comes back by itself. Returns when the burst is over."""

    rate: float
    seconds: float
    operations: Mapping[str, float] | None = None

    async def inject(self, ctx: FaultContext) -> None:
        await ctx.traffic.phase(LoadPhase(rate=self.rate, seconds=self.seconds, operations=self.operations))
        await ctx.elapse(self.seconds, why=f"a burst of {self.rate:g} requests/s")
