"""Faults and noise: declarative, frozen, composable.

A fault's `inject` changes the world through `ctx.editor`, so undoing it needs no code of its own. Composition is a
fault too: in order, together, a trigger that ends itself, a condition to wait for in between.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import anyio

from sregym.api.app import FaultContext
from sregym.cluster.check import Check
from sregym.errors import InjectionError, WaitTimeout


class Fault(ABC):
    """Something that can be done to the world. Subclasses are frozen dataclasses of JSON-able parameters."""

    @abstractmethod
    async def inject(self, ctx: FaultContext) -> None:
        """Does it. Effects outside the Kubernetes API journal a Compensation first. Raises InjectionError."""

    async def recover(self, ctx: FaultContext) -> None:
        """Undoes what was journalled through `ctx`. Raises RecoveryError."""
        await ctx.editor.undo_all()


@dataclass(frozen=True)
class InOrder(Fault):
    """One after the other; the next begins when the one before has returned."""

    steps: tuple[Fault, ...]

    def __init__(self, *steps: Fault) -> None:
        object.__setattr__(self, "steps", steps)

    async def inject(self, ctx: FaultContext) -> None:
        for step in self.steps:
            await step.inject(ctx)


@dataclass(frozen=True)
class Together(Fault):
    """All at once."""

    parts: tuple[Fault, ...]

    def __init__(self, *parts: Fault) -> None:
        object.__setattr__(self, "parts", parts)

    async def inject(self, ctx: FaultContext) -> None:
        async with anyio.create_task_group() as group:
            for part in self.parts:
                group.start_soon(part.inject, ctx)


@dataclass(frozen=True, kw_only=True)
class Transient(Fault):
    """A trigger that ends itself: injected, left for `for_` seconds, undone. What remains is not its doing any more."""

    fault: Fault
    for_: float

    async def inject(self, ctx: FaultContext) -> None:
        own = ctx.section("transient")
        await self.fault.inject(own)
        await ctx.elapse(self.for_, why=f"{type(self.fault).__name__} lasts {self.for_:g} s")
        await self.fault.recover(own)


@dataclass(frozen=True, kw_only=True)
class Await(Fault):
    """A condition between two steps. Not coming true in time voids the injection."""

    check: Check
    within: float

    async def inject(self, ctx: FaultContext) -> None:
        try:
            await ctx.until(self.check, within=self.within)
        except WaitTimeout as error:
            raise InjectionError(str(error)) from error


class Noise(ABC):
    """A passing disturbance near the fault that recovers by itself; it is never the root cause.

    `duration_s` says how long it lasts; `ended` is confirmed before a mitigation is checked.
    """

    duration_s: float

    @abstractmethod
    async def inject(self, ctx: FaultContext) -> None: ...

    @abstractmethod
    def ended(self) -> Check: ...
