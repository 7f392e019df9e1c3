"""The gateway as it is run: submission API here, kube proxy and model relay in a process of their own."""

import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from sregym.cluster import waits
from sregym.errors import PrerequisiteError
from sregym.gateway.desk import AppInfo, Desk
from sregym.gateway.http1 import Exchange
from sregym.gateway.models import ModelAccess
from sregym.gateway.server import Gateway, TcpPorts, running_gateway
from sregym.gateway.upstream import ClusterAccess
from tests.support.scripted_model import Say, scripted_model
from tests.support.servers import kubeconfig, raw_server

APP = AppInfo(app_name="shop", namespace="shop", namespaces=("shop",), descriptions="A shop.")
KEY = "sk-very-secret"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}


async def api_server(exchange: Exchange) -> None:
    user = (exchange.head.get(b"impersonate-user") or b"nobody").decode()
    headers = [(b"content-type", b"application/json")]
    await exchange.respond_whole(200, headers, json.dumps({"user": user}).encode())


@dataclass
class Events:
    names: list[str] = field(default_factory=list)

    def __call__(self, name: str, /, **data: Any) -> None:
        self.names.append(name)


@asynccontextmanager
async def gateway(
    tmp_path: Path, *, model: ModelAccess | None = None, tcp: TcpPorts | None = None, emit: Events | None = None
) -> AsyncIterator[Gateway]:
    folder, runtime = tmp_path / "attempt", tmp_path / "run"
    folder.mkdir()
    runtime.mkdir()
    desk = Desk(APP)
    desk.open()
    async with raw_server(api_server) as server:
        access = ClusterAccess(kubeconfig=kubeconfig(tmp_path, server))
        async with running_gateway(
            access=access, desk=desk, folder=folder, runtime=runtime, model=model, tcp=tcp, emit=emit or Events()
        ) as running:
            yield running


def through(socket: Path, token: str) -> httpx.AsyncClient:
    transport = httpx.AsyncHTTPTransport(uds=str(socket))
    headers = {"authorization": f"Bearer {token}"}
    return httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers, timeout=120)


async def test_all_doors_ask_for_the_token_and_close_together(tmp_path: Path) -> None:
    async with gateway(tmp_path) as running:
        async with through(running.sockets.kube, running.token) as kube, through(running.sockets.api, "wrong") as api:
            assert (await kube.get("/api")).json() == {"user": "oncall"}
            assert (await api.get("/status")).status_code == 401
        async with through(running.sockets.api, running.token) as api:
            assert (await api.get("/status")).json() == {"stage": "diagnosis"}
            await running.revoke()
            await running.revoke()
            assert (await api.get("/status")).status_code == 401
        with pytest.raises(httpx.ConnectError):
            async with through(running.sockets.kube, running.token) as kube:
                await kube.get("/api")


async def test_a_gateway_process_that_is_killed_comes_back(tmp_path: Path) -> None:
    events = Events()
    async with gateway(tmp_path, tcp=TcpPorts(api=0, kube=0), emit=events) as running:
        assert running.urls is not None
        url = f"{running.urls.kube}/api"
        for pid in children_serving(tmp_path / "run"):
            os.kill(pid, signal.SIGKILL)

        async def answers() -> bool | None:
            async with httpx.AsyncClient() as agent:
                try:
                    return True if (await agent.get(url)).status_code == 200 else None
                except httpx.TransportError:
                    return None

        await waits.poll(lambda: came_back(events), what="the process was missed", every=0.05, within=10)
        await waits.poll(answers, what="the proxy is back at its address", every=0.05, within=20)
        assert running.deaths == 1


async def came_back(events: Events) -> bool | None:
    return "gateway.died" in events.names or None


def children_serving(runtime: Path) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"sregym.gateway.serve" in words and str(runtime / "gateway.json").encode() in words:
            found.append(int(path.parent.name))
    assert found
    return found


async def test_the_key_stays_out_of_files_and_command_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_API_KEY", KEY)
    async with scripted_model([Say("hello")]) as model:
        access = ModelAccess(model="local/tiny", api_base=model.base)
        async with gateway(tmp_path, model=access) as running:
            async with through(running.sockets.model, running.token) as agent:
                reply = await agent.post("/v1/chat/completions", json={**HELLO, "model": "local/tiny"})
            written = everything_written(tmp_path)
            assert running.usage().calls == 1
    assert reply.json()["choices"][0]["message"]["content"] == "hello"
    assert model.keys == [f"Bearer {KEY}"]
    assert KEY.encode() not in written


def everything_written(folder: Path) -> bytes:
    """Files below a folder, and all command lines of this machine."""
    found = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes())
        except OSError:  # it has ended
            continue
    return b"".join(found)


@pytest.mark.timeout(240)
async def test_any_provider_is_reached_through_litellm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address or a key that an agent sends along is ignored."""
    monkeypatch.setenv("AGENT_API_KEY", KEY)
    monkeypatch.setenv("LLM_QUERY_MAX_RETRIES", "0")
    async with scripted_model([Say("hello")]) as model:
        access = ModelAccess(model="hosted_vllm/tiny", api_base=model.base)
        assert access.passes == ()
        async with gateway(tmp_path, model=access) as running:
            async with through(running.sockets.model, running.token) as agent:
                body = {**HELLO, "model": "tiny", "api_base": "http://127.0.0.1:9", "api_key": "theirs"}
                reply = await agent.post("/v1/chat/completions", json=body)
                streamed = await agent.post("/v1/chat/completions", json={**body, "stream": True})
                model.failures = [401]
                refused = await agent.post("/v1/chat/completions", json=body)
            usage = running.usage()
    assert reply.json()["choices"][0]["message"]["content"] == "hello"
    assert "hello" in streamed.text
    assert "[DONE]" in streamed.text
    assert refused.status_code == 401
    assert KEY not in refused.text
    assert set(model.keys) == {f"Bearer {KEY}"}
    assert (usage.calls, usage.failed, usage.unmetered) == (3, 1, 0)


async def test_a_port_that_is_taken_is_the_users_to_free(tmp_path: Path) -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0) as taken:
        port = taken.extra(anyio.abc.SocketAttribute.local_port)
        with pytest.raises(PrerequisiteError, match=f"{port}"):
            async with gateway(tmp_path, tcp=TcpPorts(api=port, kube=0)):
                pass


async def test_a_local_model_needs_an_address(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="AGENT_API_BASE"):
        async with gateway(tmp_path, model=ModelAccess(model="local/tiny")):
            pass
