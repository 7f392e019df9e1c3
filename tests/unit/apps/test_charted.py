"""From a topology to values, and from values to manifests (the latter where there is a helm)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from apps.charted import batches, in_order, load_topology, merged, values_of
from apps.hotel_reservation import HotelReservation
from sregym.api import Obj
from sregym.api.app import Shipped
from sregym.errors import CommandError, DefinitionError, PrerequisiteError
from sregym.settings import Settings

TELLING = ("sregym", "fault", "inject", "twin", "benchmark", "helm")


def find_helm() -> Path | None:
    """helm on PATH, or the newest that was built here."""
    if found := shutil.which("helm"):
        return Path(found)
    built = sorted((Settings().paths.cache / "steps" / "go.helm").glob("*/helm"), key=lambda path: path.stat().st_mtime)
    return built[-1] if built else None


HELM = find_helm()
with_helm = pytest.mark.skipif(HELM is None, reason="no helm here")


@pytest.fixture
def hotel() -> HotelReservation:
    return HotelReservation(helm=HELM or Path("helm"))


def named(objects: list[Obj] | Any, kind: str) -> dict[str, Obj]:
    return {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == kind}


def test_the_port_for_metrics_is_found_by_its_name_in_every_service_that_has_one() -> None:
    services = values_of(HotelReservation().topology, "lite")["services"]
    named_ports = {s["name"]: [p["port"] for p in s["container_ports"] if p.get("name") == "metrics"] for s in services}
    api = {"frontend", "search", "geo", "rate", "profile", "recommendation", "reservation", "user", "jaeger"}
    assert {name for name, ports in named_ports.items() if ports} == api
    assert all(len(ports) <= 1 for ports in named_ports.values())


def test_values_follow_the_profile() -> None:
    hotel = HotelReservation()
    lite = {s["name"]: s["image"] for s in values_of(hotel.topology, "lite")["services"]}
    full = {s["name"]: s["image"] for s in values_of(hotel.topology, "full")["services"]}
    assert lite["mongodb-geo"].startswith("registry.internal/")
    assert full["mongodb-geo"] == "mongo:4.4.6"


def test_values_are_laid_over_by_the_services_name() -> None:
    values = {"services": [{"name": "a", "env": {"X": "1", "Y": "2"}}, {"name": "b"}], "imagePullPolicy": "Always"}
    over = {"services": {"a": {"env": {"X": "3"}, "replicas": 2}}, "configmaps": {"c": {"k": "v"}}}
    assert merged(values, over) == {
        "services": [{"name": "a", "env": {"X": "3", "Y": "2"}, "replicas": 2}, {"name": "b"}],
        "imagePullPolicy": "Always",
        "configmaps": {"c": {"k": "v"}},
    }
    assert values["services"][0] == {"name": "a", "env": {"X": "1", "Y": "2"}}


def test_values_for_a_service_that_there_is_not_are_refused() -> None:
    with pytest.raises(DefinitionError, match="nowhere"):
        merged({"services": [{"name": "a"}]}, {"services": {"nowhere": {}}})


def test_objects_are_ordered_so_that_each_finds_what_it_needs() -> None:
    kinds = ["Deployment", "Service", "NetworkPolicy", "ConfigMap", "Namespace"]
    ordered = in_order({"kind": kind, "metadata": {"name": "x"}} for kind in kinds)
    assert [obj["kind"] for obj in ordered] == ["Namespace", "ConfigMap", "Service", "NetworkPolicy", "Deployment"]
    assert [len(batch) for batch in batches([*ordered, ordered[-1]])] == [1, 1, 1, 1, 2]


def test_a_topology_that_does_not_hold_together_says_where(tmp_path: Path) -> None:
    path = tmp_path / "topology.yaml"
    path.write_text("name: x\n", encoding="utf-8")
    with pytest.raises(DefinitionError, match=r"topology\.yaml"):
        load_topology(path)


@with_helm
async def test_the_manifests_are_those_of_the_facts(hotel: HotelReservation) -> None:
    objects = await hotel.manifests()
    deployments = named(objects, "Deployment")
    assert len(deployments) == 19
    assert len(named(objects, "PersistentVolumeClaim")) == 6
    assert named(objects, "Service")["jaeger-out"]["spec"]["type"] == "NodePort"
    geo = deployments["geo"]["spec"]["template"]["spec"]["containers"][0]
    assert geo["command"] == ["geo"]
    assert geo["resources"] == {"requests": {"cpu": "100m"}, "limits": {"cpu": "1000m"}}
    assert geo["volumeMounts"][0]["subPath"] == "config.json"
    assert "readinessProbe" not in geo
    store = deployments["mongodb-geo"]["spec"]
    assert store["strategy"] == {"type": "Recreate"}
    assert store["template"]["spec"]["containers"][0]["args"] == ["--auth"]


@with_helm
async def test_every_service_selects_its_workload_and_nothing_else(hotel: HotelReservation) -> None:
    objects = await hotel.manifests()
    labels = {
        name: d["spec"]["template"]["metadata"]["labels"].items() for name, d in named(objects, "Deployment").items()
    }
    for service in named(objects, "Service").values():
        selector = service["spec"]["selector"].items()
        assert len([name for name, carried in labels.items() if selector <= carried]) == 1


@with_helm
async def test_nothing_in_the_manifests_tells_what_they_are_for(hotel: HotelReservation) -> None:
    text = str(await hotel.manifests()).lower()
    assert [word for word in TELLING if word in text] == []


@with_helm
async def test_what_a_problem_ships_is_part_of_the_app(hotel: HotelReservation) -> None:
    extra = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {}}
    shipped = Shipped(values={"services": {"geo": {"replicas": 3, "env": {"GC": "50"}}}}, objects=[extra])
    objects = await hotel.manifests(shipped)
    geo = named(objects, "Deployment")["geo"]["spec"]
    assert geo["replicas"] == 3
    assert {"name": "GC", "value": "50"} in geo["template"]["spec"]["containers"][0]["env"]
    assert "settings" in named(objects, "ConfigMap")


async def test_without_helm_the_user_is_told(tmp_path: Path) -> None:
    app = HotelReservation(helm=tmp_path / "no-such-helm")
    with pytest.raises((PrerequisiteError, CommandError), match="no-such-helm"):
        await app.manifests(Shipped(values={"imagePullPolicy": "Never"}))
