"""Owns all time: the only module that may sleep.

`until` and `holds` wait for a `Check`: they look, then look again when something that the check watches changes, or
after `every` seconds where it must be probed, and give up at the deadline with the last reason seen and the state of
the pods. `elapse` is for the rare case where time itself is meant.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import anyio

from sregym.cluster.check import Check, Look, Observation, State
from sregym.cluster.contract import Reader, Selection
from sregym.cluster.diagnostics import describe_pods
from sregym.cluster.tasks import first_error
from sregym.errors import ClusterError, WaitTimeout
from sregym.events import Emit, silent

T = TypeVar("T")

PROBE_EVERY_S = 1.0
"""How often a check is looked at again that cannot be watched."""
SETTLE_S = 0.05
"""Changes come in bursts (a roll-out is dozens of events): one look serves all that arrive within this time."""
LAST_LOOK_S = 10.0
"""How long the look that is under way at the deadline may still take."""
DIAGNOSTICS_WITHIN_S = 5.0
"""Diagnostics are a courtesy: they may not hold up a failure for longer."""


async def until(
    check: Check, at: Look, *, within: float, every: float = PROBE_EVERY_S, emit: Emit = silent
) -> Observation:
    """Waits until the check holds. Raises WaitTimeout; early where the check CANNOT hold any more."""
    return await holds(check, at, for_=0.0, within=within, every=every, emit=emit)


async def holds(
    check: Check, at: Look, *, for_: float, within: float, every: float = PROBE_EVERY_S, emit: Emit = silent
) -> Observation:
    """Waits until the check has held for `for_` seconds without a break, in `within` seconds. Raises WaitTimeout."""
    begun = anyio.current_time()
    wait = _Wait(check=check, at=at, for_=for_, deadline=begun + within, every=every)
    async with _wakened(at.reader, check.watches(at.namespace), emit) as wake:
        seen = await wait.run(wake)
    seconds = round(anyio.current_time() - begun, 3)
    if wait.succeeded:
        emit("wait.ended", what=check.title, seconds=seconds, held_s=for_, looks=wait.looks)
        return seen
    emit("wait.failed", what=check.title, seconds=seconds, reason=seen.reason, state=seen.state, looks=wait.looks)
    reason = seen.reason or ("it held, but not long enough" if seen.holds else seen.state.value)
    if seen.state is State.CANNOT:
        reason += f" (given up after {seconds:g} s: this cannot come true by itself)"
    raise WaitTimeout(check.title, within=within, reason=reason, diagnostics=await _diagnostics(at))


@dataclass(kw_only=True)
class _Wait:
    """One wait under way. Ends as succeeded, at its deadline, or where the check cannot hold any more."""

    check: Check
    at: Look
    for_: float
    deadline: float
    every: float
    succeeded: bool = False
    looks: int = 0
    _since: float | None = None

    async def run(self, wake: _Wake) -> Observation:
        while True:
            wake.rearm()
            seen = await self._look()
            now = anyio.current_time()
            self._since = (self._since if self._since is not None else now) if seen.holds else None
            self.succeeded = self._since is not None and now - self._since >= self.for_
            if self.succeeded or seen.state is State.CANNOT or now >= self.deadline:
                return seen
            await wake.wait(self._nap(now))

    async def _look(self) -> Observation:
        self.looks += 1
        with anyio.move_on_after(max(self.deadline - anyio.current_time(), 0.0) + LAST_LOOK_S):
            return await self.check.observe(self.at)
        return self.check.unknown("the look itself did not end in time")

    def _nap(self, now: float) -> float:
        nap = min(self.every, self.deadline - now)
        if self._since is not None:
            nap = min(nap, self._since + self.for_ - now)
        return max(nap, 0.0)


@dataclass
class _Wake:
    """Ends a nap early when something that is watched has changed."""

    _event: anyio.Event = field(default_factory=anyio.Event)

    def rearm(self) -> None:
        if self._event.is_set():
            self._event = anyio.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self, at_most: float) -> None:
        with anyio.move_on_after(at_most):
            await self._event.wait()
            await anyio.sleep(min(SETTLE_S, at_most))


@asynccontextmanager
async def _wakened(reader: Reader, selections: Sequence[Selection], emit: Emit) -> AsyncIterator[_Wake]:
    """A wake that is set by every change of the selections; watching that fails leaves the polling."""
    wake = _Wake()
    with first_error():
        async with anyio.create_task_group() as group:
            for selection in dict.fromkeys(selections):
                group.start_soon(_wake_on_change, reader, selection, wake, emit)
            yield wake
            group.cancel_scope.cancel()


async def _wake_on_change(reader: Reader, selection: Selection, wake: _Wake, emit: Emit) -> None:
    listed = False
    try:
        async with aclosing(reader.watch(selection)) as events:
            async for event in events:
                listed = listed or event is None
                if listed:
                    wake.set()
    except ClusterError as error:
        emit("wait.unwatched", kind=selection.kind.name, error=str(error))


async def _diagnostics(at: Look) -> str:
    """What the pods look like; never hides the failure that it is to explain."""
    try:
        with anyio.fail_after(DIAGNOSTICS_WITHIN_S):
            return await describe_pods(at.reader, at.namespace)
    except (ClusterError, TimeoutError, OSError) as error:
        return f"(no diagnostics: {type(error).__name__}: {error})"


async def poll(probe: Callable[[], Awaitable[T | None]], *, what: str, every: float, within: float) -> T:
    """Calls `probe` until it returns something else than None. Raises WaitTimeout.

    The probe is called at least once, and what it raises goes to the caller.
    """
    deadline = anyio.current_time() + within
    while True:
        if (found := await probe()) is not None:
            return found
        left = deadline - anyio.current_time()
        if left <= 0:
            raise WaitTimeout(what, within=within, reason="nothing yet")
        await anyio.sleep(min(every, left))


async def elapse(seconds: float, *, why: str, emit: Emit = silent) -> None:
    """Lets time pass because time itself is meant; `why` is recorded."""
    emit("wait.elapse", seconds=seconds, why=why)
    await anyio.sleep(seconds)


async def pause(seconds: float) -> None:
    """The pause before a failed call is made again: back-off inside this package only."""
    await anyio.sleep(seconds)
