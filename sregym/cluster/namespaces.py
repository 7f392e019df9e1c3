"""Removes namespaces for good, also where somebody put finalizers into them to keep them."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from sregym.cluster import waits
from sregym.cluster.contract import Cluster, Selection
from sregym.cluster.objects import NAMESPACE, POD, Ref, dig, ref_of
from sregym.errors import ClusterError, NotFound, WaitTimeout

PATIENCE_S = 30.0
"""How long the namespace controller is left alone before finalizers of what is left are taken away (seconds)."""
WITHIN_S = 90.0


async def remove_namespaces(cluster: Cluster, names: Sequence[str]) -> None:
    """Deletes namespaces and returns when they are gone. One that does not exist counts as gone.

    Pods are deleted without grace: nothing in them is worth a farewell. Raises WaitTimeout with what is left.
    """
    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(_remove, cluster, name)


async def _remove(cluster: Cluster, name: str) -> None:
    if not await cluster.delete(Ref(NAMESPACE, name)):
        return
    await _end_pods(cluster, name)
    try:
        await _until_gone(cluster, name, PATIENCE_S)
    except WaitTimeout:
        await _drop_finalizers(cluster, name)
        await _until_gone(cluster, name, WITHIN_S)


async def _end_pods(cluster: Cluster, name: str) -> None:
    pods = await cluster.list(Selection(kind=POD, namespace=name))
    async with anyio.create_task_group() as group:
        for pod in pods:
            group.start_soon(_delete_now, cluster, ref_of(pod, POD))


async def _delete_now(cluster: Cluster, ref: Ref) -> None:
    await cluster.delete(ref, grace_s=0)


async def _until_gone(cluster: Cluster, name: str, within: float) -> None:
    async def gone() -> bool | None:
        return True if await cluster.find(Ref(NAMESPACE, name)) is None else None

    await waits.poll(gone, what=f"namespace {name} is gone", every=0.3, within=within)


async def _drop_finalizers(cluster: Cluster, name: str) -> None:
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
