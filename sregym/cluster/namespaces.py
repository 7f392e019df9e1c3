"""Removes namespaces for good, also where somebody put finalizers into them to keep them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import anyio

from sregym.cluster import waits
from sregym.cluster.contract import Cluster, Selection
from sregym.cluster.objects import (
    DAEMONSET,
    DEPLOYMENT,
    NAMESPACE,
    POD,
    PVC,
    REPLICASET,
    STATEFULSET,
    Kind,
    Ref,
    dig,
    ref_of,
)
from sregym.cluster.tasks import first_error
from sregym.errors import ClusterError, NotFound, WaitTimeout

PATIENCE_S = 30.0
"""How long the namespace controller is left alone before finalizers of what is left are taken away (seconds)."""
WITHIN_S = 90.0
CLAIMS_WITHIN_S = 5.0
AT_ONCE = 8
EMPTIED = (DEPLOYMENT, STATEFULSET, DAEMONSET, REPLICASET, POD, PVC)
"""In this order: what makes others first, so that nothing is made again."""


async def remove_namespaces(cluster: Cluster, names: Sequence[str]) -> None:
    """Deletes namespaces and returns when they are gone. One that does not exist counts as gone.

    Pods are deleted without grace: nothing in them is worth a farewell. Raises WaitTimeout with what is left.
    """
    with first_error():
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(_remove, cluster, name)


async def _remove(cluster: Cluster, name: str) -> None:
    if await cluster.find(Ref(NAMESPACE, name)) is None:
        return
    # The controller leaves a deleted namespace alone for five seconds (kubernetes pkg/controller/namespace,
    # `namespaceDeletionGracePeriod`), and from now on nothing new is made in it.
    await cluster.delete(Ref(NAMESPACE, name))
    with suppress(ClusterError):  # it only saves time
        await _empty(cluster, name)
    try:
        await _until_gone(cluster, name, PATIENCE_S)
    except WaitTimeout:
        await _drop_finalizers(cluster, name)
        await _until_gone(cluster, name, WITHIN_S)


async def _empty(cluster: Cluster, name: str) -> None:
    """Ends workloads, pods and claims before the namespace controller comes to them.

    It goes to sleep where it finds pods with a grace period (for half of it) or finalizers such as those of claims in
    use (8 s): kubernetes pkg/controller/namespace/deletion, `ResourcesRemainingError`.
    """
    for kind in EMPTIED:
        await _delete_all(cluster, kind, name)

    async def no_claims() -> bool | None:
        return None if await cluster.list(Selection(kind=PVC, namespace=name)) else True

    # A claim that somebody holds with a finalizer of his own is the namespace's deletion's business.
    with suppress(WaitTimeout):
        await waits.poll(no_claims, what=f"claims in {name} are gone", every=0.2, within=CLAIMS_WITHIN_S)


async def _delete_all(cluster: Cluster, kind: Kind, name: str) -> None:
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def one(ref: Ref) -> None:
        async with limit:
            await cluster.delete(ref, grace_s=0)

    objects = await cluster.list(Selection(kind=kind, namespace=name))
    with first_error():
        async with anyio.create_task_group() as group:
            for obj in objects:
                group.start_soon(one, ref_of(obj, kind))


async def _until_gone(cluster: Cluster, name: str, within: float) -> None:
    async def gone() -> bool | None:
        return True if await cluster.find(Ref(NAMESPACE, name)) is None else None

    await waits.poll(gone, what=f"namespace {name} is gone", every=0.3, within=within)


async def _drop_finalizers(cluster: Cluster, name: str) -> None:
    """Of everything that is left inside, and of the namespace itself (those of its metadata; its spec's are the
    controller's own)."""
    with suppress(NotFound):
        await cluster.patch(Ref(NAMESPACE, name), {"metadata": {"finalizers": None}})
    for kind in await cluster.kinds():
        if not kind.namespaced:
            continue
        try:
            left = await cluster.list(Selection(kind=kind, namespace=name))
        except ClusterError:
            continue  # a kind that cannot be listed (a broken aggregated API) holds nothing that we could release
        for obj in left:
            if dig(obj, "metadata", "finalizers"):
                try:
                    await cluster.patch(ref_of(obj, kind), {"metadata": {"finalizers": None}})
                except NotFound:
                    continue
