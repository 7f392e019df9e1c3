"""One suite, two clusters: the fake must not lie. The live one is used in a namespace of its own."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sregym.cluster.client import KubeCluster
from sregym.cluster.contract import Cluster
from sregym.cluster.fake import FakeCluster
from sregym.cluster.objects import NAMESPACE, Ref
from sregym.settings import Settings


def kubeconfig_of(config: pytest.Config) -> Path:
    """The cluster of `--kubeconfig`, else the first one that `cluster up` has made."""
    given = config.getoption("--kubeconfig")
    if given is not None:
        return Path(given)
    found = sorted((Settings().paths.state / "clusters").glob("*.kubeconfig"))
    if not found:
        pytest.fail("no cluster for live tests: run `main.py cluster up` or give --kubeconfig")
    return found[0]


@pytest.fixture(params=["fake", pytest.param("live", marks=pytest.mark.live)])
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """A cluster under the contract."""
    if request.param == "fake":
        yield FakeCluster()
        return
    async with KubeCluster.connect(kubeconfig_of(request.config)) as real:
        yield real


@pytest.fixture
async def namespace(cluster: Cluster) -> AsyncIterator[str]:
    """A namespace for one test; gone afterwards."""
    name = f"contract-{uuid.uuid4().hex[:8]}"
    async with AsyncExitStack() as stack:
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        stack.push_async_callback(cluster.delete, Ref(NAMESPACE, name))
        yield name
