"""Rules about pods that do not run as they should: none wanted, none placed, killed, never ready, no image."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from .findings import LIKELY, SURE, VAGUE, Finding, patch_container, patch_template, restart
from .kube import Obj, change, dig, name_of
from .world import KINDS, World, called, containers_of, is_ready, numbers_of, statuses_of

KILLED = 137
PROBES = ("readinessProbe", "startupProbe", "livenessProbe")


def without_replicas(world: World) -> Iterator[Finding]:
    """A workload that is told to run nothing."""
    for workload in world.workloads:
        if workload["kind"] != "DaemonSet" and dig(workload, "spec", "replicas", default=1) == 0:
            yield Finding(
                SURE,
                f"{called(workload)} is scaled to 0 replicas.",
                "no pod of it runs, and what calls it fails.",
                partial(_scale, workload, 1),
            )


def unschedulable(world: World) -> Iterator[Finding]:
    """Pods that no node takes because of what their template asks for."""
    for workload in world.workloads:
        reasons = {
            str(condition.get("message", ""))
            for pod in world.pods_of(workload)
            for condition in dig(pod, "status", "conditions", default=[])
            if condition.get("reason") == "Unschedulable"
        }
        if not reasons:
            continue
        why = sorted(reasons)[0]
        selector = dig(workload, "spec", "template", "spec", "nodeSelector", default={})
        labels = [dig(node, "metadata", "labels", default={}) for node in world.nodes]
        nowhere = {k: v for k, v in selector.items() if not any(have.get(k) == v for have in labels)}
        if nowhere:
            yield Finding(
                SURE,
                f"{called(workload)} has the nodeSelector {nowhere}, a label that no node carries.",
                f"the scheduler can place none of its pods: they stay Pending ({why}), and requests fail.",
                patch_template(workload, {"nodeSelector": dict.fromkeys(nowhere)}),
            )
        else:
            yield Finding(
                LIKELY,
                f"{called(workload)} asks for what no node has: {why}",
                "its pods stay Pending and requests fail.",
                patch_template(workload, {"affinity": None}),
            )


def killed_for_memory(world: World) -> Iterator[Finding]:
    """Containers that use more memory than they may."""
    for workload in world.workloads:
        for container in containers_of(workload):
            limit = dig(container, "resources", "limits", "memory")
            if limit is None or not _was_killed(world.pods_of(workload), container["name"]):
                continue
            roomy = _memory_of_siblings(world, workload, container)
            yield Finding(
                SURE,
                f"{called(workload)} has a memory limit of {limit} (container {container['name']}), too low for what it"
                " needs.",
                "it is OOMKilled again and again (CrashLoopBackOff) and is not available; its callers fail.",
                patch_container(workload, container["name"], {"resources": roomy}),
            )


def never_ready(world: World) -> Iterator[Finding]:
    """Pods that run but fail their probe."""
    for workload in world.workloads:
        waiting = [pod for pod in world.pods_of(workload) if not is_ready(pod)]
        messages = [m for pod in waiting for m in world.events_of(pod) if re.search(r"(?i)probe (failed|errored)", m)]
        if not messages:
            continue
        for container in containers_of(workload):
            for probe in PROBES:
                if finding := _reason_of_probe(world, workload, container, probe, messages[-1]):
                    yield finding


def no_image(world: World) -> Iterator[Finding]:
    """Pods whose image cannot be had, or whose container cannot be made."""
    for workload in world.workloads:
        for pod in world.pods_of(workload):
            for name, status in statuses_of(pod):
                waiting = dig(status, "state", "waiting", default={})
                reason = str(waiting.get("reason", ""))
                if reason in ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError"):
                    yield Finding(
                        LIKELY,
                        f"{called(workload)} has a container, {name}, that cannot be made: {reason}:"
                        f" {waiting.get('message', '')}",
                        "it does not run, and requests that need it fail.",
                        partial(undo, workload),
                    )


def crashing(world: World) -> Iterator[Finding]:
    """Containers that end again and again, for a reason that only their log tells."""
    for pod in world.pods:
        workload = world.workload_of(pod)
        for name, status in statuses_of(pod):
            if workload is None or dig(status, "state", "waiting", "reason") != "CrashLoopBackOff":
                continue
            last = [line for line in world.logs_of(pod).splitlines() if line.strip()][-1:] or ["nothing"]
            yield Finding(
                VAGUE,
                f"{called(workload)} has a container, {name}, that ends again and again; its last words:"
                f" {last[0][:300]}",
                "it restarts in a loop, and requests that need it fail.",
                partial(restart, workload),
            )


def undo(workload: Obj) -> None:
    """Back to the revision before."""
    change("rollout", "undo", f"{KINDS[workload['kind']]}/{name_of(workload)}", "-n", workload["metadata"]["namespace"])


def _scale(workload: Obj, replicas: int) -> None:
    resource = f"{KINDS[workload['kind']]}/{name_of(workload)}"
    change("scale", resource, f"--replicas={replicas}", "-n", workload["metadata"]["namespace"])


def _was_killed(pods: list[Obj], container: str) -> bool:
    for pod in pods:
        for name, status in statuses_of(pod):
            ends = [dig(status, when, "terminated", default={}) for when in ("state", "lastState")]
            if name == container and any(e.get("reason") == "OOMKilled" or e.get("exitCode") == KILLED for e in ends):
                return True
    return False


def _memory_of_siblings(world: World, workload: Obj, container: Obj) -> Obj:
    """The memory settings of a container with the same image elsewhere; none where there is no such container."""
    for other in world.workloads:
        for sibling in containers_of(other):
            if other is not workload and sibling["image"] == container["image"]:
                memory = {kind: dig(sibling, "resources", kind, "memory") for kind in ("limits", "requests")}
                return {kind: {"memory": value} for kind, value in memory.items()}
    return {"limits": {"memory": None}}


def _reason_of_probe(world: World, workload: Obj, container: Obj, probe: str, message: str) -> Finding | None:
    asked = container.get(probe)
    if not asked:
        return None
    ports = numbers_of(workload)
    how = next((key for key in ("httpGet", "tcpSocket", "grpc") if key in asked), None)
    port = dig(asked, how, "port") if how else None
    names = {p.get("name"): p["containerPort"] for p in container.get("ports", [])}
    wrong_port = how is not None and ports and names.get(port, port) not in ports
    what = f"port {port}, but the container listens on {sorted(ports)}" if wrong_port else str(asked)
    right = _probe_of_siblings(world, workload, container, probe)
    if right is None and ports:
        right = {"httpGet": None, "exec": None, "grpc": None, "tcpSocket": {"port": ports[0]}}
    return Finding(
        SURE if wrong_port else LIKELY,
        f"{called(workload)} has a wrong {probe} (container {container['name']}): it asks {what}.",
        f"the probe fails ({message[:200]}), its pods are never ready, its Service has no endpoints and requests fail.",
        patch_container(workload, container["name"], {probe: right}),
    )


def _probe_of_siblings(world: World, workload: Obj, container: Obj, probe: str) -> Obj | None:
    """What a container with the same image and the same ports uses elsewhere."""
    for other in world.workloads:
        for sibling in containers_of(other):
            same = sibling["image"] == container["image"] and sibling.get("ports") == container.get("ports")
            if other is not workload and same and sibling.get(probe):
                found: Obj = sibling[probe]
                return found
    return None


RULES = (without_replicas, unschedulable, killed_for_memory, never_ready, no_image, crashing)
