"""Writes the differences between two snapshots back, in an order that works, and waits until the system runs again.

What blocks others goes first (webhooks, policies), what others need comes first (namespaces, definitions, accounts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sregym.cluster import restoring, waits
from sregym.cluster.contract import Cluster, Selection
from sregym.cluster.namespaces import remove_namespaces
from sregym.cluster.objects import (
    CONFIGMAP,
    CRD,
    DAEMONSET,
    DEPLOYMENT,
    NAMESPACE,
    NODE,
    POD,
    SECRET,
    SERVICEACCOUNT,
    STATEFULSET,
    Obj,
    Ref,
    dig,
    ref_of,
)
from sregym.cluster.snapshot import SYSTEM_NAMESPACES, Change, Difference, Snapshot
from sregym.errors import ClusterError, NotFound, RecoveryError, WaitTimeout
from sregym.events import Emit, silent

SYSTEM_READY_WITHIN_S = 180.0
"""How long kube-system may take to be well again: an image is there, but a crashed pod's back-off may have grown."""
ROUNDS = 4
"""Some things go only after others: the API server enforces a removed policy for some seconds more."""
_FIRST = (NAMESPACE, CRD, SERVICEACCOUNT, CONFIGMAP, SECRET)
_LAST_GROUPS = ("admissionregistration.k8s.io",)
_EXTRA_RANK = {NAMESPACE: 2, CRD: 3}
"""A definition goes after everything made by it, wherever that is: it does not go while an object holds it."""
_WORKLOADS = (DEPLOYMENT, STATEFULSET, DAEMONSET)


async def restore(cluster: Cluster, base: Snapshot, found: Sequence[Difference], *, emit: Emit = silent) -> None:
    """Writes back what differs. The caller takes the snapshot again to see whether that was all.

    Fingerprint differences cannot be written back from here: their application is deployed anew.

    Raises:
        RecoveryError: Names what the API server would not take back; the rest has been done.
    """
    wanted = {one.ref: one for one in _in_order(found) if one.ref is not None}
    left = await _write_back(cluster, base, wanted, emit)
    for again in range(ROUNDS - 1):
        if not left:
            break
        await waits.pause(2.0**again)
        left = await _write_back(cluster, base, {ref: wanted[ref] for ref in left}, emit)
    touched = [ref for ref in wanted if ref not in left]
    await _recycle_readers(cluster, touched)
    if any(ref.namespace in SYSTEM_NAMESPACES or not ref.kind.namespaced for ref in touched):
        await until_system_ready(cluster)
    if left:
        raise RecoveryError("not restored:\n" + "\n".join(f"  {line}" for line in left.values()))


async def _write_back(cluster: Cluster, base: Snapshot, wanted: Mapping[Ref, Difference], emit: Emit) -> dict[Ref, str]:
    """Writes each back once. Returns what failed, and why."""
    left: dict[Ref, str] = {}
    for ref, difference in wanted.items():
        try:
            await _one(cluster, base, ref, difference.change)
        except (RecoveryError, WaitTimeout, ClusterError) as error:
            left[ref] = f"{difference}: {error}"
        else:
            emit("world.restored", what=str(difference))
    return left


async def _one(cluster: Cluster, base: Snapshot, ref: Ref, change: Change) -> None:
    if change is not Change.EXTRA:
        await restoring.restore(cluster, ref, base.objects[ref])
        if ref.kind == NAMESPACE and change is Change.MISSING:
            await _refill(cluster, base, ref.name)
    elif ref.kind == NAMESPACE:
        await remove_namespaces(cluster, [ref.name])
    else:
        await _release(cluster, ref)
        await restoring.remove(cluster, ref, None)


async def _release(cluster: Cluster, ref: Ref) -> None:
    """Takes finalizers off an object that should not be there: whoever would honour them may be gone."""
    present = await cluster.find(ref)
    if ref.kind != CRD and dig(present, "metadata", "finalizers"):
        try:
            await cluster.patch(ref, {"metadata": {"finalizers": None}})
        except NotFound:
            return


async def _refill(cluster: Cluster, base: Snapshot, namespace: str) -> None:
    """A namespace that was deleted has lost everything that was in it."""
    inside = [ref for ref in base.objects if ref.namespace == namespace]
    for ref in sorted(inside, key=lambda ref: (_rank(ref), ref)):
        await restoring.restore(cluster, ref, base.objects[ref])


def _in_order(found: Sequence[Difference]) -> list[Difference]:
    def key(difference: Difference) -> tuple[int, int, str]:
        ref = difference.ref
        if ref is None:
            return (9, 0, difference.what)
        extra = difference.change is Change.EXTRA
        blocking = ref.kind.api_version.split("/")[0] in _LAST_GROUPS
        if extra:
            return (0 if blocking else _EXTRA_RANK.get(ref.kind, 1), 0, difference.what)
        return (5 if blocking else 4, _rank(ref), difference.what)

    return sorted(found, key=key)


def _rank(ref: Ref) -> int:
    if ref.kind in _FIRST:
        return _FIRST.index(ref.kind)
    return len(_FIRST) + (1 if ref.kind in (*_WORKLOADS, POD, NODE) else 0)


async def _recycle_readers(cluster: Cluster, touched: Sequence[Ref]) -> None:
    """Pods read configuration when they start, and a crashed one waits longer and longer: give them a fresh start."""
    sources = {ref for ref in touched if ref.kind in (CONFIGMAP, SECRET)}
    for namespace in {ref.namespace for ref in sources}:
        for pod in await cluster.list(Selection(kind=POD, namespace=namespace)):
            owners = pod["metadata"].get("ownerReferences") or ()
            made_again = any(owner.get("controller") and owner["kind"] != "Node" for owner in owners)
            if made_again and any(_reads(pod, ref) for ref in sources if ref.namespace == namespace):
                await cluster.delete(ref_of(pod, POD))


def _reads(pod: Obj, source: Ref) -> bool:
    """Whether a pod mounts a ConfigMap or Secret or takes environment from it."""
    field, name_key = ("configMap", "name") if source.kind == CONFIGMAP else ("secret", "secretName")
    volumes: Sequence[Any] = dig(pod, "spec", "volumes", default=[])
    if any(dig(volume, field, name_key) == source.name for volume in volumes):
        return True
    env_key = "configMap" if source.kind == CONFIGMAP else "secret"
    for container in dig(pod, "spec", "containers", default=[]):
        if any(dig(entry, f"{env_key}Ref", "name") == source.name for entry in container.get("envFrom") or ()):
            return True
        if any(
            dig(entry, "valueFrom", f"{env_key}KeyRef", "name") == source.name for entry in container.get("env") or ()
        ):
            return True
    return False


async def until_system_ready(cluster: Cluster) -> None:
    """Waits until the nodes and every workload of the system namespaces are well. Raises WaitTimeout naming them."""
    unwell: list[str] = ["not looked at"]

    async def ready() -> bool | None:
        unwell[:] = await system_unwell(cluster)
        return None if unwell else True

    try:
        await waits.poll(ready, what="the system is ready", every=0.5, within=SYSTEM_READY_WITHIN_S)
    except WaitTimeout as error:
        raise WaitTimeout(error.what, within=error.within, reason="; ".join(unwell)) from error


async def system_unwell(cluster: Cluster) -> list[str]:
    """Nodes that are not ready and workloads of the system namespaces that are not complete, in words."""
    unwell = [
        f"node {node['metadata']['name']} is not ready"
        for node in await cluster.list(Selection(kind=NODE))
        if not any(
            c["type"] == "Ready" and c["status"] == "True" for c in dig(node, "status", "conditions", default=[])
        )
    ]
    for namespace in SYSTEM_NAMESPACES:
        for kind in _WORKLOADS:
            for workload in await cluster.list(Selection(kind=kind, namespace=namespace)):
                if text := _incomplete(workload, kind is DAEMONSET):
                    unwell.append(f"{ref_of(workload, kind)}: {text}")
    return unwell


def _incomplete(workload: Obj, daemon_set: bool) -> str:
    status = workload.get("status", {})
    if status.get("observedGeneration") != workload["metadata"].get("generation"):
        return "its controller has not seen it yet"
    names = ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable")
    if not daemon_set:
        names = ("", "updatedReplicas", "availableReplicas")
    wanted = status.get(names[0], 0) if daemon_set else dig(workload, "spec", "replicas", default=1)
    updated, available = status.get(names[1], 0), status.get(names[2], 0)
    return "" if updated >= wanted and available >= wanted else f"{available} of {wanted} available, {updated} updated"
