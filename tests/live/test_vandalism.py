"""Somebody with all rights creates, edits and deletes things all over a real cluster: the world comes back equal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from sregym.cluster import waits
from sregym.cluster.client import KubeCluster
from sregym.cluster.contract import Selection
from sregym.cluster.equalising import restore, system_unwell
from sregym.cluster.journal import Journal
from sregym.cluster.objects import (
    CLUSTERROLE,
    CLUSTERROLEBINDING,
    CONFIGMAP,
    CRD,
    DAEMONSET,
    DEPLOYMENT,
    NAMESPACE,
    NODE,
    POD,
    ROLEBINDING,
    SERVICE,
    SERVICEACCOUNT,
    STORAGECLASS,
    VALIDATING_POLICY,
    VALIDATING_POLICY_BINDING,
    VALIDATING_WEBHOOK,
    Kind,
    Obj,
    Ref,
)
from sregym.cluster.snapshot import Scope, Snapshot, differences, retake, take
from sregym.coordinator.putback import put_back
from sregym.errors import ClusterError
from tests.contract.conftest import kubeconfig_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


def make(kind: Kind, name: str, namespace: str | None = None, **body: Any) -> Obj:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, **body}


@pytest.fixture
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[KubeCluster]:
    async with KubeCluster.connect(kubeconfig_of(request.config)) as real:
        yield real


@pytest.fixture
async def base(cluster: KubeCluster) -> Snapshot:
    assert await system_unwell(cluster) == []
    return await take(cluster, namespaces=[], scope=Scope.CLUSTER)


async def worker_of(cluster: KubeCluster) -> Ref:
    nodes = [node["metadata"]["name"] for node in await cluster.list(Selection(kind=NODE))]
    return Ref(NODE, sorted(nodes, key=lambda name: ("control-plane" in name, name))[0])


async def dns(cluster: KubeCluster) -> None:
    await cluster.patch(Ref(CONFIGMAP, "coredns", "kube-system"), {"data": {"Corefile": ".:53 { nonsense }"}})
    await cluster.patch(Ref(DEPLOYMENT, "coredns", "kube-system"), {"spec": {"replicas": 0}})
    await cluster.delete(Ref(SERVICE, "kube-dns", "kube-system"))


async def proxies(cluster: KubeCluster) -> None:
    selector = {"spec": {"template": {"spec": {"nodeSelector": {"no": "where"}}}}}
    await cluster.patch(Ref(DAEMONSET, "kube-proxy", "kube-system"), selector)
    await cluster.delete(Ref(SERVICEACCOUNT, "kube-proxy", "kube-system"))


async def nodes(cluster: KubeCluster) -> None:
    taint = {"key": "agent", "value": "was-here", "effect": "NoSchedule"}
    change = {"metadata": {"labels": {"disk": "ssd"}}, "spec": {"unschedulable": True, "taints": [taint]}}
    await cluster.patch(await worker_of(cluster), change)


async def absent(cluster: KubeCluster) -> None:
    await cluster.delete(Ref(DAEMONSET, "kube-proxy", "kube-system"))
    await cluster.delete(Ref(DEPLOYMENT, "coredns", "kube-system"))
    await cluster.delete(await worker_of(cluster))


async def rights(cluster: KubeCluster) -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
    await cluster.create(make(CLUSTERROLEBINDING, "handy", roleRef=role, subjects=[subject]))
    await cluster.delete(Ref(CLUSTERROLEBINDING, "system:coredns"))
    await cluster.delete(Ref(ROLEBINDING, "kubeadm:nodes-kubeadm-config", "kube-system"))
    await cluster.patch(Ref(CLUSTERROLE, "system:coredns"), {"rules": []})


async def namespaces(cluster: KubeCluster) -> None:
    await cluster.create(make(NAMESPACE, "scratch"))
    held = make(CONFIGMAP, "held", "scratch", data={"a": "b"})
    held["metadata"]["finalizers"] = ["agent.example/never"]
    await cluster.create(held)
    await cluster.create(make(CONFIGMAP, "notes", "default", data={"answer": "42"}))
    container = {"name": "x", "image": "registry.k8s.io/pause:3.10.1"}
    await cluster.create(make(POD, "debug", "default", spec={"containers": [container]}))
    await cluster.patch(Ref(NAMESPACE, "default"), {"metadata": {"labels": {"marked": "yes"}}})


async def extensions(cluster: KubeCluster) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "teapots", "kind": "Teapot"}
    spec = {"group": "agent.example", "scope": "Namespaced", "names": names, "versions": [version]}
    await cluster.apply([make(CRD, "teapots.agent.example", spec=spec)])
    teapot = Kind("agent.example/v1", "Teapot", "teapots")
    held = make(teapot, "one", "default")
    held["metadata"]["finalizers"] = ["agent.example/never"]
    await cluster.create(held)
    await cluster.delete(Ref(STORAGECLASS, "standard"))


async def walls(cluster: KubeCluster) -> None:
    """A webhook that answers nobody and a policy that forbids everything to do with ConfigMaps."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}
    matched = {"resourceRules": [rule]}
    validations = [{"expression": "false"}]
    policy = {"matchConstraints": matched, "validations": validations, "failurePolicy": "Fail"}
    await cluster.create(make(VALIDATING_POLICY, "no.agent.example", spec=policy))
    binding = {"policyName": "no.agent.example", "validationActions": ["Deny"]}
    await cluster.create(make(VALIDATING_POLICY_BINDING, "no.agent.example", spec=binding))
    hook = {
        "name": "no.agent.example",
        "clientConfig": {"service": {"name": "nobody", "namespace": "default"}},
        "rules": [{**rule, "resources": ["services"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    await cluster.create(make(VALIDATING_WEBHOOK, "no.agent.example", webhooks=[hook]))


ALL: tuple[Callable[[KubeCluster], Awaitable[None]], ...] = (
    dns,
    proxies,
    nodes,
    absent,
    rights,
    namespaces,
    extensions,
    walls,
)


@pytest.mark.acceptance
@pytest.mark.parametrize("deed", ALL, ids=lambda deed: deed.__name__)
async def test_one_deed(cluster: KubeCluster, base: Snapshot, deed: Callable[[KubeCluster], Awaitable[None]]) -> None:
    await deed(cluster)
    await comes_back(cluster, base)


async def test_everything_at_once(cluster: KubeCluster, base: Snapshot) -> None:
    for deed in ALL:
        await deed(cluster)
    await comes_back(cluster, base)


async def comes_back(cluster: KubeCluster, base: Snapshot) -> None:
    found = differences(base, await retake(cluster, base))
    assert found
    await restore(cluster, base, found)
    after = await retake(cluster, base)
    assert [str(one) for one in differences(base, after)] == []
    assert after.digest == base.digest
    assert await system_unwell(cluster) == []


async def test_a_webhook_that_fails_closed_does_not_keep_the_application(
    cluster: KubeCluster, base: Snapshot, tmp_path: Path
) -> None:
    """Nobody answers it, and it is asked before anything in the namespace may go."""
    await cluster.create(make(NAMESPACE, "scratch"))
    container = {"name": "x", "image": "registry.k8s.io/pause:3.10.1"}
    await cluster.create(make(POD, "one", "scratch", spec={"containers": [container]}))
    resources = ["configmaps", "pods", "services"]
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": resources, "operations": ["*"]}
    hook = {
        "name": "no.agent.example",
        "clientConfig": {"service": {"name": "nobody", "namespace": "scratch"}},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "scratch"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    await cluster.create(make(VALIDATING_WEBHOOK, "no.agent.example", webhooks=[hook]))

    async def refused() -> bool | None:
        try:
            await cluster.apply([make(CONFIGMAP, "try", "scratch", data={})])
        except ClusterError:
            return True
        return None

    await waits.poll(refused, what="the webhook is asked", every=0.5, within=30)
    journal = Journal.create(tmp_path, identity=await cluster.identity(), attempt="one")
    await put_back(cluster, journal, base, ["scratch"])
    assert differences(base, await retake(cluster, base)) == []
