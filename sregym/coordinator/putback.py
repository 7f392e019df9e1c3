"""Puts the world back: after an attempt, and after a process that was killed in the middle of one.

Undo what was journalled, remove the application, then compare with the cluster's base snapshot, because the agent
changed things too, and write back what differs. Every step is safe to repeat and to kill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sregym.cluster import equalising, recovery, snapshot
from sregym.cluster.contract import Cluster, Selection
from sregym.cluster.journal import Journal
from sregym.cluster.namespaces import remove_namespaces
from sregym.cluster.objects import MUTATING_WEBHOOK, VALIDATING_POLICY_BINDING, VALIDATING_WEBHOOK, ref_of
from sregym.cluster.snapshot import Difference, Scope, Snapshot
from sregym.errors import ClusterError, CommandError, DirtyClusterError, RecoveryError, WaitTimeout
from sregym.events import Emit, silent


@dataclass(frozen=True, kw_only=True)
class PutBack:
    """What it took. `differences` are those that undo alone had left, before they were written back."""

    differences: Sequence[Difference]

    @property
    def count(self) -> int:
        return len(self.differences)


async def put_back(
    cluster: Cluster, journal: Journal, base: Snapshot, namespaces: Sequence[str], *, emit: Emit = silent
) -> PutBack:
    """Brings the world back to `base` and closes the journal.

    Raises RecoveryError where something journalled could not be undone, DirtyClusterError where the world still
    differs from the base; the journal then stays open and `main.py recover` goes on from it.
    """
    try:
        await _unblock(cluster, base)
        await _undo(cluster, journal, namespaces, emit)
        await remove_namespaces(cluster, namespaces)
        emit("namespaces.gone", names=list(namespaces))
        found = await equalise(cluster, base, emit=emit)
    except (WaitTimeout, ClusterError, CommandError) as error:
        raise DirtyClusterError(f"the world could not be put back: {error}") from error
    journal.close()
    return PutBack(differences=found)


async def _undo(cluster: Cluster, journal: Journal, namespaces: Sequence[str], emit: Emit) -> None:
    try:
        await recovery.undo(journal, cluster, emit=emit)
    except RecoveryError as error:
        # What is bound to objects of the application counts as undone when they are gone with it.
        emit("undo.again", reason=str(error))
        await remove_namespaces(cluster, namespaces)
        await recovery.undo(journal, cluster, emit=emit)


async def _unblock(cluster: Cluster, base: Snapshot) -> None:
    """Removes what has a say in every change and is not in the base: it may refuse all that is to be undone."""
    if base.scope is not Scope.CLUSTER:
        return
    for kind in (VALIDATING_WEBHOOK, MUTATING_WEBHOOK, VALIDATING_POLICY_BINDING):
        for obj in await cluster.list(Selection(kind=kind)):
            if (ref := ref_of(obj, kind)) not in base.objects:
                await cluster.delete(ref)


async def equalise(cluster: Cluster, base: Snapshot, *, emit: Emit = silent) -> Sequence[Difference]:
    """Compares with the base and writes back what differs. Returns what differed; raises DirtyClusterError."""
    found = snapshot.differences(base, await snapshot.retake(cluster, base))
    if not found:
        emit("world.equal")
        return found
    emit("world.unequal", count=len(found), differences=[str(one) for one in found[:50]])
    await equalising.restore(cluster, base, found, emit=emit)
    left = snapshot.differences(base, await snapshot.retake(cluster, base))
    if left:
        listed = "\n".join(f"  {one}" for one in left[:20])
        raise DirtyClusterError(f"the world differs from the base snapshot in {len(left)} places:\n{listed}")
    emit("world.equal")
    return found
