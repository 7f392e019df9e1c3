"""The model relay: only the configured model, the key added outside, tokens counted."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from sregym.gateway.model_relay import ModelRelay
from sregym.gateway.models import CALLS_FILE, ModelAccess, ModelUsage, usage_in
from tests.support.scripted_model import COMPLETION_TOKENS, PROMPT_TOKENS, Say, ScriptedModel, scripted_model
from tests.support.servers import LOOPBACK

KEY = "sk-very-secret"
HELLO: dict[str, Any] = {"model": "local/tiny", "messages": [{"role": "user", "content": "hi"}]}


@asynccontextmanager
async def relayed(folder: Path, base: str) -> AsyncIterator[httpx.AsyncClient]:
    access = ModelAccess(model="local/tiny", api_base=base)
    async with ModelRelay(access, key=KEY, folder=folder, retries=0) as relay, asgi_client(relay) as client:
        yield client


def asgi_client(relay: ModelRelay) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=relay.app()), base_url="http://gateway")


@asynccontextmanager
async def relay_and_model(folder: Path) -> AsyncIterator[tuple[httpx.AsyncClient, ScriptedModel]]:
    async with scripted_model([Say("hello")]) as model, relayed(folder, model.base) as client:
        yield client, model


async def test_the_key_is_added_and_tokens_are_counted(tmp_path: Path) -> None:
    async with relay_and_model(tmp_path) as (client, model):
        reply = await client.post("/v1/chat/completions", json=HELLO)
    assert reply.json()["choices"][0]["message"]["content"] == "hello"
    assert model.keys == [f"Bearer {KEY}"]
    assert model.requests[0]["model"] == "tiny"
    expected = ModelUsage(calls=1, prompt_tokens=PROMPT_TOKENS, completion_tokens=COMPLETION_TOKENS)
    assert usage_in(tmp_path) == expected
    assert KEY not in (tmp_path / CALLS_FILE).read_text(encoding="utf-8")


async def test_streams_pass_through_and_are_counted(tmp_path: Path) -> None:
    async with relay_and_model(tmp_path) as (client, _):
        reply = await client.post("/chat/completions", json={**HELLO, "stream": True})
    lines = [line for line in reply.text.splitlines() if line]
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert lines[-1] == "data: [DONE]"
    assert json.loads(lines[0].removeprefix("data: "))["choices"][0]["delta"]["content"] == "hello"
    usage = usage_in(tmp_path)
    assert (usage.calls, usage.prompt_tokens, usage.unmetered) == (1, PROMPT_TOKENS, 0)


@pytest.mark.parametrize("name", ["gpt-5", "", None, "local/other", ["local/tiny"]])
async def test_other_models_are_refused(tmp_path: Path, name: object) -> None:
    async with relay_and_model(tmp_path) as (client, model):
        reply = await client.post("/v1/chat/completions", json={**HELLO, "model": name})
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "model_not_found")
    assert model.requests == []


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b'{"model": "local/tiny"}', b"[" * 50_000])
async def test_what_is_no_request_is_refused(tmp_path: Path, body: bytes) -> None:
    async with relay_and_model(tmp_path) as (client, model):
        reply = await client.post("/v1/chat/completions", content=body)
    assert reply.status_code == 400
    assert model.requests == []


async def test_a_failing_model_is_passed_on_and_recorded(tmp_path: Path) -> None:
    async with relay_and_model(tmp_path) as (client, model):
        model.failures = [429]
        assert (await client.post("/v1/chat/completions", json=HELLO)).status_code == 429
        assert (await client.post("/v1/chat/completions", json=HELLO)).status_code == 200
    usage = usage_in(tmp_path)
    assert (usage.calls, usage.failed) == (2, 1)


async def test_a_model_server_that_is_away_is_said_so(tmp_path: Path) -> None:
    async with relayed(tmp_path, f"http://{LOOPBACK}:9/v1") as client:
        reply = await client.post("/v1/chat/completions", json=HELLO)
    assert reply.status_code == 502
    assert KEY not in reply.text
    assert usage_in(tmp_path).failed == 1


async def test_only_the_configured_model_is_listed(tmp_path: Path) -> None:
    async with relay_and_model(tmp_path) as (client, _):
        listed = (await client.get("/v1/models")).json()["data"]
    assert [model["id"] for model in listed] == ["local/tiny"]


async def test_a_call_record_cut_short_by_a_kill_is_skipped(tmp_path: Path) -> None:
    async with relay_and_model(tmp_path) as (client, _):
        await client.post("/v1/chat/completions", json=HELLO)
    with (tmp_path / CALLS_FILE).open("a", encoding="utf-8") as file:
        file.write('{"at": "2026-')
    assert usage_in(tmp_path).calls == 1
