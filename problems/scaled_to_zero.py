"""A workload that wants no pods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from apps.hotel_reservation.app import HotelReservation
from injectors.workloads import ScaleTo
from oracles.combine import app_settled
from oracles.exercises import RestartPods
from problems.common import bare_pod, neighbour, often_used, restart_only, second_deployment, users_hurt
from sregym.api import (
    App,
    Check,
    Concept,
    Create,
    Diagnoses,
    Fault,
    FaultClass,
    Layer,
    Oracle,
    Problem,
    Provenance,
    Repair,
    RootCause,
    Scale,
    deployment,
    on,
)


class ScaledToZero(Problem):
    """A workload was scaled to zero replicas, so nothing answers requests that need it."""

    fault_class = FaultClass.CLOUD_MANAGEMENT
    layer = Layer.KUBERNETES
    revision = 2
    service: str

    variants = {
        "scale_pod_zero_hotel_reservation": on(
            HotelReservation, service="profile", provenance=Provenance.SIMILAR, suites=("smoke",)
        ),
    }

    @classmethod
    def targets(cls, app: App) -> Iterable[Self]:
        """Every workload whose loss users see soon; a store only matters where it is read at request time."""
        for spec in app.topology.services:
            if spec.role in ("frontend", "api", "cache") and often_used(app.topology, spec.name):
                yield cls(app=app, service=spec.name)

    def fault(self) -> Fault:
        return ScaleTo(deployment(self.service), 0)

    def symptom(self) -> Check:
        return users_hurt(self.topology, self.service)

    def root_causes(self) -> Sequence[RootCause]:
        hurt = self.topology.operations_of(self.service)
        return [
            RootCause(
                components=(deployment(self.service),),
                mechanism=f"Deployment {self.service} is scaled to 0 replicas.",
                effect=f"No pod of {self.service} runs, so {', '.join(hurt)} fail.",
                mechanism_concepts=(
                    Concept(
                        "scaled down",
                        "scaled to zero",
                        r"scal\w+ ((it|them|down|back|in) )*to (0|zero)",
                        "scale-to-zero",
                        r"scaled (down|away|in)\b",
                        r"replicas?\b[^.;,/]{0,30}\b(0|zero)\b(?! ?/| ready| available| of)",
                        r"\b(0|zero|no) (desired |wanted )?replicas?\b(?! ?(are |is )?(ready|available))",
                        r"wants? (0|zero|no) (pods?|replicas?)",
                    ),
                ),
                value_concepts=(Concept("zero", r"\b0\b", r"\bzero\b", r"\bno replicas\b"),),
                effect_concepts=(
                    Concept(
                        "nothing runs",
                        r"no (running |ready |\w+ )?pods?",
                        r"nothing (runs|answers|serves)",
                        "unavailable",
                        "fail",
                        "cannot (reach|connect)",
                        "error",
                    ),
                ),
                victims=() if self.service == self.topology.entry else (self.topology.entry,),
            )
        ]

    def mitigation(self) -> Oracle:
        return app_settled(self.topology, exercises=(RestartPods((self.service,)),))

    def repairs(self) -> Sequence[Repair]:
        return [
            Repair(name="one replica", steps=(Scale(deployment(self.service), 1),), inverse=True),
            Repair(name="two replicas", steps=(Scale(deployment(self.service), 2),)),
        ]

    def cheats(self) -> Sequence[Repair]:
        return [
            Repair(
                name="a pod by hand",
                steps=(Create(bare_pod(self.app, self.service)),),
                why="the workload still wants nothing; the pod dies with its node",
            ),
            Repair(
                name="another Deployment with the same labels",
                steps=(Create(second_deployment(self.app, self.service)),),
                why="the workload still wants nothing",
            ),
            restart_only(self.service, "frontend", why="a restart of nothing is nothing"),
        ]

    def diagnoses(self) -> Diagnoses:
        return Diagnoses(
            right=(
                f"The Deployment {self.service} has been scaled to 0 replicas, so no pod of it is running and requests"
                " that need it fail.",
                f"{self.service} deployment: spec.replicas is zero. Nothing serves its calls, users get errors.",
            ),
            wrong=(
                "The jaeger deployment is faulty and makes every request fail.",
                f"The deployment {neighbour(self.topology, self.service)} was scaled to 0 replicas, so searches fail.",
                f"Pods of {self.service} are crash-looping because they run out of memory.",
            ),
        )
