"""A database account that is gone while its client still uses it."""

from __future__ import annotations

from collections.abc import Sequence

from apps.hotel_reservation.app import HotelReservation
from injectors.mongo import DropUser, Login
from injectors.workloads import Reconnect
from oracles.combine import app_settled
from oracles.data import AnonymousRefused, DocumentsKept, MongoReadable, MongoStore
from oracles.exercises import FlushCache, RestartPods
from problems.common import pod_template, restart, restart_only, users_hurt
from sregym.api import (
    Check,
    Concept,
    Diagnoses,
    Exec,
    Exercise,
    Fault,
    FaultClass,
    InOrder,
    Layer,
    Obj,
    Oracle,
    Patch,
    Problem,
    Provenance,
    Repair,
    RootCause,
    ServiceSpec,
    Step,
    deployment,
    on,
)

OF_ROLES = "".join(f"(?<!{words} )" for words in ("role", "roles", "role was", "roles were", "permission", "privilege"))
"""What is said of an account's roles is not said of the account."""
ROOT = Login(user="root", password="root")
GEO = {"store": "mongodb-geo", "client": "geo", "database": "geo-db", "collection": "geo"}
RATE = {"store": "mongodb-rate", "client": "rate", "database": "rate-db", "collection": "inventory"}


class DatabaseUserRemoved(Problem):
    """The account that a service logs in to its database with was dropped."""

    fault_class = FaultClass.SECURITY
    layer = Layer.DATA
    revision = 2
    store: str
    client: str
    database: str
    collection: str
    user: str = "admin"
    password: str = "admin"
    cache: str | None = None

    variants = {
        "storage_user_unregistered-1": on(HotelReservation, provenance=Provenance.PORTED, suites=("smoke",), **GEO),
        "storage_user_unregistered-2": on(
            HotelReservation, provenance=Provenance.PORTED, suites=("smoke",), cache="memcached-rate", **RATE
        ),
    }

    @property
    def spec(self) -> ServiceSpec:
        return self.topology.service(self.store)

    @property
    def roles(self) -> tuple[tuple[str, str], ...]:
        return (("userAdminAnyDatabase", "admin"), ("readWrite", self.database))

    def fault(self) -> Fault:
        claim = next(volume.claim for volume in self.spec.volumes if volume.claim)
        account = Login(user=self.user, password=self.password)
        drop = DropUser(service=self.store, claim=claim, account=account, roles=self.roles, administrator=ROOT)
        return InOrder(drop, Reconnect((self.client,)))

    def symptom(self) -> Check:
        return users_hurt(self.topology, self.client)

    def root_causes(self) -> Sequence[RootCause]:
        return [
            RootCause(
                components=(deployment(self.store),),
                mechanism=f"The database account {self.user}, with which {self.client} logs in, was dropped in"
                f" {self.store}.",
                effect=f"{self.client} is refused at login, exits and restarts in a loop; searches fail.",
                mechanism_concepts=(
                    Concept(
                        "account",
                        r"\buser\b(?![- ](requests?|traffic|facing|impact|searches|service|deployment|pods?))",
                        "account",
                        "credential",
                    ),
                    Concept(
                        "gone",
                        r"missing(?! (\w+ )?(\w+ )?(roles?|permissions?|privileges?))",
                        "no longer exist",
                        rf"{OF_ROLES}(drop|delet|remov)",
                        "(does not|doesn't) exist",
                        "unregistered",
                        r"\bgone\b",
                    ),
                ),
                value_concepts=(Concept("which account", rf"\b{self.user}\b"),),
                effect_concepts=(
                    Concept("login refused", "authenticat", "log ?-?in", "login", "unauthori[sz]ed", "code 18"),
                ),
                victims=(self.client,),
            )
        ]

    def mitigation(self) -> Oracle:
        store = MongoStore(
            selector=self.spec.selector,
            container=self.spec.container,
            database=self.database,
            collection=self.collection,
        )
        login = MongoReadable(store=store, user=self.user, password=self.password, at_least=20)
        flush: tuple[Exercise, ...] = (FlushCache(self.cache),) if self.cache else ()
        return app_settled(
            self.topology,
            proofs=(login, AnonymousRefused(store=store)),
            kept=(DocumentsKept(store=store, user=self.user, password=self.password),),
            exercises=(RestartPods((self.client,)), *flush),
        )

    def repairs(self) -> Sequence[Repair]:
        former = ", ".join(f"{{role: '{role}', db: '{database}'}}" for role, database in self.roles)
        narrow = f"{{role: 'readWrite', db: '{self.database}'}}"
        return [
            Repair(
                name="account back as it was",
                steps=(self._create(self.password, former), *restart(self.client)),
                inverse=True,
            ),
            Repair(
                name="account with no more rights than needed",
                steps=(self._create(self.password, narrow), *restart(self.client)),
            ),
        ]

    def cheats(self) -> Sequence[Repair]:
        narrow = f"{{role: 'readWrite', db: '{self.database}'}}"
        open_door = pod_template(self.store, containers=[{"name": self.spec.container, "args": []}])
        return [
            restart_only(self.client, self.store, why="accounts are kept on the volume"),
            Repair(
                name="switch authentication off",
                steps=(open_door, *restart(self.client)),
                why="anybody may read and write then",
            ),
            Repair(
                name="account with another password",
                steps=(self._create("changed-2024", narrow), *restart(self.client)),
                why="the client does not know it",
            ),
            Repair(
                name="start over with an empty store",
                steps=(self._emptied(), *restart(self.client)),
                why="accounts are made anew, and so are the client's rows; everybody's data is gone",
            ),
        ]

    def diagnoses(self) -> Diagnoses:
        return Diagnoses(
            right=(
                f"In the MongoDB Deployment {self.store} the user {self.user} has been dropped. {self.client} fails to"
                " authenticate, panics and crash-loops, so searches fail.",
                f"Root cause: the account '{self.user}' no longer exists in {self.store}'s admin database (deployment"
                f" {self.store}); logins by {self.client} get AuthenticationFailed.",
            ),
            wrong=(
                f"The {self.client} deployment crashes because of a bug in its code.",
                f"The Deployment {self.store} is down, so {self.client} gets connection refused.",
                "Searches fail with HTTP 500 on the frontend.",
            ),
        )

    def _emptied(self) -> Patch:
        claimed = next(volume for volume in self.spec.volumes if volume.claim)
        volume: Obj = {"name": claimed.name, "persistentVolumeClaim": None, "emptyDir": {}}
        return pod_template(self.store, volumes=[volume])

    def _create(self, password: str, roles: str) -> Step:
        script = f"db.createUser({{user: '{self.user}', pwd: '{password}', roles: [{roles}]}})"
        root = ("-u", ROOT.user, "-p", ROOT.password, "--authenticationDatabase", "admin")
        argv = ("mongo", "--quiet", *root, "admin", "--eval", script)
        return Exec(deployment(self.store), argv, container=self.spec.container)
