"""Clusters by kubeconfig: which context, what is said where it cannot be used, and that they are not ours."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sregym.cluster.providers.base import ClusterSpec
from sregym.cluster.providers.kubeconfig import KubeconfigProvider
from sregym.errors import DirtyClusterError, PrerequisiteError

NOBODY = "https://127.0.0.1:1"


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    file = tmp_path / "config"
    contexts = [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("one", "two")]
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "two",
        "contexts": contexts,
        "clusters": [{"name": "c", "cluster": {"server": NOBODY}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    file.write_text(yaml.safe_dump(content))
    return file


async def test_the_files_current_context_is_used(kubeconfig: Path) -> None:
    status = await KubeconfigProvider(kubeconfig=kubeconfig).status("any")
    assert status.handle is not None
    assert status.handle.context == "two"


async def test_a_cluster_that_does_not_answer_is_said_so(kubeconfig: Path) -> None:
    provider = KubeconfigProvider(kubeconfig=kubeconfig, context="one")
    assert "does not answer" in (await provider.status("any")).reason
    with pytest.raises(PrerequisiteError, match="does not answer"):
        await provider.up(ClusterSpec())


async def test_an_unknown_context_is_answered_with_those_there_are(kubeconfig: Path) -> None:
    with pytest.raises(PrerequisiteError, match="one, two"):
        await KubeconfigProvider(kubeconfig=kubeconfig, context="three").up(ClusterSpec())


async def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="absent"):
        await KubeconfigProvider(kubeconfig=tmp_path / "absent").up(ClusterSpec())


async def test_it_is_never_removed_or_replaced(kubeconfig: Path) -> None:
    provider = KubeconfigProvider(kubeconfig=kubeconfig)
    assert not await provider.down("any")
    with pytest.raises(DirtyClusterError, match="not ours"):
        await provider.replace(ClusterSpec())
