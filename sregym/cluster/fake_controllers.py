"""The fake's built-in controllers: workloads make pods, pods become ready, Services find them, quota is not enforced.

They run to the end after each write, so that a fake world is always settled; a test that needs a roll-out in motion
turns `controllers` off or marks pods unready with `FakeCluster.set_status`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Protocol

from sregym.cluster.objects import (
    DAEMONSET,
    DEPLOYMENT,
    ENDPOINTSLICE,
    POD,
    REPLICASET,
    SERVICE,
    STATEFULSET,
    Kind,
    Obj,
    Ref,
    dig,
    matches,
    uid_of,
)

MOST_ROUNDS = 10


class Store(Protocol):
    """What controllers need of the fake."""

    objects: dict[Ref, Obj]
    _version: int

    def put(self, ref: Ref, obj: Obj) -> None: ...

    def drop(self, ref: Ref) -> None: ...


def settle(store: Store) -> None:
    """Reconciles until nothing changes."""
    for _ in range(MOST_ROUNDS):
        before = store._version
        for ref in list(store.objects):
            if ref not in store.objects:
                continue
            if ref.kind == DEPLOYMENT:
                _deployment(store, ref)
            elif ref.kind in (REPLICASET, STATEFULSET, DAEMONSET):
                _pods_of(store, ref)
            elif ref.kind == SERVICE:
                _endpoints(store, ref)
        if store._version == before:
            return


def _deployment(store: Store, ref: Ref) -> None:
    deployment = store.objects[ref]
    template = dig(deployment, "spec", "template", default={})
    name = f"{ref.name}-{_hash(template)}"
    wanted = dig(deployment, "spec", "replicas", default=1)
    for other in _owned(store, deployment, REPLICASET):
        if other.name != name and dig(store.objects[other], "spec", "replicas") != 0:
            _update(store, other, {"spec": {**store.objects[other]["spec"], "replicas": 0}})
            _pods_of(store, other)
    mine = Ref(REPLICASET, name, ref.namespace)
    if mine not in store.objects:
        spec = {"replicas": wanted, "selector": dig(deployment, "spec", "selector"), "template": template}
        store.put(mine, _child(deployment, dig(template, "metadata", "labels", default={}), spec=spec))
    elif dig(store.objects[mine], "spec", "replicas") != wanted:
        _update(store, mine, {"spec": {**store.objects[mine]["spec"], "replicas": wanted}})
    _pods_of(store, mine)
    pods = [store.objects[pod] for pod in _owned(store, store.objects[mine], POD)]
    ready = sum(_is_ready(pod) for pod in pods)
    conditions = [{"type": "Available", "status": "True" if ready >= wanted else "False"}]
    conditions.append({"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"})
    _status(store, ref, {**_counts(wanted, ready), "updatedReplicas": wanted, "conditions": conditions})


def _pods_of(store: Store, ref: Ref) -> None:
    owner = store.objects[ref]
    template = dig(owner, "spec", "template", default={})
    wanted = 1 if ref.kind == DAEMONSET else dig(owner, "spec", "replicas", default=1)
    revision = _hash(template)
    for pod in _owned(store, owner, POD):
        outdated = dig(store.objects[pod], "metadata", "annotations", "revision") != revision
        if outdated or _ordinal(pod) >= wanted:
            store.drop(pod)
    for number in range(wanted):
        pod = Ref(POD, f"{ref.name}-{number}", ref.namespace)
        if pod not in store.objects:
            store.put(pod, _new_pod(owner, template, revision))
    ready = sum(_is_ready(store.objects[pod]) for pod in _owned(store, owner, POD))
    extra = {"updatedReplicas": wanted, "currentReplicas": wanted} if ref.kind == STATEFULSET else {}
    extra |= {"desiredNumberScheduled": wanted, "numberReady": ready} if ref.kind == DAEMONSET else {}
    _status(store, ref, {**_counts(wanted, ready), **extra})


def _new_pod(owner: Obj, template: Obj, revision: str) -> Obj:
    containers = dig(template, "spec", "containers", default=[])
    statuses = [
        {"name": c["name"], "ready": True, "restartCount": 0, "state": {"running": {}}, "image": c.get("image", "")}
        for c in containers
    ]
    pod = _child(owner, dig(template, "metadata", "labels", default={}), spec=dig(template, "spec", default={}))
    pod["metadata"]["annotations"] = {"revision": revision}
    pod["status"] = {
        "phase": "Running",
        "podIP": f"10.244.0.{int(revision[:2], 16) % 250 + 1}",
        "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
        "containerStatuses": statuses,
    }
    return pod


def _endpoints(store: Store, ref: Ref) -> None:
    service = store.objects[ref]
    selector = dig(service, "spec", "selector", default={})
    pods = [(r, o) for r, o in sorted(store.objects.items()) if r.kind == POD and r.namespace == ref.namespace]
    endpoints = [
        {
            "addresses": [dig(pod, "status", "podIP", default="")],
            "conditions": {"ready": _is_ready(pod)},
            "targetRef": {"kind": "Pod", "name": pod_ref.name, "namespace": ref.namespace},
        }
        for pod_ref, pod in pods
        if matches(selector, pod)
    ]
    ports = [
        {"name": port.get("name", ""), "port": port.get("targetPort", port.get("port"))}
        for port in dig(service, "spec", "ports", default=[])
    ]
    slice_ = _child(service, {"kubernetes.io/service-name": ref.name})
    slice_ |= {"endpoints": endpoints, "ports": ports, "addressType": "IPv4"}
    mine = Ref(ENDPOINTSLICE, f"{ref.name}-slice", ref.namespace)
    if mine in store.objects:
        _update(store, mine, {"endpoints": endpoints, "ports": ports})
    else:
        store.put(mine, slice_)


def _child(owner: Obj, labels: Mapping[str, str], **body: Any) -> Obj:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": uid_of(owner),
        "controller": True,
    }
    return {"metadata": {"labels": dict(labels), "ownerReferences": [reference]}, **body}


def _owned(store: Store, owner: Obj, kind: Kind) -> list[Ref]:
    uid = uid_of(owner)
    return [
        ref
        for ref, obj in sorted(store.objects.items())
        if ref.kind == kind and any(o.get("uid") == uid for o in dig(obj, "metadata", "ownerReferences", default=[]))
    ]


def _ordinal(pod: Ref) -> int:
    tail = pod.name.rsplit("-", 1)[-1]
    return int(tail) if tail.isdigit() else 0


def _is_ready(pod: Obj) -> bool:
    conditions = dig(pod, "status", "conditions", default=[])
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _counts(wanted: int, ready: int) -> dict[str, int]:
    return {"replicas": wanted, "readyReplicas": ready, "availableReplicas": ready}


def _status(store: Store, ref: Ref, status: Mapping[str, Any]) -> None:
    obj = store.objects[ref]
    seen = {"observedGeneration": dig(obj, "metadata", "generation", default=1)}
    _update(store, ref, {"status": {**obj.get("status", {}), **seen, **status}})


def _update(store: Store, ref: Ref, parts: Mapping[str, Any]) -> None:
    store.put(ref, {**store.objects[ref], **parts})


def _hash(template: Obj) -> str:
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]
