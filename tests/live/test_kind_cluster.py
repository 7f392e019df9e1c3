"""A kind cluster of its own, from the cache: up, what works in it, replaced, gone. About two minutes."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from sregym import process
from sregym.cluster import waits
from sregym.cluster.client import KubeCluster
from sregym.cluster.namespaces import remove_namespaces
from sregym.cluster.nodes import DockerNodeShell
from sregym.cluster.objects import POD, SERVICE, SERVICEACCOUNT, Obj, Ref, dig
from sregym.cluster.providers.base import ClusterHandle, ClusterSpec
from sregym.cluster.providers.capabilities import CONNECT, manifests, probe
from sregym.cluster.providers.kind import KindProvider
from sregym.cluster.providers.kubeconfig import KubeconfigProvider
from sregym.progress import Recorded
from sregym.settings import Paths

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

NAMESPACE = "shop"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def provider(tmp_path: Path) -> KindProvider:
    return KindProvider(cache=Paths().cache, state=Paths().state, progress=Recorded())


@pytest.fixture
async def handle(provider: KindProvider) -> AsyncIterator[ClusterHandle]:
    name = f"live-{secrets.token_hex(2)}"
    try:
        yield await provider.up(ClusterSpec(name=name))
    finally:
        await provider.down(name)


async def test_a_cluster_from_the_cache(provider: KindProvider, handle: ClusterHandle, tmp_path: Path) -> None:
    assert len(handle.nodes) == 4
    assert len(handle.workers) == 3
    started = time.monotonic()
    again = await provider.up(ClusterSpec(name=handle.name))
    assert again == handle
    assert time.monotonic() - started < 20, "a cluster that is up takes no time"

    shell = DockerNodeShell(handle.node_names)
    async with KubeCluster.connect(handle.kubeconfig, handle.context, node_shell=shell) as cluster:
        await _names_and_traffic_between_nodes(cluster)
        found = await probe(cluster, shell)
        assert {name for name, one in found.items() if one.present} >= {
            "default-storageclass",
            "network-policy",
            "node-shell",
            "two-workers",
        }
        await _other_ways_in(provider, handle, tmp_path)

    fresh = await provider.replace(ClusterSpec(name=handle.name))
    assert fresh.identity != handle.identity
    assert await provider.down(handle.name)
    assert not (await provider.status(handle.name)).exists


async def _names_and_traffic_between_nodes(cluster: KubeCluster) -> None:
    """A pod finds a Service by name and reaches, through it, a pod on another node."""
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    service: Obj = {
        "apiVersion": "v1",
        "kind": SERVICE.name,
        "metadata": {"name": "server"},
        "spec": {"selector": {"app": "server"}, "ports": [{"port": 8053}]},
    }
    await waits.poll(lambda: _applied(cluster, service), what="objects are there", every=0.5, within=30)
    pods = [await _ready(cluster, name) for name in ("server", "client")]
    assert dig(pods[0], "spec", "nodeName") != dig(pods[1], "spec", "nodeName")
    client = Ref(POD, "client", NAMESPACE)
    name = f"server.{NAMESPACE}.svc.cluster.local"
    found = await cluster.exec(client, ["getent", "hosts", name])
    assert found.code == 0, found.stderr
    reached = await cluster.exec(client, ["sh", "-c", CONNECT, name])
    assert reached.code == 0, reached.stderr
    await remove_namespaces(cluster, [NAMESPACE])


async def _other_ways_in(provider: KindProvider, handle: ClusterHandle, folder: Path) -> None:
    """The same cluster by token and by exec plug-in, through the kubeconfig provider."""
    kubectl = folder / "kubectl"
    kubectl.symlink_to(await provider.tool("kube"))
    base: list[str | Path] = [kubectl, f"--kubeconfig={handle.kubeconfig}"]
    await process.run([*base, "create", "serviceaccount", "reader", "--namespace=default"])
    rights = ["--verb=get,list", "--resource=nodes,namespaces,pods"]
    await process.run([*base, "create", "clusterrole", "reader", *rights])
    binding = ["--clusterrole=reader", "--serviceaccount=default:reader"]
    await process.run([*base, "create", "clusterrolebinding", "reader", *binding])
    token = (await process.run([*base, "create", "token", "reader", "--namespace=default"])).stdout.strip()
    plugin = folder / "plugin"
    version = "client.authentication.k8s.io/v1"
    credential = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": token}}
    plugin.write_text(f"#!/bin/sh\necho '{json.dumps(credential)}'\n")
    plugin.chmod(0o755)
    for user in (
        {"token": token},
        {"exec": {"apiVersion": version, "command": str(plugin), "interactiveMode": "Never"}},
    ):
        config = yaml.safe_load(handle.kubeconfig.read_text(encoding="utf-8"))
        config["users"].append({"name": "reader", "user": user})
        config["contexts"].append({"name": "reader", "context": {"cluster": handle.context, "user": "reader"}})
        copy = folder / "config"
        copy.write_text(yaml.safe_dump(config), encoding="utf-8")
        found = await KubeconfigProvider(kubeconfig=copy, context="reader").up(ClusterSpec())
        assert found.identity == handle.identity
        assert len(found.nodes) == 4


async def _applied(cluster: KubeCluster, service: Obj) -> bool | None:
    account = await cluster.find(Ref(SERVICEACCOUNT, "default", NAMESPACE))
    if account is None:
        return None
    await cluster.apply([*await manifests(cluster), service], namespace=NAMESPACE)
    return True


async def _ready(cluster: KubeCluster, name: str) -> Obj:
    async def ready() -> Obj | None:
        pod = await cluster.get(Ref(POD, name, NAMESPACE))
        conditions = dig(pod, "status", "conditions", default=[])
        return pod if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions) else None

    return await waits.poll(ready, what=f"{name} is ready", every=0.5, within=90)
