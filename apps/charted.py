"""An application that the generic chart renders: topology.yaml + profile -> values -> manifests -> a namespace.

Rendering is Helm's (`helm template`), applying is ours: no release record and no annotation of Helm's is ever in the
cluster. Datastores, the registry and the like come up before the services that die without them, as a person would
install it; otherwise services that start too early sit in restart back-off.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import yaml

from apps.health import EndpointsReady, WorkloadsUp, is_ready
from apps.history import give_history
from apps.volumes import bind_claims
from sregym import process
from sregym.api import AllOf, App, Check, DefinitionError, Obj, Selection, ServiceSpec, Topology
from sregym.api.app import NOTHING_SHIPPED, Profile, Shipped
from sregym.cluster import waits
from sregym.cluster.contract import Cluster
from sregym.cluster.namespaces import remove_namespaces
from sregym.cluster.objects import POD, matches
from sregym.cluster.tasks import first_error
from sregym.errors import Conflict
from sregym.events import Emit, silent

CHART = Path(__file__).parent / "chart"
FIRST_WAVE = frozenset({"datastore", "cache", "registry", "tracing", "queue"})
"""Roles that others need at their start."""
FIRST_WAVE_WITHIN_S = 180.0
APPLIED_AT_ONCE = 8
METRICS = "metrics"
"""The one port that containers call by a name: Prometheus finds it so."""
ORDER = ("Namespace", "ServiceAccount", "ConfigMap", "Secret", "PersistentVolumeClaim", "Service", "Deployment")

_rendered: dict[str, str] = {}
"""Manifests by a hash of all that they are made from."""


@dataclass(frozen=True, kw_only=True)
class ChartedApp(App):
    """An app whose folder holds `topology.yaml`. Subclasses give the folder and the fingerprint."""

    profile: Profile = "lite"
    helm: Path = Path("helm")

    @property
    @abstractmethod
    def folder(self) -> Path: ...

    @property
    def topology(self) -> Topology:
        return load_topology(self.folder / "topology.yaml")

    def equipped(self, tools: Mapping[str, Path]) -> App:
        return replace(self, helm=tools["helm"]) if "helm" in tools else self

    async def manifests(self, shipped: Shipped = NOTHING_SHIPPED) -> Sequence[Obj]:
        values = merged(values_of(self.topology, self.profile), shipped.values)
        text = await render(values, name=self.name, namespace=self.namespace, helm=self.helm)
        rendered = [obj for obj in yaml.load_all(text, Loader=yaml.CSafeLoader) if obj]
        return in_order([*rendered, *shipped.objects])

    async def deploy(self, cluster: Cluster, shipped: Shipped = NOTHING_SHIPPED, *, emit: Emit = silent) -> None:
        objects = await self.manifests(shipped)
        early = {spec.name for spec in self.topology.services if spec.role in FIRST_WAVE}
        late = [obj for obj in objects if obj["kind"] == "Deployment" and obj["metadata"]["name"] not in early]
        await cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}])
        for batch in batches(obj for obj in objects if obj not in late):
            await self._apply(cluster, batch)
            if batch[0]["kind"] == "PersistentVolumeClaim":
                await bind_claims(cluster, self.namespace, [obj["metadata"]["name"] for obj in batch])
        await give_history(cluster, self.namespace, early)
        emit("app.datastores_applied", app=self.name, objects=len(objects))
        await self._until_up(cluster, early)
        await self._apply(cluster, late)
        await give_history(cluster, self.namespace, {obj["metadata"]["name"] for obj in late})
        emit("app.applied", app=self.name, profile=self.profile)

    async def remove(self, cluster: Cluster, *, emit: Emit = silent) -> None:
        await remove_namespaces(cluster, [self.namespace])
        emit("app.removed", app=self.name)

    def healthy(self) -> Check:
        return AllOf(WorkloadsUp(self.topology.services), EndpointsReady(self.topology.services))

    async def _apply(self, cluster: Cluster, objects: Sequence[Obj]) -> None:
        limit = anyio.CapacityLimiter(APPLIED_AT_ONCE)

        async def one(obj: Obj) -> None:
            # Created, not applied: who changes it later by the same name adds to the same entry of its history, so
            # that what was changed carries no other managers than its siblings.
            placed = {**obj, "metadata": {"namespace": self.namespace, **obj["metadata"]}}
            async with limit:
                try:
                    await cluster.create(placed)
                except Conflict:
                    await cluster.apply([obj], namespace=self.namespace)

        with first_error():
            async with anyio.create_task_group() as group:
                for obj in objects:
                    group.start_soon(one, obj)

    async def _until_up(self, cluster: Cluster, names: set[str]) -> None:
        specs = [spec for spec in self.topology.services if spec.name in names]

        async def up() -> bool | None:
            # Pods, not Deployments: those learn of it from their controllers, later.
            pods = await cluster.list(Selection(kind=POD, namespace=self.namespace))
            ready = [pod for pod in pods if is_ready(pod)]
            return True if all(any(matches(spec.labels, pod) for pod in ready) for spec in specs) else None

        await waits.poll(up, what=f"datastores of {self.name} up", every=0.2, within=FIRST_WAVE_WITHIN_S)


@cache
def load_topology(path: Path) -> Topology:
    """Reads and validates a topology. Raises DefinitionError."""
    try:
        return Topology.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise DefinitionError(f"{path}: {error}") from error


def values_of(topology: Topology, profile: Profile) -> dict[str, Any]:
    """The chart's values for a profile."""
    return {
        "services": [_service_values(spec, topology.images[spec.image][profile]) for spec in topology.services],
        "configmaps": {name: dict(data) for name, data in topology.configmaps.items()},
    }


def _service_values(spec: ServiceSpec, image: str) -> dict[str, Any]:
    values = spec.model_dump(mode="json", exclude={"container_ports", "working_set_mib", "registers_as", "role"})
    resources = {key: value for key, value in values["resources"].items() if value}
    ports = {(port.target_port, port.protocol): port.name for port in spec.ports if isinstance(port.target_port, int)}
    ports |= {(port, "TCP"): name for name, port in spec.container_ports.items()}
    exposed = [
        {"port": port, "protocol": protocol, **({"name": name} if name == METRICS else {})}
        for (port, protocol), name in ports.items()
    ]
    return values | {"image": image, "resources": resources, "container_ports": exposed}


def merged(values: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Values with others laid over them. In `services` (a list) what is laid over is keyed by the service's name."""
    result = dict(values)
    for key, value in over.items():
        here = result.get(key)
        if isinstance(here, list) and isinstance(value, Mapping):
            result[key] = _merged_by_name(key, here, value)
        elif isinstance(here, Mapping) and isinstance(value, Mapping):
            result[key] = merged(here, value)
        else:
            result[key] = value
    return result


def _merged_by_name(key: str, here: list[Any], over: Mapping[str, Any]) -> list[Any]:
    if unknown := set(over) - {one["name"] for one in here}:
        raise DefinitionError(f"values of the chart: {key} has no {', '.join(sorted(unknown))}")
    return [merged(one, over.get(one["name"], {})) for one in here]


async def render(values: Mapping[str, Any], *, name: str, namespace: str, helm: Path) -> str:
    """The manifests as YAML. Raises PrerequisiteError where there is no helm, CommandError where it refuses."""
    given = json.dumps(values, sort_keys=True).encode()
    key = hashlib.sha256(b"\0".join([name.encode(), namespace.encode(), given, _chart_digest()])).hexdigest()
    if key not in _rendered:
        command = [str(helm), "template", name, str(CHART), f"--namespace={namespace}", "--values=-"]
        _rendered[key] = (await process.run(command, stdin=given)).stdout
    return _rendered[key]


@cache
def _chart_digest() -> bytes:
    digest = hashlib.sha256()
    for path in sorted(CHART.rglob("*")):
        if path.is_file():
            digest.update(path.name.encode() + path.read_bytes())
    return digest.digest()


def in_order(objects: Iterable[Obj]) -> list[Obj]:
    """Objects in an order in which each finds what it refers to; kinds that we do not know come before workloads."""
    last = ORDER.index("Deployment")
    return sorted(objects, key=lambda obj: ORDER.index(obj["kind"]) if obj["kind"] in ORDER else last - 0.5)


def batches(objects: Iterable[Obj]) -> list[list[Obj]]:
    """Objects in order, cut where the kind changes: those of one batch may be applied at once."""
    found: list[list[Obj]] = []
    for obj in objects:
        if not found or found[-1][0]["kind"] != obj["kind"]:
            found.append([])
        found[-1].append(obj)
    return found
