"""Whether the tests' cluster is as its base snapshot says, looked at apart from the code that puts it back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from sregym.cluster import snapshot
from sregym.cluster.client import KubeCluster
from sregym.cluster.contract import Selection
from sregym.cluster.objects import POD, ref_of
from sregym.cluster.providers.kind import KindProvider
from sregym.coordinator.lab import connect
from sregym.observability.stack import NAME, NAMESPACE
from sregym.progress import Silent
from sregym.settings import Settings
from tests.live.command import CLUSTER


@asynccontextmanager
async def tests_cluster() -> AsyncIterator[KubeCluster]:
    """The tests' cluster; fails where there is none."""
    paths = Settings().paths
    status = await KindProvider(cache=paths.cache, state=paths.state, progress=Silent()).status(CLUSTER)
    assert status.handle is not None, status.reason
    handle = status.handle
    async with connect(handle.kubeconfig, handle.context, handle.node_names) as cluster:
        yield cluster


async def kill_pod_of_stack(name: str) -> None:
    """Deletes the pod of a workload of the observability stack, at once."""
    async with tests_cluster() as cluster:
        pods = await cluster.list(Selection(kind=POD, namespace=NAMESPACE, labels=f"{NAME}={name}"))
        assert pods, name
        for pod in pods:
            await cluster.delete(ref_of(pod, POD), grace_s=0)


async def world_differences() -> Sequence[str]:
    """What differs from the newest base snapshot of the cluster; fails where there is no cluster or no base."""
    paths = Settings().paths
    async with tests_cluster() as cluster:
        identity = await cluster.identity()
        bases = sorted((paths.state / "bases").glob(f"{identity}-*.json"), key=lambda path: path.stat().st_mtime)
        assert bases, "the cluster has no base snapshot"
        base = snapshot.Snapshot.load(bases[-1])
        return [str(one) for one in snapshot.differences(base, await snapshot.retake(cluster, base))]
