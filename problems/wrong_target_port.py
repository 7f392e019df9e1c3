"""A Service whose target port nobody listens on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from apps.hotel_reservation.app import HotelReservation
from injectors.objects import PatchObject
from injectors.patches import target_port
from injectors.workloads import Reconnect
from oracles.combine import app_settled
from oracles.exercises import RestartPods
from oracles.wiring import all_wired
from oracles.workloads import EndpointsOwned
from problems.common import (
    configure,
    neighbour,
    not_as_it_should_be,
    often_used,
    peers,
    pod_template,
    restart_only,
    service_object,
    users_hurt,
)
from sregym.api import (
    App,
    Check,
    Concept,
    Create,
    Delete,
    Diagnoses,
    Edge,
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
    ServiceSpec,
    Via,
    on,
    service,
)


class WrongTargetPort(Problem):
    """A Service forwards to a port that no container of its pods listens on."""

    fault_class = FaultClass.MISCONFIGURATION
    layer = Layer.KUBERNETES
    revision = 2
    service: str
    port: int

    variants = {
        "k8s_target_port-misconfig_hotel_reservation": on(
            HotelReservation,
            service="memcached-profile",
            port=11212,
            provenance=Provenance.SIMILAR,
            suites=("smoke", "demo"),
        ),
    }

    @classmethod
    def targets(cls, app: App) -> Iterable[Self]:
        """Services with one port that others or users really connect through."""
        for spec in app.topology.services:
            used = spec.name == app.topology.entry or any(e.callee == spec.name for e in _service_edges(app))
            if used and len(spec.ports) == 1 and often_used(app.topology, spec.name):
                yield cls(app=app, service=spec.name, port=spec.ports[0].port + 1)

    @property
    def spec(self) -> ServiceSpec:
        return self.topology.service(self.service)

    @property
    def callers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(e.caller for e in _service_edges(self.app) if e.callee == self.service))

    def fault(self) -> Fault:
        change = target_port(of_port=self.spec.ports[0].port, to=self.port)
        return InOrder(PatchObject(service(self.service), change), Reconnect(self.callers))

    def symptom(self) -> Check:
        return users_hurt(self.topology, self.service)

    def root_causes(self) -> Sequence[RootCause]:
        right = self.spec.ports[0].target_port
        hurt = self.topology.operations_of(self.service)
        return [
            RootCause(
                components=(service(self.service),),
                mechanism=f"Service {self.service} forwards to target port {self.port}; its pods listen on {right}.",
                effect=f"Connections to {self.service} are refused; {', '.join(hurt)} fail for users.",
                mechanism_concepts=(
                    Concept(
                        "target port",
                        r"target ?-?port",
                        r"(forward|rout|point|map|send)\w* (\w+ )?to (the )?(wrong )?port",
                        r"port mapping",
                        r"maps? (port )?\d+",
                    ),
                ),
                value_concepts=(Concept("the wrong port", not_as_it_should_be(self.port)),),
                effect_concepts=(
                    Concept(
                        "no connection",
                        "refus",
                        "cannot (connect|reach)",
                        "can't (connect|reach)",
                        "unreachable",
                        "connection (error|failure)",
                        "fail",
                    ),
                ),
                victims=self.callers,
            )
        ]

    def mitigation(self) -> Oracle:
        reached = all_wired(self.topology, callers=self.callers, callee=self.service)
        own = () if reached else (EndpointsOwned(self.service, self.service),)
        return app_settled(
            self.topology,
            *own,
            proofs=reached,
            exercises=(RestartPods((self.service, *self.callers)),),
        )

    def repairs(self) -> Sequence[Repair]:
        entry = self.spec.ports[0]
        back = {"spec": {"ports": [{"port": entry.port, "targetPort": entry.target_port}]}}
        named = {"spec": {"ports": [{"port": entry.port, "targetPort": "backend"}]}}
        container = {"name": self.spec.container, "ports": [{"containerPort": entry.target_port, "name": "backend"}]}
        return [
            Repair(name="target port back", steps=(Patch(service(self.service), back),), inverse=True),
            Repair(
                name="name the container port and use the name",
                steps=(pod_template(self.service, containers=[container]), Patch(service(self.service), named)),
            ),
            Repair(
                name="make the Service anew",
                steps=(Delete(service(self.service)), Create(service_object(self.spec))),
            ),
        ]

    def cheats(self) -> Sequence[Repair]:
        beside = service_object(self.spec, name=f"{self.service}-v2")
        found = [
            restart_only(self.service, *self.callers, why="nobody listens on the port afterwards either"),
            Repair(name="add a second Service", steps=(Create(beside),), why="nobody uses it"),
        ]
        for peer in list(peers(self.topology, self.service))[:1]:
            port = {"port": self.spec.ports[0].port, "targetPort": peer.ports[0].target_port}
            lead = {"spec": {"selector": dict(peer.labels), "ports": [port]}}
            found.append(
                Repair(
                    name=f"point the Service at {peer.name}",
                    steps=(Patch(service(self.service), lead),),
                    why="borrows a neighbour's pods",
                )
            )
            address = f"{peer.name}:{peer.ports[0].port}"
            for edge in (e for e in _service_edges(self.app) if e.callee == self.service and e.config_key):
                steps = configure(self.topology, edge.caller, {edge.config_key or "": address})
                found.append(
                    Repair(name=f"let {edge.caller} use {peer.name}", steps=steps, why="bypasses the broken Service")
                )
        return found

    def diagnoses(self) -> Diagnoses:
        right = self.spec.ports[0].target_port
        victim = self.callers[0] if self.callers else self.service
        other = neighbour(self.topology, self.service)
        return Diagnoses(
            right=(
                f"The Service {self.service} has targetPort {self.port}, while the container listens on {right}."
                " Every new connection is refused, so user requests fail.",
                f"Root cause: svc/{self.service} routes to port {self.port} (target port misconfigured, should be"
                f" {right}). Clients such as {victim} cannot connect and their requests return errors.",
            ),
            wrong=(
                f"The {victim} deployment is broken: its process crashes on start because of a bug in its image.",
                f"Service {other} has a wrong targetPort and refuses connections.",
                "Users see HTTP 500 errors and a high error rate on the frontend.",
            ),
        )


def _service_edges(app: App) -> list[Edge]:
    return [edge for edge in app.topology.edges if edge.via is Via.SERVICE]
