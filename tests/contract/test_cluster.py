"""What every `Cluster` promises, asked of the fake and of a real API server."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import anyio
import pytest

from sregym.cluster import waits
from sregym.cluster.contract import Change, Cluster, PatchType, Selection
from sregym.cluster.objects import (
    CONFIGMAP,
    DEPLOYMENT,
    NAMESPACE,
    POD,
    SERVICE,
    Obj,
    Ref,
    dig,
)
from sregym.errors import Conflict, DefinitionError, Forbidden, Invalid, NotFound

WITHIN_S = 20.0


def config(namespace: str, name: str = "one", *, labels: dict[str, str] | None = None, **data: str) -> Obj:
    meta = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def deployment(namespace: str, *, replicas: int = 0) -> Obj:
    container = {"name": "main", "image": "pause:1", "env": [{"name": "A", "value": "1"}]}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    meta = {"name": "x", "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def service(namespace: str) -> Obj:
    spec = {"selector": {"app": "x"}, "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}
    meta = {"name": "x", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


async def test_what_was_created_can_be_read(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(config(namespace, a="1"))
    read = await cluster.get(Ref(CONFIGMAP, "one", namespace))
    assert read["data"] == {"a": "1"}
    assert read["metadata"]["uid"] == made["metadata"]["uid"]
    assert read["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert (read["apiVersion"], read["kind"]) == ("v1", "ConfigMap")


async def test_what_is_absent_is_not_found(cluster: Cluster, namespace: str) -> None:
    absent = Ref(CONFIGMAP, "absent", namespace)
    assert await cluster.find(absent) is None
    assert await cluster.delete(absent) is False
    with pytest.raises(NotFound):
        await cluster.get(absent)
    with pytest.raises(NotFound):
        await cluster.patch(absent, {"data": {"a": "1"}})


async def test_creating_twice_is_a_conflict(cluster: Cluster, namespace: str) -> None:
    await cluster.create(config(namespace))
    with pytest.raises(Conflict):
        await cluster.create(config(namespace))


async def test_creating_in_a_namespace_that_is_absent(cluster: Cluster) -> None:
    with pytest.raises((NotFound, Forbidden)):
        await cluster.create(config("no-such-namespace"))


async def test_a_kind_that_is_not_served(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(NotFound):
        await cluster.create({"apiVersion": "x.example/v1", "kind": "Teapot", "metadata": {"name": "a"}})


async def test_an_incomplete_reference_is_refused_before_it_is_sent(cluster: Cluster) -> None:
    with pytest.raises(DefinitionError):
        await cluster.get(Ref(CONFIGMAP, "one"))
    with pytest.raises(DefinitionError):
        await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}})


async def test_lists_are_chosen_by_namespace_name_and_labels(cluster: Cluster, namespace: str) -> None:
    await cluster.create(config(namespace, "one", labels={"tier": "a", "x": "1"}))
    await cluster.create(config(namespace, "two", labels={"tier": "b"}))
    await cluster.create(config(namespace, "three", labels={"tier": "b", "x": "1"}))

    async def names(**chosen: Any) -> set[str]:
        selection = Selection(kind=CONFIGMAP, namespace=namespace, **chosen)
        return {obj["metadata"]["name"] for obj in await cluster.list(selection)} - {"kube-root-ca.crt"}

    assert await names() == {"one", "two", "three"}
    assert await names(name="two") == {"two"}
    assert await names(labels="tier=b") == {"two", "three"}
    assert await names(labels="tier=b,x") == {"three"}
    assert await names(labels="tier!=b,tier") == {"one"}
    assert await names(labels="tier,!x") == {"two"}


async def test_items_of_a_list_know_their_kind(cluster: Cluster, namespace: str) -> None:
    await cluster.create(config(namespace))
    [found] = await cluster.list(Selection(kind=CONFIGMAP, namespace=namespace, name="one"))
    assert (found["apiVersion"], found["kind"]) == ("v1", "ConfigMap")


async def test_long_lists_come_whole(cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sregym.cluster.client.PAGE", 3)
    for number in range(8):
        await cluster.create(config(namespace, f"c{number}", labels={"long": "yes"}))
    found = await cluster.list(Selection(kind=CONFIGMAP, namespace=namespace, labels="long=yes"))
    assert sorted(obj["metadata"]["name"] for obj in found) == [f"c{number}" for number in range(8)]


async def test_merge_patch(cluster: Cluster, namespace: str) -> None:
    await cluster.create(config(namespace, a="1", b="2"))
    patched = await cluster.patch(Ref(CONFIGMAP, "one", namespace), {"data": {"a": None, "c": "3"}})
    assert patched["data"] == {"b": "2", "c": "3"}


async def test_json_patch(cluster: Cluster, namespace: str) -> None:
    await cluster.create(config(namespace, a="1"))
    ref = Ref(CONFIGMAP, "one", namespace)
    patch = [{"op": "replace", "path": "/data/a", "value": "2"}]
    assert (await cluster.patch(ref, patch, PatchType.JSON))["data"] == {"a": "2"}
    with pytest.raises(Invalid):
        await cluster.patch(ref, [{"op": "remove", "path": "/data/zzz"}], PatchType.JSON)


async def test_strategic_patch_merges_containers_and_environment_by_name(cluster: Cluster, namespace: str) -> None:
    await cluster.create(deployment(namespace))
    ref = Ref(DEPLOYMENT, "x", namespace)
    container = {"name": "main", "env": [{"name": "B", "value": "2"}]}
    patch: Obj = {"spec": {"template": {"spec": {"containers": [container]}}}}
    patched = await cluster.patch(ref, patch, PatchType.STRATEGIC)
    [found] = dig(patched, "spec", "template", "spec", "containers")
    assert found["image"] == "pause:1"
    assert {entry["name"]: entry["value"] for entry in found["env"]} == {"A": "1", "B": "2"}
    container["env"] = [{"name": "A", "$patch": "delete"}]
    patched = await cluster.patch(ref, patch, PatchType.STRATEGIC)
    assert [e["name"] for e in dig(patched, "spec", "template", "spec", "containers", 0, "env")] == ["B"]


async def test_strategic_patch_merges_service_ports_by_port(cluster: Cluster, namespace: str) -> None:
    await cluster.create(service(namespace))
    patch = {"spec": {"ports": [{"port": 81, "targetPort": 9999}]}}
    patched = await cluster.patch(Ref(SERVICE, "x", namespace), patch, PatchType.STRATEGIC)
    ports = {port["port"]: port.get("targetPort") for port in patched["spec"]["ports"]}
    assert ports[81] == 9999
    assert set(ports) == {80, 81}


async def test_a_change_moves_the_resource_version_and_a_null_change_does_not(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(config(namespace, a="1"))
    ref = Ref(CONFIGMAP, "one", namespace)
    same = await cluster.patch(ref, {"data": {"a": "1"}})
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    changed = await cluster.patch(ref, {"data": {"a": "2"}})
    assert changed["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]


async def test_generation_follows_the_specification(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(deployment(namespace))
    ref = Ref(DEPLOYMENT, "x", namespace)
    labelled = await cluster.patch(ref, {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["generation"] == made["metadata"]["generation"] == 1
    paused = await cluster.patch(ref, {"spec": {"paused": True}})
    assert paused["metadata"]["generation"] == 2


async def test_replacing_an_outdated_object_is_a_conflict(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(config(namespace, a="1"))
    await cluster.patch(Ref(CONFIGMAP, "one", namespace), {"data": {"a": "2"}})
    with pytest.raises(Conflict):
        await cluster.replace({**made, "data": {"a": "3"}})
    fresh = await cluster.get(Ref(CONFIGMAP, "one", namespace))
    assert (await cluster.replace({**fresh, "data": {"z": "3"}}))["data"] == {"z": "3"}


async def test_deleting_by_uid_spares_another_of_the_same_name(cluster: Cluster, namespace: str) -> None:
    made = await cluster.create(config(namespace))
    ref = Ref(CONFIGMAP, "one", namespace)
    with pytest.raises(Conflict):
        await cluster.delete(ref, uid="00000000-0000-0000-0000-000000000000")
    assert await cluster.delete(ref, uid=made["metadata"]["uid"]) is True
    assert await cluster.find(ref) is None


async def test_apply_creates_then_changes_and_keeps_what_others_set(cluster: Cluster, namespace: str) -> None:
    manifest = config(namespace, a="1")
    del manifest["metadata"]["namespace"]
    await cluster.apply([manifest], namespace=namespace)
    ref = Ref(CONFIGMAP, "one", namespace)
    await cluster.patch(ref, {"data": {"theirs": "x"}})
    await cluster.apply([{**manifest, "data": {"a": "2"}}], namespace=namespace)
    found = await cluster.get(ref)
    assert found["data"] == {"a": "2", "theirs": "x"}
    assert "kubectl.kubernetes.io/last-applied-configuration" not in found["metadata"].get("annotations", {})


async def test_a_watch_lists_marks_the_end_and_then_tells_changes(cluster: Cluster, namespace: str) -> None:
    await cluster.create(config(namespace, a="1", labels={"w": "1"}))
    ref = Ref(CONFIGMAP, "one", namespace)
    told: list[tuple[str, str] | None] = []
    listed = anyio.Event()

    async def change() -> None:
        await listed.wait()
        await cluster.create(config(namespace, "two", labels={"w": "1"}))
        await cluster.create(config(namespace, "unseen"))
        await cluster.patch(ref, {"data": {"a": "2"}})
        await cluster.delete(ref)

    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as group:
            group.start_soon(change)
            watch = cluster.watch(Selection(kind=CONFIGMAP, namespace=namespace, labels="w=1"))
            async with aclosing(watch) as events:
                async for event in events:
                    told.append((event.change.value, event.obj["metadata"]["name"]) if event else None)
                    if event is None:
                        listed.set()
                    elif event.change is Change.DELETED:
                        break
    assert told == [("LISTED", "one"), None, ("ADDED", "two"), ("MODIFIED", "one"), ("DELETED", "one")]


async def test_a_deployment_gets_its_status_and_its_observed_generation(cluster: Cluster, namespace: str) -> None:
    await cluster.create(deployment(namespace))
    ref = Ref(DEPLOYMENT, "x", namespace)

    async def seen() -> Obj | None:
        found = await cluster.get(ref)
        same = dig(found, "status", "observedGeneration") == found["metadata"]["generation"]
        return found if same else None

    found = await waits.poll(seen, what="the controller has seen it", every=0.1, within=WITHIN_S)
    assert dig(found, "status", "availableReplicas", default=0) == 0


async def test_ordinary_writes_do_not_change_status(cluster: Cluster, namespace: str) -> None:
    await cluster.create(deployment(namespace))
    ref = Ref(DEPLOYMENT, "x", namespace)
    patched = await cluster.patch(ref, {"status": {"availableReplicas": 77}})
    assert dig(patched, "status", "availableReplicas", default=0) != 77


async def test_a_namespace_takes_everything_with_it(cluster: Cluster, namespace: str) -> None:
    await cluster.create(config(namespace))
    await cluster.delete(Ref(NAMESPACE, namespace))

    async def gone() -> bool | None:
        return True if await cluster.find(Ref(NAMESPACE, namespace)) is None else None

    await waits.poll(gone, what="the namespace is gone", every=0.2, within=WITHIN_S * 2)
    assert await cluster.find(Ref(CONFIGMAP, "one", namespace)) is None


async def test_identity_is_stable(cluster: Cluster) -> None:
    assert await cluster.identity() == await cluster.identity() != ""


async def test_kinds_are_discovered(cluster: Cluster) -> None:
    kinds = await cluster.kinds()
    assert {DEPLOYMENT, POD, CONFIGMAP, NAMESPACE} <= set(kinds)


async def test_exec_and_logs_of_an_absent_pod_are_not_found(cluster: Cluster, namespace: str) -> None:
    absent = Ref(POD, "absent", namespace)
    with pytest.raises(NotFound):
        await cluster.exec(absent, ["true"])
    with pytest.raises(NotFound):
        await cluster.logs(absent)
