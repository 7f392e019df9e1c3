"""What the fingerprint takes from the stores, and what it leaves out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from apps.hotel_reservation import stores
from apps.hotel_reservation.registry import registrations
from apps.hotel_reservation.stores import STORES, accounts_of, contents, export_command, parsed, summary
from sregym.api import ExecResult, HttpReply, Obj, Ref
from sregym.api.app import Profile
from sregym.cluster.fake import FakeCluster
from sregym.errors import ClusterError, Unavailable

NAMESPACE = "hotel-reservation"


def line(collection: str, **document: Any) -> str:
    return json.dumps({"collection": collection, "document": document})


def test_order_and_object_ids_do_not_matter_but_values_do() -> None:
    one = parsed("\n".join([line("geo", _id=1, hotelId="1"), line("geo", _id=2, hotelId="2")]), ["geo"])
    two = parsed("\n".join([line("geo", _id=8, hotelId="2"), line("geo", _id=9, hotelId="1")]), ["geo"])
    other = parsed("\n".join([line("geo", _id=1, hotelId="1"), line("geo", _id=2, hotelId="3")]), ["geo"])
    assert summary(one) == summary(two)
    assert summary(one) != summary(other)
    assert summary(parsed("", ["geo"]))["geo"]["count"] == 0


def test_accounts_are_listed_with_their_roles_and_without_salts() -> None:
    roles = [{"role": "readWrite", "db": "geo-db"}, {"role": "userAdminAnyDatabase", "db": "admin"}]
    found = accounts_of([{"user": "root", "db": "admin", "roles": roles, "credentials": {"salt": "x"}}])
    assert found == [{"user": "root", "db": "admin", "roles": ["readWrite@geo-db", "userAdminAnyDatabase@admin"]}]


def test_bookings_are_no_part_of_it() -> None:
    assert {store.name: store.seeded for store in STORES}["mongodb-reservation"] == ("number",)


def test_both_profiles_have_a_command_for_it() -> None:
    profiles: tuple[Profile, ...] = ("lite", "full")
    for profile in profiles:
        command = export_command(profile, account="root", database="geo-db", collections=["geo"])
        assert "mongodb://root:root@127.0.0.1:27017/?authSource=admin" in command


async def world(fake: FakeCluster) -> FakeCluster:
    await fake.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for store in STORES:
        await fake.create(store_pod(store.name))
    return fake


def store_pod(name: str, *, ip: str = "10.0.0.1") -> Obj:
    meta = {"name": f"{name}-x", "namespace": NAMESPACE, "labels": {"io.kompose.service": name}}
    status = {
        "phase": "Running",
        "podIP": ip,
        "containerStatuses": [{"name": "c", "ready": True}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": []}, "status": status}


class Server:
    """Answers the export command: `accounts` may log in."""

    def __init__(self, *accounts: str, broken: str = "") -> None:
        self.accounts = accounts
        self.broken = broken

    def __call__(self, place: Ref, argv: Sequence[str], stdin: str) -> ExecResult:
        uri, database, *collections = argv[2:]
        if self.broken and self.broken in place.name:
            return ExecResult(code=1, stdout="", stderr="server selection timeout")
        login = uri.removeprefix("mongodb://").partition("@")[0].partition(":")[0] if "@" in uri else ""
        if login and login not in self.accounts:
            return ExecResult(code=1, stdout="", stderr="(AuthenticationFailed) Authentication failed.")
        if database == "admin":
            rows = [line("system.users", user=name, db="admin", roles=[]) for name in self.accounts]
        else:
            rows = [line(name, hotelId="1") for name in collections]
        return ExecResult(code=0, stdout="\n".join(rows), stderr="")


async def test_a_removed_account_shows(fake_cluster: FakeCluster) -> None:
    fake = await world(fake_cluster)
    fake.on_exec = Server("admin", "root")
    before = await contents(fake, namespace=NAMESPACE, profile="lite")
    fake.on_exec = Server("root")
    after = await contents(fake, namespace=NAMESPACE, profile="lite")
    assert before["mongodb-geo"]["logins"] == {"root": True, "admin": True}
    assert after["mongodb-geo"]["logins"] == {"root": True, "admin": False}
    assert len(after["mongodb-geo"]["users"]) == 1
    assert before["mongodb-user"] == after["mongodb-user"]


async def test_a_store_that_lets_nobody_in_is_read_as_such(fake_cluster: FakeCluster) -> None:
    fake = await world(fake_cluster)
    fake.on_exec = Server()
    seen = await contents(fake, namespace=NAMESPACE, profile="lite")
    assert seen["mongodb-geo"] == {"logins": {"root": False, "admin": False}, "users": None, "rows": None}


async def test_a_store_that_does_not_answer_is_an_error_and_not_a_value(fake_cluster: FakeCluster) -> None:
    fake = await world(fake_cluster)
    fake.on_exec = Server("root", "admin", broken="mongodb-user")
    with pytest.raises(ClusterError, match=r"mongodb-user.*server selection"):
        await contents(fake, namespace=NAMESPACE, profile="lite")


async def test_a_store_without_a_pod_is_unavailable(fake_cluster: FakeCluster) -> None:
    await fake_cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    with pytest.raises(Unavailable, match="mongodb-geo"):
        await stores.running_pod(fake_cluster, NAMESPACE, "mongodb-geo")


async def test_an_entry_of_a_dead_pod_is_not_live(fake_cluster: FakeCluster) -> None:
    from apps.hotel_reservation import HotelReservation

    services = [HotelReservation().topology.service("geo")]
    await fake_cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    await fake_cluster.create(store_pod("geo", ip="10.0.0.7"))

    def answer(*addresses: str) -> None:
        body = {str(n): {"Service": "srv-geo", "Address": address} for n, address in enumerate(addresses)}
        fake_cluster.on_request = lambda method, url, sent: HttpReply(status=200, body=json.dumps(body))

    answer("10.0.0.7", "10.0.0.3")
    seen = await registrations(fake_cluster, fake_cluster, namespace=NAMESPACE, services=services)
    assert (seen["srv-geo"].live, seen["srv-geo"].dead) == (1, 1)
    answer("10.0.0.3")
    seen = await registrations(fake_cluster, fake_cluster, namespace=NAMESPACE, services=services)
    assert (seen["srv-geo"].live, seen["srv-geo"].dead) == (0, 1)
    fake_cluster.on_request = lambda method, url, sent: HttpReply(status=0, error="refused")
    with pytest.raises(Unavailable, match="refused"):
        await registrations(fake_cluster, fake_cluster, namespace=NAMESPACE, services=services)
