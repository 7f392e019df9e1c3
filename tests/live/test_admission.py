"""The second wall on a real cluster: what the agent, its pods and its controllers cannot do, and what it still can."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sregym.cluster.client import KubeCluster
from sregym.cluster.contract import Selection
from sregym.cluster.namespaces import remove_namespaces
from sregym.cluster.objects import CLUSTERROLEBINDING, NODE, POD, Ref
from sregym.cluster.waits import poll
from sregym.errors import ClusterError, Forbidden, Invalid
from sregym.gateway.access import access_objects
from sregym.gateway.admission import admission_objects
from tests.contract.conftest import kubeconfig_of
from tests.live.wall_pods import NAMESPACE, PODS_REFUSED, PODS_TAKEN, guarded, pod
from tests.live.wall_tries import (
    AS_AGENT,
    HOOKS,
    IN_NAMESPACE,
    MERGE,
    PODS,
    RBAC,
    STRATEGIC,
    Try,
    account,
    binding,
    hook,
    refused_elsewhere,
    taken,
)

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]


@asynccontextmanager
async def hooks(cluster: KubeCluster) -> AsyncIterator[None]:
    """Two webhooks that were there before the agent; they match nothing that is really made."""
    never: dict[str, Any] = {"objectSelector": {"matchLabels": {"walls.example.com/never": "set"}}}
    objects = [hook("walls-hook", namespaces=[NAMESPACE], **never), hook("walls-wide", **never)]
    try:
        await cluster.apply(objects)
        yield
    finally:
        for obj in objects:
            await cluster.raw("DELETE", f"{HOOKS}/{obj['metadata']['name']}")


@pytest.fixture
async def walled(request: pytest.FixtureRequest) -> AsyncIterator[KubeCluster]:
    """A cluster with the agent's rights and the policies; the namespace is removed afterwards."""
    async with KubeCluster.connect(kubeconfig_of(request.config)) as cluster:
        await cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
        master, _ = await nodes(cluster)
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "there", "namespace": NAMESPACE}}
        await cluster.apply([*access_objects([NAMESPACE]), *admission_objects(control_plane=[master])])
        await cluster.apply([{**service, "spec": {"ports": [{"port": 80}]}}])

        async def enforced() -> bool | None:
            """The last policy that was written is in force, so all are."""
            try:
                await refused_elsewhere(master)["static token"].play(cluster)
            except (Invalid, Forbidden):
                return True
            return None

        try:
            await poll(enforced, what="the policies are enforced", every=0.5, within=60)
            yield cluster
        finally:
            await remove_namespaces(cluster, [NAMESPACE])


async def nodes(cluster: KubeCluster) -> tuple[str, str]:
    """A control-plane node and a worker."""
    found = await cluster.list(Selection(kind=NODE))
    role = "node-role.kubernetes.io/control-plane"
    masters = [one["metadata"]["name"] for one in found if role in one["metadata"].get("labels", {})]
    return masters[0], next(one["metadata"]["name"] for one in found if one["metadata"]["name"] not in masters)


async def outcome_of(cluster: KubeCluster, one: Try) -> str:
    """'' where the request was taken, else what the refusal says."""
    try:
        await one.play(cluster)
    except ClusterError as error:
        return str(error)
    return ""


async def test_pods_that_reach_the_node_are_refused_and_others_are_not(walled: KubeCluster) -> None:
    wrong = {}
    for name, obj in PODS_REFUSED.items():
        said = await outcome_of(walled, Try(method="POST", path=PODS, body=obj))
        if "not available" not in said and "takes no workloads" not in said:
            wrong[name] = said
    for name, obj in PODS_TAKEN.items():
        if said := await outcome_of(walled, Try(method="POST", path=PODS, body=obj)):
            wrong[name] = said
    assert wrong == {}


async def test_what_reaches_beyond_the_applications_is_refused(walled: KubeCluster) -> None:

    master, _ = await nodes(walled)
    wrong = {}
    async with hooks(walled):
        # The agent may give an account its own rights, and act through it.
        await walled.raw("POST", f"{RBAC}/clusterrolebindings", body=binding("oncall", account("helper"), name="walls"),
                         headers=AS_AGENT)  # fmt: skip
        try:
            for name, one in refused_elsewhere(master).items():
                said = await outcome_of(walled, one)
                if not re.search(one.refused, said):
                    wrong[name] = said
        finally:
            await walled.delete(Ref(CLUSTERROLEBINDING, "walls"))
    assert wrong == {}


async def test_what_repairs_need_is_taken(walled: KubeCluster) -> None:
    _, worker = await nodes(walled)
    async with hooks(walled):
        said = {name: await outcome_of(walled, one) for name, one in taken(worker).items()}
    assert {name: words for name, words in said.items() if words} == {}


async def test_a_controller_cannot_make_them_either(walled: KubeCluster) -> None:
    labels = {"app": "x"}
    for index, bad in enumerate((PODS_REFUSED["privileged"], pod(nodeName=(await nodes(walled))[0]))):
        template = {"metadata": {"labels": labels}, "spec": bad["spec"]}
        body = {"selector": {"matchLabels": labels}, "template": template}
        meta = {"name": f"x{index}", "namespace": NAMESPACE}
        obj = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": body}
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
        await walled.raw("POST", path, body=obj, headers=AS_AGENT)
        where = f"{path}/x{index}"

        async def refused(where: str = where) -> bool | None:
            found = await walled.raw("GET", where, headers=AS_AGENT)
            failures = [one for one in found.get("status", {}).get("conditions", []) if one["type"] == "ReplicaFailure"]
            said = failures[0]["message"] if failures else ""
            return True if "not available" in said or "takes no workloads" in said else None

        await poll(refused, what="the controller is refused", every=0.5, within=60)
    assert await walled.list(Selection(kind=POD, namespace=NAMESPACE)) == []


async def test_the_name_by_which_policies_know_a_namespace_cannot_be_chosen(walled: KubeCluster) -> None:
    label = {"metadata": {"labels": {"kubernetes.io/metadata.name": "kube-system"}}}
    found = await walled.raw("PATCH", IN_NAMESPACE, body=label, headers={**AS_AGENT, "Content-Type": MERGE})
    assert found["metadata"]["labels"]["kubernetes.io/metadata.name"] == NAMESPACE


async def test_a_running_pod_is_held_to_the_rules_too(walled: KubeCluster) -> None:
    """Tolerations may be added to a pod that waits, and containers to one that runs."""
    waiting = pod(schedulingGates=[{"name": "example.com/wait"}])
    waiting["metadata"] = {"name": "waiting", "namespace": NAMESPACE}
    await walled.raw("POST", PODS, body=waiting, headers=AS_AGENT)
    master = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}
    kept = (await walled.raw("GET", f"{PODS}/waiting"))["spec"]["tolerations"]
    more = {"spec": {"tolerations": [*kept, master]}}
    debug = {"name": "d", "image": "x", **guarded(privileged=True)}
    attempts = [
        Try(method="PATCH", path=f"{PODS}/waiting", body=more),
        Try(
            method="PATCH",
            path=f"{PODS}/waiting/ephemeralcontainers",
            body={"spec": {"ephemeralContainers": [debug]}},
            content=STRATEGIC,
        ),
        Try(method="PATCH", path=f"{PODS}/waiting/status", body={"status": {"phase": "Running"}}),
    ]
    said = [await outcome_of(walled, one) for one in attempts]
    assert "takes no workloads" in said[0]
    assert "not available" in said[1]
    assert "by its controller" in said[2]
