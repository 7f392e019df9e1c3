"""The running load, with a child process in the generator's place."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from sregym import process
from sregym.cluster.fake import FakeCluster
from sregym.cluster.providers.base import ClusterHandle
from sregym.cluster.traffic import LoadPhase
from sregym.errors import ClusterError, PrerequisiteError, Unavailable
from sregym.events import silent
from sregym.load.place import Place, container_command, place_beside, service_network
from sregym.load.running import Users

GENERATOR = """
import json, sys
spec = json.loads(sys.stdin.readline())
def say(**row): print(json.dumps(row), flush=True)
def window(t): say(kind="window", t=t, seconds=1, phase="base", operation="search", scheduled=10, missed=0, ok=10,
                   failed=0, reasons={}, latency_ms=None)
say(kind="phase", t=0, name="base", rate=1)
window(0)
for line in sys.stdin:
    command = json.loads(line)
    if command["command"] == "phases" and spec["obeys"]:
        say(kind="phase", t=1, name=command["phases"][0]["name"], rate=1)
    if command["command"] == "target": sys.exit("ip: bad address")
    if command["command"] == "stop":
        say(kind="summary", t=9, seconds=9, scheduled=90, missed_share=0)
        break
"""


@asynccontextmanager
async def generator(tmp_path: Path, *, obeys: bool = True) -> AsyncIterator[Users]:
    log = tmp_path / "stderr"
    async with process.dialogue([sys.executable, "-c", GENERATOR], log=log) as child:
        running = Users(child=child, base=LoadPhase(rate=10), log=log, emit=silent)
        await child.send(json.dumps({"obeys": obeys}))
        async with anyio.create_task_group() as group:
            group.start_soon(running.listen)
            await running.begun()
            yield running
            group.cancel_scope.cancel()


async def test_it_gives_windows_and_obeys(tmp_path: Path) -> None:
    async with generator(tmp_path) as running:
        assert (await running.window(5)).of().success_rate == 1
        await running.phase(LoadPhase(rate=50, seconds=1))
        assert running.records.phases == ["base", "phase-1"]
        await running.stop()
        assert running.account() == {"seconds": 9, "scheduled": 90, "missed_share": 0}


async def test_a_dead_generator_is_no_healthy_traffic(tmp_path: Path) -> None:
    async with generator(tmp_path) as running:
        await running._say('{"command": "target"}')
        with anyio.fail_after(10):
            while not running._ended:
                await running._hear()
        with pytest.raises(Unavailable, match="bad address"):
            await running.window(5)
        with pytest.raises(Unavailable, match="bad address"):
            await running.phase(LoadPhase(rate=1))
        await running.stop()


async def test_a_silent_generator_is_no_healthy_traffic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sregym.load.running.SILENT_AFTER_S", -1.0)
    async with generator(tmp_path) as running:
        with pytest.raises(Unavailable, match="silent"):
            await running.window(5)


async def test_a_phase_that_does_not_begin_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sregym.load.running.PHASE_WITHIN_S", 0.2)
    async with generator(tmp_path, obeys=False) as running:
        with pytest.raises(Unavailable, match="phase-1 begins"):
            await running.phase(LoadPhase(rate=1))


def handle(network: str | None) -> ClusterHandle:
    return ClusterHandle(
        name="c", provider="x", kubeconfig=Path("k"), context="c", server_version="", nodes=(), docker_network=network
    )


async def test_other_clusters_are_refused_in_plain_words(fake_cluster: FakeCluster) -> None:
    with pytest.raises(PrerequisiteError, match="not containers on this machine"):
        await place_beside(handle(None), fake_cluster)


async def test_the_services_network_comes_from_the_cluster(fake_cluster: FakeCluster) -> None:
    with pytest.raises(ClusterError):
        await service_network(fake_cluster)
    command = ["kube-apiserver", "--service-cluster-ip-range=fd00::/108,10.96.0.0/16"]
    meta = {"name": "kube-apiserver-x", "namespace": "kube-system", "labels": {"component": "kube-apiserver"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [{"name": "a", "command": command}]},
    }
    await fake_cluster.create(pod)
    assert await service_network(fake_cluster) == "10.96.0.0/16"


def test_the_container_has_no_more_rights_than_its_route_needs() -> None:
    place = Place(network="kind", via="172.18.0.2", services="10.96.0.0/16")
    command = container_command(place, name="client-1", image="load:1")
    assert "--cap-drop=ALL" in command
    assert [word for word in command if word.startswith("--cap-add")] == ["--cap-add=NET_ADMIN"]
    assert "--privileged" not in command
    assert command[-2:] == ["10.96.0.0/16", "172.18.0.2"]
