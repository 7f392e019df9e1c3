"""Exercises: deeds that show whether a repair lasts. Run when the agent's access is withdrawn.

They wait for their own end and leave the judgement to the checks that follow; a service that does not come back is
therefore no error here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from oracles.wiring import running_pod
from oracles.workloads import PodsReplaced, RolledOut, owned
from sregym.api import AllOf, Exercise, LoadPhase, OracleContext, Selection
from sregym.cluster.objects import POD
from sregym.errors import Unavailable, WaitTimeout

COMES_BACK_S = 45.0


@dataclass(frozen=True)
class RestartPods(Exercise):
    """Replaces the pods of services: what was only true in memory, or for one address, is not true afterwards."""

    services: tuple[str, ...]

    def __init__(self, services: Iterable[str]) -> None:
        object.__setattr__(self, "services", tuple(services))

    async def run(self, ctx: OracleContext) -> None:
        for name in self.services:
            selector = ctx.app.topology.service(name).selector
            chosen = Selection(kind=POD, namespace=ctx.namespace, labels=selector)
            former = frozenset(str(one["metadata"]["uid"]) for one in owned(await ctx.reader.list(chosen)))
            await ctx.editor.recycle_pods(chosen)
            with suppress(WaitTimeout):
                # The Deployment's status lags behind its pods: it says "ready" for a moment after they were deleted.
                await ctx.until(AllOf(PodsReplaced(chosen, former), RolledOut((name,))), within=COMES_BACK_S)


@dataclass(frozen=True)
class FlushCache(Exercise):
    """Empties a memcached, so that the next reads go to the store behind it."""

    service: str
    port: int = 11211

    async def run(self, ctx: OracleContext) -> None:
        spec = ctx.app.topology.service(self.service)
        found = await running_pod(ctx, spec.selector)
        if found is None:
            return
        said = await ctx.shell.exec(found, ("sh", "-c", flush_script(self.port)), container=spec.container)
        if said.code != 0 or "OK" not in said.stdout:
            raise Unavailable(f"{self.service} was not flushed: {said.stderr.strip() or said.stdout.strip()}")


def flush_script(port: int) -> str:
    """Empties a memcached from inside its container: with nc where the image has it, else with bash."""
    say = "printf 'flush_all\\r\\nquit\\r\\n'"
    by_bash = f"exec 3<>/dev/tcp/127.0.0.1/{port}; {say} >&3; cat <&3"
    return f'if command -v nc >/dev/null; then {say} | nc 127.0.0.1 {port}; else bash -c "{by_bash}"; fi'


@dataclass(frozen=True, kw_only=True)
class Burst(Exercise):
    """Replays a burst of load, then lets the steady load come back. What follows must be health again."""

    rate: float
    seconds: float
    operations: Mapping[str, float] | None = None

    async def run(self, ctx: OracleContext) -> None:
        await ctx.traffic.phase(LoadPhase(rate=self.rate, seconds=self.seconds, operations=self.operations))
        await ctx.elapse(self.seconds, why=f"a burst of {self.rate:g} requests/s")
