"""The server as its users meet it: HTTP that continues an episode, sockets, MCP, hostile input, kill -9."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from openenv.cli._validation import validate_running_environment
from websockets.asyncio.client import connect

from sregym.incidentops.client import IncidentEnv
from sregym.incidentops.episode import Episode
from sregym.incidentops.models import ToolCallAction
from sregym.incidentops.scenarios import build, catalogue
from sregym.incidentops.server.tools import TOOLS
from sregym.incidentops.store import Store
from sregym.incidentops.world.instance import LEVELS
from tests.unit.incidentops.serving import PACKAGE, Served, served

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore::DeprecationWarning")]
SESSIONS = 64


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(str(tmp_path_factory.mktemp("io") / "episodes.sqlite3")) as running:
        yield running


@pytest.fixture
def http(server: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


def step(http: httpx.Client, tool: str, session: str | None = None, **arguments: object) -> Any:
    headers = {"X-Session-ID": session} if session else {}
    answer = http.post("/step", json={"action": {"tool_name": tool, "arguments": arguments}}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


# --- HTTP -----------------------------------------------------------------------------------------------------


def test_http_goes_on_with_the_episode_of_the_session(http: httpx.Client) -> None:
    for name, seed in (("one", 1), ("two", 2)):
        answer = http.post("/reset", json={"seed": seed}, headers={"X-Session-ID": name})
        assert answer.headers["X-Session-ID"] == name
    assert step(http, "get_alerts", "one")["observation"]["step"] == 1
    assert step(http, "get_alerts", "one")["observation"]["step"] == 2
    assert step(http, "get_alerts", "two")["observation"]["step"] == 1
    assert http.get("/state", headers={"X-Session-ID": "one"}).json()["step_count"] == 2


def test_http_knows_the_episode_by_its_id_too(http: httpx.Client) -> None:
    assert http.post("/reset", json={"seed": 1, "episode_id": "mine"}).json()["metadata"]["episode_id"] == "mine"
    answer = http.post("/step", json={"action": {"tool_name": "get_alerts"}, "episode_id": "mine"})
    assert answer.json()["observation"]["step"] == 1
    assert http.get("/state", params={"episode_id": "mine"}).json()["episode_id"] == "mine"


def test_the_task_is_not_named_before_the_end(http: httpx.Client) -> None:
    http.post("/reset", json={"scenario": "false-alarm"}, headers={"X-Session-ID": "t"})
    seen = json.dumps(step(http, "get_alerts", "t")) + http.get("/state", headers={"X-Session-ID": "t"}).text
    assert "false-alarm" not in seen
    for _ in range(29):
        last = step(http, "get_alerts", "t")
    assert last["done"]
    assert http.get("/state", headers={"X-Session-ID": "t"}).json()["scenario"] == "false-alarm"
    again = http.post("/step", json={"action": {"tool_name": "get_alerts"}}, headers={"X-Session-ID": "t"})
    assert again.status_code == 409


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/reset", {"seed": -1}, 422),
        ("/reset", {"scenario": "nope"}, 422),
        ("/reset", {"scenario": 3}, 409),
        ("/reset", {"split": "test", "index": 10**9}, 422),
        ("/reset", {"episode_id": "x" * 300}, 422),
        ("/step", {"get_alerts": {}}, 422),
        ("/step", {"action": {"tool_name": "get_alerts", "extra": 1}}, 422),
        ("/step", {"action": {"tool_name": ["get_alerts"]}}, 422),
        ("/step", {"action": {"tool_name": "get_alerts"}, "episode_id": "never-begun"}, 409),
    ],
)
def test_wrong_requests_are_refused(http: httpx.Client, path: str, body: object, status: int) -> None:
    answer = http.post(path, json=body)
    assert answer.status_code == status
    assert len(answer.content) < 5000


def test_hostile_input_gives_errors_and_the_server_lives(http: httpx.Client) -> None:
    http.post("/reset", json={"seed": 1}, headers={"X-Session-ID": "h"})
    huge = {"action": {"tool_name": "search_logs", "arguments": {"service": "db", "query": "x" * 10_000_000}}}
    assert http.post("/step", json=huge).status_code == 413

    def chunks() -> Iterator[bytes]:
        yield b'{"action": {"tool_name": "'
        for _ in range(200):
            yield b"x" * 100_000

    with contextlib.suppress(httpx.TransportError):  # the server may close while the body is still being sent
        assert http.post("/step", content=chunks()).status_code == 413
    for content in (b"\xff\xfe{", b"[" * 100_000, b""):
        answer = http.post("/step", content=content, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 422)
    for query in ("' OR 1=1 --", '"; DROP TABLE episodes; --', "%", "\x00", "*.*(", "𐍈" * 100):
        assert step(http, "search_logs", "h", service="db", query=query)["observation"]["ok"]
    values: list[object] = [None, 1.5, [], {"a": 1}, "x" * 5000, 10**30]
    for value in values:
        refused = step(http, "patch_config", "h", service="db", key="max_connections", value=value)
        assert not refused["observation"]["ok"]
    assert http.get("/health").json() == {"status": "healthy"}
    assert http.get("/state", headers={"X-Session-ID": "h"}).json()["step_count"] == 12


def test_the_task_api(http: httpx.Client) -> None:
    assert http.get("/list_environments").json() == ["incidentops_env"]
    assert [s["name"] for s in http.get("/incidentops_env/splits").json()] == ["train", "validation", "test"]
    assert http.post("/incidentops_env/num_tasks", json={"split": "test"}).json() == {"num_tasks": 2400}
    task = http.post("/incidentops_env/task", json={"split": "test", "index": 77}).json()["task"]
    begun = http.post("/reset", json={"split": "test", "index": 77}).json()["observation"]["incident"]
    named = http.post("/reset", json={key: task[key] for key in ("scenario", "level", "seed")})
    assert named.json()["observation"]["incident"] == begun
    assert http.post("/incidentops_env/task", json={"split": "test", "index": -1}).status_code == 400
    assert http.post("/incidentops_env/task", json={"split": "nope", "index": 0}).status_code == 400


def test_openenv_s_own_validator_passes(server: Served) -> None:
    report = validate_running_environment(server.url, timeout_s=30)
    assert report["passed"], report


# --- sockets -----------------------------------------------------------------------------------------------------


def calls_of(seed: int) -> list[tuple[str, dict[str, Any]]]:
    rng = random.Random(seed)
    names = list(build("false-alarm", "easy", 0).settings)
    calls: list[tuple[str, dict[str, Any]]] = []
    for _ in range(12):
        tool = rng.choice([name for name in TOOLS if name not in ("resolve_incident", "patch_config")])
        calls.append((tool, {} if tool == "get_alerts" else {"service": rng.choice(names)}))
    return calls


def in_process(scenario: str, level: str, seed: int) -> list[str]:
    episode = Episode(build(scenario, level, seed))
    lines = []
    for tool, arguments in calls_of(seed):
        result = asdict(episode.step(tool, arguments))
        lines.append(json.dumps([result[key] for key in ("result", "error", "clock", "reward")], sort_keys=True))
    return lines


async def over_socket(url: str, scenario: str, level: str, seed: int, barrier: asyncio.Barrier) -> list[str]:
    lines = []
    async with connect(url.replace("http", "ws") + "/ws", open_timeout=120, ping_timeout=None) as socket:

        async def ask(message: dict[str, Any]) -> Any:
            await socket.send(json.dumps(message))
            return json.loads(await socket.recv())

        reset = {"scenario": scenario, "level": level, "seed": seed, "episode_id": "the-same-id-in-every-session"}
        assert (await ask({"type": "reset", "data": reset}))["type"] == "observation"
        await barrier.wait()
        for tool, arguments in calls_of(seed):
            answer = (await ask({"type": "step", "data": {"tool_name": tool, "arguments": arguments}}))["data"]
            seen = answer["observation"] | {"reward": answer["reward"]}
            lines.append(json.dumps([seen[key] for key in ("result", "error", "clock", "reward")], sort_keys=True))
        state = await ask({"type": "state"})
        assert state["data"]["episode_id"] == "the-same-id-in-every-session"
        assert state["data"]["step_count"] == 12
    return lines


def test_64_sessions_at_once_see_only_their_own_episode(server: Served) -> None:
    tasks = [(catalogue().ids[n % len(catalogue().ids)], LEVELS[n % len(LEVELS)], 100 + n) for n in range(SESSIONS)]

    async def all_at_once() -> list[list[str]]:
        barrier = asyncio.Barrier(SESSIONS)
        return await asyncio.gather(*(over_socket(server.url, *task, barrier) for task in tasks))

    for task, lines in zip(tasks, asyncio.run(all_at_once()), strict=True):
        assert lines == in_process(*task), task


def test_a_huge_message_closes_only_its_own_socket(server: Served) -> None:
    async def send() -> int:
        async with connect(server.url.replace("http", "ws") + "/ws", max_size=None) as socket:
            await socket.send(json.dumps({"type": "step", "data": {"tool_name": "x" * 10_000_000}}))
            await socket.wait_closed()
            return socket.close_code or 0

    assert asyncio.run(send()) in (1009, 1006)
    assert httpx.get(f"{server.url}/health", timeout=30).status_code == 200


@pytest.mark.parametrize(
    "message",
    ["{", "[]", '"x"', '{"type": "step"}', '{"type": "nope"}', '{"type": "step", "data": {"tool_name": 1}}',
     '{"type": "reset", "data": {"seed": "x"}}', '{"type": "step", "data": {"tool_name": "get_alerts"}}'],
)  # fmt: skip
def test_wrong_messages_are_answered_with_an_error(server: Served, message: str) -> None:
    async def send() -> tuple[str, str]:
        async with connect(server.url.replace("http", "ws") + "/ws") as socket:
            await socket.send(message)
            first = json.loads(await socket.recv())["type"]
            if not message.startswith('{"'):  # OpenEnv closes the socket on JSON that is no object
                return first, "observation"
            await socket.send('{"type": "reset", "data": {"seed": 1}}')
            return first, json.loads(await socket.recv())["type"]

    assert asyncio.run(send()) == ("error", "observation")
    assert httpx.get(f"{server.url}/health", timeout=30).status_code == 200


def test_the_typed_client(server: Served) -> None:
    with IncidentEnv(base_url=server.url).sync() as env:
        first = env.reset(scenario="bad-deploy-recovery", level="hard", seed=7)
        assert first.observation.incident["incident_id"].startswith("INC-")
        answer = env.step(ToolCallAction(tool_name="get_alerts"))
        assert (answer.reward, answer.observation.step) == (0.05, 1)
        assert env.state().status == "open"


# --- MCP -----------------------------------------------------------------------------------------------------------


def test_a_stock_mcp_client_connects_lists_and_calls(server: Served) -> None:
    async def talk() -> tuple[list[str], Any, Any, Any]:
        url = f"{server.url}/mcp?scenario=bad-deploy-recovery&level=easy&seed=3"
        async with streamable_http_client(url) as (read, write, _), ClientSession(read, write) as client:
            await client.initialize()
            tools = await client.list_tools()
            first = await client.call_tool("get_alerts", {})
            wrong = await client.call_tool("get_metrics", {"service": "redis"})
            second = await client.call_tool("search_logs", {"service": "search"})
            return [tool.name for tool in tools.tools], first, wrong, second

    names, first, wrong, second = asyncio.run(talk())
    assert names == list(TOOLS)
    assert first.structuredContent["incident"]["incident_id"] == "INC-4885"
    assert "reward" not in first.content[0].text
    assert wrong.isError
    assert "known: api" in wrong.content[0].text
    assert second.structuredContent["steps_left"] == 27


def test_an_mcp_client_can_join_the_episode_of_an_orchestrator(server: Served, http: httpx.Client) -> None:
    http.post("/reset", json={"seed": 5, "episode_id": "shared"})

    async def talk() -> Any:
        async with (
            streamable_http_client(f"{server.url}/mcp?episode_id=shared") as (read, write, _),
            ClientSession(read, write) as client,
        ):
            await client.initialize()
            return await client.call_tool("get_alerts", {})

    assert asyncio.run(talk()).structuredContent["incident"]
    assert http.get("/state", params={"episode_id": "shared"}).json()["step_count"] == 1


def test_openenv_s_json_rpc_keeps_a_session(http: httpx.Client) -> None:
    def rpc(method: str, **params: object) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return http.post("/mcp", json=body).json()["result"]

    session = rpc("openenv/session/create")["session_id"]
    assert len(rpc("tools/list", session_id=session)["tools"]) == 10
    for left in (29, 28):
        answer = rpc("tools/call", session_id=session, name="get_alerts", arguments={})
        assert json.loads(answer["content"][0]["text"])["steps_left"] == left


# --- kill -9, and a clean stop ------------------------------------------------------------------------------


def test_a_killed_server_loses_no_finished_episode_and_unfinished_ones_go_on(tmp_path: Path) -> None:
    db = str(tmp_path / "episodes.sqlite3")
    with served(db) as first, httpx.Client(base_url=first.url, timeout=60) as http:
        for number in range(4):
            http.post("/reset", json={"seed": number, "scenario": "false-alarm", "episode_id": f"done-{number}"})
            for _ in range(30):
                last = step(http, "get_alerts", f"done-{number}")
            assert last["done"]
        http.post("/reset", json={"seed": 9, "episode_id": "half"})
        step(http, "get_alerts", "half")
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
    rows = {row.id: row for row in Store(db).episodes()}
    assert [rows[f"done-{number}"].status for number in range(4)] == ["finished"] * 4
    assert all(rows[f"done-{number}"].score is not None for number in range(4))
    with served(db) as second, httpx.Client(base_url=second.url, timeout=60) as http:
        assert step(http, "get_alerts", "half")["observation"]["step"] == 2
        assert http.get("/state", params={"episode_id": "done-3"}).json()["status"] == "finished"
        second.process.send_signal(signal.SIGTERM)
        assert second.process.wait(timeout=60) in (0, -signal.SIGTERM)
    assert not Path(db + "-wal").exists() or Path(db + "-wal").stat().st_size == 0


# --- inference.py -----------------------------------------------------------------------------------------


class FakeModel(BaseHTTPRequestHandler):
    """An OpenAI-compatible endpoint: alerts, a health check, and a close with the id that the briefing holds."""

    keys: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["content-length"])).decode()
        self.keys.append(self.headers["authorization"])
        incident = re.findall(r"INC-[0-9]{4}", asked)[0]
        resolve = {"incident_id": incident, "root_cause": "db: memory leak", "resolution": "none"}
        script = [("get_alerts", {}), ("run_healthcheck", {"service": "db"}), ("resolve_incident", resolve)]
        tool, arguments = script[asked.count('"role":"tool"') + asked.count('"role": "tool"')]
        function = {"name": tool, "arguments": json.dumps(arguments)}
        message = {
            "role": "assistant", "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        }  # fmt: skip
        choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
        body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def test_inference_py_prints_only_the_lines_of_the_six_tasks(server: Served) -> None:
    endpoint = ThreadingHTTPServer(("127.0.0.1", 0), FakeModel)
    threading.Thread(target=endpoint.serve_forever, daemon=True).start()
    environment = {
        "PATH": "/usr/bin:/bin", "HF_TOKEN": "hf_test", "MODEL_NAME": "mistral", "ENV_SERVER_URL": server.url,
        "API_BASE_URL": f"http://127.0.0.1:{endpoint.server_port}/v1", "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }  # fmt: skip
    run = subprocess.run(
        [sys.executable, "inference.py"], cwd=PACKAGE, env=environment, capture_output=True, text=True, timeout=500
    )
    endpoint.shutdown()
    endpoint.server_close()
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[0] == "[START] task=single-service-down env=incidentops_env model=mistral"
    assert lines[1] == "[STEP] step=1 action=get_alerts({}) reward=0.05 done=false error=null"
    assert lines[2] == '[STEP] step=2 action=run_healthcheck({"service":"db"}) reward=0.00 done=false error=null'
    assert [line.split("]")[0] for line in lines] == (["[START"] + ["[STEP"] * 3 + ["[END"]) * 6
    assert re.fullmatch(
        r'\[STEP\] step=3 action=resolve_incident\({"incident_id":"INC-[0-9]{4}","root_cause":"db: memory leak",'
        r'"resolution":"none"}\) reward=-0\.[0-9]{2} done=true error=null',
        lines[3],
    )
    assert re.fullmatch(r"\[END\] success=false steps=3 rewards=0\.05,0\.00,-0\.[0-9]{2}", lines[4])
    assert set(FakeModel.keys) == {"Bearer hf_test"}
