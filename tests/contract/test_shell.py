"""Looks from inside a real cluster: commands, logs, requests. What the fake scripts, the real one must do."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from sregym.cluster.client import KubeCluster
from sregym.cluster.contract import NodeShell, Selection
from sregym.cluster.nodes import DockerNodeShell
from sregym.cluster.objects import NODE, POD, Ref, ref_of
from sregym.errors import DefinitionError, Invalid, NotFound, Unavailable
from tests.contract.conftest import kubeconfig_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

DNS = "kube-dns.kube-system"


@pytest.fixture
async def real(request: pytest.FixtureRequest) -> AsyncIterator[KubeCluster]:
    """A cluster that asks through the API server."""
    async with KubeCluster.connect(kubeconfig_of(request.config)) as cluster:
        yield cluster


@pytest.fixture
async def kind(request: pytest.FixtureRequest, real: KubeCluster) -> AsyncIterator[KubeCluster]:
    """The same cluster, asking from its nodes."""
    names = [node["metadata"]["name"] for node in await real.list(Selection(kind=NODE))]
    async with KubeCluster.connect(kubeconfig_of(request.config), node_shell=DockerNodeShell(names)) as cluster:
        yield cluster


@pytest.fixture
async def pod(real: KubeCluster) -> Ref:
    """A pod with a shell in it."""
    found = await real.list(Selection(kind=POD, namespace="kube-system", labels="k8s-app=kube-proxy"))
    return ref_of(found[0], POD)


async def test_streams_and_exit_code_are_kept_apart(real: KubeCluster, pod: Ref) -> None:
    done = await real.exec(pod, ["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.code, done.stdout, done.stderr) == (3, "out\n", "err\n")


async def test_long_input_arrives_whole_and_ends(real: KubeCluster, pod: Ref) -> None:
    text = "0123456789abcdef" * 20_000
    done = await real.exec(pod, ["sh", "-c", "cat; echo >&2 read"], stdin=text)
    assert done.stdout == text
    assert done.stderr == "read\n"


async def test_input_that_nobody_reads_is_no_error(real: KubeCluster, pod: Ref) -> None:
    # More than a pipe holds may block the server's side for ever when the command has ended; see `executing`.
    assert (await real.exec(pod, ["true"], stdin="x" * 10_000)).code == 0


async def test_a_missing_program_is_127(real: KubeCluster, pod: Ref) -> None:
    assert (await real.exec(pod, ["no-such-program"])).code == 127


async def test_a_command_that_does_not_end_is_given_up(real: KubeCluster, pod: Ref) -> None:
    begun = anyio.current_time()
    with pytest.raises(Unavailable, match="did not end in 1 s"):
        await real.exec(pod, ["sleep", "20"], within=1)
    assert anyio.current_time() - begun < 15


async def test_an_absent_container_is_invalid(real: KubeCluster, pod: Ref) -> None:
    with pytest.raises(Invalid):
        await real.exec(pod, ["true"], container="absent")


async def test_logs_can_be_cut(real: KubeCluster, pod: Ref) -> None:
    whole = await real.logs(pod)
    assert (await real.logs(pod, tail=2)).splitlines() == whole.splitlines()[-2:]


async def test_logs_of_a_container_that_never_restarted(real: KubeCluster, pod: Ref) -> None:
    found = await real.get(pod)
    if found["status"]["containerStatuses"][0]["restartCount"]:
        pytest.skip("it has restarted on this cluster")
    with pytest.raises((Invalid, NotFound)):
        await real.logs(pod, previous=True)


@pytest.mark.parametrize("host", [DNS, f"{DNS}.svc", f"{DNS}.svc.cluster.local"])
async def test_a_service_answers(kind: KubeCluster, host: str) -> None:
    reply = await kind.request(f"http://{host}:9153/metrics")
    assert reply.status == 200
    assert "coredns_build_info" in reply.body
    assert reply.headers["content-type"].startswith("text/plain")
    assert reply.seconds > 0


async def test_through_the_api_server_it_answers_the_same(real: KubeCluster, kind: KubeCluster) -> None:
    for path, status in (("/metrics", 200), ("/nothing-here", 404)):
        url = f"http://{DNS}:9153{path}"
        assert (await real.request(url)).status == (await kind.request(url)).status == status


async def test_a_name_that_does_not_exist_is_no_answer(real: KubeCluster, kind: KubeCluster) -> None:
    for cluster in (real, kind):
        reply = await cluster.request("http://nobody.default/")
        assert reply.status == 0
        assert reply.error


async def test_a_pod_that_refuses_is_no_answer(kind: KubeCluster, pod: Ref) -> None:
    address = (await kind.get(pod))["status"]["podIP"]
    reply = await kind.request(f"http://{address}:1/", within=3)
    assert reply.status == 0
    assert reply.error


async def test_a_short_name_is_a_mistake(kind: KubeCluster) -> None:
    with pytest.raises(DefinitionError, match=r"service\.namespace"):
        await kind.request("http://kube-dns:9153/")


async def test_a_body_and_headers_arrive(kind: KubeCluster) -> None:
    # The API server echoes nothing, but it tells what it thinks of a body that is no JSON.
    reply = await kind.request("https://kubernetes.default/version", method="POST", body="{}", headers={"X-A": "b"})
    assert reply.status in (0, 401, 403, 405)


async def test_without_a_reachable_node_the_look_has_failed(request: pytest.FixtureRequest) -> None:
    shell: NodeShell = DockerNodeShell(["no-such-container"])
    async with KubeCluster.connect(kubeconfig_of(request.config), node_shell=shell) as cluster:
        with pytest.raises(Unavailable, match="no-such-container"):
            await cluster.request(f"http://{DNS}:9153/metrics")
