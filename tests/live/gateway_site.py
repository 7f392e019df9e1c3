"""Where the gateway is tested: a namespace of its own on a real cluster, the agent's rights in it, one busy pod."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sregym import process
from sregym.agents.images import AgentImages, recipes
from sregym.cluster import waits
from sregym.cluster.client import KubeCluster
from sregym.cluster.objects import NAMESPACE, Obj, Ref, deployment
from sregym.cluster.providers.base import ClusterHandle
from sregym.cluster.providers.kind import KindProvider
from sregym.gateway.access import access_objects
from sregym.gateway.admission import admission_objects
from sregym.gateway.upstream import ClusterAccess
from sregym.progress import Recorded
from sregym.settings import Settings
from tests.live.test_hotel import handle_of

POD_IMAGE = "registry.k8s.io/kube-proxy:v1.34.4"
"""On every node already; has a shell, perl and tar."""
SERVER = (
    "use IO::Socket::INET; $s = IO::Socket::INET->new(LocalPort => 8080, Listen => 5, ReuseAddr => 1);"
    ' while ($c = $s->accept) { <$c>; print $c "HTTP/1.0 200 OK\\r\\n\\r\\nserved\\n"; close $c }'
)


@dataclass(frozen=True, kw_only=True)
class GatewaySite:
    """Where the tests run."""

    handle: ClusterHandle
    cluster: KubeCluster
    namespace: str
    kubectl: Sequence[str | Path]
    images: AgentImages

    @property
    def access(self) -> ClusterAccess:
        return ClusterAccess(kubeconfig=self.handle.kubeconfig, context=self.handle.context)


@asynccontextmanager
async def gateway_site(config: pytest.Config) -> AsyncIterator[GatewaySite]:
    """Removes the namespace at the end; the agent's cluster-wide rights stay, as they do in a lab."""
    handle, paths = handle_of(config), Settings().paths
    provider = KindProvider(cache=paths.cache, state=paths.state, progress=Recorded())
    images = AgentImages.of(await provider.images(recipes()))
    kube = await provider.tool("kube")
    namespace = f"gateway-{secrets.token_hex(3)}"
    async with KubeCluster.connect(handle.kubeconfig, handle.context) as cluster:
        await cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}])
        try:
            masters = [name for name in handle.node_names if "control-plane" in name]
            await cluster.apply([*access_objects([namespace]), *admission_objects(control_plane=masters)])
            await cluster.apply([busy_deployment(namespace)])
            ref = deployment("web", namespace)

            async def ready() -> bool | None:
                found = await cluster.get(ref)
                return True if found.get("status", {}).get("readyReplicas") else None

            await waits.poll(ready, what="the busy pod", every=0.5, within=120)
            yield GatewaySite(
                handle=handle, cluster=cluster, namespace=namespace, kubectl=(kube, "kubectl"), images=images
            )
        finally:
            await cluster.delete(Ref(NAMESPACE, namespace))


def busy_deployment(namespace: str) -> Obj:
    """Writes a line to its log every 0.2 s, and answers HTTP on 8080."""
    talk = f"perl -e '{SERVER}' & i=0; while true; do echo line $i; i=$((i+1)); sleep 0.2; done"
    container = {
        "name": "web",
        "image": POD_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", talk],
        "ports": [{"containerPort": 8080}],
    }
    labels = {"app": "web", "site": namespace}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
            },
        },
    }


async def docker_names() -> set[str]:
    """Containers, networks and volumes of agents' worlds that are there now."""
    found: set[str] = set()
    for words in (["ps", "--all", "--format", "{{.Names}}"], ["network", "ls", "--format", "{{.Name}}"],
                  ["volume", "ls", "--format", "{{.Name}}"]):  # fmt: skip
        done = await process.run(["docker", *words])
        found |= {name for name in done.stdout.split() if name.startswith("oncall-")}
    return found
