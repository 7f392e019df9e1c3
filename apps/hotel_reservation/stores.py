"""What is in the six document stores: accounts, and the rows that the services seed.

Read with a small exporter that is in the stores' image, since the shell takes a second for each call. Rows that load
writes (bookings) are left out, and so is what differs between two right installations (ids, salts).
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from sregym.api import ExecResult, Ref, Selection, dig, pod
from sregym.api.app import Profile
from sregym.cluster.contract import Cluster, Reader
from sregym.cluster.objects import POD
from sregym.cluster.tasks import first_error
from sregym.errors import ClusterError, Unavailable

ACCOUNTS = ("root", "admin")
"""Accounts of the stores that ask for a login, each with its name as its password; operators' first."""
REFUSED = ("AuthenticationFailed", "Authentication failed")
WITHIN_S = 15.0
SALTED = frozenset({"_id", "userId", "credentials", "mechanisms"})


@dataclass(frozen=True, kw_only=True)
class Store:
    """One store: its Deployment, and the collections that hold only what its service seeds."""

    name: str
    database: str
    seeded: tuple[str, ...]
    accounts: tuple[str, ...] = ()


STORES = (
    Store(name="mongodb-geo", database="geo-db", seeded=("geo",), accounts=ACCOUNTS),
    Store(name="mongodb-rate", database="rate-db", seeded=("inventory",), accounts=ACCOUNTS),
    Store(name="mongodb-profile", database="profile-db", seeded=("hotels",)),
    Store(name="mongodb-recommendation", database="recommendation-db", seeded=("recommendation",)),
    Store(name="mongodb-reservation", database="reservation-db", seeded=("number",)),
    Store(name="mongodb-user", database="user-db", seeded=("user",)),
)

Rows = Mapping[str, Sequence[Mapping[str, Any]]]


async def contents(cluster: Cluster, *, namespace: str, profile: Profile) -> Mapping[str, Any]:
    """By store: which accounts can log in, the accounts with their roles, and count and digest of the seeded rows.

    Raises ClusterError where a store cannot be read for another reason than a refused login.
    """
    found: dict[str, Any] = {}

    async def one(store: Store) -> None:
        found[store.name] = await _StoreReader(cluster, namespace, profile, store).contents()

    with first_error():
        async with anyio.create_task_group() as group:
            for store in STORES:
                group.start_soon(one, store)
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class _StoreReader:
    cluster: Cluster
    namespace: str
    profile: Profile
    store: Store

    async def contents(self) -> Mapping[str, Any]:
        place = await running_pod(self.cluster, self.namespace, self.store.name)
        if not self.store.accounts:
            open_to_all = await self._export(place, "", self.store.database, self.store.seeded)
            return {"rows": None if open_to_all is None else summary(open_to_all)}
        logins: dict[str, bool] = {}
        users: Rows | None = None
        rows: Rows | None = None
        for account in self.store.accounts:
            seen = await self._export(place, account, "admin", ("system.users",))
            logins[account] = seen is not None
            if seen is not None and users is None:
                users = seen
                rows = await self._export(place, account, self.store.database, self.store.seeded)
        return {
            "logins": logins,
            "users": None if users is None else accounts_of(users["system.users"]),
            "rows": None if rows is None else summary(rows),
        }

    async def _export(self, place: Ref, account: str, database: str, collections: Sequence[str]) -> Rows | None:
        """The documents of collections, or None where the login is refused."""
        argv = export_command(self.profile, account=account, database=database, collections=collections)
        done = await self.cluster.exec(place, argv, within=WITHIN_S)
        if done.code == 0:
            return parsed(done.stdout, collections)
        if any(word in done.stderr for word in REFUSED):
            return None
        raise ClusterError(f"{self.store.name} cannot be read: {_said(done)}")


def export_command(profile: Profile, *, account: str, database: str, collections: Sequence[str]) -> list[str]:
    """A command that prints documents as JSON lines `{"collection": ..., "document": ...}`."""
    login = f"{account}:{account}@" if account else ""
    uri = f"mongodb://{login}127.0.0.1:27017/" + ("?authSource=admin" if account else "")
    if profile == "lite":
        return ["mongod", "export", uri, database, *collections]
    # The original's image has MongoDB's own exporter, for one collection at a time.
    script = 'uri=$1 database=$2; shift 2; for name in "$@"; do mongoexport --quiet --uri="$uri" --db="$database" '
    script += '--collection="$name" | sed "s/.*/{\\"collection\\": \\"$name\\", \\"document\\": &}/"; done'
    return ["bash", "-o", "pipefail", "-e", "-c", script, "export", uri, database, *collections]


def parsed(text: str, collections: Sequence[str]) -> Rows:
    """Documents by collection; one that is empty or absent has none."""
    rows: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for line in text.splitlines():
        one = json.loads(line)
        rows[one["collection"]].append(one["document"])
    return {name: rows[name] for name in collections}


def summary(rows: Rows) -> Mapping[str, Any]:
    """Count and digest of each collection, whatever the order of its documents."""
    return {
        name: {"count": len(documents), "digest": _digest([_plain(document) for document in documents])}
        for name, documents in rows.items()
    }


def accounts_of(documents: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Accounts with their roles, in order of their names."""
    accounts = [{"user": d["user"], "db": d["db"], "roles": _sorted_roles(d.get("roles", []))} for d in documents]
    return sorted(accounts, key=lambda account: (account["db"], account["user"]))


def _sorted_roles(roles: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted(f"{role['role']}@{role['db']}" for role in roles)


def _plain(document: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in document.items() if key not in SALTED}


def _digest(documents: Sequence[Mapping[str, Any]]) -> str:
    lines = sorted(json.dumps(document, sort_keys=True) for document in documents)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _said(done: ExecResult) -> str:
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return said[-1] if said else f"status {done.code}"


async def running_pod(reader: Reader, namespace: str, name: str) -> Ref:
    """A running pod of a workload. Raises Unavailable where there is none."""
    pods = await reader.list(Selection(kind=POD, namespace=namespace, labels=f"io.kompose.service={name}"))
    for one in pods:
        running = dig(one, "status", "phase") == "Running" and not dig(one, "metadata", "deletionTimestamp")
        if running and all(state.get("ready") for state in dig(one, "status", "containerStatuses", default=[])):
            return pod(one["metadata"]["name"], namespace)
    raise Unavailable(f"{name} has no running pod")
