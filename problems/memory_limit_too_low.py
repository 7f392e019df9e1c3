"""A memory limit below what the process needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from apps.hotel_reservation.app import HotelReservation
from injectors.objects import PatchObject
from injectors.patches import memory_limit
from injectors.workloads import Reconnect, RetireOldPods
from oracles.combine import app_settled
from oracles.exercises import RestartPods
from oracles.resources import MemoryHeadroom
from oracles.wiring import all_wired
from problems.common import often_used, pod_template, restart_only, users_hurt
from sregym.api import (
    App,
    Check,
    Concept,
    Diagnoses,
    Fault,
    FaultClass,
    InOrder,
    Layer,
    Oracle,
    Patch,
    Problem,
    Provenance,
    Repair,
    RootCause,
    Scale,
    ServiceSpec,
    When,
    deployment,
    on,
)

FULL_WORKING_SET_MIB = 128.0
"""What a MongoDB server needs at least before it is stable (facts of the original images)."""


class MemoryLimitTooLow(Problem):
    """A store may use far less memory than it needs to start, so it is killed again and again."""

    fault_class = FaultClass.CLOUD_MANAGEMENT
    layer = Layer.KUBERNETES
    revision = 2
    service: str
    share: float = 0.5
    """Limit as a share of the measured working set."""

    variants = {
        "resource_request_too_small": on(
            HotelReservation, service="mongodb-rate", provenance=Provenance.NEW, suites=("smoke",)
        ),
    }

    @classmethod
    def targets(cls, app: App) -> Iterable[Self]:
        """Stores that somebody connects to at start, and whose working set is known."""
        for spec in app.topology.services:
            known = spec.role == "datastore" and app.profile in spec.working_set_mib
            if known and any(often_used(app.topology, caller) for caller in app.topology.callers_of(spec.name)):
                yield cls(app=app, service=spec.name)

    @property
    def spec(self) -> ServiceSpec:
        return self.topology.service(self.service)

    @property
    def working_set_mib(self) -> float:
        return self.spec.working_set_mib.get(self.app.profile, FULL_WORKING_SET_MIB)

    @property
    def limit(self) -> str:
        return self._mib(self.share)

    @property
    def callers(self) -> tuple[str, ...]:
        return self.topology.callers_of(self.service, when=When.START) or self.topology.callers_of(self.service)

    def fault(self) -> Fault:
        ref = deployment(self.service)
        change = memory_limit(self.spec.container, self.limit)
        return InOrder(PatchObject(ref, change), RetireOldPods(ref), Reconnect(self.callers))

    def symptom(self) -> Check:
        return users_hurt(self.topology, *self.callers)

    def root_causes(self) -> Sequence[RootCause]:
        return [
            RootCause(
                components=(deployment(self.service),),
                mechanism=f"The container of {self.service} has a memory limit of {self.limit}, while it needs about"
                f" {self.working_set_mib:.0f}Mi.",
                effect=f"It is killed for memory while it starts and restarts in a loop; {', '.join(self.callers)}"
                " cannot connect and requests fail.",
                mechanism_concepts=(
                    Concept(
                        "memory limit",
                        r"memory[\w ]* (limit|cap|quota)",
                        r"limits?\W*memory",
                        r"limit\w* (of|to|is|its)? ?.*memory",
                        r"memory.*(too (low|small|little)|insufficient)",
                    ),
                ),
                value_concepts=(Concept("the limit", rf"\b{self.limit}B?\b"),),
                effect_concepts=(
                    Concept("killed", r"oom", "out of memory", "kill", "137", "crash", "cannot start", "restart"),
                ),
                victims=self.callers,
            )
        ]

    def mitigation(self) -> Oracle:
        room = MemoryHeadroom(workload=self.service, selector=self.spec.selector, container=self.spec.container)
        reached = all_wired(self.topology, callers=self.callers, callee=self.service)
        return app_settled(
            self.topology, proofs=(room, *reached), exercises=(RestartPods((self.service, *self.callers)),), hold=20.0
        )

    def repairs(self) -> Sequence[Repair]:
        return [
            Repair(name="no limit", steps=(self._resources(None),), inverse=True),
            Repair(name="ample limit", steps=(self._resources(self._mib(4.0)),)),
        ]

    def cheats(self) -> Sequence[Repair]:
        return [
            Repair(
                name="a little more",
                steps=(self._resources(self._mib(0.75)),),
                why="it starts, and is killed or starved under load",
            ),
            Repair(
                name="scale the store to zero", steps=(Scale(deployment(self.service), 0),), why="no kill, no store"
            ),
            restart_only(self.service, *self.callers, why="the new pod has the same limit"),
        ]

    def diagnoses(self) -> Diagnoses:
        victim = self.callers[0]
        return Diagnoses(
            right=(
                f"Deployment {self.service} has a memory limit of only {self.limit}. The database is OOMKilled while"
                f" starting and {victim} cannot connect to it, so searches fail.",
                f"The memory limit of the {self.service} container was set to {self.limit}, far below its working set:"
                " it crash-loops with exit code 137.",
            ),
            wrong=(
                f"{victim} is crash-looping because of a bug in its own code.",
                f"Deployment {victim} has a memory limit of {self.limit} and is OOMKilled.",
                f"{self.service} keeps restarting and hotel search is down.",
            ),
        )

    def _mib(self, share: float) -> str:
        return f"{max(4, round(self.working_set_mib * share))}Mi"

    def _resources(self, quantity: str | None) -> Patch:
        memory = {"memory": quantity}
        container = {"name": self.spec.container, "resources": {"limits": memory, "requests": memory}}
        return pod_template(self.service, containers=[container])
