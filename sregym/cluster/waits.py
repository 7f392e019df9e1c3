"""Owns all time: the only module that may sleep.

`until` and `holds` wait for a `Check`: they look, then look again when something that the check watches changes, or
after `every` seconds where it must be probed, and give up at the deadline with the last reason seen. `elapse` is for
the rare case where time itself is meant.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from sregym.cluster.check import Check, Look, Observation, State
from sregym.errors import WaitTimeout
from sregym.events import Emit, silent

T = TypeVar("T")

PROBE_EVERY_S = 1.0
"""How often a check is looked at again that cannot be watched."""


async def until(
    check: Check, at: Look, *, within: float, every: float = PROBE_EVERY_S, emit: Emit = silent
) -> Observation:
    """Waits until the check holds. Raises WaitTimeout; early where the check CANNOT hold any more."""
    return await holds(check, at, for_=0.0, within=within, every=every, emit=emit)


async def holds(
    check: Check, at: Look, *, for_: float, within: float, every: float = PROBE_EVERY_S, emit: Emit = silent
) -> Observation:
    """Waits until the check has held for `for_` seconds without a break, `within` seconds in all. Raises WaitTimeout."""
    begun = anyio.current_time()
    since: float | None = None
    seen = Observation(check=check.title, state=State.UNKNOWN, reason="not looked at yet")
    while True:
        seen = await check.observe(at)
        now = anyio.current_time()
        since = (since if since is not None else now) if seen.holds else None
        if since is not None and now - since >= for_:
            emit("wait.ended", what=check.title, seconds=round(now - begun, 3))
            return seen
        if seen.state is State.CANNOT or now - begun >= within:
            emit("wait.failed", what=check.title, seconds=round(now - begun, 3), reason=seen.reason)
            raise WaitTimeout(check.title, within=within, reason=seen.reason or seen.state)
        await anyio.sleep(min(every, max(0.05, within - (now - begun))))


async def poll(probe: Callable[[], Awaitable[T | None]], *, what: str, every: float, within: float) -> T:
    """Calls `probe` until it returns something else than None. Raises WaitTimeout."""
    with anyio.move_on_after(within):
        while True:
            if (found := await probe()) is not None:
                return found
            await anyio.sleep(every)
    raise WaitTimeout(what, within=within, reason="nothing yet")


async def elapse(seconds: float, *, why: str, emit: Emit = silent) -> None:
    """Lets time pass because time itself is meant; `why` is recorded."""
    emit("wait.elapse", seconds=seconds, why=why)
    await anyio.sleep(seconds)
