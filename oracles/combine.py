"""`Settled`: the oracle that most problems use. Passive checks, exercises, passive checks again.

It waits as long as something is in motion, and fails early when a check says that it cannot hold any more, or when
nothing has been in motion for a grace time and a check still fails. Pods that crash when the agent is gone are
restarted once, so that a right repair does not fail on the kubelet's patience. Success must hold for a proof window
without a restart. A look that failed is never the agent's failure: the verdict is then UNSCORED.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import anyio

from oracles.motion import CRASHES, Motion, motion
from oracles.requests import app_serves, shown_mix
from oracles.workloads import PodsSteady, owned, restart_counts
from sregym.api import (
    AllOf,
    Baseline,
    Check,
    Exercise,
    LoadPhase,
    Look,
    Observation,
    Oracle,
    OracleContext,
    Selection,
    State,
    Topology,
    Verdict,
)
from sregym.cluster.objects import DEPLOYMENT, POD
from sregym.errors import ClusterError

GRACE_S = 8.0
"""How long nothing may move, beyond what a check looks back on, before a failing check is final."""


class Kept(ABC):
    """Something of the healthy system that no repair may cost: noted before the fault, and a proof afterwards."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is, unique within an oracle."""

    @abstractmethod
    async def note(self, at: Look) -> Any:
        """What must be known of it (JSON). Raises ClusterError."""

    @abstractmethod
    def check(self, noted: Any) -> Check:
        """Whether it is still there."""


@dataclass(frozen=True, kw_only=True)
class Settled(Oracle):
    """The condition is looked at all the time and must hold for `hold` seconds.

    `proofs` are dear looks, made at the end of a window, as are those at what is `kept`; `exercises` come between two
    passes; `within` bounds one pass.
    """

    condition: Check
    proofs: tuple[Check, ...] = ()
    kept: tuple[Kept, ...] = ()
    exercises: tuple[Exercise, ...] = ()
    hold: float = 15.0
    within: float = 120.0
    patience: float = GRACE_S
    """How long a failing condition may persist with nothing in motion: longer where health comes back slowly."""
    mix: Mapping[str, float] | None = None
    """What users do while the oracle looks, where their usual mix shows too little of rare operations."""

    async def baseline(self, ctx: OracleContext) -> Baseline:
        return {one.name: await one.note(ctx) for one in self.kept}

    async def glance(self, ctx: OracleContext, baseline: Baseline) -> Verdict:
        seen = await self.condition.observe(ctx)
        if seen.holds and (proofs := self._proofs(baseline)):
            seen = await AllOf(self.condition, *proofs).observe(ctx)
        return Verdict.of(seen)

    def _proofs(self, baseline: Baseline) -> tuple[Check, ...]:
        return (*self.proofs, *(one.check(baseline[one.name]) for one in self.kept))

    async def check(self, ctx: OracleContext, baseline: Baseline) -> Verdict:
        try:
            async with self._load(ctx):
                proofs = self._proofs(baseline)
                first = _Pass(oracle=self, proofs=proofs, ctx=ctx, hold=0.0 if self.exercises else self.hold)
                verdict = await first.run()
                if not verdict.passed or not self.exercises:
                    return verdict
                for exercise in self.exercises:
                    ctx.emit("oracle.exercise", exercise=repr(exercise))
                    await exercise.run(ctx)
                restarted = first.restarted
                last = await _Pass(oracle=self, proofs=proofs, ctx=ctx, hold=self.hold, restarted=restarted).run()
                return replace(last, hold_s=verdict.hold_s + last.hold_s)
        except ClusterError as error:
            return Verdict.unscored(f"{type(error).__name__}: {error}")

    @asynccontextmanager
    async def _load(self, ctx: OracleContext) -> AsyncIterator[None]:
        if self.mix is None:
            yield
            return
        base = ctx.traffic.base
        await ctx.traffic.phase(LoadPhase(rate=base.rate, operations=self.mix))
        interrupted = False
        try:
            yield
        except anyio.get_cancelled_exc_class():
            interrupted = True  # the users are on their way out, too: nobody would answer
            raise
        finally:
            if not interrupted:
                await ctx.traffic.phase(base)


def app_settled(
    topology: Topology,
    *also: Check,
    proofs: tuple[Check, ...] = (),
    kept: tuple[Kept, ...] = (),
    exercises: tuple[Exercise, ...] = (),
    hold: float = 15.0,
) -> Settled:
    """The whole app serves every operation, and what else is named holds; before and after the exercises."""
    return Settled(
        condition=AllOf(app_serves(topology), *also),
        proofs=proofs,
        kept=kept,
        exercises=exercises,
        hold=hold,
        mix=shown_mix(topology),
    )


@dataclass
class _Pass:
    """One passive pass: the state between two looks."""

    oracle: Settled
    proofs: tuple[Check, ...]
    ctx: OracleContext
    hold: float
    restarted: bool = False
    """Whether pods in a back-off have had their one restart."""
    begun: float = field(default_factory=anyio.current_time)
    holding_since: float | None = None
    held_at: float = 0.0
    """When the condition was last seen to hold."""
    blind: bool = False
    """Whether looks have failed since."""
    still_since: float | None = None
    counts: dict[str, int] = field(default_factory=dict)

    async def run(self) -> Verdict:
        return await self.ctx.poll(self._look, what="the repair settles", within=self.oracle.within + 60.0)

    async def _look(self) -> Verdict | None:
        try:
            return await self._judge()
        except ClusterError:
            # One bad answer of the API is no verdict; a lasting one is, as UNSCORED.
            if anyio.current_time() - self.begun >= self.oracle.within:
                raise
            return None

    async def _judge(self) -> Verdict | None:
        seen = await self.oracle.condition.observe(self.ctx)
        now = anyio.current_time()
        over = now - self.begun >= self.oracle.within
        if seen.holds:
            return await self._proven(now, seen, over=over)
        if seen.state is State.UNKNOWN:
            self.still_since, self.blind = None, True
            return Verdict.of(seen) if over else None
        self.holding_since = None
        if seen.state is State.CANNOT:
            return self._failed(seen)
        return await self._waiting(now, seen, over=over)

    async def _proven(self, now: float, seen: Observation, *, over: bool) -> Verdict | None:
        """The check holds: the proof window begins, goes on, or is over and the dear looks are made."""
        pods = await self.ctx.reader.list(Selection(kind=POD, namespace=self.ctx.namespace))
        # An unknown look breaks the window, unless this one looks back over the gap.
        gap = self.blind and now - self.held_at > self.oracle.condition.span_s
        self.held_at, self.blind = now, False
        if self.holding_since is None or gap:
            self.holding_since, self.counts = now, restart_counts(pods)
        steady = await PodsSteady(self.counts).observe(self.ctx)
        if not steady.holds:
            self.holding_since = None
            return Verdict.of(steady) if over else None
        if now - self.holding_since < self.hold:
            self.still_since = None
            return None
        proven = await AllOf(self.oracle.condition, *self.proofs).observe(self.ctx)
        if proven.holds:
            return Verdict.of(proven, hold_s=self.hold + self.oracle.condition.span_s)
        if proven.state is State.CANNOT or over:
            return Verdict.of(proven)
        return await self._waiting(now, proven, over=over)

    async def _waiting(self, now: float, seen: Observation, *, over: bool) -> Verdict | None:
        """The check fails: is there reason to go on waiting?"""
        under_way = await self._motion()
        if under_way.crashing and not self.restarted:
            self.restarted = True
            for name in under_way.crashing:
                chosen = Selection(kind=POD, namespace=self.ctx.namespace, name=name)
                await self.ctx.editor.recycle_pods(chosen)
            self.ctx.emit("oracle.restarted", pods=list(under_way.crashing))
            self.still_since = None
        elif under_way.moving:
            self.still_since = None
        elif self.still_since is None:
            self.still_since = now
        elif now - self.still_since >= self._grace:
            return self._failed(seen)
        return self._failed(seen) if over else None

    def _failed(self, seen: Observation) -> Verdict:
        spent = anyio.current_time() - self.still_since if self.still_since is not None else 0.0
        return Verdict.of(seen, hold_s=round(spent, 1))

    @property
    def _grace(self) -> float:
        return self.oracle.patience + self.oracle.condition.span_s

    async def _motion(self) -> Motion:
        reader, namespace = self.ctx.reader, self.ctx.namespace
        deployments = await reader.list(Selection(kind=DEPLOYMENT, namespace=namespace))
        pods = owned(await reader.list(Selection(kind=POD, namespace=namespace)))
        # What crashes again after its fresh start is not starting any more.
        return motion(deployments, pods, datetime.now(UTC), crashes=1 if self.restarted else CRASHES)
