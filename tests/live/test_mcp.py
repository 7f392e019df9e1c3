"""The MCP servers and raw endpoints on a real cluster: every tool, every kind of undo, from outside and from inside."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import ClientSession

from sregym.cluster import waits
from sregym.cluster.contract import Selection
from sregym.cluster.objects import POD, dig
from sregym.gateway.desk import AppInfo, Desk, Stage
from sregym.gateway.doors import LOGS, MCP, METRICS, TRACES
from sregym.gateway.server import Gateway, TcpPorts, running_gateway
from tests.flow.test_gateway import Events, came_back, children_serving
from tests.flow.test_mcp import TOOLS, call, client
from tests.live.gateway_site import GatewaySite, gateway_site
from tests.live.test_agent_world import play, shell_agent, world

pytestmark = [pytest.mark.live, pytest.mark.timeout(1200)]

NAMELESS = "{apiVersion: v1, kind: ConfigMap, metadata: {name: BAD NAME}}"
SETTINGS = """kubectl apply -f - <<EOF
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: COLOUR}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
EOF"""


@pytest.fixture
async def site(request: pytest.FixtureRequest) -> AsyncIterator[GatewaySite]:
    async with gateway_site(request.config) as found:
        yield found


@dataclass
class Place:
    gateway: Gateway
    desk: Desk
    runtime: Path
    events: Events

    def url(self, mount: str) -> str:
        assert self.gateway.urls is not None
        return f"{self.gateway.urls.of(MCP)}/{mount}"


@asynccontextmanager
async def place(site: GatewaySite, tmp_path: Path) -> AsyncIterator[Place]:
    folder, runtime, events = tmp_path / "attempt", tmp_path / "run", Events()
    folder.mkdir()
    runtime.mkdir()
    desk = Desk(AppInfo(app_name="web", namespace=site.namespace, namespaces=(site.namespace,), descriptions="A web."))
    desk.open()
    async with running_gateway(
        access=site.access,
        desk=desk,
        folder=folder,
        runtime=runtime,
        kubectl=site.kubectl,
        tcp=TcpPorts(api=0, kube=0),
        emit=events,
    ) as gateway:
        yield Place(gateway, desk, runtime, events)


async def kubectl(session: ClientSession, command: str) -> dict[str, Any]:
    return await call(session, "exec_kubectl_cmd_safely", cmd=command)


UNDONE = [
    "kubectl scale deployment web --replicas=0",
    "kubectl set env deployment/web COLOUR=blue",
    "kubectl set -n NAMESPACE image deployment/web web=registry.k8s.io/pause:3.10",
    "kubectl label deployment web team=sre",
    "kubectl label pods -l app=web team=sre",
    "kubectl annotate deployment web note='two words'",
    'kubectl patch deployment web --type=json -p \'[{"op": "replace", "path": "/spec/replicas", "value": 2}]\'',
    'kubectl patch service web -p "{\\"spec\\": {\\"ports\\": [{\\"port\\": 80, \\"targetPort\\": 9999}]}}"',
    SETTINGS.replace("COLOUR", "green"),
    SETTINGS.replace("apply", "replace").replace("COLOUR", "grey"),
    "kubectl create configmap extra --from-literal=a=b",
    "kubectl create deployment extra --image=registry.k8s.io/pause:3.10 --replicas=1",
    "kubectl expose deployment web --port=81 --name=other",
    "kubectl autoscale deployment web --min=1 --max=2",
    "kubectl run extra --image=registry.k8s.io/pause:3.10 -o name",
    "kubectl delete configmap settings",
    "kubectl delete service/web configmap/settings --wait=false",
    "kubectl delete deployment web --cascade=foreground",
    "kubectl delete configmaps -l nothing=here --ignore-not-found",
    "kubectl delete -f - <<EOF\n{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}\nEOF",
    "kubectl rollout pause deployment/web",
    "kubectl cordon NODE",
    "kubectl taint nodes NODE busy=yes:PreferNoSchedule",
    "kubectl rollout pause deployment/web; kubectl rollout resume deployment/web",
    "kubectl set env deployment/web STEP=1; kubectl rollout undo deployment/web",
    "kubectl cordon NODE; kubectl uncordon NODE",
]
"""Each by itself; where there are two, both are undone, the last first."""


async def test_what_the_kubectl_tool_changes_it_takes_back(site: GatewaySite, tmp_path: Path) -> None:
    node = site.handle.node_names[-1]
    failures: list[tuple[str, Any]] = []
    async with place(site, tmp_path) as here, client(here.url("kubectl/mcp"), "mcp") as session:
        assert not (made := await kubectl(session, SETTINGS.replace("COLOUR", "red")))["isError"], made
        for template in UNDONE:
            commands = template.replace("NAMESPACE", site.namespace).replace("NODE", node).split("; ")
            undoable = []
            for command in commands:
                done = await kubectl(session, command)
                if done["isError"]:
                    failures.append((command, done))
                elif "nothing=here" in command:
                    assert "nothing to undo" in done["undo"], done
                else:
                    undoable.append(command)
            for command in reversed(undoable):
                back = await call(session, "rollback_command")
                if not back.get("as_before") or back["undone"] != command:
                    failures.append((command, back))
        assert not failures, "\n".join(f"{command}: {said}" for command, said in failures)
        assert (await call(session, "get_previous_rollbackable_cmd"))["command"] == SETTINGS.replace("COLOUR", "red")
        assert (await call(session, "rollback_command"))["as_before"]
        assert (await kubectl(session, "kubectl get configmap settings"))["isError"]


async def test_a_drained_node_takes_pods_again(site: GatewaySite, tmp_path: Path) -> None:
    (pod,) = await site.cluster.list(Selection(kind=POD, namespace=site.namespace))
    node = dig(pod, "spec", "nodeName")
    async with place(site, tmp_path) as here, client(here.url("kubectl/mcp"), "mcp") as session:
        # A drain goes over all namespaces, and those of the tests before may still be ending.
        drain = f"kubectl drain {node} --ignore-daemonsets --pod-selector=site={site.namespace}"
        drained = await kubectl(session, drain)
        assert not drained["isError"], drained
        assert f"evicting pod {site.namespace}/{dig(pod, 'metadata', 'name')}" in drained["output"]
        cordoned = f"kubectl get node {node} -o jsonpath='{{.spec.unschedulable}}'"
        assert (await kubectl(session, cordoned))["output"] == "true"
        back = await call(session, "rollback_command")
        assert not back["isError"], back
        assert (await kubectl(session, cordoned))["output"] == ""


async def test_what_cannot_be_undone_is_said_so_and_what_fails_changes_nothing(
    site: GatewaySite, tmp_path: Path
) -> None:
    async with place(site, tmp_path) as here, client(here.url("kubectl/sse"), "sse") as session:
        restarted = await kubectl(session, "kubectl rollout restart deployment/web")
        assert "cannot be undone" in restarted["undo"]
        assert not (await kubectl(session, "kubectl rollout status deployment/web --timeout=90s"))["isError"]
        ran = await kubectl(session, "kubectl exec deploy/web -- sh -c 'echo $((6*7)) | cat'")
        assert ran["output"] == "42"
        assert "cannot be undone" in ran["undo"]
        followed = await kubectl(session, "kubectl logs -f deploy/web --tail=2")
        assert "line" in followed["output"]
        assert "stopped after" in followed["output"]
        for command, said in (
            (
                "kubectl apply -f - <<EOF\n{apiVersion: v1, kind: ConfigMap, metadata: {name: 'BAD NAME'}}\nEOF",
                "BAD NAME",
            ),
            ("kubectl scale deployment nowhere --replicas=1", "not found"),
            ("kubectl get secrets -n kube-system", "forbidden"),
            ('kubectl run bad --image=x --overrides=\'{"spec":{"hostNetwork":true}}\'', "denied"),
        ):
            refused = await kubectl(session, command)
            assert refused["isError"], refused
            assert said.lower() in refused["error"].lower()
        assert (await call(session, "get_previous_rollbackable_cmd"))["command"] is None


async def test_an_undo_works_after_the_gateway_process_was_killed(site: GatewaySite, tmp_path: Path) -> None:
    async with place(site, tmp_path) as here:
        async with client(here.url("kubectl/sse?session_id=mine"), "sse") as session:
            assert not (await kubectl(session, "kubectl scale deployment web --replicas=0"))["isError"]
        async with client(here.url("kubectl/mcp"), "mcp") as session:
            assert not (await kubectl(session, "kubectl label deployment web a=b"))["isError"]
            for pid in children_serving(here.runtime):
                os.kill(pid, signal.SIGKILL)
            await waits.poll(lambda: came_back(here.events), what="the process was missed", every=0.1, within=60)
            await waits.poll(lambda: answers(here), what="the door is back", every=0.2, within=60)
            assert (await call(session, "rollback_command"))["undone"] == "kubectl label deployment web a=b"
        async with client(here.url("kubectl/sse"), "sse", {"sregym_ssid": "mine"}) as session:
            assert (await call(session, "rollback_command"))["as_before"]
            shown = await kubectl(
                session, "kubectl get deployment web -o jsonpath='{.spec.replicas} {.metadata.labels}'"
            )
            assert shown["output"].split()[0] == "1"


async def answers(here: Place) -> bool | None:
    async with httpx.AsyncClient() as agent:
        try:
            return True if (await agent.get(here.url("nowhere"))).status_code == 404 else None
        except httpx.TransportError:
            return None


async def has_stack(site: GatewaySite) -> bool:
    from sregym.cluster.contract import Selection
    from sregym.cluster.objects import POD

    pods = await site.cluster.list(Selection(kind=POD, namespace="observe"))
    return bool(pods)


@pytest.mark.parametrize("transport", ["sse", "mcp"])
async def test_every_tool_is_listed_and_answers(site: GatewaySite, tmp_path: Path, transport: str) -> None:
    """Where the observability stack is there its tools answer, and where it is not they say so."""
    stack = await has_stack(site)
    asked: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "kubectl": [("exec_kubectl_cmd_safely", {"cmd": "kubectl get pods"}), ("get_previous_rollbackable_cmd", {})],
        "prometheus": [("get_metrics", {"query": "up"}), ("get_alerts", {})],
        "jaeger": [
            ("get_services", {}),
            ("get_operations", {"service": "frontend"}),
            ("get_traces", {"service": "frontend", "last_n_minutes": 5}),
            ("get_dependency_graph", {}),
        ],
        "loki": [
            ("get_logs", {"query": f'{{namespace="{site.namespace}"}} |= "line"'}),
            ("get_labels", {}),
            ("get_label_values", {"label": "namespace"}),
        ],
        "submit": [("submit", {"ans": "the web is broken"})],
    }
    async with place(site, tmp_path) as here:
        for mount, calls in asked.items():
            async with client(here.url(f"{mount}/{transport}"), transport) as session:
                assert {tool.name for tool in (await session.list_tools()).tools} == TOOLS[mount]
                for tool, arguments in calls:
                    answer = await call(session, tool, **arguments)
                    if mount in ("prometheus", "jaeger", "loki") and not stack:
                        assert "unavailable" in answer["error"], (tool, answer)
                    else:
                        assert not answer["isError"], (tool, answer)
        assert here.desk.taken(Stage.DIAGNOSIS) is not None
        assert here.gateway.urls is not None
        async with httpx.AsyncClient() as agent:
            for door, path in (
                (METRICS, "/api/v1/query?query=up"),
                (TRACES, "/api/services"),
                (LOGS, "/loki/api/v1/labels"),
            ):
                answered = await agent.get(f"{here.gateway.urls.of(door)}{path}")
                assert answered.status_code == (200 if stack else 503), answered.text


INSIDE = r"""
import json, os, urllib.request, threading
base = os.environ["MCP_SERVER_URL"]
def post(url, body, **headers):
    sent = {"content-type": "application/json", "accept": "application/json, text/event-stream", **headers}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), sent), timeout=60) as answer:
        return answer.headers, answer.read().decode()
def ask(identity, method, **params):
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}
hello = ask(1, "initialize", protocolVersion="2025-03-26", capabilities={}, clientInfo={"name": "x", "version": "1"})
get_pods = ask(2, "tools/call", name="exec_kubectl_cmd_safely", arguments={"cmd": "kubectl get pods -o name"})
headers, said = post(base + "/kubectl/mcp", hello)
print("HTTP", json.loads(said)["result"]["serverInfo"]["name"])
session = headers["mcp-session-id"]
print("HTTP", post(base + "/kubectl/mcp", get_pods, **{"mcp-session-id": session})[1])
stream = urllib.request.urlopen(base + "/kubectl/sse", timeout=60)
lines = (line.decode().strip() for line in stream)
data = (line[6:] for line in lines if line.startswith("data: "))
address = base + next(data)
post(address, hello)
print("SSE", json.loads(next(data))["result"]["serverInfo"]["name"])
post(address, {"jsonrpc": "2.0", "method": "notifications/initialized"})
post(address, get_pods)
print("SSE", next(data))
raw = {"PROMETHEUS_URL": "/api/v1/labels", "JAEGER_URL": "/api/services", "LOKI_URL": "/loki/api/v1/labels"}
for variable, path in raw.items():
    try:
        print("RAW", urllib.request.urlopen(os.environ[variable] + path, timeout=60).status)
    except urllib.error.HTTPError as error:
        print("RAW", error.code)
"""


async def test_no_token_is_needed_inside_the_agents_container(site: GatewaySite, tmp_path: Path) -> None:
    agent = shell_agent("python3 - <<'EOF'\n" + INSIDE + "\nEOF")
    async with world(site, tmp_path, agent) as played:
        await play(played)
        said = played.output()
    assert said.count("pod/web-") == 2, said
    assert "HTTP kubectl" in said
    assert "SSE kubectl" in said
    raw = [line for line in said.splitlines() if line.startswith("RAW")]
    assert raw == ["RAW 200" if await has_stack(site) else "RAW 503"] * 3
    assert "/t/" not in said
