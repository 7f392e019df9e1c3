"""Decisions of the kind provider: pull or build, what kind is told, what the user is told."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx
import pytest

from sregym.cluster.lease import lease
from sregym.cluster.providers import pins as pin_file
from sregym.cluster.providers.base import ClusterHandle, ClusterSpec, Node, Origin
from sregym.cluster.providers.exclusive import exclusive
from sregym.cluster.providers.host import GIB
from sregym.cluster.providers.kind import KindProvider
from sregym.cluster.providers.kind_rules import check_memory, check_port, cluster_config, port_is_free
from sregym.cluster.providers.node_image import NODE, node_steps, storage_manifest, system_images
from sregym.cluster.providers.node_source import ImageSource, NodeSource, Probe, decide, registry_answers
from sregym.cluster.providers.readiness import Readiness
from sregym.cluster.providers.tools import programs
from sregym.errors import ClusterError, PrerequisiteError
from sregym.progress import Outcome, Recorded, Silent
from tests.unit.providers.conftest import Program
from tests.unit.providers.test_host import a_host

PINS = pin_file.read()


@dataclass(frozen=True, kw_only=True)
class Working:
    """A provider whose cluster `a` works, and the calls of its `docker`."""

    provider: KindProvider
    calls: Path


def says(answer: bool | None) -> Probe:
    async def probe() -> bool:
        assert answer is not None, "this was not to be asked"
        return answer

    return probe


@pytest.mark.parametrize(
    ("wanted", "present", "registry", "expected"),
    [
        (ImageSource.AUTO, True, None, NodeSource.PRESENT),
        (ImageSource.AUTO, False, True, NodeSource.PULL),
        (ImageSource.AUTO, False, False, NodeSource.BUILD),
        (ImageSource.BUILD, None, None, NodeSource.BUILD),
        (ImageSource.PULL, True, None, NodeSource.PRESENT),
        (ImageSource.PULL, False, None, NodeSource.PULL),
    ],
)
async def test_pull_or_build(
    wanted: ImageSource, present: bool | None, registry: bool | None, expected: NodeSource
) -> None:
    decision = await decide(wanted, present=says(present), registry_answers=says(registry))
    assert decision.source is expected
    assert decision.why


@pytest.mark.parametrize(
    ("status", "headers", "answers"),
    [
        (401, {"Docker-Distribution-Api-Version": "registry/2.0"}, True),
        (200, {"Docker-Distribution-Api-Version": "registry/2.0"}, True),
        (200, {}, False),  # a login page of somebody's network
        (403, {"Docker-Distribution-Api-Version": "registry/2.0"}, False),
        (502, {}, False),
    ],
)
async def test_what_counts_as_a_registry(status: int, headers: dict[str, str], answers: bool) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(status, headers=headers))
    assert await registry_answers(PINS, transport=transport)() is answers


async def test_a_registry_that_cannot_be_reached_does_not_answer() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectTimeout("too late", request=request)

    assert not await registry_answers(PINS, transport=httpx.MockTransport(refuse))()


def test_one_control_plane_and_three_workers_by_default() -> None:
    config = cluster_config(ClusterSpec(), a_host())
    assert [node["role"] for node in config["nodes"]] == ["control-plane", "worker", "worker", "worker"]
    assert "apiServerPort" not in config["networking"]
    assert "containerdConfigPatches" not in config


def test_every_node_gets_the_store_read_only() -> None:
    config = cluster_config(ClusterSpec(workers=1), a_host(), store="/volumes/x")
    mounts = [node["extraMounts"] for node in config["nodes"]]
    assert mounts == [[{"hostPath": "/volumes/x", "containerPath": "/kind/store", "readOnly": True}]] * 2


def test_oom_scores_are_restricted_only_where_the_host_cannot_lower_them() -> None:
    config = cluster_config(ClusterSpec(), a_host(missing_capabilities=frozenset({"CAP_SYS_RESOURCE"})))
    assert "restrict_oom_score_adj = true" in config["containerdConfigPatches"][0]


def test_a_taken_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not port_is_free(port)
        with pytest.raises(PrerequisiteError, match=f"port {port}"):
            check_port(ClusterSpec(api_port=port))
    check_port(ClusterSpec(api_port=port))


def test_short_memory_is_said_with_figures() -> None:
    with pytest.raises(PrerequisiteError, match=r"4 nodes need 2\.0 GiB of memory, 1\.0 GiB"):
        check_memory(ClusterSpec(), a_host(memory_available=GIB))


@pytest.mark.parametrize("name", ["Bad Name", "", "-x", "x" * 60, "a/b"])
async def test_bad_names_are_refused_before_anything_is_touched(name: str, tmp_path: Path) -> None:
    provider = KindProvider(cache=tmp_path, state=tmp_path, progress=Silent())
    with pytest.raises(PrerequisiteError, match="cannot name a cluster"):
        await provider.up(ClusterSpec(name=name))
    with pytest.raises(PrerequisiteError, match="cannot name a cluster"):
        await provider.down(name)


@pytest.mark.parametrize("workers", [-1, 300])
async def test_absurd_sizes_are_refused_before_anything_is_touched(workers: int, tmp_path: Path) -> None:
    provider = KindProvider(cache=tmp_path, state=tmp_path, progress=Silent())
    with pytest.raises(PrerequisiteError, match="workers"):
        await provider.up(ClusterSpec(workers=workers))


INFO = '{"ServerVersion":"1","DockerRootDir":"/none","Driver":"overlay2","DefaultRuntime":"within-bounds"}'


@pytest.fixture
def working(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Working:
    """A cluster `a` of one node that works, and a `docker` that writes down what it is told."""
    calls = program("docker", f"""case "$1" in info) echo '{INFO}' ;; ps) echo 'a-control-plane running' ;; esac""")
    handle = ClusterHandle(
        name="a",
        provider="kind",
        kubeconfig=tmp_path / "kubeconfig",
        context="kind-a",
        server_version="v1",
        nodes=(Node(name="a-control-plane", control_plane=True),),
        identity="uid",
        origin=Origin.BUILT,
    )
    file = tmp_path / "clusters" / "a.json"
    file.parent.mkdir()
    file.write_text(handle.model_dump_json())
    file.with_suffix(".yaml").write_text("kind: Cluster")

    async def look(*arguments: object, **options: object) -> Readiness:
        return Readiness(reason="", nodes=handle.nodes)

    monkeypatch.setattr("sregym.cluster.providers.readiness.look", look)
    return Working(provider=KindProvider(cache=tmp_path, state=tmp_path, progress=Silent()), calls=calls)


async def test_a_cluster_that_works_is_taken_as_it_is(working: Working) -> None:
    assert (await working.provider.up(ClusterSpec(name="a", workers=0))).identity == "uid"
    assert " rm " not in working.calls.read_text()


async def test_whoever_comes_second_waits_and_finds_the_cluster(working: Working, tmp_path: Path) -> None:
    provider, progress = working.provider, Recorded()
    provider.progress = progress
    found: list[object] = []

    async def second() -> None:
        found.append((await provider.up(ClusterSpec(name="a", workers=0))).identity)
        found.append(await provider.down("a"))

    async with AsyncExitStack() as first:
        tasks = await first.enter_async_context(anyio.create_task_group())
        await first.enter_async_context(exclusive(tmp_path / "clusters" / "a.lock", Silent(), waiting_for="nobody"))
        tasks.start_soon(second)
        while not progress.begun:
            await anyio.lowlevel.checkpoint()
        assert not found
        assert not working.calls.exists()
    assert progress.begun[0] == "wait for another command that makes or removes cluster a"
    assert found == ["uid", True]


async def test_waiting_for_a_lock_can_be_cancelled(tmp_path: Path) -> None:
    lock, progress = tmp_path / "x.lock", Recorded()

    async def wait() -> None:
        async with exclusive(lock, progress, waiting_for="it"):
            pytest.fail("the lock is held")

    async with exclusive(lock, Silent(), waiting_for="nobody"), anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        while not progress.begun:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert [one.outcome for one in progress.ended] == [Outcome.CANCELLED]
    async with exclusive(lock, progress, waiting_for="nobody"):
        pass


async def test_a_cluster_that_works_is_never_replaced_by_another_shape(working: Working) -> None:
    with pytest.raises(PrerequisiteError, match="0 workers, not 3"):
        await working.provider.up(ClusterSpec(name="a"))
    assert "rm --force" not in working.calls.read_text()


async def test_a_cluster_in_use_is_not_removed(working: Working, tmp_path: Path) -> None:
    async with lease(tmp_path, "uid", cluster="a", holder="run 7"):
        with pytest.raises(PrerequisiteError, match="in use by run 7"):
            await working.provider.down("a")
    assert "rm --force" not in working.calls.read_text()
    assert await working.provider.down("a")
    assert "rm --force --volumes a-control-plane" in working.calls.read_text()


@pytest.mark.parametrize("of_ours", ["handle", "config"])
async def test_a_cluster_that_somebody_else_made_is_not_removed(working: Working, tmp_path: Path, of_ours: str) -> None:
    """One that was adopted has a handle; one that another state folder knows has nothing here."""
    file = tmp_path / "clusters" / "a.json"
    if of_ours == "handle":
        adopted = ClusterHandle.model_validate_json(file.read_text()).model_copy(update={"origin": Origin.EXISTING})
        file.write_text(adopted.model_dump_json())
    else:
        file.unlink()
        file.with_suffix(".yaml").unlink()
    with pytest.raises(PrerequisiteError, match="made by somebody else"):
        await working.provider.down("a")
    with pytest.raises(PrerequisiteError, match="made by somebody else"):
        await working.provider.replace(ClusterSpec(name="a", workers=0))
    assert "rm --force" not in working.calls.read_text()


async def test_a_cluster_whose_making_was_cut_short_is_ours_to_remove(working: Working, tmp_path: Path) -> None:
    (tmp_path / "clusters" / "a.json").unlink()
    assert await working.provider.down("a")
    assert "rm --force --volumes a-control-plane" in working.calls.read_text()


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        ("", "no such cluster"),
        ("a-control-plane exited", "not running: a-control-plane"),
        ("a running", "not made here"),
    ],
)
async def test_status_says_why_a_cluster_is_not_ready(
    program: Program, tmp_path: Path, listed: str, reason: str
) -> None:
    program("docker", f"""case "$1" in info) echo '{INFO}' ;; ps) echo '{listed}' ;; esac""")
    status = await KindProvider(cache=tmp_path, state=tmp_path, progress=Silent()).status("a")
    assert not status.ready
    assert reason in status.reason


def test_every_step_has_what_it_needs() -> None:
    steps = {step.name: step for step in node_steps(PINS, architecture="amd64")}
    assert all(need in steps for step in steps.values() for need in step.needs)
    assert {recipe.step_name for recipe in system_images(PINS)} <= set(steps[NODE].needs)


def test_go_modules_agree_with_the_pinned_versions() -> None:
    versions = {program.name: program.version for program in programs(PINS)}
    module = (pin_file.KIND_DATA / "tools" / "go.mod").read_text()
    assert f"k8s.io/kubernetes {versions['kube']}" in module
    assert f"sigs.k8s.io/kind {PINS.go.kind}" in module
    assert f"helm.sh/helm/v3 {versions['helm']}" in module
    assert f"github.com/coredns/coredns {PINS.go.coredns}" in module
    router = (pin_file.KIND_DATA / "kube-router" / "go.mod").read_text()
    assert f"github.com/cloudnativelabs/kube-router/v2 {versions['kube-router']}" in router


def test_storage_manifest_is_taken_out_of_kinds_source(tmp_path: Path) -> None:
    source = tmp_path / "const_storage.go"
    source.write_text(
        "package nodeimage\nconst defaultStorageManifest = `\nimage: ` + storageProvisionerImage + `\n"
        "helper: ` + storageHelperImage + `\n`\n"
    )
    manifest = storage_manifest(source, PINS)
    assert manifest == f"image: {PINS.tags.storage_provisioner}\nhelper: {PINS.tags.storage_helper}\n"


def test_a_kind_that_keeps_its_manifest_elsewhere_is_noticed(tmp_path: Path) -> None:
    source = tmp_path / "const_storage.go"
    source.write_text("package nodeimage\n")
    with pytest.raises(ClusterError, match="storage manifest"):
        storage_manifest(source, PINS)
