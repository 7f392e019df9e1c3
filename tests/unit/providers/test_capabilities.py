"""Capabilities are what was seen to work; a question that failed is no yes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sregym.cluster.contract import ExecResult, Selection
from sregym.cluster.fake import FakeCluster
from sregym.cluster.objects import NETWORKPOLICY, Obj, Ref
from sregym.cluster.providers.base import ClusterHandle, Node
from sregym.cluster.providers.capabilities import NODE_METRICS, ON_NODE, capabilities_of, probe
from sregym.errors import Unavailable
from sregym.progress import Silent

pytestmark = pytest.mark.usefixtures("fake_time")

READY = {"conditions": [{"type": "Ready", "status": "True"}], "podIP": "10.1.1.1"}
STATUS = {"Pod": READY, "PersistentVolumeClaim": {"phase": "Bound"}}


@dataclass(kw_only=True)
class Obliging(FakeCluster):
    """A cluster on which whatever is created is ready at once, except for what `broken` names."""

    broken: frozenset[str] = frozenset()

    async def create(self, obj: Obj) -> Obj:
        status = {} if obj["kind"] in self.broken else STATUS.get(obj["kind"], {})
        made = await super().create({**obj, "status": status})
        if obj["kind"] == "Namespace":
            name = {"name": "default", "namespace": obj["metadata"]["name"]}
            await super().create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": name})
        return made

    async def apply(self, manifests: Sequence[Obj], *, namespace: str | None = None) -> None:
        for obj in manifests:
            await self.create({**obj, "metadata": {**obj["metadata"], "namespace": namespace}})


@dataclass
class Nodes:
    """Node commands that end as they are told to; 1 where they are not told."""

    codes: dict[str, int] = field(default_factory=dict)
    nodes: tuple[str, ...] = ("w1", "w2")
    own_kernel: bool = False
    asked: list[str] = field(default_factory=list)

    async def run(self, node: str, argv: Sequence[str], *, stdin: str = "", within: float = 30.0) -> ExecResult:
        self.asked.append(node)
        if self.codes.get(argv[-1]) == -1:
            raise Unavailable("the node does not answer")
        return ExecResult(code=self.codes.get(argv[-1], 1), stdout="", stderr="")


def a_node(name: str, **spec: Any) -> Obj:
    labels = {"node-role.kubernetes.io/control-plane": ""} if name == "cp" else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


async def a_cluster(*nodes: Obj, enforces: bool = True, **changes: Any) -> Obliging:
    cluster = Obliging(**changes)

    def connect(pod: Ref, argv: Sequence[str], stdin: str) -> ExecResult:
        policies = [obj for obj in cluster.objects.values() if obj["kind"] == NETWORKPOLICY.name]
        return ExecResult(code=1 if enforces and policies else 0, stdout="", stderr="")

    cluster.on_exec = connect
    image = {"spec": {"containers": [{"name": "coredns", "image": "coredns:1"}]}}
    for obj in (
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "coredns", "namespace": "kube-system"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": image},
        },
        *(nodes or (a_node("cp"), a_node("w1"), a_node("w2"))),
    ):
        await FakeCluster.create(cluster, obj)
    return cluster


async def test_what_works_is_present_and_nothing_is_left_behind() -> None:
    cluster = await a_cluster()
    before = set(cluster.objects)
    found = await probe(cluster, Nodes(codes={"true": 0, ON_NODE["netem"]: 0}))
    present = {name for name, capability in found.items() if capability.present}
    assert present == {"default-storageclass", "network-policy", "netem", "node-shell", "two-workers"}
    assert all(capability.reason for capability in found.values())
    assert set(cluster.objects) == before


async def test_a_policy_that_does_not_block_is_absent() -> None:
    found = await probe(await a_cluster(enforces=False), None)
    assert not found["network-policy"].present
    assert "did not block" in found["network-policy"].reason


async def test_pods_that_never_reach_each_other_prove_nothing() -> None:
    cluster = await a_cluster()
    cluster.on_exec = lambda pod, argv, stdin: ExecResult(code=1, stdout="", stderr="")
    found = await probe(cluster, None)
    assert not found["network-policy"].present
    assert "unknown" in found["network-policy"].reason


async def test_pods_that_do_not_run_leave_both_answers_unknown() -> None:
    found = await probe(await a_cluster(broken=frozenset({"Pod"})), None)
    for name in ("network-policy", "default-storageclass"):
        assert not found[name].present
        assert "unknown" in found[name].reason


async def test_a_claim_that_stays_unbound_is_no_storage_class() -> None:
    found = await probe(await a_cluster(broken=frozenset({"PersistentVolumeClaim"})), None)
    assert not found["default-storageclass"].present


@pytest.mark.parametrize(
    "second",
    [
        {"taints": [{"key": "x", "effect": "NoSchedule"}]},
        {"unschedulable": True},
    ],
)
async def test_only_workers_that_take_pods_count(second: dict[str, Any]) -> None:
    found = await probe(await a_cluster(a_node("cp"), a_node("w1"), a_node("w2", **second)), None)
    assert not found["two-workers"].present


async def test_without_a_way_onto_nodes_their_capabilities_are_absent() -> None:
    found = await probe(await a_cluster(), None)
    assert not any(found[name].present for name in ("node-shell", *ON_NODE))


async def test_a_node_that_does_not_answer_is_unknown_not_present() -> None:
    found = await probe(await a_cluster(), Nodes(codes={"true": -1}))
    assert not found["node-shell"].present
    assert "unknown" in found["node-shell"].reason


async def test_metrics_count_when_there_are_some() -> None:
    cluster = await a_cluster(extra_kinds=(NODE_METRICS,))
    assert not (await probe(cluster, None))["metrics-server"].present
    await FakeCluster.create(
        cluster, {"apiVersion": NODE_METRICS.api_version, "kind": NODE_METRICS.name, "metadata": {"name": "w1"}}
    )
    assert await cluster.list(Selection(kind=NODE_METRICS))
    assert (await probe(cluster, None))["metrics-server"].present


async def test_answers_are_kept_as_long_as_the_node_image_is_the_same(tmp_path: Path) -> None:
    cluster, nodes = await a_cluster(), Nodes(codes={"true": 0})
    handle = ClusterHandle(
        name="a",
        provider="kind",
        kubeconfig=tmp_path,
        context="a",
        server_version="v1",
        nodes=(Node(name="w1", control_plane=False),),
        node_image_id="sha256:1",
    )

    async def ask(one: ClusterHandle) -> bool:
        found = await capabilities_of(one, cluster, node_shell=nodes, cache=tmp_path, progress=Silent())
        return found["node-shell"].present

    assert await ask(handle)
    asked = len(nodes.asked)
    assert await ask(handle)
    assert len(nodes.asked) == asked
    assert await ask(handle.model_copy(update={"node_image_id": "sha256:2"}))
    assert len(nodes.asked) > asked
