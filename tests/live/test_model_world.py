"""A model behind the relay, as an agent in its container meets it: another provider's protocol, tools, cost, no key;
and what it reaches of the internet."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from sregym import process
from sregym.agents.runtime import agent_world
from sregym.agents.spec import AgentSpec
from sregym.cluster import waits
from sregym.cluster.objects import deployment
from sregym.gateway.desk import AppInfo, Desk, Stage
from sregym.gateway.internet.access import Endpoint, InternetAccess, is_own
from sregym.gateway.models import BODIES_FILE, Budget, ModelAccess, calls_in
from sregym.gateway.web import served, tcp_socket
from tests.live.gateway_site import GatewaySite, gateway_site
from tests.live.test_agent_world import Notes, Played, play, shell_agent
from tests.support.scripted_model import CACHED_TOKENS, COMPLETION_TOKENS, PROMPT_TOKENS, Say, Use, scripted_model

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

KEY = "sk-ant-api03-live-secret-0123456789abcdef"
AGENT = r"""
import json, os, time, urllib.request

def post(url, body, **headers):
    sent = {"content-type": "application/json", "accept": "application/json, text/event-stream", **headers}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), sent), timeout=300) as answer:
        return answer.headers, answer.read().decode()

def rpc(number, method, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}

tools = os.environ["MCP_SERVER_URL"] + "/kubectl/mcp"
hello = rpc(1, "initialize", protocolVersion="2025-03-26", capabilities={}, clientInfo={"name": "a", "version": "1"})
session = {"mcp-session-id": post(tools, hello)[0]["mcp-session-id"]}
desk = "http://%s:%s/submit" % (os.environ["API_HOSTNAME"], os.environ["API_PORT"])
model = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
keys = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}
tool = {"name": "kubectl", "description": "One kubectl command.",
        "input_schema": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]}}
messages = [{"role": "user", "content": "The web application is down. Find out why and repair it."}]
said = []
while True:
    asked = {"model": os.environ["ANTHROPIC_MODEL"], "max_tokens": 1000, "messages": messages, "tools": [tool]}
    answer = json.loads(post(model, asked, **keys)[1])
    messages.append({"role": "assistant", "content": answer["content"]})
    calls = [block for block in answer["content"] if block["type"] == "tool_use"]
    said += [block["text"] for block in answer["content"] if block["type"] == "text"]
    if not calls:
        break
    results = []
    for call in calls:
        done = post(tools, rpc(2, "tools/call", name="exec_kubectl_cmd_safely", arguments=call["input"]), **session)[1]
        print("TOOL", done[:500], flush=True)
        results.append({"type": "tool_result", "tool_use_id": call["id"], "content": done})
    messages.append({"role": "user", "content": results})
print(post(desk, {"solution": said[-1]})[1])
print(post(desk, {"solution": ""})[1])
open(os.environ["AGENT_LOGS_DIR"] + "/messages.json", "w").write(json.dumps(messages))
print("WAITING", flush=True)
while not os.path.exists("/tmp/go"):
    time.sleep(0.2)
"""
DIAGNOSIS = "the deployment web has no replicas: somebody scaled it to zero"


@pytest.fixture
async def site(request: pytest.FixtureRequest) -> AsyncIterator[GatewaySite]:
    async with gateway_site(request.config) as found:
        yield found


@asynccontextmanager
async def world(site: GatewaySite, folder: Path, spec: AgentSpec, **more: Any) -> AsyncIterator[Played]:
    desk = Desk(AppInfo(app_name="web", namespace=site.namespace, namespaces=(site.namespace,), descriptions="A web."))
    async with agent_world(
        spec=spec,
        images=site.images,
        access=site.access,
        desk=desk,
        attempt_dir=folder,
        state_dir=folder / "state",
        journal=Notes(),
        kubectl=site.kubectl,
        **more,
    ) as agent:
        yield Played(agent, desk, folder)


async def test_an_anthropic_client_repairs_through_relay_and_tools_without_the_key(
    site: GatewaySite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_API_KEY", KEY)
    await scale(site, 0)
    script: list[Say | Use] = [
        Use("kubectl", {"cmd": "kubectl get deployment web"}),
        Use("kubectl", {"cmd": "kubectl scale deployment web --replicas=1"}),
        Say(DIAGNOSIS),
    ]
    spec = AgentSpec(name="claude-like", description="x", image="workstation", command=("python3", "-c", AGENT),
                     needs_model=True)  # fmt: skip
    async with scripted_model(script) as scripted:
        model = ModelAccess(model="anthropic/claude-sonnet-4-5", api_base=scripted.base)
        async with world(site, tmp_path, spec, model=model) as played:
            played.desk.open()
            await played.agent.start()
            name = played.agent.container

            async def done() -> bool | None:
                return "WAITING" in (await process.run(["docker", "logs", name])).stdout or None

            await waits.poll(done, what="the agent's work", every=0.5, within=300)
            seen = await everything_of(name)
            await process.run(["docker", "exec", name, "touch", "/tmp/go"])
            await played.agent.wait_finished()
            await played.agent.withdraw()
            taken = played.desk.taken(Stage.DIAGNOSIS)
            usage = played.agent.usage()
    assert taken is not None
    assert taken.solution == DIAGNOSIS
    assert (await site.cluster.get(deployment("web", site.namespace)))["spec"]["replicas"] == 1
    assert scripted.keys == [KEY] * 3
    assert (usage.calls, usage.failed, usage.cached_tokens) == (3, 0, 3 * CACHED_TOKENS)
    # 3 USD and 15 USD per million tokens, 0.30 USD for cached ones (the provider's price list)
    once = (PROMPT_TOKENS - CACHED_TOKENS) * 3 + CACHED_TOKENS * 0.3 + COMPLETION_TOKENS * 15
    assert usage.cost_usd == pytest.approx(3 * once / 1_000_000)
    seen["files of the attempt"] = written(tmp_path)
    assert DIAGNOSIS in seen["files of the attempt"]
    assert [where for where, text in seen.items() if KEY in text or KEY[7:] in text] == []
    assert "not-needed" in seen["environment of its processes"]


async def scale(site: GatewaySite, replicas: int) -> None:
    kubectl = [*site.kubectl, "--kubeconfig", site.handle.kubeconfig, "-n", site.namespace]
    await process.run([*kubectl, "scale", "deployment", "web", f"--replicas={replicas}"])


async def everything_of(agent: str) -> dict[str, str]:
    """What a look at an agent's container, from inside and outside, and at this machine's command lines shows."""
    gateway = agent.removesuffix("-agent") + "-gateway"
    inside = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'"
    files = (
        "find / -xdev -type f -newermt 2000-01-01 -size -2M -not -path '/usr/*' -exec cat {} + 2>/dev/null | strings"
    )
    memory = "cat /tmp/* /oncall/*/* /oncall/logs/* $HOME/.* 2>/dev/null"
    commands = {
        "container": ["docker", "inspect", agent, gateway],
        "processes": ["docker", "top", agent, "axo", "pid,args"],
        "processes of the gateway container": ["docker", "top", gateway, "axo", "pid,args"],
        "environment of its processes": ["docker", "exec", agent, "sh", "-c", inside],
        "its files": ["docker", "exec", agent, "sh", "-c", files],
        "its scratch": ["docker", "exec", agent, "sh", "-c", memory],
        "what it said": ["docker", "logs", agent],
        "what the gateway container said": ["docker", "logs", gateway],
    }
    seen = {}
    for where, command in commands.items():
        done = await process.run(command, check=False, within=120)
        seen[where] = done.stdout + done.stderr
    seen["command lines of this machine"] = command_lines()
    assert "ANTHROPIC_API_KEY=not-needed" in seen["container"]
    return seen


def command_lines() -> str:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes())
        except OSError:  # it has ended
            continue
    return b"\n".join(lines).decode("utf-8", "replace")


def written(folder: Path) -> str:
    """All that lies in an attempt's folder, unpacked."""
    texts = [path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != BODIES_FILE]
    with gzip.open(folder / BODIES_FILE) as bodies:
        texts.append(bodies.read())
    return b"\n".join(texts).decode("utf-8", "replace")


async def test_a_spent_budget_leaves_the_agent_with_what_it_has(site: GatewaySite, tmp_path: Path) -> None:
    ask = (
        "curl -s -o /tmp/out -w '%{http_code} ' -H 'content-type: application/json' $OPENAI_BASE_URL/chat/completions "
        '-d \'{"model": "local/tiny", "messages": [{"role": "user", "content": "hi"}]}\'; cat /tmp/out; echo; '
    )
    async with scripted_model([Say("hello")]) as scripted:
        model = ModelAccess(model="local/tiny", api_base=scripted.base, budget=Budget(tokens=PROMPT_TOKENS))
        async with world(site, tmp_path, shell_agent(ask * 3, needs_model=True), model=model) as played:
            await play(played)
            said, usage = played.output().splitlines(), played.agent.usage()
    assert [line[:3] for line in said] == ["200", "429", "429"]
    assert "budget of this session is spent" in said[1]
    assert (usage.calls, usage.budget_spent) == (1, True)
    assert [call.refused for call in calls_in(tmp_path)] == [False, True, True]


def get(url: str, *options: str) -> str:
    """Shell words that print an address, the status it answers with, and what the proxy says to CONNECT."""
    words = f"curl -s -m 8 -o /dev/null {' '.join(options)} -w '%{{http_code}} %{{http_connect}}' {url}"
    return f'echo "GET {url} $({words})"; '


@pytest.mark.parametrize("mode", ["filtered", "endpoint", "open"])
async def test_what_the_agent_reaches_beyond_the_gateway(site: GatewaySite, tmp_path: Path, mode: str) -> None:
    """Direct ways lead nowhere in any mode; the proxy leads to the endpoint that was given, and to nothing of ours."""

    async def hello(_: Any) -> PlainTextResponse:
        return PlainTextResponse("reached")

    nodes = await process.run(
        ["docker", "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{.Gateway}} {{end}}",
         *site.handle.node_names]
    )  # fmt: skip
    ours = sorted(set(nodes.stdout.split()))
    host = next(address for address in ours if is_own(ip_address(address)))  # of this machine, on the nodes' network
    named, other = tcp_socket(host, 0), tcp_socket(host, 0)
    app = Starlette(routes=[Route("/", hello)])
    async with served(app, [named]), served(app, [other]):
        endpoint, unnamed = (f"http://{host}:{one.getsockname()[1]}/" for one in (named, other))
        allowed = () if mode == "filtered" else (Endpoint.of(endpoint),)
        internet = InternetAccess(open=mode == "open", endpoints=allowed)
        private = [unnamed, "http://169.254.169.254/latest/meta-data/", "https://10.96.0.1/"]
        private += [f"https://{address}:{port}/" for address in ours for port in (6443, 10250)]
        script = get(endpoint) + get(endpoint, "-p") + "".join(get(url, "-k") for url in private)
        script += "echo DIRECT; " + "".join(get(url, "-k", "--noproxy", "'*'") for url in (endpoint, *private))
        script += "kubectl get pods -o name; curl -s $API_HOSTNAME:$API_PORT/status; env | grep -ci _proxy"
        async with world(site, tmp_path, shell_agent(script), internet=internet) as played:
            await play(played)
            said = played.output()
    through, _, direct = said.partition("DIRECT")
    statuses = [line.split()[1:] for line in through.splitlines() if line.startswith("GET ")]
    assert len(statuses) == 2 + len(private)
    reached = [url for url, status, _ in statuses if status == "200"]
    assert reached == ([] if mode == "filtered" else [endpoint, endpoint])
    assert {status for url, status, _ in statuses if url != endpoint} <= {"000", "403"}
    assert {line.split()[2] for line in direct.splitlines() if line.startswith("GET ")} == {"000"}
    assert "pod/web-" in said
    assert '"stage"' in said
    assert said.splitlines()[-1].endswith("0" if mode == "filtered" else "9")
    if mode != "filtered":
        events = (tmp_path / "gateway.jsonl").read_text(encoding="utf-8")
        assert events.count("internet.reached") == 2
        assert events.count("internet.refused") == len(private)
