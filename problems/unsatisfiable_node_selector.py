"""A pod template that only runs on a node that is not there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from apps.hotel_reservation.app import HotelReservation
from injectors.objects import PatchObject
from injectors.patches import node_selector
from injectors.workloads import RetireOldPods
from oracles.combine import app_settled
from oracles.exercises import RestartPods
from oracles.workloads import NoNodeRenamed
from problems.common import bare_pod, neighbour, often_used, pod_template, restart_only, users_hurt
from sregym.api import (
    App,
    Check,
    Concept,
    Create,
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
    deployment,
    on,
)

HOSTNAME = "kubernetes.io/hostname"


class UnsatisfiableNodeSelector(Problem):
    """A Deployment selects a node by host name, and no node of that name exists (any more)."""

    fault_class = FaultClass.CLOUD_MANAGEMENT
    layer = Layer.KUBERNETES
    revision = 2
    service: str
    node: str = "worker-07"

    variants = {
        "assign_to_non_existent_node_hotel_reservation": on(
            HotelReservation, service="recommendation", provenance=Provenance.SIMILAR, suites=("smoke",)
        ),
    }

    @classmethod
    def targets(cls, app: App) -> Iterable[Self]:
        """Every workload whose loss users see soon."""
        return (cls(app=app, service=one.name) for one in app.topology.services if often_used(app.topology, one.name))

    def fault(self) -> Fault:
        ref = deployment(self.service)
        return InOrder(PatchObject(ref, node_selector({HOSTNAME: self.node})), RetireOldPods(ref))

    def symptom(self) -> Check:
        return users_hurt(self.topology, self.service)

    def root_causes(self) -> Sequence[RootCause]:
        return [
            RootCause(
                components=(deployment(self.service),),
                mechanism=f"Deployment {self.service} selects nodes by {HOSTNAME}={self.node}; no node carries it.",
                effect=f"The scheduler can place no pod of {self.service}: it stays Pending and requests fail.",
                mechanism_concepts=(
                    Concept(
                        "node selector",
                        r"node ?-?selector",
                        r"selects? (a |the )?node",
                        "pinned to",
                        "assigned to",
                        "hostname",
                        "node affinity",
                    ),
                ),
                value_concepts=(Concept("the node", self.node),),
                effect_concepts=(
                    Concept("not scheduled", "pending", "schedul", "cannot be placed", "no pods? (run|available)"),
                ),
                victims=() if self.service == self.topology.entry else (self.topology.entry,),
            )
        ]

    def mitigation(self) -> Oracle:
        return app_settled(self.topology, NoNodeRenamed(self.node), exercises=(RestartPods((self.service,)),))

    def repairs(self) -> Sequence[Repair]:
        live = {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": HOSTNAME, "operator": "Exists"}]}]
            }
        }
        return [
            Repair(name="no selector", steps=(self._selecting(None),), inverse=True),
            Repair(
                name="select by a label that nodes carry",
                steps=(self._selecting({HOSTNAME: None, "kubernetes.io/os": "linux"}),),
            ),
            Repair(
                name="any node with a name, as affinity",
                steps=(pod_template(self.service, nodeSelector=None, affinity={"nodeAffinity": live}),),
            ),
        ]

    def cheats(self) -> Sequence[Repair]:
        return [
            restart_only(self.service, why="the new pod cannot be placed either"),
            Repair(
                name="a pod by hand",
                steps=(Create(bare_pod(self.app, self.service)),),
                why="the Deployment stays stuck; the pod dies with its node",
            ),
            Repair(
                name="scale to zero",
                steps=(Scale(deployment(self.service), 0),),
                why="nothing is pending because nothing is wanted",
            ),
        ]

    def diagnoses(self) -> Diagnoses:
        other = neighbour(self.topology, self.service)
        return Diagnoses(
            right=(
                f"Deployment {self.service} has a nodeSelector for host {self.node}, which does not exist in the"
                " cluster. Its pod stays Pending, so requests that need it fail.",
                f"The pod template of the deployment {self.service} is pinned to host {self.node} by its nodeSelector."
                " No node matches, so the scheduler cannot place the pod and it stays pending.",
            ),
            wrong=(
                "The jaeger deployment is broken, so requests answer with 500.",
                f"Deployment {other} has a nodeSelector for node {self.node} that no node matches: its pod is Pending.",
                f"{self.service} has no running pods and recommendations fail.",
            ),
        )

    def _selecting(self, labels: dict[str, str | None] | None) -> Patch:
        return pod_template(self.service, nodeSelector=labels)
