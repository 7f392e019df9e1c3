"""A release whose record is on our disk: installed, upgraded and removed; nothing of Helm stays in the cluster."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sregym.cluster.client import KubeCluster
from sregym.cluster.contract import Selection
from sregym.cluster.helm import Helm, Release, render
from sregym.cluster.objects import CONFIGMAP, NAMESPACE, SECRET, Ref, dig
from sregym.cluster.providers.kind import KindProvider
from sregym.errors import DefinitionError
from sregym.progress import Silent
from sregym.settings import Settings
from tests.contract.conftest import kubeconfig_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

TEMPLATE = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: setting
data:
  color: {{ required "a color is needed" .Values.color | quote }}
"""


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    folder = tmp_path / "chart"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: little\nversion: 1.0.0\n")
    (folder / "templates" / "setting.yaml").write_text(TEMPLATE)
    return folder


@pytest.fixture
async def binary() -> Path:
    paths = Settings().paths
    return await KindProvider(cache=paths.cache, state=paths.state, progress=Silent()).tool("helm")


@pytest.fixture
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[KubeCluster]:
    async with KubeCluster.connect(kubeconfig_of(request.config)) as real:
        yield real


@pytest.fixture
async def release(cluster: KubeCluster, tmp_path: Path) -> AsyncIterator[Release]:
    name = f"helm-{uuid.uuid4().hex[:8]}"
    yield Release(name="little", namespace=name, records=tmp_path / "records")
    await cluster.delete(Ref(NAMESPACE, name))


async def test_a_chart_is_rendered_without_a_cluster(binary: Path, chart: Path) -> None:
    [obj] = await render(binary, chart, {"color": "red"}, release="little", namespace="x")
    assert obj["data"] == {"color": "red"}
    with pytest.raises(DefinitionError, match="a color is needed"):
        await render(binary, chart, {}, release="little", namespace="x")


async def test_a_release_leaves_no_record(
    request: pytest.FixtureRequest, cluster: KubeCluster, release: Release, binary: Path, chart: Path
) -> None:
    helm = Helm(cluster, helm=binary, kubeconfig=kubeconfig_of(request.config))
    setting = Ref(CONFIGMAP, "setting", release.namespace)
    secrets = Selection(kind=SECRET, namespace=release.namespace)

    await helm.install(release, chart, {"color": "red"})
    found = await cluster.get(setting)
    assert found["data"] == {"color": "red"}
    assert dig(found, "metadata", "annotations", default={}) == {}
    assert await cluster.list(secrets) == []
    assert release.file.exists()

    await helm.install(release, chart, {"color": "blue"})
    assert (await cluster.get(setting))["data"] == {"color": "blue"}
    assert await cluster.list(secrets) == []

    await helm.uninstall(release)
    assert await cluster.find(setting) is None
    assert await cluster.list(secrets) == []
    assert not release.file.exists()
    await helm.uninstall(release)
