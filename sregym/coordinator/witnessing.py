"""What records an incident beside the agent: emptied before, looked at after the fault, whole until the end.

A cluster that others use has none of ours (None): nothing but the application is put up there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import anyio.lowlevel

from sregym.errors import ClusterError, InjectionError
from sregym.events import Emit


class Witness(Protocol):
    """The cluster's metrics, logs and traces."""

    def emptied(self, *, emit: Emit) -> AbstractAsyncContextManager[Callable[[], Awaitable[None]]]:
        """Begins to forget all; gives what waits until it has forgotten and sees again, and raises ClusterError."""

    async def now(self) -> float:
        """Its own clock, in seconds. Raises ClusterError."""

    async def scraped_since(self, moment: float) -> float:
        """Waits until it has looked everywhere after that moment. Raises ClusterError where it does not."""

    async def stores(self) -> Mapping[str, str]:
        """What holds its memory: by name, something that is another once it has forgotten. Raises ClusterError."""


@asynccontextmanager
async def emptied(witness: Witness | None, emit: Emit) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Begins to empty the witness; gives what waits for the end."""
    if witness is None:
        yield anyio.lowlevel.checkpoint
    else:
        async with witness.emptied(emit=emit) as done:
            yield done


async def clock_of(witness: Witness | None) -> float:
    """The witness's time. Raises InjectionError where it has none."""
    try:
        return await witness.now() if witness else 0.0
    except ClusterError as error:
        raise InjectionError(f"the telemetry of the incident is not there: {error}") from error


async def on_record(witness: Witness | None, moment: float) -> None:
    """Waits until an agent can see in what the cluster records what was so at that moment. Raises InjectionError."""
    try:
        if witness:
            await witness.scraped_since(moment)
    except ClusterError as error:
        raise InjectionError(f"the telemetry of the incident is not there: {error}") from error


async def memory_of(witness: Witness | None) -> Mapping[str, str]:
    """The witness's stores. Raises ClusterError."""
    return await witness.stores() if witness else {}


async def lost_since(witness: Witness | None, before: Mapping[str, str]) -> str:
    """What of its memory the witness has lost, or why that is not known; empty where it has lost nothing."""
    try:
        now = await memory_of(witness)
    except ClusterError as error:
        return f"it is not known whether telemetry was lost: {error}"
    lost = sorted(name for name, memory in before.items() if now.get(name) != memory)
    return f"telemetry was lost while the agent worked: {', '.join(lost)}" if lost else ""
