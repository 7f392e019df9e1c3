"""The playbook's rules on worlds made by hand: each finds its own trouble, and nothing in a healthy world."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from sregym.agents.workstation.oncall import playbook, rollback
from sregym.agents.workstation.oncall.findings import SURE, Finding
from sregym.agents.workstation.oncall.world import World

Obj = dict[str, Any]
SCRIPT = "db.createUser({user: 'keeper', pwd: 'keeper', roles: []})"


def workload(name: str, *, port: int = 8080, config: str | None = None) -> Obj:
    labels = {"app": name}
    container: Obj = {"name": "main", "image": "shop:1", "ports": [{"containerPort": port}]}
    volumes = [{"name": "config", "configMap": {"name": config}}] if config else []
    return {
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop", "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": volumes}},
        },
    }


def pod(owner: Obj, *, ready: bool = True) -> Obj:
    template = owner["spec"]["template"]
    return {
        "metadata": {"name": f"{owner['metadata']['name']}-1", "labels": template["metadata"]["labels"]},
        "spec": {"containers": copy.deepcopy(template["spec"]["containers"])},
        "status": {
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [{"name": "main", "restartCount": 0, "state": {"running": {}}}],
        },
    }


def service(name: str, *, port: int = 8080) -> Obj:
    ports = [{"port": port, "targetPort": port}]
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": {"selector": {"app": name}, "ports": ports}}


def configmap(name: str, **files: str) -> Obj:
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "data": {file.replace("_", "."): files[file] for file in files},
    }


def healthy() -> World:
    names = ("web", "cart", "stock", "store")
    workloads = [workload(name, config=f"{name}-config") for name in names]
    addresses = {"cart": "cart:8080", "stock": "stock:8080", "store": "store:8080"}
    return World(
        namespace="shop",
        workloads=workloads,
        pods=[pod(one) for one in workloads],
        services=[service(name) for name in names],
        configmaps=[configmap(f"{name}-config", config_json=json.dumps(addresses)) for name in names[:3]]
        + [configmap("store-config", users_js=SCRIPT, clean_js="db.dropUser('keeper')")],
        events=[],
        nodes=[{"metadata": {"name": "n1", "labels": {"disk": "ssd"}}}],
    )


def container(world: World, name: str) -> Obj:
    found = world.workload(name)
    assert found is not None
    first: Obj = found["spec"]["template"]["spec"]["containers"][0]
    return first


def pod_named(world: World, name: str) -> Obj:
    return next(one for one in world.pods if one["metadata"]["name"] == f"{name}-1")


def not_ready(world: World, name: str) -> Obj:
    found = pod_named(world, name)
    found["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    return found


def wrong_port(world: World) -> None:
    world.services[1]["spec"]["ports"][0]["targetPort"] = 9999


def wrong_selector(world: World) -> None:
    world.services[1]["spec"]["selector"] = {"app": "basket"}


def no_service(world: World) -> None:
    del world.services[1]


def no_replicas(world: World) -> None:
    world.workloads[1]["spec"]["replicas"] = 0
    world.pods.remove(pod_named(world, "cart"))


def bad_node(world: World) -> None:
    world.workloads[1]["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "tape"}
    message = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    not_ready(world, "cart")["status"]["conditions"].append(
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    )


def small_memory(world: World) -> None:
    container(world, "cart")["resources"] = {"limits": {"memory": "8Mi"}}
    status = not_ready(world, "cart")["status"]["containerStatuses"][0]
    status["lastState"] = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}


def bad_probe(world: World) -> None:
    container(world, "cart")["readinessProbe"] = {"httpGet": {"path": "/", "port": 9}}
    not_ready(world, "cart")
    world.events.append({"involvedObject": {"name": "cart-1"}, "message": "Readiness probe failed: refused"})


def lost_key(world: World) -> None:
    left = {"cart": "cart:8080", "stock": "stock:8080"}
    world.configmaps[1] = configmap("cart-config", config_json=json.dumps(left))


def no_account(world: World) -> None:
    not_ready(world, "cart")
    world._logs["cart-1"] = "dial store\npanic: Authentication failed. (code 18)"


TROUBLES: list[tuple[Callable[[World], None], tuple[str, ...], str]] = [
    (wrong_port, ("Service cart", "9999", "8080"), "patch services cart"),
    (wrong_selector, ("Service cart", "basket"), "patch services cart"),
    (no_service, ("Service cart", "missing"), "create -f -"),
    (no_replicas, ("Deployment cart", "0 replicas"), "scale deployments/cart --replicas=1"),
    (bad_node, ("Deployment cart", "nodeSelector", "tape"), "patch deployments cart"),
    (small_memory, ("Deployment cart", "memory limit", "8Mi"), "patch deployments cart"),
    (bad_probe, ("Deployment cart", "readinessProbe", "port 9"), "patch deployments cart"),
    (lost_key, ("ConfigMap cart-config", "lacks the key store"), "patch configmaps cart-config"),
    (no_account, ("Deployment store", "account", "keeper"), "exec deployments/store"),
]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What kubectl is called with; every call succeeds."""
    seen: list[str] = []

    def run(argv: list[str], **more: object) -> subprocess.CompletedProcess[str]:
        seen.append(" ".join(argv[1:]))
        return subprocess.CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr("sregym.agents.workstation.oncall.kube.subprocess.run", run)
    return seen


def found_in(world: World, monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    monkeypatch.setattr(World, "look", lambda namespace: world)
    return playbook.findings(["shop"])


def test_a_healthy_world_has_no_findings(monkeypatch: pytest.MonkeyPatch, calls: list[str]) -> None:
    assert found_in(healthy(), monkeypatch) == []


@pytest.mark.parametrize(("trouble", "words", "repair"), TROUBLES, ids=[trouble[0].__name__ for trouble in TROUBLES])
def test_each_trouble_is_the_surest_finding(
    trouble: Callable[[World], None],
    words: tuple[str, ...],
    repair: str,
    monkeypatch: pytest.MonkeyPatch,
    calls: list[str],
) -> None:
    world = healthy()
    trouble(world)
    causes = playbook.surest(found_in(world, monkeypatch))
    assert len(causes) == 1
    assert causes[0].weight == SURE
    for word in words:
        assert word in causes[0].cause
    calls.clear()
    causes[0].repair()
    assert calls[0].startswith(repair)


def test_an_account_is_made_again_by_the_right_script(monkeypatch: pytest.MonkeyPatch, calls: list[str]) -> None:
    world = healthy()
    no_account(world)
    finding = playbook.surest(found_in(world, monkeypatch))[0]
    calls.clear()
    finding.repair()
    assert calls[0].endswith("users.js")
    assert calls[-1].startswith("rollout restart deployments/cart")
    assert not any("clean.js" in call for call in calls)


def test_a_store_that_wants_a_login_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    world = healthy()
    no_account(world)
    finding = playbook.surest(found_in(world, monkeypatch))[0]
    calls: list[str] = []

    def run(argv: list[str], **more: object) -> subprocess.CompletedProcess[str]:
        calls.append(" ".join(argv[1:]))
        refused = "exec" in calls[-1] and "-u keeper" not in calls[-1]
        return subprocess.CompletedProcess(argv, int(refused), "", "requires authentication" if refused else "")

    monkeypatch.setattr("sregym.agents.workstation.oncall.kube.subprocess.run", run)
    finding.repair()
    assert any("-u keeper" in call and "users.js" in call for call in calls)


def test_the_newest_change_is_what_people_changed_last() -> None:
    def changed(time: str, manager: str, **more: str) -> Obj:
        fields = [{"manager": manager, "time": time, **more}]
        return {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": fields}}

    assert rollback.changed_at(changed("2026-02-02T00:00:00Z", "kubectl")) == "2026-02-02T00:00:00Z"
    assert rollback.changed_at(changed("2026-02-02T00:00:00Z", "kube-controller-manager")) == "2026-01-01T00:00:00Z"
    assert rollback.changed_at(changed("2026-02-02T00:00:00Z", "x", subresource="status")) == "2026-01-01T00:00:00Z"
