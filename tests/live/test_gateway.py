"""A real kubectl through the kube proxy on a real cluster, as the agent's user."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx
import pytest

from sregym import process
from sregym.agents.as_agent import TIMED_OUT, Run, agent_kubectl
from sregym.api.repair import KubectlCall
from sregym.cluster import waits
from sregym.events import silent
from sregym.gateway.identity import Identity, TokenGate
from sregym.gateway.kubeconfig import kubeconfig_text
from sregym.gateway.serve import serving_kube
from sregym.gateway.web import tcp_socket
from tests.live.gateway_site import GatewaySite, gateway_site

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


@pytest.fixture
async def site(request: pytest.FixtureRequest) -> AsyncIterator[GatewaySite]:
    async with gateway_site(request.config) as found:
        yield found


async def said(run: Run, *argv: str, stdin: str = "", within: float = 60.0) -> str:
    """What a call says; fails where it fails."""
    done = await run(KubectlCall(argv=argv, stdin=stdin, within=within))
    assert done.ok, f"{argv}: {done.stderr}"
    return done.stdout


async def test_kubectl_can_do_what_an_engineer_does(site: GatewaySite, tmp_path: Path) -> None:
    local, back = tmp_path / "here.txt", tmp_path / "back.txt"
    local.write_text("content\n" * 5000, encoding="utf-8")
    async with agent_kubectl(site.access, kubectl=site.kubectl, namespace=site.namespace) as run:
        assert "oncall" in await said(run, "auth", "whoami")
        pod = (await said(run, "get", "pods", "-l", "app=web", "-o", "name")).strip().removeprefix("pod/")
        assert "web" in await said(run, "describe", "deployment", "web")
        assert "line" in await said(run, "logs", pod, "--tail=2")
        assert (await said(run, "exec", pod, "--", "echo", "hi")).strip() == "hi"
        assert (await said(run, "exec", "-i", pod, "--", "cat", stdin="typed\n")).strip() == "typed"
        failed = await run(KubectlCall(argv=("exec", pod, "--", "sh", "-c", "exit 3")))
        assert failed.code == 3
        await said(run, "cp", str(local), f"{pod}:/tmp/there.txt")
        await said(run, "cp", f"{pod}:/tmp/there.txt", str(back))
        assert back.read_text(encoding="utf-8") == local.read_text(encoding="utf-8")
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
        await said(run, "apply", "-f", "-", stdin=json.dumps(config))
        await said(run, "patch", "configmap", "c", "--type", "merge", "-p", '{"data":{"a":"2"}}')
        assert await said(run, "get", "configmap", "c", "-o", "jsonpath={.data.a}") == "2"
        await said(run, "delete", "configmap", "c")
        await said(run, "set", "env", "deployment/web", "COLOUR=blue")
        await said(run, "rollout", "status", "deployment/web", "--timeout=60s", within=90)
        await said(run, "rollout", "undo", "deployment/web")
        await said(run, "scale", "deployment/web", "--replicas=2")
        await said(run, "explain", "deployment.spec.replicas")
        assert "PersistentVolume" in await said(run, "api-resources")


async def test_logs_and_watches_stream(site: GatewaySite) -> None:
    async with agent_kubectl(site.access, kubectl=site.kubectl, namespace=site.namespace) as run:
        logs = await run(KubectlCall(argv=("logs", "-f", "deployment/web", "--tail=1"), within=4))
        assert logs.code == TIMED_OUT
        assert logs.stderr.count("line ") >= 5
        async with anyio.create_task_group() as tasks:
            seen: list[process.Completed] = []

            async def watch() -> None:
                seen.append(await run(KubectlCall(argv=("get", "configmaps", "-w", "-o", "name"), within=6)))

            tasks.start_soon(watch)
            await anyio.sleep(2)
            await said(run, "create", "configmap", "seen-by-watch")
        assert "seen-by-watch" in seen[0].stderr


@pytest.mark.parametrize("websockets", ["true", "false"])
async def test_exec_and_port_forward_by_either_protocol(site: GatewaySite, tmp_path: Path, websockets: str) -> None:
    sockets = [tcp_socket("127.0.0.1", 0)]
    async with serving_kube(site.access, TokenGate("t"), Identity(), sockets, silent) as port:
        config = tmp_path / "config"
        config.write_text(kubeconfig_text(f"http://127.0.0.1:{port}/t/t", site.namespace), encoding="utf-8")
        environment = {
            "KUBECONFIG": str(config),
            "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": websockets,
            "KUBECTL_PORT_FORWARD_WEBSOCKETS": websockets,
        }
        done = await process.run(
            [*site.kubectl, "exec", "deployment/web", "--", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"],
            env=environment,
        )
        assert len(done.stdout) == 3_000_000
        log = tmp_path / "forward.log"
        forward = [*site.kubectl, "port-forward", "deployment/web", ":8080"]
        async with process.running(forward, log=log, env=environment):

            async def port_of() -> str | None:
                said = re.search(r"127\.0\.0\.1:(\d+) ->", log.read_text(encoding="utf-8"))
                return said[1] if said else None

            local = await waits.poll(port_of, what="port-forward", every=0.1, within=30)
            async with httpx.AsyncClient() as client:
                for _ in range(3):
                    assert (await client.get(f"http://127.0.0.1:{local}/")).text == "served\n"


async def test_rights_end_where_they_should(site: GatewaySite) -> None:
    async with agent_kubectl(site.access, kubectl=site.kubectl, namespace=site.namespace) as run:
        for allowed in (
            ("delete", "pods"),
            ("create", "deployments"),
            ("get", "secrets"),
            ("create", "pods", "--subresource=exec"),
            ("patch", "nodes"),
            ("update", "configmaps", "-n", "kube-system"),
            ("list", "pods", "-A"),
            ("create", "persistentvolumes"),
            ("delete", "validatingwebhookconfigurations"),
        ):
            done = await run(KubectlCall(argv=("auth", "can-i", *allowed)))
            assert done.stdout.strip() == "yes", allowed
        for refused in (
            ("get", "secrets", "-n", "kube-system"),
            ("list", "secrets", "-A"),
            ("delete", "nodes", "-A"),
            ("create", "pods", "--subresource=exec", "-n", "kube-system"),
            ("get", "nodes", "--subresource=proxy", "-A"),
            ("impersonate", "users", "-A"),
            ("escalate", "clusterroles", "-A"),
            ("bind", "clusterroles", "-A"),
            ("create", "pods", "-n", "kube-system"),
            ("delete", "namespaces", "-n", "kube-system"),
            ("create", "tokenreviews", "-A"),
            ("create", "serviceaccounts", "--subresource=token", "-n", "kube-system"),
            ("patch", "daemonsets", "-n", "kube-system"),
        ):
            done = await run(KubectlCall(argv=("auth", "can-i", *refused)))
            assert done.stdout.strip() == "no", refused
        raised = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "more"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "oncall"}],
        }
        widened = await run(KubectlCall(argv=("create", "-f", "-"), stdin=json.dumps(raised)))
        assert not widened.ok
        assert "forbidden" in widened.stderr
        other = await run(KubectlCall(argv=("get", "pods", "--as", "system:admin")))
        assert other.ok  # the claim is dropped, so it is still the agent's user that asks
        assert not (await run(KubectlCall(argv=("get", "secrets", "-A", "--as", "system:admin")))).ok
