"""A readiness probe that asks where nobody answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

from apps.hotel_reservation.app import HotelReservation
from injectors.objects import PatchObject
from injectors.patches import readiness_probe
from injectors.workloads import RetireOldPods
from oracles.combine import app_settled
from oracles.exercises import RestartPods
from problems.common import pod_template, restart_only, second_deployment, users_hurt
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
    ServiceSpec,
    deployment,
    on,
    service,
)

WRONG = r"\b(wrong|misconfigur\w*|incorrect\w*|invalid|bad|broken|mismatch\w*|bogus)\b"
SERVES = r"\b(listen(s|ing)?|serv(es|ing)|bound|binds|runs)\b"


class ReadinessProbeWrong(Problem):
    """Healthy pods are kept out of their Service by a readiness probe on a port that nothing listens on."""

    fault_class = FaultClass.MISCONFIGURATION
    layer = Layer.KUBERNETES
    revision = 2
    service: str
    path: str = "/healthz"
    port: int = 8080

    variants = {
        "readiness_probe_misconfiguration_hotel_reservation": on(
            HotelReservation, service="frontend", provenance=Provenance.NEW, suites=("smoke",)
        ),
    }

    @classmethod
    def targets(cls, app: App) -> Iterable[Self]:
        """The entry: readiness only decides where a Service is really used."""
        yield cls(app=app, service=app.topology.entry)

    @property
    def spec(self) -> ServiceSpec:
        return self.topology.service(self.service)

    @property
    def probe(self) -> dict[str, Any]:
        asked = {"path": self.path, "port": self.port}
        return {"httpGet": asked, "initialDelaySeconds": 10, "periodSeconds": 10, "failureThreshold": 1}

    def fault(self) -> Fault:
        ref = deployment(self.service)
        return InOrder(PatchObject(ref, readiness_probe(self.spec.container, self.probe)), RetireOldPods(ref))

    def symptom(self) -> Check:
        return users_hurt(self.topology, self.service)

    def root_causes(self) -> Sequence[RootCause]:
        real = self.spec.ports[0].target_port
        return [
            RootCause(
                components=(deployment(self.service),),
                mechanism=f"The readiness probe of {self.service} asks {self.path} on port {self.port}, where nothing"
                f" listens; the server listens on {real}.",
                effect=f"Its pods never become ready, Service {self.service} has no endpoint, and users are refused.",
                mechanism_concepts=(
                    Concept("readiness probe", r"readiness ?-?probe", r"readiness check"),
                    Concept(
                        "it is the probe that is wrong",
                        "misconfigured probe",
                        rf"{WRONG}[^.;]{{0,60}}(probe|readiness check)",
                        rf"(probe|readiness check)[^.;]{{0,100}}({WRONG}|\b(changed|set to|points? (at|to)|should)\b)",
                        rf"(probe|readiness check)[^;]{{0,160}}(?<!not )(?<!n't ){SERVES}\b",
                        rf"(probe|readiness check)[^;]{{0,160}}\b(nothing|no one|nobody|no \w+) {SERVES}",
                        r"(probe|readiness check)[^.;]{0,100}(closed|(does not|doesn't) exist|non-?existent)",
                        rf"{SERVES}[^.;]{{0,60}}\b(but|while|whereas|yet)\b[^.;]{{0,40}}(probe|readiness check)",
                    ),
                ),
                value_concepts=(Concept("what it asks", rf"\b{self.port}\b", self.path),),
                effect_concepts=(
                    Concept(
                        "not ready",
                        r"not ready",
                        "never .*ready",
                        "unready",
                        "0/1",
                        r"no (ready )?endpoints?",
                        "without endpoints",
                        "removed from the service",
                        "no traffic",
                    ),
                ),
                victims=(),
            )
        ]

    def mitigation(self) -> Oracle:
        return app_settled(self.topology, exercises=(RestartPods((self.service,)),))

    def repairs(self) -> Sequence[Repair]:
        real = {"tcpSocket": {"port": self.spec.ports[0].target_port}, "httpGet": None}
        quick = {"initialDelaySeconds": 1, "periodSeconds": 2, "failureThreshold": 3}
        return [
            Repair(name="no probe", steps=(self._probing(None),), inverse=True),
            Repair(name="probe the port it serves", steps=(self._probing(real | quick),)),
        ]

    def cheats(self) -> Sequence[Repair]:
        return [
            Repair(
                name="publish pods that are not ready",
                steps=(Patch(service(self.service), {"spec": {"publishNotReadyAddresses": True}}),),
                why="works around the probe; a pod that really is not ready would get traffic too",
            ),
            Repair(
                name="be more patient",
                steps=(self._probing({"failureThreshold": 10, "initialDelaySeconds": 60}),),
                why="the probe fails later, and the pod is not ready before either",
            ),
            Repair(
                name="a second Deployment behind the Service",
                steps=(Create(second_deployment(self.app, self.service)),),
                why="the broken one stays",
            ),
            restart_only(self.service, why="the new pod has the same probe"),
        ]

    def diagnoses(self) -> Diagnoses:
        other = next(one.name for one in self.topology.services if one.name != self.service)
        return Diagnoses(
            right=(
                f"Deployment {self.service} has a readinessProbe on {self.path} port {self.port}, but the server"
                f" listens on {self.spec.ports[0].target_port}. The pod is Running but never ready, so the Service has"
                " no endpoints.",
                f"Misconfigured readiness probe in the {self.service} workload: it checks port {self.port}, which is"
                " closed. Pods stay not ready and get no traffic.",
            ),
            wrong=(
                f"The Service {self.service} has a wrong selector and therefore no endpoints.",
                f"Deployment {other} has a readiness probe on port {self.port} that fails, so its pods are not ready.",
                "The website refuses connections for all users.",
            ),
        )

    def _probing(self, probe: dict[str, Any] | None) -> Patch:
        container = {"name": self.spec.container, "readinessProbe": probe}
        return pod_template(self.service, containers=[container])
