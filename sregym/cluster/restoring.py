"""Brings one object back to what it was: looks at the present and writes only the difference.

Knows what the API server, controllers and nodes write into objects by themselves, so that a restored object equals
its pre-image in all that people mean, and what cannot be written back (addresses, bindings, generated names).
"""

from __future__ import annotations

import copy
from typing import Any

from sregym.cluster import waits
from sregym.cluster.contract import Cluster
from sregym.cluster.objects import JOB, NAMESPACE, PVC, SERVICE, SERVICEACCOUNT, Obj, Ref, dig, uid_of
from sregym.errors import Conflict, Forbidden, Invalid, NotFound, RecoveryError, Unavailable, WaitTimeout

ATTEMPTS = 6
"""Tries against conflicts and short outages, about ten seconds in all."""
GONE_WITHIN_S = 60.0
_SERVER_META = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "generateName",
)
_CONTROLLERS_ANNOTATIONS = (
    "deployment.kubernetes.io/revision",
    "deprecated.daemonset.template.generation",
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "volume.kubernetes.io/selected-node",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
)
_SERVICE_ALLOCATED = ("clusterIP", "clusterIPs", "healthCheckNodePort")


def meant(obj: Obj) -> Obj:
    """What people mean by an object: without status, the server's metadata, and controllers' annotations."""
    result = {key: copy.deepcopy(value) for key, value in obj.items() if key != "status"}
    meta = {key: value for key, value in result["metadata"].items() if key not in _SERVER_META}
    notes = {k: v for k, v in (meta.pop("annotations", None) or {}).items() if k not in _CONTROLLERS_ANNOTATIONS}
    meta |= {"annotations": notes} if notes else {}
    if not meta.get("labels"):
        meta.pop("labels", None)
    result["metadata"] = meta
    return result


async def restore(cluster: Cluster, ref: Ref, before: Obj) -> bool:
    """Makes the object what it was. Returns whether anything had to be written.

    An object whose namespace is gone counts as restored: it went with the world it belonged to.

    Raises:
        RecoveryError: The API server refuses to take it back.
    """
    last: Exception | None = None
    for attempt in range(ATTEMPTS):
        try:
            return await _restore_once(cluster, ref, before)
        except (Conflict, Unavailable) as error:
            last = error
            await waits.pause(min(0.2 * 2**attempt, 4.0))
        except (Invalid, Forbidden, NotFound) as error:
            raise RecoveryError(f"{ref} cannot be restored: {error}") from error
    raise RecoveryError(f"{ref} cannot be restored: {last}") from last


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
    if comparable(ref, present) == comparable(ref, before):
        return False
    try:
        await cluster.replace(for_replacement(ref, before, present))
    except Invalid:
        # Some field cannot be changed in place (a selector, immutable data, a role reference).
        await cluster.delete(ref, uid=uid_of(present))
        await until_gone(cluster, ref, uid_of(present))
        await _create(cluster, ref, before)
    return True


async def _create(cluster: Cluster, ref: Ref, before: Obj) -> None:
    obj = for_creation(ref, before)
    try:
        await cluster.create(obj)
    except Invalid:
        if ref.kind != SERVICE or dig(obj, "spec", "clusterIP", default="None") == "None":
            raise
        # The old address has been given to another Service: any address will do.
        for name in _SERVICE_ALLOCATED:
            obj["spec"].pop(name, None)
        await cluster.create(obj)


async def remove(cluster: Cluster, ref: Ref, uid: str | None) -> bool:
    """Removes an object that was not there before. With `uid` only that one: its name may be somebody else's now.

    Raises RecoveryError where it stays.
    """
    last: Exception | None = None
    for attempt in range(ATTEMPTS):
        try:
            present = await cluster.find(ref)
            if present is None or (uid and uid_of(present) != uid):
                return False
            await cluster.delete(ref, uid=uid_of(present))
            await until_gone(cluster, ref, uid_of(present))
            return True
        except (Conflict, Unavailable) as error:
            last = error
            await waits.pause(min(0.2 * 2**attempt, 4.0))
        except (Invalid, Forbidden) as error:
            raise RecoveryError(f"{ref} cannot be removed: {error}") from error
    raise RecoveryError(f"{ref} cannot be removed: {last}") from last


async def until_gone(cluster: Cluster, ref: Ref, uid: str) -> None:
    """Waits until the very object is gone. Raises RecoveryError where a finalizer keeps it."""

    async def gone() -> bool | None:
        present = await cluster.find(ref)
        return True if present is None or uid_of(present) != uid else None

    try:
        await waits.poll(gone, what=f"{ref} is gone", every=0.2, within=GONE_WITHIN_S)
    except WaitTimeout as error:
        raise RecoveryError(f"{ref} is being deleted and does not go: a finalizer holds it") from error


def comparable(ref: Ref, obj: Obj) -> Obj:
    """What must be equal for an object to count as restored."""
    result = meant(obj)
    spec = result.get("spec")
    if ref.kind == SERVICE and isinstance(spec, dict):
        for name in _SERVICE_ALLOCATED:
            if spec.get(name) not in ("None", ["None"]):
                spec.pop(name, None)
        for port in spec.get("ports", ()):
            port.pop("nodePort", None)
    if ref.kind == PVC and isinstance(spec, dict):
        spec.pop("volumeName", None)
    if ref.kind == SERVICEACCOUNT:
        result.pop("secrets", None)
    result["metadata"].pop("ownerReferences", None)
    result["metadata"].pop("finalizers", None)
    return result


def for_creation(ref: Ref, before: Obj) -> Obj:
    """The object as it can be created anew: without what the server allocates or binds."""
    obj = meant(before)
    obj["metadata"].pop("finalizers", None)
    spec = obj.get("spec")
    if ref.kind == SERVICE and isinstance(spec, dict):
        # The old address is asked for again, so that clients which hold it find the Service; "None" means headless.
        spec.pop("healthCheckNodePort", None)
    if ref.kind == PVC and isinstance(spec, dict):
        spec.pop("volumeName", None)
    if ref.kind == JOB and isinstance(spec, dict):
        _without_generated_selector(spec)
    if ref.kind == SERVICEACCOUNT:
        obj.pop("secrets", None)
    return obj


def _without_generated_selector(spec: dict[str, Any]) -> None:
    """A Job's selector and the labels that it looks for are made by the server from the Job's uid."""
    if spec.get("manualSelector"):
        return
    spec.pop("selector", None)
    labels = dig(spec, "template", "metadata", "labels", default={})
    for name in ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"):
        labels.pop(name, None)


def for_replacement(ref: Ref, before: Obj, present: Obj) -> Obj:
    """The pre-image with everything of the present that a replacement must repeat."""
    obj = meant(before)
    now = present["metadata"]
    meta = obj["metadata"]
    meta["resourceVersion"] = now["resourceVersion"]
    meta["uid"] = now["uid"]
    kept = {k: v for k, v in (now.get("annotations") or {}).items() if k in _CONTROLLERS_ANNOTATIONS}
    if kept:
        meta["annotations"] = {**meta.get("annotations", {}), **kept}
    for name in ("ownerReferences", "finalizers"):
        meta.pop(name, None)
        if name in now:
            meta[name] = copy.deepcopy(now[name])
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
        for name in ("clusterIP", "clusterIPs"):
            spec.pop(name, None)
            if name in now:
                spec[name] = copy.deepcopy(now[name])
    if ref.kind == PVC and "volumeName" in now:
        spec["volumeName"] = now["volumeName"]
