"""Whether an application's workloads and Services are as its topology wants them: pure functions of objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sregym.api import Check, Look, Obj, Observation, Selection, ServiceSpec, dig
from sregym.cluster.objects import DEPLOYMENT, ENDPOINTSLICE


@dataclass(frozen=True)
class WorkloadsUp(Check):
    """Every Deployment of the topology is rolled out, with the wanted number of pods ready and no old ones left."""

    services: tuple[ServiceSpec, ...]

    @property
    def title(self) -> str:
        return f"{len(self.services)} workloads are rolled out"

    def watches(self, namespace: str) -> Sequence[Selection]:
        return [Selection(kind=DEPLOYMENT, namespace=namespace)]

    async def look(self, at: Look) -> Observation:
        found = {o["metadata"]["name"]: o for o in await at.reader.list(self.watches(at.namespace)[0])}
        wrong = {spec.name: reason for spec in self.services if (reason := not_up(spec, found.get(spec.name)))}
        if wrong:
            return self.not_yet("; ".join(f"{name}: {reason}" for name, reason in wrong.items()), workloads=wrong)
        return self.holding()


def not_up(spec: ServiceSpec, found: Obj | None) -> str:
    """Why a Deployment is not up; empty where it is."""
    if found is None:
        return "does not exist"
    wanted = dig(found, "spec", "replicas", default=1)
    if wanted < min(spec.replicas, 1):
        return f"wants {wanted} pods"
    if dig(found, "status", "observedGeneration", default=0) < found["metadata"]["generation"]:
        return "the newest change is not seen yet"
    status = found.get("status", {})
    counts = {name: status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")}
    if any(count != wanted for count in counts.values()):
        return f"wants {wanted} pods, has {counts['replicas']}, {counts['availableReplicas']} ready"
    return ""


@dataclass(frozen=True)
class EndpointsReady(Check):
    """Every Service of the topology leads to at least one ready pod."""

    services: tuple[ServiceSpec, ...]

    @property
    def title(self) -> str:
        return "every Service has a ready endpoint"

    def watches(self, namespace: str) -> Sequence[Selection]:
        return [Selection(kind=ENDPOINTSLICE, namespace=namespace)]

    async def look(self, at: Look) -> Observation:
        slices = await at.reader.list(self.watches(at.namespace)[0])
        ready = {dig(one, "metadata", "labels", "kubernetes.io/service-name") for one in slices if any(_ready(one))}
        wanted = [name for spec in self.services for name in service_names(spec)]
        if missing := [name for name in wanted if name not in ready]:
            return self.not_yet(f"no ready endpoint: {', '.join(missing)}", services=missing)
        return self.holding()


def service_names(spec: ServiceSpec) -> list[str]:
    """The Services in front of a workload."""
    return ([spec.name] if spec.ports else []) + [other.name for other in spec.also]


def _ready(endpoint_slice: Obj) -> Iterator[Mapping[str, Any]]:
    for endpoint in endpoint_slice.get("endpoints") or []:
        if dig(endpoint, "conditions", "ready", default=True):
            yield endpoint


def is_ready(pod: Obj) -> bool:
    """Whether a pod is ready and not on its way out."""
    conditions = dig(pod, "status", "conditions", default=[])
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and not dig(pod, "metadata", "deletionTimestamp")
