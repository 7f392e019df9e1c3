"""The world between two cells: taken back in place where that is sure, deployed anew where it is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from injectors.workloads import ScaleTo
from oracles.combine import Settled
from oracles.workloads import RolledOut
from sregym.api import (
    App,
    Check,
    Concept,
    Diagnoses,
    Fault,
    FaultClass,
    FaultContext,
    Layer,
    Not,
    Obj,
    Oracle,
    OracleContext,
    Patch,
    PatchType,
    Problem,
    Repair,
    RootCause,
    Topology,
    deployment,
)
from sregym.api.app import NOTHING_SHIPPED, Profile, Shipped
from sregym.cluster.contract import Cluster
from sregym.cluster.editor import JournalledEditor
from sregym.cluster.fake import FakeCluster
from sregym.cluster.journal import Journal
from sregym.coordinator.world import World
from sregym.events import Emit, silent
from sregym.settings import Timeouts
from sregym.verify.stage import Beyond, Stage, State
from tests.unit.content.worlds import HOTEL, ScriptedTraffic, hotel

pytestmark = pytest.mark.usefixtures("fake_time")
GEO = deployment("geo").within(HOTEL.namespace)


@dataclass(frozen=True, kw_only=True)
class SmallHotel(App):
    """The hotel's topology; its data are what the test says."""

    profile: Profile = "lite"
    data: Mapping[str, int] = field(default_factory=dict)

    @property
    def topology(self) -> Topology:
        return HOTEL.topology

    async def manifests(self, shipped: Shipped = NOTHING_SHIPPED) -> Sequence[Obj]:
        return ()

    async def deploy(self, cluster: Cluster, shipped: Shipped = NOTHING_SHIPPED, *, emit: Emit = silent) -> None: ...

    async def remove(self, cluster: Cluster, *, emit: Emit = silent) -> None: ...

    def healthy(self) -> Check:
        return RolledOut(("geo",))

    async def fingerprint(self, cluster: Cluster) -> Mapping[str, Any]:
        return dict(self.data)


class GeoAtZero(Problem):
    """Geo wants no pods."""

    fault_class = FaultClass.CLOUD_MANAGEMENT
    layer = Layer.KUBERNETES

    def fault(self) -> Fault:
        return ScaleTo(deployment("geo"), 0)

    def symptom(self) -> Check:
        return Not(RolledOut(("geo",)))

    def root_causes(self) -> Sequence[RootCause]:
        concept = (Concept("x", "x"),)
        ref = (deployment("geo"),)
        return [
            RootCause(
                components=ref,
                mechanism="x",
                effect="x",
                mechanism_concepts=concept,
                value_concepts=concept,
                effect_concepts=concept,
            )
        ]

    def mitigation(self) -> Oracle:
        return Settled(condition=RolledOut(("geo",)), hold=1.0)

    def repairs(self) -> Sequence[Repair]:
        return ()

    def cheats(self) -> Sequence[Repair]:
        return (Repair(name="x", steps=(Patch(deployment("geo"), {}),)),)

    def diagnoses(self) -> Diagnoses:
        return Diagnoses(right=("a", "b"), wrong=("c", "d"))


@contextmanager
def stage_on(cluster: FakeCluster, folder: Path, problem: Problem) -> Iterator[tuple[World, FakeCluster]]:
    journal = Journal.create(folder, identity="fake", attempt="t", cluster="fake", facts={})
    editor = JournalledEditor(cluster, journal)
    traffic = ScriptedTraffic()
    common = {"app": problem.app, "reader": cluster, "shell": cluster, "traffic": traffic}
    faults = FaultContext(**common, cluster=cluster, editor=editor.section("fault"))  # type: ignore[arg-type]
    oracle_ctx = OracleContext(**common, editor=editor.section("exercises"))  # type: ignore[arg-type]
    yield World(problem=problem, faults=faults, oracle_ctx=oracle_ctx), cluster
    journal.close()


async def replicas(cluster: FakeCluster) -> int:
    return int((await cluster.get(GEO))["spec"]["replicas"])


async def test_the_incident_is_kept_while_nobody_touches_it(fake_cluster: FakeCluster, tmp_path: Path) -> None:
    await hotel(fake_cluster)
    with stage_on(fake_cluster, tmp_path, GeoAtZero(app=SmallHotel())) as (world, cluster):
        stage = await Stage.of(cluster, world, Timeouts(), silent)
        first = await stage.on()
        assert await replicas(cluster) == 0
        assert await stage.on() is first


async def test_what_a_cheat_changed_is_taken_back_and_the_incident_goes_on(
    fake_cluster: FakeCluster, tmp_path: Path
) -> None:
    await hotel(fake_cluster)
    with stage_on(fake_cluster, tmp_path, GeoAtZero(app=SmallHotel())) as (world, cluster):
        stage = await Stage.of(cluster, world, Timeouts(), silent)
        first = await stage.on()
        await cluster.patch(GEO, {"spec": {"replicas": 3}}, PatchType.MERGE)
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "by-hand", "namespace": HOTEL.namespace}}
        await cluster.create(pod | {"spec": {"containers": [{"name": "c", "image": "i"}]}})
        stage.state = State.TOUCHED
        assert await stage.on() is first
        assert await replicas(cluster) == 0
        assert stage.state is State.ON


async def test_after_a_repair_the_world_is_healed_and_broken_again(fake_cluster: FakeCluster, tmp_path: Path) -> None:
    await hotel(fake_cluster)
    with stage_on(fake_cluster, tmp_path, GeoAtZero(app=SmallHotel())) as (world, cluster):
        stage = await Stage.of(cluster, world, Timeouts(), silent)
        first = await stage.on()
        await cluster.patch(GEO, {"spec": {"replicas": 3}}, PatchType.MERGE)
        stage.state = State.OVER
        await stage.heal()
        assert await replicas(cluster) == 1
        assert await stage.on() is not first
        assert await replicas(cluster) == 0


async def test_data_that_differ_cannot_be_taken_back_in_place(fake_cluster: FakeCluster, tmp_path: Path) -> None:
    await hotel(fake_cluster)
    problem = GeoAtZero(app=SmallHotel(data={"users": 2}))
    with stage_on(fake_cluster, tmp_path, problem) as (world, cluster):
        stage = await Stage.of(cluster, world, Timeouts(), silent)
        stage.state = State.OVER
        stage.healthy = replace(stage.healthy, fingerprint={"users": 3})
        with pytest.raises(Beyond, match="data differs: users"):
            await stage.heal()
