"""One process at a time at something on this machine; a second one waits, and says for what."""

from __future__ import annotations

import fcntl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread

from sregym.progress import Progress, step


@asynccontextmanager
async def exclusive(lock: Path, progress: Progress, *, waiting_for: str) -> AsyncIterator[None]:
    """Holds a lock file while the context is open. The kernel gives it up when the process ends, however it ends."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with step(progress, f"wait for {waiting_for}"):
                await anyio.to_thread.run_sync(fcntl.flock, file, fcntl.LOCK_EX, abandon_on_cancel=True)
        yield
