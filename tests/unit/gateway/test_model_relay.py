"""The model relay: only the configured model, the key added outside, tokens, cost and budget counted, all recorded."""

import gzip
import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from sregym.cluster import waits
from sregym.gateway.model_relay import ModelRelay
from sregym.gateway.models import (
    BODIES_FILE,
    BUDGET_SPENT,
    CALLS_FILE,
    Budget,
    ModelAccess,
    ModelCall,
    Price,
    Protocol,
    calls_in,
    usage_in,
)
from sregym.gateway.relay.log import MOST_OF_A_BODY
from tests.support.scripted_model import CACHED_TOKENS, COMPLETION_TOKENS, PROMPT_TOKENS, Say, scripted_model
from tests.support.servers import LOOPBACK, asgi_server
from tests.unit.gateway.relay_rig import KEY, PROVIDERS, ask, relay_and_model, relayed, url

HELLO: dict[str, Any] = {"model": "local/tiny", "messages": [{"role": "user", "content": "hi"}]}
CHAT = "/v1/chat/completions"
SAY = [Say("hello")]
PRICE = Price(input=1.0, output=2.0, cached=0.1)
COST = ((PROMPT_TOKENS - CACHED_TOKENS) * 1.0 + CACHED_TOKENS * 0.1 + COMPLETION_TOKENS * 2.0) / 1_000_000


def bodies(folder: Path) -> list[dict[str, Any]]:
    with gzip.open(folder / BODIES_FILE, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


async def test_the_key_is_added_and_tokens_are_counted(tmp_path: Path) -> None:
    async with relay_and_model(tmp_path, SAY) as (client, model):
        reply = await client.post(CHAT, json=HELLO)
    assert reply.json()["choices"][0]["message"]["content"] == "hello"
    assert model.keys == [f"Bearer {KEY}"]
    assert model.requests[0]["model"] == "tiny"
    usage = usage_in(tmp_path)
    assert (usage.calls, usage.prompt_tokens, usage.completion_tokens) == (1, PROMPT_TOKENS, COMPLETION_TOKENS)


@pytest.mark.parametrize(("status", "failed"), [(400, 0), (422, 0), (401, 1), (404, 1), (429, 1), (500, 1), (502, 1)])
def test_a_malformed_call_is_no_failure_of_the_model(tmp_path: Path, status: int, failed: int) -> None:
    call = ModelCall(at="2026-01-01T00:00:00Z", model="local/tiny", stream=False, status=status, seconds=1.0)
    (tmp_path / CALLS_FILE).write_text(call.line())
    usage = usage_in(tmp_path)
    assert (usage.calls, usage.failed) == (1, failed)


async def test_a_stream_has_no_chunk_that_was_not_asked_for(tmp_path: Path) -> None:
    async with relay_and_model(tmp_path, SAY) as (client, model):
        reply = await client.post("/chat/completions", json={**HELLO, "stream": True})
    chunks = [line.removeprefix("data: ") for line in reply.text.splitlines() if line]
    assert model.requests[0]["stream_options"] == {"include_usage": True}
    assert chunks[-1] == "[DONE]"
    assert all(json.loads(chunk)["choices"] for chunk in chunks[:-1])
    assert usage_in(tmp_path).prompt_tokens == PROMPT_TOKENS


@pytest.mark.parametrize("protocol", list(Protocol))
@pytest.mark.parametrize("name", ["gpt-5", "", "local/other", "fast-model-2"])
async def test_other_models_are_refused_in_the_clients_words(tmp_path: Path, name: str, protocol: Protocol) -> None:
    async with relay_and_model(tmp_path, SAY, aliases=("fast-model",)) as (client, model):
        reply = await client.post(url(protocol, model=name), json=ask(protocol, model=name))
    error = reply.json()["error"]
    assert reply.status_code == 404
    assert model.requests == []
    match protocol:
        case Protocol.MESSAGES:
            assert (reply.json()["type"], error["type"]) == ("error", "not_found_error")
        case Protocol.GEMINI:
            assert (error["code"], error["status"]) == (404, "NOT_FOUND")
        case _:
            assert (error["code"], error["type"]) == ("model_not_found", "invalid_request_error")


@pytest.mark.parametrize("protocol", list(Protocol))
async def test_aliases_mean_the_configured_model(tmp_path: Path, protocol: Protocol) -> None:
    more: dict[str, Any] = {"model": PROVIDERS[protocol.value], "speaks": (protocol,), "aliases": ("fast-model",)}
    async with relay_and_model(tmp_path, SAY, **more) as (client, model):
        reply = await client.post(url(protocol, model="fast-model"), json=ask(protocol, model="fast-model"))
        listed = (await client.get("/v1/models")).json()["data"]
    assert reply.status_code == 200
    asked = model.paths[0] if protocol is Protocol.GEMINI else model.requests[0]["model"]
    assert "tiny" in asked
    assert "fast-model" not in model.raw[0].decode() + asked
    assert [one["id"] for one in listed] == [PROVIDERS[protocol.value], "fast-model"]


async def test_lists_of_models_in_each_manner(tmp_path: Path) -> None:
    async with relay_and_model(tmp_path, SAY) as (client, _):
        openai = (await client.get("/models")).json()
        anthropic = (await client.get("/v1/models", headers={"anthropic-version": "2023-06-01"})).json()
        gemini = (await client.get("/v1beta/models")).json()
        one = (await client.get("/v1/models/local/tiny")).json()
        missing = await client.get("/v1beta/models/other")
    assert [model["id"] for model in openai["data"]] == ["local/tiny"]
    assert (anthropic["has_more"], anthropic["first_id"]) == (False, "local/tiny")
    assert [model["name"] for model in gemini["models"]] == ["models/local/tiny"]
    assert one["id"] == "local/tiny"
    assert (missing.status_code, missing.json()["error"]["status"]) == (404, "NOT_FOUND")


async def test_clients_that_try_a_websocket_are_told_to_go_on_with_http(tmp_path: Path) -> None:
    async with relay_and_model(tmp_path, SAY) as (client, _):
        upgrade = {"connection": "Upgrade", "upgrade": "websocket"}
        reply = await client.get("/v1/responses", headers=upgrade)
        head = await client.head("/")
    assert (reply.status_code, head.status_code) == (426, 200)


async def test_a_failing_model_is_passed_on_and_recorded(tmp_path: Path) -> None:
    async with relay_and_model(tmp_path, SAY) as (client, model):
        model.failures = [429]
        assert (await client.post(CHAT, json=HELLO)).status_code == 429
        assert (await client.post(CHAT, json=HELLO)).status_code == 200
    usage = usage_in(tmp_path)
    assert (usage.calls, usage.failed, usage.unmetered) == (2, 1, 0)


async def test_a_model_server_that_is_away_is_said_so(tmp_path: Path) -> None:
    access = ModelAccess(model="local/tiny", api_base=f"http://{LOOPBACK}:9/v1")
    async with relayed(tmp_path, access) as client:
        reply = await client.post(CHAT, json=HELLO)
    assert reply.status_code == 502
    assert KEY not in reply.text
    assert usage_in(tmp_path).failed == 1


async def test_tokens_are_counted_where_a_client_asks_for_that(tmp_path: Path) -> None:
    async with relay_and_model(tmp_path, SAY) as (client, model):
        ours = await client.post("/v1/messages/count_tokens", json=ask(Protocol.MESSAGES))
        other = await client.post("/v1beta/models/tiny:countTokens", json=ask(Protocol.GEMINI))
        assert model.requests == []
    assert ours.json()["input_tokens"] > 0
    assert other.json()["totalTokens"] > 0
    assert usage_in(tmp_path).calls == 0
    more: dict[str, Any] = {"model": "anthropic/tiny", "speaks": (Protocol.MESSAGES,)}
    async with relay_and_model(tmp_path, SAY, **more) as (client, model):
        passed = await client.post("/v1/messages/count_tokens?beta=true", json=ask(Protocol.MESSAGES))
    assert passed.json()["input_tokens"] == PROMPT_TOKENS
    assert model.paths == ["/v1/messages/count_tokens"]


async def test_only_headers_that_matter_go_on(tmp_path: Path) -> None:
    sent = {"anthropic-version": "2024-01-01", "anthropic-beta": "x", "x-api-key": "dummy", "authorization": "Bearer t",
            "cookie": "a=b", "x-forwarded-for": "1.2.3.4", "openai-organization": "o"}  # fmt: skip
    more: dict[str, Any] = {"model": "anthropic/tiny", "speaks": (Protocol.MESSAGES,)}
    async with relay_and_model(tmp_path, SAY, **more) as (client, model):
        await client.post("/v1/messages", json=ask(Protocol.MESSAGES), headers=sent)
    got = model.headers[0]
    assert (got["anthropic-version"], got["anthropic-beta"], got["x-api-key"]) == ("2024-01-01", "x", KEY)
    assert not got.keys() & {"authorization", "cookie", "x-forwarded-for", "openai-organization"}


async def test_given_prices_make_the_cost(tmp_path: Path) -> None:
    async with relay_and_model(tmp_path, SAY, price=PRICE) as (client, _):
        await client.post(CHAT, json=HELLO)
        await client.post(CHAT, json={**HELLO, "stream": True})
    assert usage_in(tmp_path).cost_usd == pytest.approx(2 * COST)


async def test_litellms_table_makes_the_cost_of_models_it_knows(tmp_path: Path) -> None:
    async with relay_and_model(tmp_path, SAY, model="openai/gpt-4o-mini") as (client, _):
        await client.post(CHAT, json={**HELLO, "model": "gpt-4o-mini"})
    usage = usage_in(tmp_path)
    # 0.15 USD and 0.60 USD per million, cached input at half the price (the provider's price list)
    expected = ((PROMPT_TOKENS - CACHED_TOKENS) * 0.15 + CACHED_TOKENS * 0.075 + COMPLETION_TOKENS * 0.6) / 1_000_000
    assert usage.cost_usd == pytest.approx(expected)


async def test_an_unknown_price_is_not_zero(tmp_path: Path) -> None:
    async with relay_and_model(tmp_path, SAY, model="local/gpt-4o-mini") as (client, _):
        await client.post(CHAT, json={**HELLO, "model": "gpt-4o-mini"})
    assert usage_in(tmp_path).cost_usd is None


@pytest.mark.parametrize("budget", [Budget(tokens=2 * (PROMPT_TOKENS + COMPLETION_TOKENS)), Budget(cost_usd=2 * COST)])
@pytest.mark.parametrize("protocol", list(Protocol))
async def test_a_spent_budget_ends_the_calls(tmp_path: Path, budget: Budget, protocol: Protocol) -> None:
    more: dict[str, Any] = {"model": PROVIDERS[protocol.value], "speaks": (protocol,), "price": PRICE, "budget": budget}
    async with relay_and_model(tmp_path, SAY, **more) as (client, model):
        replies = [await client.post(url(protocol), json=ask(protocol)) for _ in range(4)]
        assert len(model.requests) == 2
    assert [reply.status_code for reply in replies] == [200, 200, 429, 429]
    assert "budget of this session is spent" in json.dumps(replies[2].json()["error"])
    assert replies[2].headers["x-should-retry"] == "false"
    usage = usage_in(tmp_path)
    assert (usage.calls, usage.failed, usage.budget_spent) == (2, 0, True)
    assert [call.error for call in calls_in(tmp_path)] == [None, None, BUDGET_SPENT, BUDGET_SPENT]


async def test_a_relay_that_is_started_again_remembers_what_was_spent(tmp_path: Path) -> None:
    budget = Budget(tokens=1)
    async with relay_and_model(tmp_path, SAY, budget=budget) as (client, _):
        assert (await client.post(CHAT, json=HELLO)).status_code == 200
    async with relay_and_model(tmp_path, SAY, budget=budget) as (client, model):
        assert (await client.post(CHAT, json=HELLO)).status_code == 429
        assert model.requests == []


def test_an_answer_of_unknown_size_takes_of_the_budget() -> None:
    cut = ModelCall(at="", model="m", stream=True, status=200, seconds=1, request_bytes=4000, answer_bytes=400)
    assert cut.budget_tokens == 1100
    refused = ModelCall(at="", model="m", stream=False, status=429, seconds=0)
    assert refused.budget_tokens == 0


@pytest.mark.parametrize("torn", ['{"at": "2026-', '{"at": "2026-\n'])
async def test_a_call_record_cut_short_by_a_kill_is_skipped(tmp_path: Path, torn: str) -> None:
    async with relay_and_model(tmp_path, SAY) as (client, _):
        await client.post(CHAT, json=HELLO)
    with (tmp_path / CALLS_FILE).open("a", encoding="utf-8") as file:
        file.write(torn)
    assert usage_in(tmp_path).calls == 1


async def test_what_was_said_is_kept_without_the_key(tmp_path: Path) -> None:
    leaky = {"error": {"message": f"Incorrect API key provided: {KEY}.", "key": json.dumps(KEY)}}
    async with relay_and_model(tmp_path, [Say(f"the key is {KEY}")]) as (client, model):
        model.failures, model.failure = [401], leaky
        replies = [await client.post(CHAT, json=HELLO), await client.post(CHAT, json=HELLO)]
        replies.append(await client.post(CHAT, json={**HELLO, "stream": True}))
        asked = {**HELLO, "messages": [{"role": "user", "content": f"Authorization: Bearer {'a' * 30}"}]}
        await client.post("/v1/chat/completions?key=abcdefghijkl", json=asked)
    kept = bodies(tmp_path)
    assert [one["number"] for one in kept] == [1, 2, 3, 4]
    assert "hi" in kept[0]["request"]
    assert "the key is [redacted]" in kept[1]["answer"]
    everything = json.dumps(kept) + (tmp_path / CALLS_FILE).read_text(encoding="utf-8")
    for text in (everything, *(reply.text for reply in replies)):
        assert KEY not in text
    assert "a" * 30 not in everything


async def test_large_bodies_are_cut_in_the_record(tmp_path: Path) -> None:
    asked = {**HELLO, "messages": [{"role": "user", "content": "x" * (2 * MOST_OF_A_BODY)}]}
    async with relay_and_model(tmp_path, SAY) as (client, _):
        await client.post(CHAT, json=asked)
    (kept,) = bodies(tmp_path)
    assert len(kept["request"]) < MOST_OF_A_BODY + 100
    assert kept["request"].endswith("bytes more")


async def test_a_client_that_leaves_a_stream_is_still_counted(tmp_path: Path) -> None:
    async with scripted_model([Say("hello " * 100_000)]) as model:
        access = ModelAccess(model="local/tiny", api_base=model.base, price=PRICE)
        async with ModelRelay(access, key=KEY, folder=tmp_path, retries=0) as relay, asgi_server(relay.app()) as base:
            port = int(base.rpartition(":")[2])
            stream = await anyio.connect_tcp(LOOPBACK, port)
            body = json.dumps({**HELLO, "stream": True}).encode()
            head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            await stream.send(head + body)
            await stream.receive(100)
            await stream.aclose()

            async def recorded() -> bool | None:
                return bool(calls_in(tmp_path)) or None

            await waits.poll(recorded, what="the record of the call", every=0.02, within=10)
    (call,) = calls_in(tmp_path)
    assert (call.status, call.error, usage_in(tmp_path).unmetered) == (200, "ended early", 1)
    assert call.budget_tokens > 0
    assert call.charged_usd is not None
    assert call.charged_usd > 0
    assert call.cost_usd is None
