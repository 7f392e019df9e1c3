"""A key that is gone from a service's mounted configuration file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from apps.hotel_reservation.app import HotelReservation
from injectors.objects import DropConfigKey
from injectors.workloads import Reconnect
from oracles.combine import app_settled
from oracles.exercises import RestartPods
from oracles.wiring import wired
from problems.common import config_of, configuration, configure, often_used, peers, pod_template, users_hurt
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
    Via,
    configmap,
    deployment,
    on,
)


class MissingConfigKey(Problem):
    """The configuration file of a service lacks the address of the store that it needs to start."""

    fault_class = FaultClass.MISCONFIGURATION
    revision = 3
    layer = Layer.APPLICATION
    service: str
    key: str

    variants = {
        "configmap_drift_hotel_reservation": on(
            HotelReservation,
            service="geo",
            key="GeoMongoAddress",
            provenance=Provenance.NEW,
            suites=("smoke", "demo"),
        ),
    }

    @classmethod
    def targets(cls, app: App) -> Iterable[Self]:
        """Every address of a store in a configuration file whose reader users need."""
        for edge in app.topology.edges:
            stored = app.topology.service(edge.callee).role in ("datastore", "cache")
            if edge.config_key and edge.via is Via.SERVICE and stored and often_used(app.topology, edge.caller):
                yield cls(app=app, service=edge.caller, key=edge.config_key)

    @property
    def store(self) -> str:
        """The service whose address the key holds."""
        edges = (e for e in self.topology.edges if e.caller == self.service and e.config_key == self.key)
        return next(edges).callee

    @property
    def configmap(self) -> str:
        return config_of(self.topology, self.service)[0]

    @property
    def address(self) -> str:
        return str(configuration(self.topology, self.service)[self.key])

    def fault(self) -> Fault:
        name, file = config_of(self.topology, self.service)
        return InOrder(DropConfigKey(configmap=configmap(name), file=file, key=self.key), Reconnect((self.service,)))

    def symptom(self) -> Check:
        return users_hurt(self.topology, self.service)

    def root_causes(self) -> Sequence[RootCause]:
        return [
            RootCause(
                components=(configmap(self.configmap),),
                mechanism=f"ConfigMap {self.configmap} lacks the key {self.key} (it was {self.address}),"
                f" so {self.service} starts with an empty address for {self.store}.",
                effect=f"{self.service} cannot reach {self.store}, exits and restarts in a loop; requests fail.",
                mechanism_concepts=(
                    Concept(
                        "missing",
                        "missing",
                        "lacks?",
                        "absent",
                        "removed",
                        "delet",
                        r"\bno (key|entry|value)",
                        rf"\b(has|have|with|there is) no\W+{self.key}",
                        "dropped",
                        r"\blost\b",
                        r"\bgone\b",
                        "no longer (contains?|has|defines?|includes?)",
                        "(does|do|did)( not|n't) (contain|have|define|include)",
                        r"(is|are|was)( not|n't) (set|defined|present|there)\b",
                        r"\bunset\b",
                        "without",
                    ),
                ),
                value_concepts=(Concept("the key", self.key),),
                effect_concepts=(
                    Concept(
                        "does not start", "crash", "restart", "panic", "exits?", "cannot (start|reach|connect)", "fail"
                    ),
                ),
                victims=(self.service, self.store),
            )
        ]

    def mitigation(self) -> Oracle:
        return app_settled(
            self.topology,
            proofs=(wired(self.topology, caller=self.service, callee=self.store),),
            exercises=(RestartPods((self.service,)),),
        )

    def repairs(self) -> Sequence[Repair]:
        return [
            Repair(name="key back", steps=configure(self.topology, self.service, {}), inverse=True),
            Repair(name="use the file in the image", steps=(self._unmounted(),)),
        ]

    def cheats(self) -> Sequence[Repair]:
        found = [
            Repair(
                name="key there but empty",
                steps=configure(self.topology, self.service, {self.key: ""}),
                why="a key without a value is no address",
            ),
            Repair(
                name="scale the service to zero",
                steps=(Scale(deployment(self.service), 0),),
                why="nothing crashes because nothing runs",
            ),
        ]
        for peer in list(peers(self.topology, self.store))[:1]:
            address = f"{peer.name}:{peer.ports[0].port}"
            found.append(
                Repair(
                    name=f"use {peer.name}",
                    steps=configure(self.topology, self.service, {self.key: address}),
                    why="another service's store",
                )
            )
        return found

    def diagnoses(self) -> Diagnoses:
        return Diagnoses(
            right=(
                f"ConfigMap {self.configmap} is missing {self.key}. {self.service} therefore has no database address,"
                " panics at start and crash-loops, and requests fail.",
                f"Root cause: the config file in configmap/{self.configmap} does not contain the entry {self.key}"
                f" any more, so the {self.service} pod cannot connect to {self.store} and keeps restarting.",
            ),
            wrong=(
                f"{self.store} is down and refuses connections, which makes {self.service} crash.",
                f"The {self.service} Deployment is killed for lack of memory.",
                "Searches on the frontend answer with HTTP 500.",
            ),
        )

    def _unmounted(self) -> Patch:
        spec = self.topology.service(self.service)
        volume = next(one for one in spec.volumes if one.configmap == self.configmap)
        mounts = [{"mountPath": volume.mount, "$patch": "delete"}]
        return pod_template(
            self.service,
            containers=[{"name": spec.container, "volumeMounts": mounts}],
            volumes=[{"name": volume.name, "$patch": "delete"}],
        )
