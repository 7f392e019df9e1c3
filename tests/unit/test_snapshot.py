"""The world compared and written back, on the fake cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sregym.cluster.equalising import restore
from sregym.cluster.fake import FakeCluster
from sregym.cluster.objects import (
    CLUSTERROLEBINDING,
    CONFIGMAP,
    DEPLOYMENT,
    NAMESPACE,
    NODE,
    POD,
    SERVICE,
    Kind,
    Obj,
    Ref,
)
from sregym.cluster.snapshot import Change, Scope, Snapshot, changed_paths, differences, retake, take
from sregym.errors import RecoveryError, Unavailable

pytestmark = pytest.mark.usefixtures("fake_time")

COREDNS = Ref(CONFIGMAP, "coredns", "kube-system")
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def make(kind: Kind, name: str, namespace: str | None = None, **body: Any) -> Obj:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, **body}


@pytest.fixture
async def cluster(fake_cluster: FakeCluster) -> FakeCluster:
    template = {
        "metadata": {"labels": {"app": "dns"}},
        "spec": {
            "containers": [{"name": "dns", "image": "dns:1"}],
            "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
        },
    }
    for obj in (
        make(NODE, "worker", spec={"podCIDR": "10.244.0.0/24"}),
        make(NAMESPACE, "shop"),
        make(CONFIGMAP, "coredns", "kube-system", data={"Corefile": ".:53 {}"}),
        make(
            DEPLOYMENT,
            "coredns",
            "kube-system",
            spec={"replicas": 2, "selector": {"matchLabels": {"app": "dns"}}, "template": template},
        ),
        make(
            SERVICE, "web", "shop", spec={"selector": {"app": "web"}, "ports": [{"port": 80}], "clusterIP": "10.96.0.9"}
        ),
        make(CLUSTERROLEBINDING, "admins", roleRef={"name": "admin"}, subjects=[]),
    ):
        await fake_cluster.create(obj)
    fake_cluster.set_status(Ref(NODE, "worker"), READY)
    return fake_cluster


@pytest.fixture
async def base(cluster: FakeCluster) -> Snapshot:
    return await take(cluster, namespaces=["shop"], scope=Scope.CLUSTER)


async def found(cluster: FakeCluster, base: Snapshot) -> list[str]:
    return [str(one) for one in differences(base, await retake(cluster, base))]


async def test_the_same_world_is_equal(cluster: FakeCluster, base: Snapshot) -> None:
    again = await retake(cluster, base)
    assert differences(base, again) == []
    assert again.digest == base.digest


async def test_pods_that_were_made_again_do_not_matter(cluster: FakeCluster, base: Snapshot) -> None:
    for ref in [ref for ref in cluster.objects if ref.kind == POD]:
        await cluster.delete(ref)
    assert await found(cluster, base) == []


@pytest.mark.parametrize(
    ("ref", "patch"),
    [
        (Ref(SERVICE, "web", "shop"), {"spec": {"clusterIP": "10.96.0.77"}}),
        (Ref(NODE, "worker"), {"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}}),
        (Ref(NODE, "worker"), {"metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": "15"}}}),
        (
            Ref(DEPLOYMENT, "coredns", "kube-system"),
            {
                "metadata": {"annotations": {"deployment.kubernetes.io/revision": "7"}},
                "spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}},
            },
        ),
    ],
)
async def test_generated_fields_do_not_matter(cluster: FakeCluster, base: Snapshot, ref: Ref, patch: Obj) -> None:
    await cluster.patch(ref, patch)
    assert await found(cluster, base) == []


async def test_changes_are_told_with_their_fields(cluster: FakeCluster, base: Snapshot) -> None:
    await cluster.patch(COREDNS, {"data": {"Corefile": "broken"}})
    await cluster.patch(Ref(NODE, "worker"), {"metadata": {"labels": {"disk": "ssd"}}})
    await cluster.delete(Ref(SERVICE, "web", "shop"))
    await cluster.create(make(NAMESPACE, "evil"))
    await cluster.create(make(CONFIGMAP, "notes", "evil", data={}))
    await cluster.create(make(POD, "debug", "default", spec={"containers": [{"name": "x", "image": "y"}]}))
    assert sorted(await found(cluster, base)) == [
        "ConfigMap coredns in kube-system changed: data.Corefile",
        "Namespace evil extra",
        "Node worker changed: metadata.labels",
        "Pod debug in default extra",
        "Service web in shop missing",
    ]


async def test_restore_brings_the_world_back(cluster: FakeCluster, base: Snapshot) -> None:
    await cluster.patch(COREDNS, {"data": {"Corefile": "broken"}})
    await cluster.patch(Ref(NODE, "worker"), {"spec": {"unschedulable": True}, "metadata": {"labels": {"a": "b"}}})
    await cluster.delete(Ref(NAMESPACE, "shop"))
    await cluster.delete(Ref(CLUSTERROLEBINDING, "admins"))
    await cluster.create(make(CLUSTERROLEBINDING, "root", roleRef={"name": "cluster-admin"}, subjects=[]))
    await cluster.create(make(NAMESPACE, "evil"))
    held = make(CONFIGMAP, "held", "default", data={})
    held["metadata"]["finalizers"] = ["agent.example/never"]
    await cluster.create(held)
    await restore(cluster, base, differences(base, await retake(cluster, base)))
    after = await retake(cluster, base)
    assert [str(one) for one in differences(base, after)] == []
    assert after.digest == base.digest


async def test_a_node_keeps_its_address_range(cluster: FakeCluster, base: Snapshot) -> None:
    await cluster.patch(Ref(NODE, "worker"), {"metadata": {"labels": {"a": "b"}}})
    await restore(cluster, base, differences(base, await retake(cluster, base)))
    assert (await cluster.get(Ref(NODE, "worker")))["spec"]["podCIDR"] == "10.244.0.0/24"


async def test_pods_that_read_a_restored_setting_start_afresh(cluster: FakeCluster, base: Snapshot) -> None:
    await cluster.patch(COREDNS, {"data": {"Corefile": "broken"}})
    old = {obj["metadata"]["uid"] for ref, obj in cluster.objects.items() if ref.kind == POD}
    await restore(cluster, base, differences(base, await retake(cluster, base)))
    assert not old & {obj["metadata"]["uid"] for ref, obj in cluster.objects.items() if ref.kind == POD}


async def test_a_list_that_failed_is_not_an_equal_world(cluster: FakeCluster, base: Snapshot) -> None:
    cluster.failing["list"] = Unavailable("down")
    with pytest.raises(Unavailable):
        await retake(cluster, base)


async def test_on_a_shared_cluster_only_our_namespaces_are_looked_at(cluster: FakeCluster) -> None:
    base = await take(cluster, namespaces=["shop"], scope=Scope.NAMESPACES)
    await cluster.patch(COREDNS, {"data": {"Corefile": "theirs"}})
    await cluster.create(make(NAMESPACE, "theirs"))
    await cluster.patch(Ref(NODE, "worker"), {"metadata": {"labels": {"theirs": "yes"}}})
    await cluster.create(make(CONFIGMAP, "left", "shop", data={}))
    assert await found(cluster, base) == ["ConfigMap left in shop extra"]


async def test_the_fingerprint_is_part_of_the_world(cluster: FakeCluster) -> None:
    one = await take(cluster, namespaces=[], scope=Scope.CLUSTER, fingerprint={"users": ["admin", "app"]})
    two = await take(cluster, namespaces=[], scope=Scope.CLUSTER, fingerprint={"users": ["admin"]})
    assert one.digest != two.digest
    [difference] = differences(one, two)
    assert (difference.change, str(difference)) == (Change.CHANGED, "fingerprint users changed")


async def test_a_snapshot_survives_the_disk(base: Snapshot, tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    base.save(file)
    assert Snapshot.load(file) == base
    assert Snapshot.load(file).digest == base.digest
    assert file.stat().st_mode & 0o077 == 0


def test_a_file_that_is_no_snapshot_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    file.write_text('{"v": 1, "scope": "cluster"}')
    with pytest.raises(RecoveryError, match="cannot be read"):
        Snapshot.load(file)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, json_values)
def test_paths_are_found_exactly_where_values_differ(one: Any, two: Any) -> None:
    assert bool(changed_paths(one, two)) == (one != two)


def test_a_key_that_is_absent_differs_from_one_that_is_null() -> None:
    assert changed_paths({}, {"a": None}) == ["a"]
