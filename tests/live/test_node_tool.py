"""The node tool on real nodes: looks answer, changes count and are taken back, links are not followed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sregym.cluster.client import KubeCluster
from sregym.cluster.contract import Selection
from sregym.cluster.editor import JournalledEditor
from sregym.cluster.journal import Journal
from sregym.cluster.nodes import DockerNodeShell
from sregym.cluster.objects import NODE
from sregym.cluster.recovery import recover
from sregym.gateway.node.contract import Refused
from sregym.gateway.node.tool import NodeTool
from tests.contract.conftest import kubeconfig_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

SOMAXCONN = "net.core.somaxconn"


@pytest.fixture
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[KubeCluster]:
    path = kubeconfig_of(request.config)
    async with KubeCluster.connect(path) as plain:
        names = [one["metadata"]["name"] for one in await plain.list(Selection(kind=NODE))]
    async with KubeCluster.connect(path, node_shell=DockerNodeShell(names)) as made:
        yield made


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal.create(tmp_path, identity="live", attempt="node")


@pytest.fixture
async def tool(cluster: KubeCluster, journal: Journal) -> NodeTool:
    return await NodeTool.of(cluster, JournalledEditor(cluster, journal), namespace="no-such-namespace")


LOOKS: list[tuple[dict[str, Any], str]] = [
    ({"op": "service", "action": "status", "unit": "kubelet"}, "active (running)"),
    ({"op": "service", "action": "list"}, "containerd.service"),
    ({"op": "journal", "unit": "kubelet", "lines": 20}, "kubelet"),
    ({"op": "kubelet-config"}, "KubeletConfiguration"),
    ({"op": "disk-free"}, "/var"),
    ({"op": "disk-usage", "place": "/var/log", "depth": 1}, "/var/log/pods"),
    ({"op": "sysctl-read", "prefix": "net.ipv4.ip_forward"}, "net.ipv4.ip_forward = 1"),
    ({"op": "conntrack", "action": "count"}, "at most"),
    ({"op": "processes", "sort": "pid"}, "/usr/bin/kubelet"),
    ({"op": "network", "what": "addresses"}, "eth0"),
    ({"op": "network", "what": "filter"}, "Chain FORWARD"),
    ({"op": "time"}, "offset"),
]


@pytest.mark.parametrize(("request_", "expected"), LOOKS, ids=[json.dumps(one) for one, _ in LOOKS])
async def test_looks(tool: NodeTool, request_: dict[str, Any], expected: str) -> None:
    answer = await tool.call(tool.workers[0], request_)
    assert answer.ok
    assert expected in answer.text


async def test_what_entered_the_node_is_not_among_its_processes(tool: NodeTool) -> None:
    answer = await tool.call(tool.workers[0], {"op": "processes", "limit": 500})
    assert "ps -eww" not in answer.text


async def test_changes_count_and_are_taken_back(tool: NodeTool, cluster: KubeCluster, journal: Journal) -> None:
    node = tool.workers[-1]

    async def kubelet() -> str:
        return (await tool.call(node, {"op": "kubelet-config"})).text

    async def somaxconn() -> str:
        return (await tool.call(node, {"op": "sysctl-read", "prefix": SOMAXCONN})).text

    before, connections = await kubelet(), await somaxconn()
    for request_ in (
        {"op": "kubelet-set", "key": "maxPods", "value": 93},
        {"op": "service", "action": "restart", "unit": "kubelet"},
        {"op": "sysctl-write", "key": SOMAXCONN, "value": "1234"},
    ):
        answer = await tool.call(node, request_)
        assert answer.ok, answer.text
    assert "maxPods: 93" in await kubelet()
    assert await somaxconn() == f"{SOMAXCONN} = 1234"
    await recover(journal, cluster)
    assert await kubelet() == before
    assert await somaxconn() == connections


async def test_files_are_removed_and_links_are_not_followed(tool: NodeTool, cluster: KubeCluster) -> None:
    node, shell = tool.workers[-1], cluster.node_shell
    assert shell is not None
    await shell.run(node, ["mkdir", "-p", "/tmp/place/[a]"])
    await shell.run(node, ["touch", "/tmp/place/[a]/file*", "/tmp/place/a"])
    await shell.run(node, ["ln", "-sfn", "/etc", "/tmp/place/link"])
    await shell.run(node, ["ln", "-sf", "/etc/hostname", "/tmp/place/hostname"])
    try:
        assert (await tool.call(node, {"op": "remove-file", "path": "/tmp/place/[a]/file*"})).ok
        for path in ("/tmp/place/link/hostname", "/tmp/place/hostname"):
            assert not (await tool.call(node, {"op": "remove-file", "path": path})).ok
            assert not (await tool.call(node, {"op": "empty-file", "path": path})).ok
        with pytest.raises(Refused):
            await tool.call(node, {"op": "remove-file", "path": "/tmp/place/../../etc/hostname"})
        left = (await shell.run(node, ["find", "/tmp/place"])).stdout
        assert "file*" not in left
        assert "/tmp/place/a" in left
        assert (await shell.run(node, ["test", "-s", "/etc/hostname"])).code == 0
    finally:
        await shell.run(node, ["rm", "-r", "/tmp/place"])


async def test_a_runaway_process_is_ended(tool: NodeTool, cluster: KubeCluster) -> None:
    node, shell = tool.workers[-1], cluster.node_shell
    assert shell is not None
    await shell.run(node, ["systemd-run", "--unit=busy-loop", "sleep", "321"])
    try:
        listed = await tool.call(node, {"op": "processes", "containing": "sleep 321"})
        pid = int(listed.text.splitlines()[1].split()[0])
        assert (await tool.call(node, {"op": "kill", "pid": pid})).ok
        again = await tool.call(node, {"op": "processes", "containing": "sleep 321"})
        assert str(pid) not in again.text
    finally:
        await shell.run(node, ["systemctl", "stop", "busy-loop"])
