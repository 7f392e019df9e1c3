"""Brings one object back to what it was: looks at the present and writes only the difference.

What counts as a difference stands in `normalise`; here is what cannot be written back as it was (addresses, bindings,
generated selectors, owners that are gone) and what must be kept of the present.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from typing import Any

from sregym.cluster import waits
from sregym.cluster.contract import Cluster
from sregym.cluster.normalise import CONTROLLERS_ANNOTATIONS, comparable, meant
from sregym.cluster.objects import JOB, NAMESPACE, NODE, PVC, SERVICE, SERVICEACCOUNT, Obj, Ref, dig, uid_of
from sregym.errors import Conflict, Forbidden, Invalid, NotFound, RecoveryError, Unavailable, WaitTimeout

ATTEMPTS = 6
"""Tries against conflicts and short outages, about six seconds in all."""
GONE_WITHIN_S = 60.0
_SERVICE_ADDRESSES = ("clusterIP", "clusterIPs")
_GENERATED_JOB_LABELS = (
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
)


async def restore(cluster: Cluster, ref: Ref, before: Obj) -> bool:
    """Makes the object what it was. Returns whether anything had to be written.

    An object whose namespace is gone counts as restored: it went with the world that it belonged to.

    Raises:
        RecoveryError: The API server refuses to take it back.
    """
    return await _insist(lambda: _restore_once(cluster, ref, before), f"{ref} cannot be restored")


async def remove(cluster: Cluster, ref: Ref, uid: str | None) -> bool:
    """Removes an object that was not there before. With `uid` only that one: its name may be somebody else's now.

    Raises RecoveryError where it stays.
    """
    return await _insist(lambda: _remove_once(cluster, ref, uid), f"{ref} cannot be removed")


async def _insist(once: Callable[[], Awaitable[bool]], failure: str) -> bool:
    last: Exception | None = None
    for attempt in range(ATTEMPTS):
        try:
            return await once()
        except (Conflict, Unavailable) as error:
            last = error
            await waits.pause(min(0.1 * 2**attempt, 2.0))
        except (Invalid, Forbidden, NotFound) as error:
            raise RecoveryError(f"{failure}: {error}") from error
    raise RecoveryError(f"{failure}: {last}") from last


async def _restore_once(cluster: Cluster, ref: Ref, before: Obj) -> bool:
    present = await cluster.find(ref)
    if present is not None and dig(present, "metadata", "deletionTimestamp"):
        await until_gone(cluster, ref, uid_of(present))
        present = None
    if present is None:
        if ref.namespace and await cluster.find(Ref(NAMESPACE, ref.namespace)) is None:
            return False
        await _create(cluster, ref, before)
        return True
    if comparable(ref.kind, present) == comparable(ref.kind, before):
        return False
    try:
        await cluster.replace(for_replacement(ref, before, present))
    except Invalid:
        # Some field cannot be changed in place (a selector, immutable data, a role reference).
        if ref.kind in (NODE, NAMESPACE):
            raise
        await cluster.delete(ref, uid=uid_of(present))
        await until_gone(cluster, ref, uid_of(present))
        await _create(cluster, ref, before)
    return True


async def _create(cluster: Cluster, ref: Ref, before: Obj) -> None:
    obj = for_creation(ref, before)
    if owners := await _living_owners(cluster, ref, before):
        obj["metadata"]["ownerReferences"] = owners
    try:
        await cluster.create(obj)
    except Invalid:
        if ref.kind != SERVICE or dig(obj, "spec", "clusterIP", default="None") == "None":
            raise
        # The old address has been given to another Service: any address will do.
        for name in _SERVICE_ADDRESSES:
            obj["spec"].pop(name, None)
        await cluster.create(obj)


async def _living_owners(cluster: Cluster, ref: Ref, before: Obj) -> list[Obj]:
    """The garbage collector removes at once what names an owner that is gone."""
    living = []
    for owner in before["metadata"].get("ownerReferences") or ():
        kind = await cluster.kind_of(owner)
        place = ref.namespace if kind.namespaced else None
        found = await cluster.find(Ref(kind, owner["name"], place))
        if found is not None and uid_of(found) == owner["uid"]:
            living.append(owner)
    return living


async def _remove_once(cluster: Cluster, ref: Ref, uid: str | None) -> bool:
    present = await cluster.find(ref)
    if present is None or (uid and uid_of(present) != uid):
        return False
    await cluster.delete(ref, uid=uid_of(present))
    await until_gone(cluster, ref, uid_of(present))
    return True


async def until_gone(cluster: Cluster, ref: Ref, uid: str) -> None:
    """Waits until the very object is gone. Raises RecoveryError where a finalizer keeps it."""

    async def gone() -> bool | None:
        present = await cluster.find(ref)
        return True if present is None or uid_of(present) != uid else None

    try:
        await waits.poll(gone, what=f"{ref} is gone", every=0.2, within=GONE_WITHIN_S)
    except WaitTimeout as error:
        raise RecoveryError(f"{ref} is being deleted and does not go: a finalizer holds it") from error


def for_creation(ref: Ref, before: Obj) -> Obj:
    """The object as it can be created anew: without what the server allocates or binds.

    A Service asks for its old address, so that clients which hold it find it again.
    """
    obj = meant(before)
    obj["metadata"].pop("ownerReferences", None)
    spec = obj.get("spec")
    if isinstance(spec, dict):
        if ref.kind == SERVICE:
            spec.pop("healthCheckNodePort", None)
        if ref.kind == PVC:
            spec.pop("volumeName", None)
        if ref.kind == JOB:
            _without_generated_selector(spec)
    if ref.kind == SERVICEACCOUNT:
        obj.pop("secrets", None)
    return obj


def _without_generated_selector(spec: dict[str, Any]) -> None:
    """A Job's selector, and the labels that it looks for, are made by the server from the Job's uid."""
    if spec.get("manualSelector"):
        return
    spec.pop("selector", None)
    labels = dig(spec, "template", "metadata", "labels", default={})
    for name in _GENERATED_JOB_LABELS:
        labels.pop(name, None)


def for_replacement(ref: Ref, before: Obj, present: Obj) -> Obj:
    """The pre-image with everything of the present that a replacement must repeat."""
    obj = meant(before)
    now, meta = present["metadata"], obj["metadata"]
    meta["resourceVersion"], meta["uid"] = now["resourceVersion"], now["uid"]
    kept = {k: v for k, v in (now.get("annotations") or {}).items() if k in CONTROLLERS_ANNOTATIONS}
    if kept:
        meta["annotations"] = {**meta.get("annotations", {}), **kept}
    meta.pop("ownerReferences", None)
    if "ownerReferences" in now:
        meta["ownerReferences"] = copy.deepcopy(now["ownerReferences"])
    if "status" in present:
        obj["status"] = copy.deepcopy(present["status"])
    spec, spec_now = obj.get("spec"), present.get("spec")
    if isinstance(spec, dict) and isinstance(spec_now, dict):
        _keep_allocated(ref, spec, spec_now)
    if ref.kind == SERVICEACCOUNT and "secrets" in present:
        obj["secrets"] = copy.deepcopy(present["secrets"])
    return obj


def _keep_allocated(ref: Ref, spec: dict[str, Any], now: dict[str, Any]) -> None:
    if ref.kind == SERVICE and spec.get("clusterIP") != "None" and now.get("clusterIP") != "None":
        for name in _SERVICE_ADDRESSES:
            spec.pop(name, None)
            if name in now:
                spec[name] = copy.deepcopy(now[name])
    if ref.kind == PVC and "volumeName" in now:
        spec["volumeName"] = now["volumeName"]
    if ref.kind == NODE:
        lifecycle = [taint for taint in now.get("taints") or () if taint["key"].startswith("node.kubernetes.io/")]
        own = [taint for taint in spec.get("taints") or () if not taint["key"].startswith("node.kubernetes.io/")]
        for name in ("podCIDR", "podCIDRs", "providerID"):
            if name in now:
                spec[name] = now[name]
        spec["taints"] = own + [t for t in lifecycle if t["key"] != "node.kubernetes.io/unschedulable"]
