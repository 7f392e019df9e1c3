"""One object brought back: what cannot be written as it was, and what must be kept of the present."""

from __future__ import annotations

from typing import Any

import pytest

from sregym.cluster.fake import FakeCluster
from sregym.cluster.normalise import comparable, counts
from sregym.cluster.objects import (
    CLUSTERROLE,
    CONFIGMAP,
    DEPLOYMENT,
    JOB,
    NODE,
    POD,
    PVC,
    SECRET,
    SERVICE,
    Kind,
    Obj,
    Ref,
)
from sregym.cluster.restoring import for_creation, for_replacement, remove, restore
from sregym.errors import Conflict, Invalid, RecoveryError, Unavailable

pytestmark = pytest.mark.usefixtures("fake_time")

SETTING = Ref(CONFIGMAP, "setting", "default")


def make(kind: Kind, name: str = "x", **body: Any) -> Obj:
    meta = body.pop("metadata", {})
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": name, "namespace": "default", "uid": "u", "resourceVersion": "7", **meta},
        **body,
    }


def test_a_claim_is_made_anew_without_its_volume() -> None:
    notes = {"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "w", "team": "a"}
    claim = make(PVC, metadata={"annotations": notes}, spec={"volumeName": "pv-1", "storageClassName": "standard"})
    made = for_creation(Ref(PVC, "x", "default"), claim)
    assert made["spec"] == {"storageClassName": "standard"}
    assert made["metadata"]["annotations"] == {"team": "a"}


def test_a_claim_keeps_its_present_volume() -> None:
    before = make(PVC, spec={"volumeName": "pv-1"})
    present = make(PVC, spec={"volumeName": "pv-2"})
    assert for_replacement(Ref(PVC, "x", "default"), before, present)["spec"]["volumeName"] == "pv-2"


def test_a_service_asks_for_its_old_address() -> None:
    before = make(SERVICE, spec={"clusterIP": "10.96.0.7", "healthCheckNodePort": 30000})
    assert for_creation(Ref(SERVICE, "x", "default"), before)["spec"] == {"clusterIP": "10.96.0.7"}


def test_a_headless_service_stays_headless() -> None:
    ref = Ref(SERVICE, "x", "default")
    before, present = make(SERVICE, spec={"clusterIP": "None"}), make(SERVICE, spec={"clusterIP": "10.96.0.7"})
    assert comparable(SERVICE, before) != comparable(SERVICE, present)
    assert for_replacement(ref, before, present)["spec"]["clusterIP"] == "None"


async def test_an_address_that_was_given_away_is_let_go(fake_cluster: FakeCluster) -> None:
    before = make(SERVICE, spec={"clusterIP": "10.96.0.7", "ports": [{"port": 80}]})
    refused: list[str] = []

    def refuse(point: str) -> None:
        if point == "before:create" and not refused:
            refused.append(point)
            raise Invalid("provided IP is already allocated", status=422)

    fake_cluster.checkpoint = refuse
    assert await restore(fake_cluster, Ref(SERVICE, "x", "default"), before)
    made = await fake_cluster.get(Ref(SERVICE, "x", "default"))
    assert made["spec"] == {"ports": [{"port": 80}]}


def test_a_job_is_made_anew_without_what_its_uid_made() -> None:
    labels = {"batch.kubernetes.io/controller-uid": "u", "job-name": "x", "app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {}}
    job = make(
        JOB, spec={"selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}, "template": template}
    )
    made = for_creation(Ref(JOB, "x", "default"), job)
    assert "selector" not in made["spec"]
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "a"}


async def test_an_owner_that_is_gone_is_not_named_again(fake_cluster: FakeCluster) -> None:
    owner = await fake_cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta("owner")})

    def reference(uid: str) -> Obj:
        return {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}

    for uid, kept in ((owner["metadata"]["uid"], 1), ("old", 0)):
        before = make(CONFIGMAP, "setting", metadata={"ownerReferences": [reference(uid)]}, data={})
        await restore(fake_cluster, SETTING, before)
        made = await fake_cluster.get(SETTING)
        assert len(made["metadata"].get("ownerReferences", [])) == kept
        await fake_cluster.delete(SETTING)


def _meta(name: str) -> Obj:
    return {"name": name, "namespace": "default"}


async def test_what_cannot_be_changed_in_place_is_made_again(fake_cluster: FakeCluster) -> None:
    made = await fake_cluster.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta("setting"), "data": {}}
    )
    before = {**made, "data": {"a": "1"}, "immutable": True}
    fake_cluster.failing["replace"] = Invalid("field is immutable", status=422)
    assert await restore(fake_cluster, SETTING, before)
    again = await fake_cluster.get(SETTING)
    assert again["data"] == {"a": "1"}
    assert again["metadata"]["uid"] != made["metadata"]["uid"]


async def test_conflicts_and_short_outages_are_outlasted(fake_cluster: FakeCluster) -> None:
    made = await fake_cluster.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta("setting"), "data": {}}
    )
    troubles: list[Exception] = [Conflict("changed", status=409), Unavailable("down"), Unavailable("down")]

    def trouble(point: str) -> None:
        if point == "before:replace" and troubles:
            raise troubles.pop()

    fake_cluster.checkpoint = trouble
    assert await restore(fake_cluster, SETTING, {**made, "data": {"a": "1"}})
    assert troubles == []


async def test_a_lasting_outage_is_told(fake_cluster: FakeCluster) -> None:
    fake_cluster.failing["get"] = Unavailable("down")
    with pytest.raises(RecoveryError, match="cannot be restored: down"):
        await restore(fake_cluster, SETTING, make(CONFIGMAP, "setting"))
    with pytest.raises(RecoveryError, match="cannot be removed: down"):
        await remove(fake_cluster, SETTING, None)


@pytest.mark.parametrize(
    ("kind", "obj", "expected"),
    [
        (POD, make(POD), True),
        (POD, make(POD, metadata={"ownerReferences": [{"controller": True}]}), False),
        (CONFIGMAP, make(CONFIGMAP, "kube-root-ca.crt"), False),
        (SECRET, make(SECRET, type="bootstrap.kubernetes.io/token"), False),
        (SECRET, make(SECRET, type="Opaque"), True),
    ],
)
def test_what_counts(kind: Kind, obj: Obj, expected: bool) -> None:
    assert counts(kind, obj) is expected


@pytest.mark.parametrize(
    ("kind", "one", "two"),
    [
        (SERVICE, {"spec": {"ports": [{"port": 80, "nodePort": 30001}]}}, {"spec": {"ports": [{"port": 80}]}}),
        (PVC, {"spec": {"volumeName": "a"}}, {"spec": {"volumeName": "b"}}),
        (CLUSTERROLE, {"aggregationRule": {}, "rules": []}, {"aggregationRule": {}, "rules": [1]}),
        (CONFIGMAP, {"data": {"jws-kubeconfig-abc": "x", "a": "1"}}, {"data": {"a": "1"}}),
        (DEPLOYMENT, {"status": {"replicas": 1}}, {"status": {"replicas": 2}}),
        (NODE, {"spec": {"podCIDR": "a"}}, {"spec": {"taints": [{"key": "node.kubernetes.io/unreachable"}]}}),
    ],
)
def test_what_controllers_write_is_not_compared(kind: Kind, one: Obj, two: Obj) -> None:
    left, right = make(kind, **one), make(kind, **two)
    if kind == CLUSTERROLE:
        left["aggregationRule"] = right["aggregationRule"] = {"clusterRoleSelectors": []}
    assert comparable(kind, left) == comparable(kind, right)


@pytest.mark.parametrize(
    ("kind", "one", "two"),
    [
        (SERVICE, {"spec": {"ports": [{"targetPort": 80}]}}, {"spec": {"ports": [{"targetPort": 81}]}}),
        (CLUSTERROLE, {"rules": []}, {"rules": [1]}),
        (NODE, {"spec": {}}, {"spec": {"unschedulable": True}}),
        (NODE, {"spec": {}}, {"spec": {"taints": [{"key": "mine"}]}}),
        (SECRET, {"data": {"a": "x"}}, {"data": {"a": "y"}}),
    ],
)
def test_what_people_write_is_compared(kind: Kind, one: Obj, two: Obj) -> None:
    assert comparable(kind, make(kind, **one)) != comparable(kind, make(kind, **two))
