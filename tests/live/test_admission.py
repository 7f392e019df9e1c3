"""The second wall on a real cluster: what the agent's user and its controllers cannot make."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sregym.cluster.client import KubeCluster
from sregym.cluster.contract import Selection
from sregym.cluster.namespaces import remove_namespaces
from sregym.cluster.objects import POD, Obj
from sregym.cluster.waits import poll
from sregym.errors import Forbidden, Invalid
from sregym.gateway.access import access_objects
from sregym.gateway.admission import admission_objects
from tests.contract.conftest import kubeconfig_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

NAMESPACE = "walls"
AS_AGENT = {"Impersonate-User": "oncall", "Impersonate-Group": "oncall"}
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/pod-baseline"


def pod(*, container: Obj | None = None, **spec: Any) -> Obj:
    body = {"name": "main", "image": "registry.internal/library/memcached:1.6.18", **(container or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "try-", "namespace": NAMESPACE},
        "spec": {"containers": [body], **spec},
    }


@pytest.fixture
async def walled(request: pytest.FixtureRequest) -> AsyncIterator[KubeCluster]:
    """A cluster with the agent's rights and the policies; the namespace is removed afterwards."""
    async with KubeCluster.connect(kubeconfig_of(request.config)) as cluster:
        await cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
        await cluster.apply([*access_objects([NAMESPACE]), *admission_objects()])

        async def enforced() -> bool | None:
            try:
                await cluster.raw("POST", PODS, body=pod(hostPID=True), query={"dryRun": "All"}, headers=AS_AGENT)
            except Invalid:
                return True
            return None

        try:
            await poll(enforced, what="the policies are enforced", every=0.5, within=60)
            yield cluster
        finally:
            await remove_namespaces(cluster, [NAMESPACE])


FORBIDDEN: dict[str, Obj] = {
    "privileged": pod(container={"securityContext": {"privileged": True}}),
    "capability": pod(container={"securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}}),
    "privileged init container": pod(
        initContainers=[{"name": "first", "image": "x", "securityContext": {"privileged": True}}]
    ),
    "host network": pod(hostNetwork=True),
    "host processes": pod(hostPID=True),
    "host IPC": pod(hostIPC=True),
    "host path": pod(volumes=[{"name": "root", "hostPath": {"path": "/"}}]),
    "host port": pod(container={"ports": [{"containerPort": 80, "hostPort": 80}]}),
    "chosen node": pod(nodeName="kind-control-plane"),
    "any toleration": pod(tolerations=[{"operator": "Exists"}]),
    "control plane": pod(tolerations=[{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]),
}


async def test_pods_that_reach_the_node_are_refused_and_plain_ones_are_not(walled: KubeCluster) -> None:
    await walled.raw("POST", PODS, body=pod(), query={"dryRun": "All"}, headers=AS_AGENT)
    for obj in FORBIDDEN.values():
        with pytest.raises((Invalid, Forbidden), match=r"not available|placed by|takes no workloads"):
            await walled.raw("POST", PODS, body=obj, query={"dryRun": "All"}, headers=AS_AGENT)


async def test_a_controller_cannot_make_them_either(walled: KubeCluster) -> None:
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": FORBIDDEN["privileged"]["spec"]}
    body = {"selector": {"matchLabels": labels}, "template": template}
    meta = {"name": "x", "namespace": NAMESPACE}
    obj = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": body}
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
    await walled.raw("POST", path, body=obj, headers=AS_AGENT)

    async def refused() -> bool | None:
        found = await walled.raw("GET", f"{path}/x", headers=AS_AGENT)
        failures = [one for one in found.get("status", {}).get("conditions", []) if one["type"] == "ReplicaFailure"]
        return True if failures and "not available" in failures[0]["message"] else None

    await poll(refused, what="the controller is refused", every=0.5, within=60)
    assert await walled.list(Selection(kind=POD, namespace=NAMESPACE)) == []


async def test_the_agent_cannot_take_the_wall_down_nor_walk_round_it(walled: KubeCluster) -> None:
    with pytest.raises(Forbidden):
        await walled.raw("DELETE", POLICY, headers=AS_AGENT)
    with pytest.raises(Forbidden):
        await walled.raw("POST", "/api/v1/namespaces/kube-system/pods", body=pod(), headers=AS_AGENT)
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/"}}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "root"}, "spec": spec}
    with pytest.raises((Invalid, Forbidden), match="made by the provisioner"):
        await walled.raw("POST", "/api/v1/persistentvolumes", body=volume, headers=AS_AGENT)
