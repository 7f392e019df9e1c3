"""A Service that is not there any more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from apps.hotel_reservation.app import HotelReservation
from injectors.objects import DeleteObject
from injectors.workloads import Reconnect
from oracles.combine import app_settled
from oracles.exercises import RestartPods
from oracles.wiring import all_wired, edge_between
from problems.common import configure, often_used, peers, restart_only, service_object, users_hurt
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
    Problem,
    Provenance,
    Repair,
    RootCause,
    ServiceSpec,
    Via,
    on,
    service,
)


class ServiceDeleted(Problem):
    """A Service was deleted, so its callers cannot resolve their dependency by name."""

    fault_class = FaultClass.CLOUD_MANAGEMENT
    layer = Layer.KUBERNETES
    revision = 2
    service: str

    variants = {
        "missing_service_hotel_reservation": on(
            HotelReservation, service="mongodb-rate", provenance=Provenance.NEW, suites=("smoke",)
        ),
    }

    @classmethod
    def targets(cls, app: App) -> Iterable[Self]:
        """Services that callers find by DNS, with an address that can be configured."""
        edges = [e for e in app.topology.edges if e.via is Via.SERVICE and e.config_key]
        stores = dict.fromkeys(e.callee for e in edges if app.topology.service(e.callee).role in ("datastore", "cache"))
        for name in stores:
            if all(often_used(app.topology, e.caller) for e in edges if e.callee == name):
                yield cls(app=app, service=name)

    @property
    def spec(self) -> ServiceSpec:
        return self.topology.service(self.service)

    @property
    def callers(self) -> tuple[str, ...]:
        return self.topology.callers_of(self.service)

    def fault(self) -> Fault:
        return InOrder(DeleteObject(service(self.service)), Reconnect(self.callers))

    def symptom(self) -> Check:
        return users_hurt(self.topology, *self.callers)

    def root_causes(self) -> Sequence[RootCause]:
        port = self.spec.ports[0].port
        return [
            RootCause(
                components=(service(self.service),),
                mechanism=f"Service {self.service} (port {port}) does not exist any more; its pods run.",
                effect=f"The name {self.service} does not resolve: {', '.join(self.callers)} cannot connect, crash and"
                " restart, and requests fail.",
                mechanism_concepts=(
                    Concept(
                        "not there",
                        "delet",
                        r"(?<!endpoints are )(?<!endpoints )(?<!endpoint is )missing(?! (\w+ )?(endpoints?|selector))",
                        "does not exist",
                        "doesn't exist",
                        r"(?<!host )not found",
                        "removed(?! from)",
                        r"\bno service\b",
                        "absent",
                        "gone",
                    ),
                ),
                value_concepts=(
                    Concept(
                        "the Service",
                        rf"(service|svc)( (object|for|of|named|called))*\W+{self.service}",
                        rf"{self.service} (service|svc)",
                    ),
                ),
                effect_concepts=(
                    Concept(
                        "cannot reach",
                        "resolv",
                        "dns",
                        "lookup",
                        "cannot (connect|reach|find)",
                        "crash",
                        "fail",
                        "no such host",
                    ),
                ),
                victims=self.callers,
            )
        ]

    def mitigation(self) -> Oracle:
        reached = all_wired(self.topology, callers=self.callers, callee=self.service)
        # New pods have new addresses: a repair that pins the old one does not survive this.
        return app_settled(self.topology, proofs=reached, exercises=(RestartPods((self.service, *self.callers)),))

    def repairs(self) -> Sequence[Repair]:
        caller = self.callers[0]
        key = edge_between(self.topology, caller=caller, callee=self.service).config_key or ""
        renamed = f"{self.service}-db"
        address = f"{renamed}:{self.spec.ports[0].port}"
        return [
            Repair(name="Service back", steps=(Create(service_object(self.spec)),), inverse=True),
            Repair(name="headless Service", steps=(Create(service_object(self.spec, clusterIP="None")),)),
            Repair(
                name="new name, and its caller told",
                steps=(
                    Create(service_object(self.spec, name=renamed)),
                    *configure(self.topology, caller, {key: address}),
                ),
            ),
        ]

    def cheats(self) -> Sequence[Repair]:
        nobody = service_object(self.spec, selector={"app": self.service})
        found = [
            Repair(
                name="Service that selects nothing", steps=(Create(nobody),), why="the name resolves, nobody answers"
            ),
            restart_only(self.service, *self.callers, why="the name does not resolve afterwards either"),
        ]
        for peer in list(peers(self.topology, self.service))[:1]:
            borrowed = service_object(self.spec, selector=dict(peer.labels))
            found.append(
                Repair(name=f"name that leads to {peer.name}", steps=(Create(borrowed),), why="somebody else's data")
            )
        return found

    def diagnoses(self) -> Diagnoses:
        victim = self.callers[0]
        other = next((one.name for one in peers(self.topology, self.service)), "frontend")
        return Diagnoses(
            right=(
                f"The Kubernetes Service {self.service} has been deleted. {victim} cannot resolve the name of its"
                " database, crashes at start, and user requests fail.",
                f"Root cause: there is no Service {self.service} in the namespace (missing), only its Deployment."
                f" DNS lookups by {victim} fail and it crash-loops.",
            ),
            wrong=(
                f"{victim} is crash-looping because its image has a bug.",
                f"The Service {other} was deleted, so its callers cannot resolve it and crash.",
                "Hotel search returns HTTP 500 for all users.",
            ),
        )
