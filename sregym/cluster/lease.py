"""One coordinator at a time on a cluster, without a trace in the cluster.

A file lock on the coordinator's machine, keyed by the cluster's identity. The kernel gives it up when its process
ends, however it ends, so a killed run never leaves it behind. It does not keep two machines apart that use the same
cluster; on such clusters others' work is kept apart by namespaces anyway.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import filelock

from sregym.cluster import waits
from sregym.errors import PrerequisiteError, WaitTimeout

LOOK_EVERY_S = 0.5


@asynccontextmanager
async def lease(
    state_dir: Path, identity: str, *, cluster: str, holder: str = "another run", within: float = 0.0
) -> AsyncIterator[None]:
    """Holds the cluster while the context is open.

    Args:
        cluster: What people call the cluster, for the message.
        holder: Who we are, for whoever comes second (a run's name).
        within: Seconds to wait for the other one to end.

    Raises:
        PrerequisiteError: Another process holds it; says who.
    """
    folder = state_dir / "leases"
    folder.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(folder / f"{identity}.lock", is_singleton=False)
    note = anyio.Path(folder / f"{identity}.json")

    async def taken() -> bool | None:
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout:
            return None
        return True

    try:
        await waits.poll(taken, what="the cluster is free", every=LOOK_EVERY_S, within=within)
    except WaitTimeout as error:
        raise PrerequisiteError(
            f"the cluster {cluster} is in use by {await _holder(note)}",
            cure="wait for it to end, or use another cluster",
        ) from error
    try:
        await note.write_text(json.dumps({"holder": holder, "pid": os.getpid()}), encoding="utf-8")
        yield
    finally:
        lock.release()


async def _holder(note: anyio.Path) -> str:
    try:
        told = json.loads(await note.read_text(encoding="utf-8"))
        return f"{told['holder']} (process {told['pid']})"
    except (OSError, ValueError, KeyError):
        return "another process"
