"""A small world for content: the hotel's workloads in a cluster in memory, and users whose success is scripted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from apps.hotel_reservation.app import HotelReservation
from oracles.workloads import owned
from sregym.api import FaultContext, LoadPhase, Obj, OperationStats, OracleContext, ServiceSpec, TrafficWindow
from sregym.cluster.contract import Compensation, Editor, PatchType, Selection
from sregym.cluster.fake import FakeCluster
from sregym.cluster.objects import DEPLOYMENT, Ref

HOTEL = HotelReservation(profile="lite")


@dataclass
class ScriptedTraffic:
    """Every operation of the current mix gets requests; `failing` ones fail."""

    failing: set[str] = field(default_factory=set)
    late: float = 0.0
    per_operation: int = 20
    phases: list[LoadPhase] = field(default_factory=list)
    base: LoadPhase = field(default_factory=lambda: LoadPhase(rate=10.0))

    async def phase(self, phase: LoadPhase) -> None:
        self.phases.append(phase)

    async def window(self, over: float, *, until_s_ago: float = 0.0) -> TrafficWindow:
        operations = {one.name: self._stats(one.name) for one in HOTEL.topology.operations}
        return TrafficWindow(seconds=over, rate=10.0, operations=operations, late_share=self.late)

    def _stats(self, name: str) -> OperationStats:
        if name in self.failing:
            return OperationStats(sent=self.per_operation, ok=0, failures={"status_500": self.per_operation})
        return OperationStats(sent=self.per_operation, ok=self.per_operation)


@dataclass
class RecordingEditor:
    """An editor without a journal, which remembers what it was asked for."""

    cluster: FakeCluster
    compensations: list[Compensation] = field(default_factory=list)
    recycled: list[Selection] = field(default_factory=list)

    async def create(self, obj: Obj) -> Obj:
        return await self.cluster.create(obj)

    async def patch(self, ref: Ref, patch: object, kind: PatchType = PatchType.MERGE) -> Obj:
        return await self.cluster.patch(ref, patch, kind)

    async def delete(self, ref: Ref) -> None:
        await self.cluster.delete(ref)

    async def recycle_pods(self, selection: Selection, *, grace_s: int | None = None) -> None:
        self.recycled.append(selection)
        for one in owned(await self.cluster.list(selection)):
            await self.cluster.delete(Ref(selection.kind, one["metadata"]["name"], selection.namespace))

    async def compensate(self, action: Compensation) -> None:
        self.compensations.append(action)

    def section(self, name: str) -> Editor:
        return self

    async def undo_all(self) -> None:
        return None


def workload(spec: ServiceSpec) -> Sequence[Obj]:
    """Deployment and Service of one service of the topology."""
    labels = dict(spec.labels)
    meta = {"name": spec.name, "namespace": HOTEL.namespace, "labels": labels}
    container = {"name": spec.container, "image": HOTEL.topology.images[spec.image]["lite"]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    body = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    ports = [{"name": p.name, "port": p.port, "targetPort": p.target_port} for p in spec.ports]
    return (
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": body},
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": labels, "ports": ports}},
    )


async def hotel(cluster: FakeCluster) -> FakeCluster:
    """The hotel's workloads, Services and configuration, all rolled out."""
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOTEL.namespace}})
    for name, data in HOTEL.topology.configmaps.items():
        meta = {"name": name, "namespace": HOTEL.namespace}
        await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(data)})
    # The controllers look at everything after each write: they are asked once, at the end.
    cluster.controllers = False
    for spec in HOTEL.topology.services:
        for obj in workload(spec):
            await cluster.create(obj)
    cluster.controllers = True
    await cluster.patch(Ref(DEPLOYMENT, HOTEL.topology.entry, HOTEL.namespace), {})
    return cluster


def faults(cluster: FakeCluster, traffic: ScriptedTraffic, editor: RecordingEditor | None = None) -> FaultContext:
    made = editor or RecordingEditor(cluster)
    return FaultContext(app=HOTEL, reader=cluster, shell=cluster, traffic=traffic, cluster=cluster, editor=made)


def oracles(cluster: FakeCluster, traffic: ScriptedTraffic, editor: RecordingEditor | None = None) -> OracleContext:
    made = editor or RecordingEditor(cluster)
    return OracleContext(app=HOTEL, reader=cluster, shell=cluster, traffic=traffic, editor=made)
