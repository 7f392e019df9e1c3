"""What injectors do to objects, and what they leave: patched in place, former revisions retired, undo noted first."""

from __future__ import annotations

import json

import pytest

from injectors.load import LoadBurst
from injectors.mongo import DropUser, Login, RestoreUser, restore_script
from injectors.objects import DeleteObject, DropConfigKey, PatchObject, without_key
from injectors.patches import memory_limit, target_port
from injectors.workloads import Reconnect, ScaleTo, former_revisions
from sregym.api import ExecResult, InjectionError, LoadPhase, Obj, Ref, Selection, configmap, deployment, service
from sregym.cluster.fake import FakeCluster
from sregym.cluster.objects import POD, PVC
from sregym.errors import RecoveryError
from tests.unit.content.worlds import HOTEL, RecordingEditor, ScriptedTraffic, faults, hotel

pytestmark = pytest.mark.usefixtures("fake_time")
NAMESPACE = HOTEL.namespace
ROOT = Login(user="root", password="root")
DROP = DropUser(
    service="mongodb-geo",
    claim="geo-pvc",
    account=Login(user="admin", password="secret"),
    roles=(("readWrite", "geo-db"),),
    administrator=ROOT,
)


async def test_a_patch_names_one_entry_and_leaves_the_rest(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    before = await fake_cluster.get(service("rate").within(NAMESPACE))
    await PatchObject(service("rate"), target_port(of_port=8084, to=9999)).inject(
        faults(fake_cluster, ScriptedTraffic())
    )
    after = await fake_cluster.get(service("rate").within(NAMESPACE))
    assert [(p["port"], p["targetPort"]) for p in after["spec"]["ports"]] == [(8084, 9999), (9091, 9091)]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"].get("annotations", {}) == before["metadata"].get("annotations", {})


async def test_an_object_that_is_not_there_voids_the_injection(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    ctx = faults(fake_cluster, ScriptedTraffic())
    with pytest.raises(InjectionError, match="nobody"):
        await PatchObject(service("nobody"), target_port(of_port=1, to=2)).inject(ctx)
    with pytest.raises(InjectionError, match="not there"):
        await DeleteObject(service("nobody")).inject(ctx)


async def test_one_key_goes_and_the_file_keeps_its_layout(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    fault = DropConfigKey(configmap=configmap("geo-config"), file="config.json", key="GeoMongoAddress")
    await fault.inject(faults(fake_cluster, ScriptedTraffic()))
    text = (await fake_cluster.get(configmap("geo-config").within(NAMESPACE)))["data"]["config.json"]
    shipped = HOTEL.topology.configmaps["geo-config"]["config.json"]
    kept = [line.rstrip(",") for line in shipped.splitlines() if "GeoMongoAddress" not in line]
    assert [line.rstrip(",") for line in text.splitlines()] == kept
    assert json.loads(text)["consulAddress"]


def test_a_key_that_is_not_there_cannot_go() -> None:
    assert without_key('{"a": 1, "b": 2}', "a") == '{"b": 2}'
    with pytest.raises(InjectionError, match="no key 'c'"):
        without_key('{"a": 1}', "c")


async def test_scaling_to_zero_waits_until_the_pods_are_gone(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    await ScaleTo(deployment("profile"), 0).inject(faults(fake_cluster, ScriptedTraffic()))
    assert not await fake_cluster.list(Selection(kind=POD, namespace=NAMESPACE, labels="io.kompose.service=profile"))


async def test_reconnecting_gives_every_named_service_new_pods(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    chosen = Selection(kind=POD, namespace=NAMESPACE, labels="io.kompose.service=rate")
    before = {one["metadata"]["uid"] for one in await fake_cluster.list(chosen)}
    await Reconnect(["rate"]).inject(faults(fake_cluster, ScriptedTraffic()))
    after = {one["metadata"]["uid"] for one in await fake_cluster.list(chosen)}
    assert after
    assert not before & after


def test_only_former_revisions_of_the_same_deployment_are_retired() -> None:
    def replica_set(name: str, revision: int, owner: str) -> Obj:
        notes = {"deployment.kubernetes.io/revision": str(revision)}
        return {"metadata": {"name": name, "annotations": notes, "ownerReferences": [{"uid": owner}]}}

    owner: Obj = {"metadata": {"name": "search", "uid": "u1"}}
    sets = [replica_set("a", 1, "u1"), replica_set("b", 2, "u1"), replica_set("c", 3, "u1"), replica_set("d", 1, "u2")]
    assert [one["metadata"]["name"] for one in former_revisions(owner, sets)] == ["a", "b"]
    assert former_revisions(owner, []) == []


def test_the_request_follows_a_memory_limit() -> None:
    container = memory_limit("db", "10Mi").body["spec"]["template"]["spec"]["containers"][0]
    assert container == {
        "name": "db",
        "resources": {"limits": {"memory": "10Mi"}, "requests": {"memory": "10Mi"}},
    }


async def test_a_burst_switches_the_load_and_lasts_its_time(fake_cluster: FakeCluster) -> None:
    traffic = ScriptedTraffic()
    await LoadBurst(rate=40, seconds=10, operations={"search": 1}).inject(faults(fake_cluster, traffic))
    assert traffic.phases == [LoadPhase(rate=40, seconds=10, operations={"search": 1})]


async def test_the_undo_of_a_dropped_account_is_noted_before_the_deed(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {}}
    made = await fake_cluster.create(claim | {"metadata": {"name": "geo-pvc", "namespace": NAMESPACE}})
    editor = RecordingEditor(fake_cluster)
    noted: list[int] = []

    def shell(pod: Ref, argv: object, stdin: str) -> ExecResult:
        noted.append(len(editor.compensations))
        return ExecResult(code=0, stdout="", stderr="")

    fake_cluster.on_exec = shell
    await DROP.inject(faults(fake_cluster, ScriptedTraffic(), editor))
    assert noted == [1]
    action = editor.compensations[0]
    assert (action.action, action.bound_to, action.uid) == (
        "injectors.mongo:RestoreUser",
        Ref(PVC, "geo-pvc", NAMESPACE),
        made["metadata"]["uid"],
    )
    undo = RestoreUser(**json.loads(json.dumps(dict(action.arguments))))
    await undo.undo(fake_cluster)
    await undo.undo(fake_cluster)


async def test_an_account_that_is_not_dropped_voids_the_injection(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {}}
    await fake_cluster.create(claim | {"metadata": {"name": "geo-pvc", "namespace": NAMESPACE}})
    fake_cluster.on_exec = lambda pod, argv, stdin: ExecResult(code=1, stdout="", stderr="not authorised")
    with pytest.raises(InjectionError, match="not authorised"):
        await DROP.inject(faults(fake_cluster, ScriptedTraffic()))


async def test_an_account_that_cannot_be_restored_is_a_recovery_error(fake_cluster: FakeCluster) -> None:
    undo = RestoreUser(
        namespace=NAMESPACE,
        selector="io.kompose.service=mongodb-geo",
        container="db",
        account=["admin", "x"],
        roles=[],
        administrator=["root", "root"],
    )
    with pytest.raises(RecoveryError, match="'admin'"):
        await undo.undo(fake_cluster)


def test_values_of_an_account_are_quoted() -> None:
    script = restore_script(Login(user='o"k', password="p'w"), [("read", "db")])
    assert '"o\\"k"' in script
    assert '"p\'w"' in script
