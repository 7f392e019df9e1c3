"""One process at a time at something on this machine; a second one waits, and says for what."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import filelock

from sregym.cluster import waits
from sregym.progress import Progress, step

LOOK_EVERY_S = 0.5


@asynccontextmanager
async def exclusive(lock: Path, progress: Progress, *, waiting_for: str) -> AsyncIterator[None]:
    """Holds a lock file while the context is open. The kernel gives it up when the process ends, however it ends."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    held = filelock.FileLock(lock, is_singleton=False)

    async def taken() -> bool | None:
        try:
            held.acquire(blocking=False)
        except filelock.Timeout:
            return None
        return True

    if not await taken():
        with step(progress, f"wait for {waiting_for}"):
            await waits.poll(taken, what=waiting_for, every=LOOK_EVERY_S, within=math.inf)
    try:
        yield
    finally:
        held.release()
