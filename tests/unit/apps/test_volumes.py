"""Volumes written in the provisioner's form, only where the provisioner is the default."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apps.volumes import folder_of, local_path, takes_pods, volume_for
from sregym.api import Obj
from sregym.cluster.fake import FakeCluster

CONFIG = json.dumps({"nodePathMap": [{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": ["/var/volumes"]}]})


def node(name: str, **spec: Any) -> Obj:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec, "status": ready}


def storage_class(provisioner: str) -> Obj:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": provisioner,
    }


async def world(fake: FakeCluster, provisioner: str) -> FakeCluster:
    for name in ("local-path-storage", "shop"):
        await fake.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    await fake.create(storage_class(provisioner))
    meta = {"name": "local-path-config", "namespace": "local-path-storage"}
    await fake.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"config.json": CONFIG}})
    await fake.create(node("b"))
    await fake.create(node("a"))
    await fake.create(node("control", taints=[{"key": "x", "effect": "NoSchedule"}]))
    return fake


async def test_the_local_path_provisioner_is_recognised(fake_cluster: FakeCluster) -> None:
    setup = await local_path(await world(fake_cluster, "rancher.io/local-path"))
    assert setup is not None
    assert (setup.folder, list(setup.nodes), setup.storage_class) == ("/var/volumes", ["a", "b"], "standard")


async def test_another_provisioner_is_left_alone(fake_cluster: FakeCluster) -> None:
    assert await local_path(await world(fake_cluster, "ebs.csi.aws.com")) is None


def test_the_volume_is_the_claims_own() -> None:
    claim: Obj = {
        "metadata": {"name": "geo-pvc", "namespace": "shop", "uid": "u-1"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    from apps.volumes import LocalPath

    volume = volume_for(claim, LocalPath(storage_class="standard", folder="/v", nodes=["a"]), node="a")
    assert volume["metadata"]["name"] == "pvc-u-1"
    assert volume["spec"]["claimRef"]["uid"] == "u-1"
    assert volume["spec"]["hostPath"]["path"] == "/v/pvc-u-1_shop_geo-pvc"
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"


@pytest.mark.parametrize(
    "config", ["", "{}", '{"nodePathMap": []}', '{"nodePathMap": [{"node": "a", "paths": ["/v"]}]}']
)
def test_a_setup_that_differs_by_node_is_left_to_the_provisioner(config: str) -> None:
    assert folder_of(config) is None


@pytest.mark.parametrize(
    ("spec", "takes"),
    [({}, True), ({"unschedulable": True}, False), ({"taints": [{"key": "x", "effect": "NoExecute"}]}, False)],
)
def test_pods_go_only_to_open_nodes(spec: dict[str, Any], takes: bool) -> None:
    assert takes_pods(node("a", **spec)) is takes
