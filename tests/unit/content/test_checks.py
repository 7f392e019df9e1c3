"""Checks against objects: what passes elsewhere and must not pass here."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oracles.combine import Settled
from oracles.data import AnonymousRefused, DocumentsKept, MongoReadable, MongoStore
from oracles.motion import motion
from oracles.queues import parse
from oracles.requests import OperationsFail, OperationsSucceed
from oracles.resources import MemoryHeadroom
from oracles.wiring import NAME_SERVER, wired
from oracles.workloads import EndpointsOwned, NoNodeRenamed, RolledOut, rollout
from sregym.api import AllOf, ExecResult, Obj, Ref, State, deployment, service
from sregym.cluster.contract import PatchType
from sregym.cluster.fake import FakeCluster
from sregym.errors import Unavailable
from tests.unit.content.worlds import HOTEL, ScriptedTraffic, hotel, oracles

NAMESPACE = HOTEL.namespace
REF = deployment("geo")
NOW = datetime(2025, 6, 1, 12, 0, 0, tzinfo=UTC)


def deployed(*, replicas: int = 1, generation: int = 2, **status: int) -> Obj:
    seen = {"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
    meta = {"name": "geo", "generation": generation}
    return {"metadata": meta, "spec": {"replicas": replicas}, "status": seen | status}


@pytest.mark.parametrize(
    ("found", "state", "reason"),
    [
        (deployed(), State.HOLDS, ""),
        (None, State.CANNOT, "does not exist"),
        (deployed(replicas=0, replicas_=0), State.CANNOT, "wants 0 pods"),
        (deployed(generation=3), State.NOT_YET, "newest change"),
        (deployed(updatedReplicas=0), State.NOT_YET, "0 of 1 pods are of the newest"),
        (deployed(replicas_=2) | {"status": {**deployed()["status"], "replicas": 2}}, State.NOT_YET, "former revision"),
        (deployed(readyReplicas=0), State.NOT_YET, "0 of 1 pods are ready"),
    ],
)
def test_a_rollout_is_compared_with_what_is_wanted(found: Obj | None, state: State, reason: str) -> None:
    seen = rollout(REF, found)
    assert seen.state is state
    assert reason in seen.reason


async def test_a_whole_application_is_looked_at_in_one_list(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    at = oracles(fake_cluster, ScriptedTraffic())
    check = RolledOut(("geo", "rate"))
    assert (await check.observe(at)).holds
    await fake_cluster.delete(deployment("rate").within(NAMESPACE))
    seen = await check.observe(at)
    assert seen.state is State.CANNOT
    assert [one.check for one in seen.leaves() if not one.holds] == ["rolled out: rate"]


async def test_endpoints_must_belong_to_the_workload(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    at = oracles(fake_cluster, ScriptedTraffic())
    check = EndpointsOwned("memcached-rate", "memcached-rate")
    assert (await check.observe(at)).holds
    ref = service("memcached-rate").within(NAMESPACE)
    borrowed = {"spec": {"selector": {"io.kompose.service": "memcached-profile"}}}
    await fake_cluster.patch(ref, borrowed, PatchType.MERGE)
    seen = await check.observe(at)
    assert "leads to memcached-profile instead of memcached-rate" in seen.reason


async def test_a_pod_by_hand_is_no_endpoint_of_the_workload(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    at = oracles(fake_cluster, ScriptedTraffic())
    await fake_cluster.patch(deployment("geo").within(NAMESPACE), {"spec": {"replicas": 0}}, PatchType.MERGE)
    labels = {"io.kompose.service": "geo"}
    meta = {"name": "geo-manual", "namespace": NAMESPACE, "labels": labels}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    await fake_cluster.create(pod)
    seen = await EndpointsOwned("geo", "geo").observe(at)
    assert not seen.holds


async def test_publishing_pods_that_are_not_ready_is_no_repair(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    at = oracles(fake_cluster, ScriptedTraffic())
    await fake_cluster.patch(
        service("frontend").within(NAMESPACE), {"spec": {"publishNotReadyAddresses": True}}, PatchType.MERGE
    )
    assert (await EndpointsOwned("frontend", "frontend").observe(at)).state is State.CANNOT


@pytest.mark.parametrize(
    ("address", "holds", "reason"),
    [
        ("mongodb-rate:27017", True, ""),
        ("mongodb-rate.hotel-reservation.svc.cluster.local:27017", True, ""),
        ("10.1.2.3:27017", False, "pinned to the address"),
        ("mongodb-geo:27017", False, "leads to mongodb-geo"),
        ("elsewhere:27017", False, "does not exist"),
        ("mongodb-rate.other:27017", False, "outside"),
        ("", False, "no RateMongoAddress"),
    ],
)
async def test_a_caller_must_reach_its_dependency_by_the_address_it_uses(
    fake_cluster: FakeCluster, address: str, holds: bool, reason: str
) -> None:
    await hotel(fake_cluster)
    fake_cluster.on_exec = lambda pod, argv, stdin: ExecResult(
        code=0, stdout=f'{{"RateMongoAddress": "{address}"}}', stderr=""
    )
    seen = await wired(HOTEL.topology, caller="rate", callee="mongodb-rate").observe(
        oracles(fake_cluster, ScriptedTraffic())
    )
    assert seen.holds is holds
    assert reason in seen.reason


@pytest.mark.parametrize(
    ("hosts", "corefile", "reason"),
    [
        ("10.1.1.1 rate-5d9f", ".:53 {}", ""),
        ("# 10.9.9.9 mongodb-rate\n10.1.1.1 rate-5d9f", ".:53 {}", ""),
        ("10.9.9.9 other mongodb-rate", ".:53 {}", "its own table of hosts"),
        ("10.1.1.1 rate-5d9f", "rewrite name mongodb-rate.hotel-reservation.svc.cluster.local x", "a rule of its own"),
    ],
)
async def test_the_name_of_a_dependency_must_mean_its_service(
    fake_cluster: FakeCluster, hosts: str, corefile: str, reason: str
) -> None:
    await hotel(fake_cluster)
    meta = {"name": NAME_SERVER.name, "namespace": NAME_SERVER.namespace}
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"Corefile": corefile}}
    await fake_cluster.create(made)
    answers = {"config.json": '{"RateMongoAddress": "mongodb-rate:27017"}', "/etc/hosts": hosts}
    fake_cluster.on_exec = lambda pod, argv, stdin: ExecResult(code=0, stdout=answers[argv[-1]], stderr="")
    seen = await wired(HOTEL.topology, caller="rate", callee="mongodb-rate").observe(
        oracles(fake_cluster, ScriptedTraffic())
    )
    assert seen.holds is (not reason)
    assert reason in seen.reason


async def test_no_node_may_pass_for_another(fake_cluster: FakeCluster) -> None:
    at = oracles(fake_cluster, ScriptedTraffic())

    async def add(name: str, label: str) -> None:
        meta = {"name": name, "labels": {"kubernetes.io/hostname": label}}
        await fake_cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": meta})

    await add("i-0abc", "ip-10-0-0-7")
    await add("worker-07", "worker-07")
    assert (await NoNodeRenamed("worker-07").observe(at)).holds
    await add("i-0def", "worker-07")
    assert (await NoNodeRenamed("worker-07").observe(at)).state is State.CANNOT


async def test_late_or_few_requests_are_unknown(fake_cluster: FakeCluster) -> None:
    good, bad = OperationsSucceed(operations=("search",)), OperationsFail(operations=("search",))
    at = oracles(fake_cluster, ScriptedTraffic(late=0.2))
    assert (await good.observe(at)).state is State.UNKNOWN
    assert (await bad.observe(at)).state is State.UNKNOWN
    at = oracles(fake_cluster, ScriptedTraffic(per_operation=1))
    assert (await good.observe(at)).state is State.UNKNOWN
    assert (await bad.observe(at)).state is State.UNKNOWN


async def test_one_failing_operation_is_enough(fake_cluster: FakeCluster) -> None:
    names = tuple(one.name for one in HOTEL.topology.operations)
    seen = await OperationsSucceed(operations=names).observe(
        oracles(fake_cluster, ScriptedTraffic(failing={"user_login"}))
    )
    assert seen.state is State.NOT_YET
    assert seen.reason.startswith("user_login: 0 of 20 succeeded (status_500 x20)")


STORE = MongoStore(selector="io.kompose.service=mongodb-geo", container="db", database="geo-db", collection="geo")


@pytest.mark.parametrize(
    ("said", "readable", "refused"),
    [
        (ExecResult(code=0, stdout="documents=80\n", stderr=""), State.HOLDS, State.NOT_YET),
        (ExecResult(code=0, stdout="documents=0\n", stderr=""), State.NOT_YET, State.NOT_YET),
        (ExecResult(code=1, stdout="", stderr="MongoServerError: Authentication failed."), State.NOT_YET, State.HOLDS),
        (ExecResult(code=1, stdout="", stderr="connect ECONNREFUSED"), State.NOT_YET, State.UNKNOWN),
    ],
)
async def test_who_can_read_the_data(
    fake_cluster: FakeCluster, said: ExecResult, readable: State, refused: State
) -> None:
    await hotel(fake_cluster)
    fake_cluster.on_exec = lambda pod, argv, stdin: said
    at = oracles(fake_cluster, ScriptedTraffic())
    assert (await MongoReadable(store=STORE, user="admin", password="x").observe(at)).state is readable
    assert (await AnonymousRefused(store=STORE).observe(at)).state is refused


@pytest.mark.parametrize(
    ("stdout", "state"),
    [
        ("max\n50000000\ninactive_file 10\n", State.HOLDS),
        ("100000000\n70000000\ninactive_file 10000000\n", State.HOLDS),
        ("100000000\n95000000\ninactive_file 10000000\n", State.NOT_YET),
        ("nonsense", State.UNKNOWN),
    ],
)
async def test_memory_has_room(fake_cluster: FakeCluster, stdout: str, state: State) -> None:
    await hotel(fake_cluster)
    fake_cluster.on_exec = lambda pod, argv, stdin: ExecResult(code=0, stdout=stdout, stderr="")
    check = MemoryHeadroom(workload="mongodb-rate", selector="io.kompose.service=mongodb-rate", container="db")
    assert (await check.observe(oracles(fake_cluster, ScriptedTraffic()))).state is state


def pod(*, age: float = 100.0, node: str = "n1", phase: str = "Running", **status: Any) -> Obj:
    made = (NOW - timedelta(seconds=age)).isoformat()
    body = {"phase": phase, "containerStatuses": [{"name": "c", "restartCount": 0} | status] if status else []}
    return {"metadata": {"name": "p", "creationTimestamp": made}, "spec": {"nodeName": node}, "status": body}


def running(seconds: float) -> dict[str, Any]:
    return {"running": {"startedAt": (NOW - timedelta(seconds=seconds)).isoformat()}}


CRASHING = {"waiting": {"reason": "CrashLoopBackOff"}}


@pytest.mark.parametrize(
    ("one", "moves", "crashes"),
    [
        (pod(state=running(60)), False, False),
        (pod(state=running(3)), True, False),
        (pod(state=running(3), restartCount=2), False, True),
        (pod(state=running(60), restartCount=2), False, False),
        (pod(state=running(3), restartCount=1), True, True),
        (pod(state=CRASHING, restartCount=4), False, True),
        (pod(phase="Pending", node="", age=2), True, False),
        (pod(phase="Pending", node="", age=30), False, False),
        (pod(phase="Pending", age=20), True, False),
        (pod(phase="Pending", age=90), False, False),
        (pod(phase="Pending", age=20, state={"waiting": {"reason": "ImagePullBackOff"}}), False, True),
    ],
)
def test_what_moves_and_what_is_stuck(one: Obj, moves: bool, crashes: bool) -> None:
    seen = motion([], [one], NOW)
    assert bool(seen.moving) is moves
    assert bool(seen.crashing) is crashes


def test_counters_without_labels_are_read() -> None:
    page = '# HELP x y\nrate_queue_depth 12\nrequests_total{code="OK"} 4\nsearch_requests_total 1.5e+03\nodd\n'
    assert parse(page) == {"rate_queue_depth": 12.0, "search_requests_total": 1500.0}


def test_refs_are_named_in_titles() -> None:
    assert RolledOut(("geo",)).title == "rolled out: geo"
    assert str(Ref(REF.kind, "geo", "x")) == "Deployment geo in x"


@pytest.mark.parametrize(
    ("now", "state"),
    [
        (ExecResult(code=0, stdout="ids=a b c d\n", stderr=""), State.HOLDS),
        (ExecResult(code=0, stdout="ids=a c d\n", stderr=""), State.NOT_YET),
        (ExecResult(code=0, stdout="ids=\n", stderr=""), State.NOT_YET),
        (ExecResult(code=1, stdout="", stderr="MongoServerError: Authentication failed."), State.NOT_YET),
    ],
)
async def test_the_documents_of_before_must_still_be_there(
    fake_cluster: FakeCluster, now: ExecResult, state: State
) -> None:
    await hotel(fake_cluster)
    said = ExecResult(code=0, stdout="ids=a b c\n", stderr="")
    fake_cluster.on_exec = lambda pod, argv, stdin: said
    at = oracles(fake_cluster, ScriptedTraffic())
    kept = DocumentsKept(store=STORE, user="admin", password="admin")
    noted = await Settled(condition=AllOf(), kept=(kept,)).baseline(at)
    assert noted == {"documents of geo-db.geo": ["a", "b", "c"]}
    said = now
    assert (await kept.check(noted[kept.name]).observe(at)).state is state


async def test_documents_that_cannot_be_read_are_an_error_before_the_fault(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    fake_cluster.on_exec = lambda pod, argv, stdin: ExecResult(code=1, stdout="", stderr="connect ECONNREFUSED")
    with pytest.raises(Unavailable, match="ECONNREFUSED"):
        await DocumentsKept(store=STORE, user="admin", password="admin").note(oracles(fake_cluster, ScriptedTraffic()))
