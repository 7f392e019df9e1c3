"""Hotel Reservation's topology holds what the facts about the application say."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from apps.hotel_reservation import HotelReservation
from apps.images import recipes_for
from sregym.api.topology import Topology, Via, When
from sregym.cluster.providers.images import ImageContext, image_step
from sregym.cluster.providers.steps import StepContext
from sregym.errors import DefinitionError

PEERS = {"search", "geo", "rate", "profile", "recommendation", "reservation", "user"}
KEYS = 20


@pytest.fixture
def topology() -> Topology:
    return HotelReservation().topology


def test_it_has_all_its_workloads(topology: Topology) -> None:
    roles = [spec.role for spec in topology.services]
    assert {role: roles.count(role) for role in set(roles)} == {
        "frontend": 1,
        "api": 7,
        "datastore": 6,
        "cache": 3,
        "registry": 1,
        "tracing": 1,
    }


def test_peers_find_each_other_through_the_registry_and_nothing_else_does(topology: Topology) -> None:
    through_registry = {edge.callee for edge in topology.edges if edge.via is Via.REGISTRY}
    assert through_registry == PEERS
    assert {spec.name for spec in topology.services if spec.registers_as} == PEERS


def test_stores_read_only_at_start_are_not_called_per_request(topology: Topology) -> None:
    for name in ("geo", "recommendation", "user"):
        assert topology.callers_of(f"mongodb-{name}", when=When.START) == (name,)
        assert topology.callers_of(f"mongodb-{name}", when=When.CACHE_MISS) == ()


def test_every_address_of_an_edge_stands_in_the_callers_configuration(topology: Topology) -> None:
    for edge in topology.edges:
        if edge.config_key:
            config = json.loads(topology.configmaps[f"{edge.caller}-config"]["config.json"])
            host = config[edge.config_key].partition(":")[0]
            assert host == edge.callee


def test_all_eight_services_have_the_same_configuration_mounted(topology: Topology) -> None:
    mounted = {
        spec.name: [v.configmap for v in spec.volumes] for spec in topology.services if spec.image == topology.name
    }
    assert mounted == {name: [f"{name}-config"] for name in {"frontend", *PEERS}}
    texts = {topology.configmaps[f"{name}-config"]["config.json"] for name in mounted}
    assert len(texts) == 1
    assert len(json.loads(texts.pop())) == KEYS


def test_operations_name_what_hurts_them(topology: Topology) -> None:
    assert topology.operations_of("mongodb-rate") == ("search",)
    assert topology.operations_of("user") == ("user_login", "reserve")
    assert set(topology.operations_of("consul")) == {op.name for op in topology.operations}
    assert topology.operations_of("jaeger") == ()
    assert sum(op.weight for op in topology.operations) == pytest.approx(1.0)


def test_every_lite_image_has_a_recipe_and_no_telling_name(topology: Topology) -> None:
    refs = list(topology.images_of("lite"))
    assert {ref for recipe in recipes_for(refs) for ref in recipe.also} == set(refs)
    assert not [ref for ref in refs if "gym" in ref or "twin" in ref or "fault" in ref]


def test_an_unknown_image_is_a_definition_error() -> None:
    with pytest.raises(DefinitionError, match="nobody/knows:1"):
        recipes_for(["registry.internal/nobody/knows:1"])


def test_the_full_profile_names_nobody_and_only_renamed_images_are_brought_to_the_nodes() -> None:
    refs = set(HotelReservation().topology.images_of("full"))
    assert not [ref for ref in refs if any(word in ref for word in ("sregym", "bench", "ghcr"))]
    (recipe,) = recipes_for(refs)
    assert recipe.also == ["registry.internal/hotel/hotel-reservation:2.4.0"]
    assert recipe.pins == ["ghcr.io/sregym/hotel-reservation:latest"]
    assert refs - set(recipe.also) == {
        *("mongo:4.4.6", "memcached", "hashicorp/consul:1.22.3", "jaegertracing/all-in-one:1.57"),
    }
    lite = set(HotelReservation().topology.images_of("lite"))
    assert not refs & lite


async def test_a_renamed_image_is_the_public_one_and_nothing_else(tmp_path: Path) -> None:
    (recipe,) = recipes_for(HotelReservation().topology.images_of("full"))
    context = StepContext(
        step=image_step(recipe), key="0", out=tmp_path, work=tmp_path, results={}, log=tmp_path / "log", note=print
    )
    await recipe.build(ImageContext(context=tmp_path, base="debian", work=tmp_path, step=context))
    assert (tmp_path / "Dockerfile").read_text() == "FROM ghcr.io/sregym/hotel-reservation:latest\n"
    assert os.listdir(tmp_path) == ["Dockerfile"]
