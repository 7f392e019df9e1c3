"""The MCP servers as they are run, with the official client over both transports."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from sregym import process
from sregym.cluster import waits
from sregym.gateway.desk import AppInfo, Desk, Stage
from sregym.gateway.doors import LOGS, MCP, METRICS, TRACES
from sregym.gateway.server import Gateway, TcpPorts, running_gateway
from sregym.gateway.upstream import ClusterAccess
from tests.flow.test_gateway import Events, came_back, children_serving
from tests.support import fake_kubectl
from tests.support.observability import Observed
from tests.support.servers import kubeconfig, raw_server

pytestmark = pytest.mark.timeout(300)

APP = AppInfo(app_name="shop", namespace="shop", namespaces=("shop",), descriptions="A shop.")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "agent" / "tools.py"
TOOLS = {
    "kubectl": {"exec_kubectl_cmd_safely", "rollback_command", "get_previous_rollbackable_cmd", "read_more"},
    "prometheus": {"get_metrics", "get_alerts", "read_more"},
    "jaeger": {"get_services", "get_operations", "get_traces", "get_dependency_graph", "read_more"},
    "loki": {"get_logs", "get_labels", "get_label_values", "read_more"},
    "node": {"get_nodes", "run_on_node", "read_more"},
    "submit": {"submit"},
    "submit_mcp": {"submit"},
}
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "1"},
    "spec": {"replicas": 2},
}


@dataclass
class Site:
    gateway: Gateway
    desk: Desk
    observed: Observed
    world: Path
    runtime: Path
    events: Events = field(default_factory=Events)

    def url(self, mount: str) -> str:
        assert self.gateway.urls is not None
        return f"{self.gateway.urls.of(MCP)}/{mount}"

    def replicas(self) -> int:
        return int(json.loads(self.world.read_text())["Deployment/shop/web"]["spec"]["replicas"])

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.gateway.folder / "gateway.jsonl").read_text().splitlines()]


@asynccontextmanager
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    folder, runtime, world = tmp_path / "attempt", tmp_path / "run", tmp_path / "world.json"
    folder.mkdir()
    runtime.mkdir()
    world.write_text(json.dumps({"Deployment/shop/web": WEB}))
    desk, observed, events = Desk(APP), Observed(), Events()
    desk.open()
    async with (
        raw_server(observed.handle) as server,
        running_gateway(
            access=ClusterAccess(kubeconfig=kubeconfig(tmp_path, server)),
            desk=desk,
            folder=folder,
            runtime=runtime,
            kubectl=(sys.executable, fake_kubectl.__file__, world),
            tcp=TcpPorts(api=0, kube=0),
            emit=events,
        ) as gateway,
    ):
        yield Site(gateway, desk, observed, world, runtime, events)


@asynccontextmanager
async def client(url: str, transport: str, headers: dict[str, str] | None = None) -> AsyncIterator[ClientSession]:
    if transport == "sse":
        async with sse_client(url, headers=headers) as (reading, writing), ClientSession(reading, writing) as session:
            await session.initialize()
            yield session
        return
    async with (
        httpx.AsyncClient(headers=headers, timeout=60) as http,
        streamable_http_client(url, http_client=http) as (reading, writing, _),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        yield session


async def call(session: ClientSession, tool: str, **arguments: Any) -> dict[str, Any]:
    """The JSON that a tool answers with; `isError` says whether it is an error."""
    result = await session.call_tool(tool, arguments)
    text = result.content[0].text  # type: ignore[union-attr]
    found: dict[str, Any] = json.loads(text)
    return {**found, "isError": bool(result.isError)}


CALLS: list[tuple[str, str, dict[str, Any], str]] = [
    ("kubectl", "exec_kubectl_cmd_safely", {"cmd": "kubectl get deployments"}, "web"),
    ("kubectl", "get_previous_rollbackable_cmd", {}, "null"),
    ("prometheus", "get_metrics", {"query": "up"}, "front-1"),
    ("prometheus", "get_metrics", {"query": "up", "last_n_minutes": 5}, "front-1"),
    ("prometheus", "get_alerts", {}, "PodNotReady"),
    ("jaeger", "get_services", {}, "back"),
    ("jaeger", "get_operations", {"service": "front"}, "GET /"),
    ("jaeger", "get_traces", {"service": "front", "last_n_minutes": 5}, "late"),
    ("jaeger", "get_dependency_graph", {}, "callCount"),
    ("loki", "get_logs", {"query": '{namespace="shop"}'}, "it broke"),
    ("loki", "get_labels", {}, "namespace"),
    ("loki", "get_label_values", {"label": "namespace"}, "shop"),
    ("node", "get_nodes", {}, "not available here"),
]


@pytest.mark.parametrize("transport", ["sse", "mcp", ""])
async def test_every_tool_is_listed_and_called(tmp_path: Path, transport: str) -> None:
    async with site(tmp_path) as here:
        for mount, tools in TOOLS.items():
            async with client(here.url(f"{mount}/{transport}".rstrip("/")), transport) as session:
                assert {tool.name for tool in (await session.list_tools()).tools} == tools
                for at, tool, arguments, expected in CALLS:
                    if at == mount:
                        answer = await call(session, tool, **arguments)
                        assert expected in json.dumps(answer), (tool, answer)
                        assert not answer["isError"]


@pytest.mark.parametrize("transport", ["sse", "mcp"])
async def test_submissions_reach_the_desk_by_both_doors(tmp_path: Path, transport: str) -> None:
    async with site(tmp_path) as here:
        async with client(here.url(f"submit/{transport}"), transport) as session:
            answer = await call(session, "submit", ans="the web is broken")
        assert answer["status"] == "200"
        assert here.gateway.urls is not None
        async with client(f"{here.gateway.urls.api}/submit_mcp/{transport}", transport) as session:
            answer = await call(session, "submit", ans="")
        assert "taken" in answer["message"]
        assert here.desk.status() is Stage.TEARING_DOWN
        taken = here.desk.taken(Stage.DIAGNOSIS)
        assert taken is not None
        assert taken.solution == "the web is broken"


async def kill_the_gateway(here: Site) -> None:
    for pid in children_serving(here.runtime):
        os.kill(pid, signal.SIGKILL)

    async def answers() -> bool | None:
        async with httpx.AsyncClient() as agent:
            try:
                found = await agent.get(here.url("nowhere"))
            except httpx.TransportError:
                return None
            return True if found.status_code == 404 else None

    await waits.poll(lambda: came_back(here.events), what="the process was missed", every=0.05, within=30)
    await waits.poll(answers, what="the door is back", every=0.1, within=60)


async def test_an_undo_works_after_the_gateway_was_killed(tmp_path: Path) -> None:
    """Over streamable HTTP even the client does not notice."""
    async with site(tmp_path) as here, client(here.url("kubectl/mcp"), "mcp") as session:
        done = await call(session, "exec_kubectl_cmd_safely", cmd="kubectl scale deployment web --replicas=0")
        assert "rollback_command" in done["undo"]
        assert here.replicas() == 0
        await kill_the_gateway(here)
        shown = await call(session, "get_previous_rollbackable_cmd")
        assert shown["command"] == "kubectl scale deployment web --replicas=0"
        undone = await call(session, "rollback_command")
        assert undone["as_before"] is True
        assert here.replicas() == 2
        assert (await call(session, "rollback_command"))["isError"]
        records = here.records()
    assert [one["equal"] for one in records if one["event"] == "mcp.undone"] == [True]


async def test_named_sessions_have_their_own_stacks_on_both_transports(tmp_path: Path) -> None:
    scale = "kubectl scale deployment web --replicas="
    async with site(tmp_path) as here:
        async with client(here.url("kubectl/sse?session_id=mine"), "sse") as session:
            await call(session, "exec_kubectl_cmd_safely", cmd=f"{scale}5")
        async with client(here.url("kubectl/mcp"), "mcp", {"sregym_ssid": "theirs"}) as session:
            await call(session, "exec_kubectl_cmd_safely", cmd=f"{scale}7")
        async with client(here.url("kubectl/mcp"), "mcp") as session:
            shown = await call(session, "get_previous_rollbackable_cmd")
            assert shown["other_sessions"] == {"mine": 1, "theirs": 1}
            assert "mine (1)" in (await call(session, "rollback_command"))["error"]
        async with client(here.url("kubectl/mcp?session_id=mine"), "mcp") as session:
            assert (await call(session, "get_previous_rollbackable_cmd"))["command"] == f"{scale}5"
        async with client(here.url("kubectl/sse"), "sse", {"sregym_ssid": "theirs"}) as session:
            assert (await call(session, "rollback_command"))["undone"] == f"{scale}7"
        assert here.replicas() == 5


async def test_a_backend_that_is_down_is_said_so_and_nothing_else_is_lost(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        here.observed.down = {"prometheus:9090", "jaeger:16686", "logs:9428"}
        asked: dict[str, list[tuple[str, dict[str, Any]]]] = {
            "prometheus": [("get_metrics", {"query": "up"}), ("get_alerts", {})],
            "jaeger": [("get_services", {}), ("get_traces", {"service": "front", "last_n_minutes": 5})],
            "loki": [("get_logs", {"query": '{namespace="shop"}'})],
        }
        for mount, calls in asked.items():
            async with client(here.url(f"{mount}/mcp"), "mcp") as session:
                for tool, arguments in calls:
                    answer = await call(session, tool, **arguments)
                    assert answer["isError"]
                    assert "no endpoints available" in answer["error"]
        assert here.gateway.urls is not None
        async with httpx.AsyncClient() as agent:
            for door, path in (
                (METRICS, "/api/v1/query?query=up"),
                (TRACES, "/api/services"),
                (LOGS, "/loki/api/v1/labels"),
            ):
                answered = await agent.get(f"{here.gateway.urls.of(door)}{path}")
                assert answered.status_code == 503
                assert "no endpoints available" in answered.text
        async with client(here.url("kubectl/mcp"), "mcp") as session:
            assert not (await call(session, "exec_kubectl_cmd_safely", cmd="kubectl get pods"))["isError"]


async def test_the_example_of_the_documents_works(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        assert here.gateway.urls is not None
        done = await process.run(
            [sys.executable, EXAMPLE], env={"MCP_SERVER_URL": here.gateway.urls.of(MCP) or "", "NO_PROXY": "*"}
        )
        assert done.stdout.split() == ["NAME"]  # no pods, under kubectl's heading


async def test_errors_say_what_to_do(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        async with client(here.url("prometheus/mcp"), "mcp") as session:
            assert "unclosed" in (await call(session, "get_metrics", query="broken("))["error"]
        async with client(here.url("loki/mcp"), "mcp") as session:
            answer = await call(session, "get_logs", query='rate({namespace="shop"}[5m])')
            assert "not served" in answer["error"]
            assert answer["example"].startswith("{namespace")
        async with client(here.url("kubectl/mcp"), "mcp") as session:
            refused = await call(session, "exec_kubectl_cmd_safely", cmd="kubectl get pods | grep web")
            assert "pipe" in refused["error"]
            assert (await call(session, "read_more", cursor="../../etc/passwd.1"))["isError"]


async def test_kubectl_sees_nothing_of_our_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sregym.gateway.mcp.kubectl import Kubectl

    monkeypatch.setenv("AGENT_API_KEY", "sk-very-secret")
    kubectl = Kubectl(
        program=(sys.executable, fake_kubectl.__file__, tmp_path / "w"), kubeconfig=tmp_path / "k", home=tmp_path
    )
    seen = json.loads((await kubectl.run(["env"])).stdout)
    assert set(seen) - {"LC_CTYPE", "PWD"} == {"HOME", "KUBECONFIG", "KUBECACHEDIR", "KUBERC", "TZ", "LANG"}
    assert seen["HOME"] == str(tmp_path)
