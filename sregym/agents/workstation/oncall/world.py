"""One look at an application: everything that rules reason over, read once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .kube import Obj, dig, items, kubectl, name_of

KINDS = {"Deployment": "deployments", "StatefulSet": "statefulsets", "DaemonSet": "daemonsets"}
LOG_LINES = 60


@dataclass
class World:
    """Objects of one namespace, and the nodes."""

    namespace: str
    workloads: list[Obj]
    pods: list[Obj]
    services: list[Obj]
    configmaps: list[Obj]
    events: list[Obj]
    nodes: list[Obj]
    _logs: dict[str, str] = field(default_factory=dict)

    @classmethod
    def look(cls, namespace: str) -> World:
        workloads = []
        for kind, resource in KINDS.items():
            workloads += [{**found, "kind": kind} for found in items(resource, namespace)]
        nodes = kubectl("get", "nodes", "-o", "json")
        return cls(
            namespace=namespace,
            workloads=workloads,
            pods=[pod for pod in items("pods", namespace) if not pod["metadata"].get("deletionTimestamp")],
            services=items("services", namespace),
            configmaps=items("configmaps", namespace),
            events=items("events", namespace),
            nodes=json.loads(nodes.out)["items"] if nodes.ok else [],
        )

    def pods_of(self, workload: Obj) -> list[Obj]:
        return [pod for pod in self.pods if selects(selector_of(workload), pod)]

    def workload_of(self, pod: Obj) -> Obj | None:
        return next((one for one in self.workloads if selects(selector_of(one), pod)), None)

    def workload(self, name: str) -> Obj | None:
        return next((one for one in self.workloads if name_of(one) == name), None)

    def service(self, name: str) -> Obj | None:
        return next((one for one in self.services if name_of(one) == name), None)

    def events_of(self, obj: Obj) -> list[str]:
        """Messages of events about an object."""
        name = name_of(obj)
        return [str(e.get("message", "")) for e in self.events if dig(e, "involvedObject", "name") == name]

    def logs_of(self, pod: Obj) -> str:
        """The last lines of a pod, of its present and its previous run."""
        name = name_of(pod)
        if name not in self._logs:
            tail = f"--tail={LOG_LINES}"
            runs = [kubectl("logs", name, "-n", self.namespace, tail, *more).out for more in (("--previous",), ())]
            self._logs[name] = "\n".join(runs)
        return self._logs[name]


def selector_of(workload: Obj) -> dict[str, str]:
    return dict(dig(workload, "spec", "selector", "matchLabels", default={}))


def selects(selector: dict[str, str], obj: Obj) -> bool:
    labels = dig(obj, "metadata", "labels", default={})
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def containers_of(workload_or_pod: Obj) -> list[Obj]:
    spec = dig(workload_or_pod, "spec", "template", "spec") or workload_or_pod.get("spec", {})
    return list(spec.get("containers", []))


def ports_of(workload_or_pod: Obj) -> list[Obj]:
    return [port for container in containers_of(workload_or_pod) for port in container.get("ports", [])]


def numbers_of(workload_or_pod: Obj) -> list[int]:
    return [int(port["containerPort"]) for port in ports_of(workload_or_pod)]


def is_ready(pod: Obj) -> bool:
    conditions = dig(pod, "status", "conditions", default=[])
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def statuses_of(pod: Obj) -> Iterator[tuple[str, Obj]]:
    """Container names with their status."""
    for status in dig(pod, "status", "containerStatuses", default=[]):
        yield str(status["name"]), status


def called(workload: Obj) -> str:
    """What people call it."""
    return f"{workload['kind']} {name_of(workload)}"


def texts_of(obj: Any) -> Iterator[str]:
    """Every string in an object."""
    if isinstance(obj, str):
        yield obj
    elif isinstance(obj, dict):
        for value in obj.values():
            yield from texts_of(value)
    elif isinstance(obj, list):
        for value in obj:
            yield from texts_of(value)
