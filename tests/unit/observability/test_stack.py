"""The stack as objects, and how it gets into a cluster."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from sregym.cluster.objects import CONFIGMAP, DEPLOYMENT, Obj, Ref
from sregym.errors import WaitTimeout
from sregym.gateway.policies import EXEMPT
from sregym.gateway.telemetry.access import TelemetryAccess
from sregym.observability import NAMESPACE, install, objects, recipes, steps
from sregym.observability.stack import Profile, images_of
from tests.unit.observability.observed import ObservedCluster

PROFILES: tuple[Profile, ...] = ("lite", "full")
TELLING = ("sregym", "fault", "inject", "chaos", "bench", "problem", "twin", "load-generator")
WORKLOADS = ("Deployment", "DaemonSet")


def workloads(profile: Profile) -> dict[str, Obj]:
    return {obj["metadata"]["name"]: obj for obj in objects(profile) if obj["kind"] in WORKLOADS}


def containers(profile: Profile) -> list[Obj]:
    return [c for obj in workloads(profile).values() for c in obj["spec"]["template"]["spec"]["containers"]]


@pytest.mark.parametrize("profile", PROFILES)
def test_every_image_is_a_full_reference_of_its_profile(profile: Profile) -> None:
    refs = {container["image"] for container in containers(profile)}
    assert refs == set(images_of(profile).values())
    assert all(":" in ref for ref in refs)
    assert all(ref.startswith("registry.internal/") == (profile == "lite") for ref in refs)


def test_a_recipe_makes_every_image_of_the_lite_profile_and_has_its_steps() -> None:
    made = {ref for recipe in recipes() for ref in recipe.also}
    assert made == set(images_of("lite").values())
    assert {need for recipe in recipes() for need in recipe.needs} == {step.name for step in steps()}


@pytest.mark.parametrize("profile", PROFILES)
def test_the_services_that_agents_ask_are_there(profile: Profile) -> None:
    access = TelemetryAccess.of(profile)
    ports = {
        f"{obj['metadata']['name']}:{port['port']}"
        for obj in objects(profile)
        if obj["kind"] == "Service"
        for port in obj["spec"]["ports"]
    }
    assert {access.metrics, access.traces, access.logs} <= ports
    assert access.namespace == NAMESPACE
    assert NAMESPACE in EXEMPT


@pytest.mark.parametrize("profile", PROFILES)
def test_everything_is_in_its_namespace_and_nothing_tells(profile: Profile) -> None:
    for obj in objects(profile):
        assert obj["metadata"].get("namespace", NAMESPACE) in (NAMESPACE, "kube-system"), obj["metadata"]
        text = yaml.safe_dump(obj).lower().replace("default", "")
        assert not [word for word in TELLING if word in text], obj["metadata"]["name"]


@pytest.mark.parametrize("profile", PROFILES)
def test_what_is_referred_to_comes_first_and_exists(profile: Profile) -> None:
    found = objects(profile)
    names = [(obj["kind"], obj["metadata"]["name"]) for obj in found]
    assert names[0] == ("Namespace", NAMESPACE)
    assert len(set(names)) == len(names)
    for name, obj in workloads(profile).items():
        at = names.index((obj["kind"], name))
        spec = obj["spec"]["template"]["spec"]
        wanted = (
            [("ConfigMap", v["configMap"]["name"]) for v in spec["volumes"] if "configMap" in v]
            if "volumes" in spec
            else []
        )
        wanted += [("ServiceAccount", spec["serviceAccountName"])] if "serviceAccountName" in spec else []
        assert all(one in names[:at] for one in wanted), name


def test_stores_keep_nothing_beyond_their_pod() -> None:
    for name in ("prometheus", "jaeger", "victoria-logs"):
        volumes = workloads("lite")[name]["spec"]["template"]["spec"]["volumes"]
        assert all(set(volume) - {"name"} <= {"emptyDir", "configMap"} for volume in volumes), name
        assert workloads("lite")[name]["spec"]["strategy"] == {"type": "Recreate"}


def test_nothing_can_be_deleted_or_stopped_through_the_stores() -> None:
    flags = " ".join(arg for container in containers("lite") for arg in container.get("args", ()))
    for switch in ("web.enable-admin-api", "web.enable-lifecycle", "delete.enable"):
        assert switch not in flags


def test_another_configuration_is_another_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    before = workloads("lite")["prometheus"]["spec"]["template"]["metadata"]["annotations"]
    monkeypatch.setattr("sregym.observability.stack._config_map", with_a_line_more)
    after = workloads("lite")["prometheus"]["spec"]["template"]["metadata"]["annotations"]
    assert before.keys() == after.keys() == {"checksum/config"}
    assert before != after


def with_a_line_more(name: str, folder: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "data": {"prometheus.yml": "scrape_configs: []"},
    }


def scraped(profile: Profile) -> list[Obj]:
    (config,) = (obj for obj in objects(profile) if obj["metadata"]["name"] == "prometheus-config")
    found: list[Obj] = yaml.safe_load(config["data"]["prometheus.yml"])["scrape_configs"]
    return found


def test_both_profiles_scrape_the_same_and_differ_in_who_tells_the_targets() -> None:
    told, asked = scraped("lite"), scraped("full")
    for one, other in zip(told, asked, strict=True):
        (by_http,), (by_kubernetes,) = one.pop("http_sd_configs"), other.pop("kubernetes_sd_configs")
        assert f"/{by_kubernetes['role']}s" in by_http["url"]
        namespaces = by_kubernetes.get("namespaces", {"names": []})["names"]
        assert by_http["url"].partition("?namespace=")[2] == "".join(namespaces)
        assert one == other


def test_what_tells_the_targets_runs_beside_prometheus_and_nowhere_else() -> None:
    names = {
        profile: [c["name"] for c in workloads(profile)["prometheus"]["spec"]["template"]["spec"]["containers"]]
        for profile in PROFILES
    }
    assert names == {"lite": ["prometheus", "service-discovery"], "full": ["prometheus"]}


async def test_installing_twice_is_installing_once(fake_time: None) -> None:
    cluster = ObservedCluster()
    await install(cluster, "lite")
    before = copy.deepcopy(cluster.objects)
    await install(cluster, "lite")
    assert {ref: obj.get("spec") for ref, obj in before.items()} == {
        ref: obj.get("spec") for ref, obj in cluster.objects.items()
    }


async def test_what_was_changed_is_put_back_and_what_is_of_old_goes(fake_time: None) -> None:
    cluster = ObservedCluster()
    await install(cluster, "lite")
    prometheus = Ref(DEPLOYMENT, "prometheus", NAMESPACE)
    wanted = await cluster.get(prometheus)
    await cluster.patch(prometheus, {"spec": {"replicas": 0}})
    old = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of-old", "namespace": NAMESPACE}, "data": {}}
    await cluster.create(old)
    await install(cluster, "lite")
    assert (await cluster.get(prometheus))["spec"] == wanted["spec"]
    assert await cluster.find(Ref(CONFIGMAP, "of-old", NAMESPACE)) is None


async def test_a_stack_that_does_not_roll_out_is_no_stack(fake_time: None) -> None:
    cluster = ObservedCluster(controllers=False)
    with pytest.raises(WaitTimeout, match="observability stack"):
        await install(cluster, "lite")
