"""Whether the tests' cluster is as its base snapshot says, looked at apart from the code that puts it back."""

from __future__ import annotations

from collections.abc import Sequence

from sregym.cluster import snapshot
from sregym.cluster.providers.kind import KindProvider
from sregym.coordinator.lab import connect
from sregym.progress import Silent
from sregym.settings import Settings
from tests.live.command import CLUSTER


async def world_differences() -> Sequence[str]:
    """What differs from the newest base snapshot of the cluster; fails where there is no cluster or no base."""
    paths = Settings().paths
    status = await KindProvider(cache=paths.cache, state=paths.state, progress=Silent()).status(CLUSTER)
    assert status.handle is not None, status.reason
    handle = status.handle
    async with connect(handle.kubeconfig, handle.context, handle.node_names) as cluster:
        identity = await cluster.identity()
        bases = sorted((paths.state / "bases").glob(f"{identity}-*.json"), key=lambda path: path.stat().st_mtime)
        assert bases, "the cluster has no base snapshot"
        base = snapshot.Snapshot.load(bases[-1])
        return [str(one) for one in snapshot.differences(base, await snapshot.retake(cluster, base))]
