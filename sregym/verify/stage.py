"""The world between two cells: brings it to "healthy" or to "the incident is on", by the cheapest way that is sure.

Objects are compared with snapshots taken when the world was known to be healthy, or known to be broken by the fault
alone, and only differences are written back. What that cannot reach (data, queues, a registry) is deployed anew; the
caller does that when `Beyond` is raised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sregym.api.grading import Verdict
from sregym.api.oracle import Baseline
from sregym.api.problem import Problem
from sregym.cluster import snapshot
from sregym.cluster.check import Check, Look, Not, Observation
from sregym.cluster.contract import Cluster, Selection
from sregym.cluster.equalising import restore
from sregym.cluster.objects import DEPLOYMENT, POD, Obj, dig, ref_of
from sregym.cluster.snapshot import Scope, Snapshot
from sregym.coordinator.world import Incident, World, inject
from sregym.errors import ClusterError, RecoveryError, SregymError, WaitTimeout
from sregym.events import Emit
from sregym.settings import Timeouts

BACK_WITHIN_S = 45.0
"""How long the application may take to be healthy again before it is deployed anew."""

SAME_DATA_WITHIN_S = 15.0

STILL_ON_WITHIN_S = 20.0
"""How long the symptom may take to show again after what a cheat changed was taken back."""

_BACK_OFF = ("CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull")


class State(StrEnum):
    """What is known of the world."""

    HEALTHY = "healthy"
    ON = "on"
    """The incident is on, and nothing else was done."""
    TOUCHED = "touched"
    """Objects were changed while the incident was on."""
    OVER = "over"
    """It may be over, or data were changed."""


class Beyond(SregymError):
    """The world cannot be brought back in place; deploy the application anew."""


@dataclass(frozen=True)
class Calm(Check):
    """Nothing is on its way out, and these Deployments are complete: a command reaches the pod that it means."""

    complete: frozenset[str]

    @property
    def title(self) -> str:
        return "nothing is under way"

    def watches(self, namespace: str) -> Sequence[Selection]:
        return [Selection(kind=kind, namespace=namespace) for kind in (DEPLOYMENT, POD)]

    async def look(self, at: Look) -> Observation:
        pods = await at.reader.list(Selection(kind=POD, namespace=at.namespace))
        leaving = [one["metadata"]["name"] for one in pods if dig(one, "metadata", "deletionTimestamp")]
        if leaving:
            return self.not_yet(f"on their way out: {', '.join(leaving)}")
        lacking = self.complete - await complete_deployments(at)
        return self.not_yet(f"not complete: {', '.join(sorted(lacking))}") if lacking else self.holding()


async def complete_deployments(at: Look) -> frozenset[str]:
    """Names of the Deployments whose pods are all of the newest revision and available."""
    found = await at.reader.list(Selection(kind=DEPLOYMENT, namespace=at.namespace))
    return frozenset(one["metadata"]["name"] for one in found if _is_complete(one))


def _is_complete(deployment: Obj) -> bool:
    status, wanted = deployment.get("status", {}), dig(deployment, "spec", "replicas", default=1)
    seen = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
    return seen and counts == [wanted] * 3


@dataclass
class Stage:
    """One deployed application and what is known of its state. Made when it is healthy."""

    cluster: Cluster
    world: World
    timeouts: Timeouts
    emit: Emit
    healthy: Snapshot
    baseline: Baseline
    state: State = State.HEALTHY
    broken: Snapshot | None = None
    """The world with nothing but the fault in it; None while the fault is not in."""
    incident: Incident | None = None
    complete: frozenset[str] = frozenset()
    """Deployments that the incident leaves complete."""

    @classmethod
    async def of(cls, cluster: Cluster, world: World, timeouts: Timeouts, emit: Emit) -> Stage:
        """Takes the snapshot of the healthy world. Raises ClusterError."""
        baseline = await world.problem.mitigation().baseline(world.oracle_ctx)
        healthy = await _taken(cluster, world, fingerprint=await world.app.fingerprint(cluster))
        return cls(
            cluster=cluster,
            world=world,
            timeouts=timeouts,
            emit=emit,
            healthy=healthy,
            baseline=baseline,
        )

    @property
    def problem(self) -> Problem:
        return self.world.problem

    async def on(self) -> Incident:
        """The incident, and nothing but it. Raises InjectionError, or Beyond."""
        if self.state is State.TOUCHED and not await self._taken_back():
            self.state = State.OVER
        if self.state is State.OVER:
            await self.heal()
        if self.state is State.HEALTHY:
            # Not healthy any more from the first change on, also when the injection fails half-way.
            self.state = State.OVER
            self.incident = await inject(self.world, self.baseline, self.timeouts)
            self.broken = await _taken(self.cluster, self.world)
            self.complete = await complete_deployments(self.world.faults)
            self.state = State.ON
        assert self.incident is not None
        return self.incident

    async def heal(self) -> None:
        """Undoes the fault and takes back everything else. Raises Beyond where the application must be made anew."""
        self.state, self.incident, self.broken = State.OVER, None, None
        try:
            await self.problem.fault().recover(self.world.faults)
            await self._write_back(self.healthy)
            if self.problem.latent:
                await self._restart_the_cause()
            await self._fresh_starts()
            await self.world.faults.until(self.world.app.healthy(), within=BACK_WITHIN_S)
            await self.world.faults.until(Calm(frozenset()), within=BACK_WITHIN_S)
            # Users' failures from before must not be taken for the symptom of the next injection.
            await self.world.faults.until(Not(self.problem.symptom()), within=BACK_WITHIN_S)
            await self._same_data()
        except (RecoveryError, WaitTimeout, ClusterError) as error:
            raise Beyond(str(error)) from error
        self.state = State.HEALTHY

    async def _same_data(self) -> None:
        """Waits until the fingerprint is that of the healthy world: a peer may still be registering. Raises Beyond."""
        paths: list[str] = []

        async def same() -> bool | None:
            fingerprint = await self.world.app.fingerprint(self.cluster)
            paths[:] = snapshot.changed_paths(self.healthy.fingerprint, fingerprint)
            return None if paths else True

        try:
            await self.world.faults.poll(same, what="the data are as before", within=SAME_DATA_WITHIN_S, every=2.0)
        except WaitTimeout as error:
            raise Beyond(f"data differs: {', '.join(paths)}") from error

    async def passing_glance(self) -> Verdict:
        """The oracle's look at the present, as soon as it passes; else the last one."""
        oracle, last = self.problem.mitigation(), Verdict.unscored("not looked at")

        async def look() -> Verdict | None:
            nonlocal last
            last = await oracle.glance(self.world.oracle_ctx, self.baseline)
            return last if last.passed else None

        try:
            return await self.world.faults.poll(look, what="the oracle passes", within=BACK_WITHIN_S)
        except WaitTimeout:
            return last

    async def _restart_the_cause(self) -> None:
        """What a latent defect has left in motion (a queue, a cache) is in its processes, not in any object."""
        topology, namespace = self.world.app.topology, self.world.app.namespace
        names = dict.fromkeys(ref.name for cause in self.problem.root_causes() for ref in cause.components)
        for name in names:
            selection = Selection(kind=POD, namespace=namespace, labels=topology.service(name).selector)
            for one in await self.cluster.list(selection):
                await self.cluster.delete(ref_of(one, POD))

    async def _taken_back(self) -> bool:
        """Whether the incident is on again, and alone, after everything since was written back."""
        assert self.broken is not None
        if self.problem.latent:
            return False
        try:
            await self._write_back(self.broken)
            await self._fresh_starts()
            await self.world.faults.until(Calm(self.complete), within=STILL_ON_WITHIN_S)
            await self.world.faults.until(self.problem.symptom(), within=STILL_ON_WITHIN_S)
            verdict = await self.problem.mitigation().glance(self.world.oracle_ctx, self.baseline)
        except (RecoveryError, WaitTimeout, ClusterError) as error:
            self.emit("verify.incident_lost", reason=str(error))
            return False
        if verdict.passed:
            return False
        self.state = State.ON
        return True

    async def _write_back(self, wanted: Snapshot) -> None:
        found = snapshot.differences(wanted, await _taken(self.cluster, self.world, fingerprint=wanted.fingerprint))
        if found:
            self.emit("verify.writing_back", differences=[str(one) for one in found])
            await restore(self.cluster, wanted, found, emit=self.emit)

    async def _fresh_starts(self) -> None:
        """Pods that wait in a back-off are made anew, so that no cell waits for the kubelet."""
        selection = Selection(kind=POD, namespace=self.world.app.namespace)
        for one in await self.cluster.list(selection):
            statuses = dig(one, "status", "containerStatuses", default=[])
            if any(dig(status, "state", "waiting", "reason") in _BACK_OFF for status in statuses):
                await self.cluster.delete(ref_of(one, POD))


async def _taken(cluster: Cluster, world: World, fingerprint: Mapping[str, Any] | None = None) -> Snapshot:
    namespaces = (*snapshot.SYSTEM_NAMESPACES, world.app.namespace)
    return await snapshot.take(cluster, namespaces=namespaces, scope=Scope.CLUSTER, fingerprint=fingerprint)
