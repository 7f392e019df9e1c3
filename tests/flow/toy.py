"""A toy world: a shop of two workloads, a problem on it, users and agents that do as the test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from sregym.api import (
    App,
    Check,
    Concept,
    Delete,
    Diagnoses,
    Fault,
    FaultClass,
    FaultContext,
    LoadPhase,
    Look,
    Obj,
    Observation,
    Operation,
    OperationStats,
    Oracle,
    OracleContext,
    Problem,
    Repair,
    RootCause,
    Scale,
    ServiceSpec,
    Topology,
    TrafficWindow,
    Verdict,
    deployment,
    dig,
)
from sregym.api.app import NOTHING_SHIPPED, Shipped
from sregym.api.oracle import Baseline
from sregym.api.problem import Layer
from sregym.cluster.contract import Cluster
from sregym.cluster.journal import Journal
from sregym.cluster.namespaces import remove_namespaces
from sregym.errors import ClusterError, RecoveryError
from sregym.events import Emit, silent
from sregym.gateway.desk import Desk, Stage
from sregym.results import Usage

NAMESPACE = "shop"
RIGHT = (
    "Root cause: the Deployment back was scaled to 0 replicas, so no pod of back is left and orders fail for all users."
)

TOPOLOGY = Topology(
    name="shop",
    namespace=NAMESPACE,
    description="A shop.",
    entry="front",
    entry_port=80,
    rate=10,
    images={"shop": {"lite": "shop:1", "full": "shop:1"}},
    services=(
        ServiceSpec(name="front", role="frontend", container="front", image="shop", labels={"app": "front"}),
        ServiceSpec(name="back", role="api", container="back", image="shop", labels={"app": "back"}),
    ),
    edges=(),
    operations=(
        Operation(
            name="order",
            path="/order",
            weight=1,
            needs=frozenset({"front", "back"}),
            body_check="an order number",
        ),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Shop(App):
    """Two Deployments. `broken` makes its deployment fail, as an image that cannot be pulled would."""

    profile: Any = "lite"
    broken: bool = False

    @property
    def topology(self) -> Topology:
        return TOPOLOGY

    async def manifests(self, shipped: Shipped = NOTHING_SHIPPED) -> Sequence[Obj]:
        return [_workload(spec.name) for spec in TOPOLOGY.services]

    async def deploy(self, cluster: Cluster, shipped: Shipped = NOTHING_SHIPPED, *, emit: Emit = silent) -> None:
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for obj in await self.manifests(shipped):
            await cluster.create(obj)

    async def remove(self, cluster: Cluster, *, emit: Emit = silent) -> None:
        await remove_namespaces(cluster, [NAMESPACE])

    def healthy(self) -> Check:
        return Wants("back", never=self.broken)

    async def fingerprint(self, cluster: Cluster) -> Mapping[str, Any]:
        return {}


def _workload(name: str) -> Obj:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": name, "image": "shop:1"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }


@dataclass(frozen=True)
class Wants(Check):
    """The workload exists and wants at least one pod."""

    name: str
    never: bool = False

    async def look(self, at: Look) -> Observation:
        found = await at.reader.find(deployment(self.name, at.namespace))
        if found is None:
            return self.cannot(f"{self.name} does not exist")
        replicas = dig(found, "spec", "replicas", default=0)
        return self.holding() if replicas and not self.never else self.not_yet(f"{self.name} wants {replicas} pods")


@dataclass(frozen=True)
class WantsNone(Check):
    name: str

    async def look(self, at: Look) -> Observation:
        found = await at.reader.find(deployment(self.name, at.namespace))
        gone = found is None or not dig(found, "spec", "replicas", default=0)
        return self.holding() if gone else self.not_yet(f"{self.name} still runs")


@dataclass(frozen=True)
class ScaleDown(Fault):
    name: str
    bites: bool = True
    undo_fails: bool = False

    async def inject(self, ctx: FaultContext) -> None:
        if self.bites:
            await ctx.editor.patch(deployment(self.name, ctx.namespace), {"spec": {"replicas": 0}})

    async def recover(self, ctx: FaultContext) -> None:
        if self.undo_fails:
            raise RecoveryError("the database has no pod that could be asked")
        await super().recover(ctx)


@dataclass(frozen=True, kw_only=True)
class WantsBack(Oracle):
    error: str = ""
    blind: list[str] | None = None
    """Why it cannot judge, a reason for each glance; then it can."""

    async def glance(self, ctx: OracleContext, baseline: Baseline) -> Verdict:
        if self.blind:
            return Verdict.unscored(self.blind.pop(0))
        return Verdict.of(await Wants("back").observe(ctx))

    async def check(self, ctx: OracleContext, baseline: Baseline) -> Verdict:
        await ctx.elapse(30, why="proof window")
        if self.error:
            return Verdict.unscored(self.error)
        return Verdict.of(await Wants("back").observe(ctx), hold_s=30)


class BackIsGone(Problem):
    """The back of the shop wants no pods."""

    fault_class = FaultClass.CLOUD_MANAGEMENT
    layer = Layer.KUBERNETES
    bites: bool = True
    undo_fails: bool = False
    probe_error: str = ""
    blind: list[str] | None = None

    def fault(self) -> Fault:
        return ScaleDown("back", bites=self.bites, undo_fails=self.undo_fails)

    def symptom(self) -> Check:
        return WantsNone("back")

    def root_causes(self) -> Sequence[RootCause]:
        return [
            RootCause(
                components=(deployment("back"),),
                mechanism="The Deployment back wants 0 replicas.",
                effect="Orders fail.",
                mechanism_concepts=(Concept("scaled", "scaled", "replicas?"),),
                value_concepts=(Concept("zero", r"\b0\b", "zero"),),
                effect_concepts=(Concept("orders fail", "order", "users"),),
                victims=("front",),
            )
        ]

    def mitigation(self) -> Oracle:
        return WantsBack(error=self.probe_error, blind=self.blind)

    def repairs(self) -> Sequence[Repair]:
        return [
            Repair(name="scale up", steps=(Scale(deployment("back"), 1),), inverse=True),
            Repair(name="scale to two", steps=(Scale(deployment("back"), 2),)),
        ]

    def cheats(self) -> Sequence[Repair]:
        return [
            Repair(name="delete it", steps=(Delete(deployment("back")),)),
            Repair(name="stop the front", steps=(Scale(deployment("front"), 0),)),
        ]

    def diagnoses(self) -> Diagnoses:
        return Diagnoses(right=(RIGHT, RIGHT), wrong=("front is down", "no idea"))


@dataclass
class ToyTraffic:
    base: LoadPhase = field(default_factory=lambda: LoadPhase(rate=10))

    async def window(self, over: float, *, until_s_ago: float = 0.0) -> TrafficWindow:
        return TrafficWindow(seconds=over, rate=10, operations={"order": OperationStats(sent=10, ok=10)})

    async def phase(self, phase: LoadPhase) -> None: ...


@asynccontextmanager
async def toy_users(app: App, *, base: LoadPhase | None, journal: Journal, emit: Emit) -> AsyncIterator[ToyTraffic]:
    yield ToyTraffic()


@dataclass(frozen=True, kw_only=True)
class Exit:
    code: int | None = 0
    reason: str = "exited with 0"


Script = Callable[["Shift"], Awaitable[None]]


@dataclass(kw_only=True)
class ToyWitness:
    """Records the toy world. `gone` and `blind` are what it answers with: not there, and not looking any more."""

    gone: ClusterError | None = None
    blind: ClusterError | None = None
    emptied_times: int = 0
    clock: float = 0.0
    memory: dict[str, str] = field(default_factory=lambda: {"metrics": "first", "logs": "first"})

    @asynccontextmanager
    async def emptied(self, *, emit: Emit) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        async def done() -> None:
            if self.gone:
                raise self.gone
            self.emptied_times += 1

        yield done

    async def now(self) -> float:
        return self.clock

    async def stores(self) -> Mapping[str, str]:
        return dict(self.memory)

    async def scraped_since(self, moment: float) -> float:
        if self.blind:
            raise self.blind
        self.clock = moment + 5.0
        return self.clock


@dataclass(kw_only=True)
class Shift:
    """What a scripted agent has to work with."""

    cluster: Cluster
    desk: Desk
    problem: Problem

    async def submit(self, solution: str, stage: Stage | None = None) -> str:
        return str((await self.desk.submit(stage, solution)).outcome)

    async def repair(self) -> None:
        await self.cluster.patch(deployment("back", NAMESPACE), {"spec": {"replicas": 1}})


class ScriptedAgent:
    """Runs a script as soon as it is started; knows when it was withdrawn."""

    def __init__(self, shift: Shift, script: Script, usage: Usage) -> None:
        self._shift, self._script, self._usage = shift, script, usage
        self._go, self._done, self._stop = anyio.Event(), anyio.Event(), anyio.CancelScope()
        self.withdrawn = 0

    async def run(self) -> None:
        await self._go.wait()
        with self._stop:
            await self._script(self._shift)
        self._done.set()

    async def start(self) -> None:
        self._go.set()

    async def wait_finished(self) -> Exit:
        await self._done.wait()
        return Exit()

    async def withdraw(self) -> None:
        self.withdrawn += 1
        self._stop.cancel()
        self._go.set()

    def usage(self) -> Usage:
        return self._usage


@dataclass(kw_only=True)
class MakesScripted:
    """A `MakesAgent` that keeps the agents that it made."""

    cluster: Cluster
    script: Script
    usage: Usage
    made: list[ScriptedAgent] = field(default_factory=list)

    @asynccontextmanager
    async def __call__(
        self, *, problem: Problem, desk: Desk, folder: Path, journal: Journal, emit: Emit
    ) -> AsyncIterator[ScriptedAgent]:
        agent = ScriptedAgent(Shift(cluster=self.cluster, desk=desk, problem=problem), self.script, self.usage)
        self.made.append(agent)
        async with anyio.create_task_group() as group:
            group.start_soon(agent.run)
            yield agent
            group.cancel_scope.cancel()
