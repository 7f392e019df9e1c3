"""Every client protocol in front of every kind of provider: passed through byte for byte, or translated."""

import json
from pathlib import Path
from typing import Any

import pytest

from sregym.gateway.models import ModelUsage, Protocol, calls_in, usage_in
from tests.support.scripted_model import (
    CACHED_TOKENS,
    COMPLETION_TOKENS,
    PROMPT_TOKENS,
    REASONING_TOKENS,
    Say,
    Turn,
    Use,
)
from tests.unit.gateway.relay_rig import KEY, PROVIDERS, ask, relay_and_model, understood, url

# LiteLLM reads a field of its own models in a way that pydantic is about to give up.
pytestmark = pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning")

TURNS: list[Turn] = [Use("bash", {"command": "ls"}), Say("done")]
EVERY = list(Protocol)


def speaks(protocol: Protocol) -> dict[str, Any]:
    return {"model": PROVIDERS[protocol.value], "speaks": (protocol,)}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", EVERY)
async def test_what_the_provider_speaks_passes_as_it_is(tmp_path: Path, protocol: Protocol, stream: bool) -> None:
    body = ask(protocol, stream=stream) | ({"stream_options": {"include_usage": True}} if stream else {})
    if protocol is not Protocol.CHAT:
        body.pop("stream_options", None)
    sent = json.dumps(body, indent=1).encode()
    async with relay_and_model(tmp_path, TURNS, **speaks(protocol)) as (client, model):
        reply = await client.post(url(protocol, stream=stream), content=sent)
    assert reply.status_code == 200
    assert model.raw == [sent]
    assert reply.content == model.answers[0]
    assert KEY in model.keys[0]
    assert understood(protocol, reply) == ("", {"bash": {"command": "ls"}})
    assert usage_in(tmp_path) == ModelUsage(
        calls=1,
        prompt_tokens=PROMPT_TOKENS,
        completion_tokens=COMPLETION_TOKENS,
        cached_tokens=CACHED_TOKENS,
        reasoning_tokens=0 if protocol is Protocol.MESSAGES else REASONING_TOKENS,
    )
    (call,) = calls_in(tmp_path)
    assert (call.protocol, call.translated, call.stream) == (protocol.value, False, stream)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("provider", [Protocol.CHAT, Protocol.MESSAGES, Protocol.GEMINI])
@pytest.mark.parametrize("front", EVERY)
async def test_every_other_provider_is_translated(
    tmp_path: Path, front: Protocol, provider: Protocol, stream: bool
) -> None:
    if front is provider:
        pytest.skip("passes through")
    async with relay_and_model(tmp_path, TURNS, **speaks(provider)) as (client, model):
        first = await client.post(url(front, stream=stream), json=ask(front, stream=stream))
        second = await client.post(url(front, stream=stream), json=ask(front, stream=stream, done=1))
    assert (first.status_code, second.status_code) == (200, 200), first.text + second.text
    assert [call.error for call in calls_in(tmp_path)] == [None, None], first.text[-2000:]
    assert understood(front, first) == ("", {"bash": {"command": "ls"}})
    assert understood(front, second) == ("done", {})
    assert all(KEY in key for key in model.keys)
    usage = usage_in(tmp_path)
    assert (usage.calls, usage.failed, usage.unmetered) == (2, 0, 0)
    assert (usage.prompt_tokens, usage.completion_tokens) == (2 * PROMPT_TOKENS, 2 * COMPLETION_TOKENS)
    assert usage.cached_tokens == 2 * CACHED_TOKENS
    assert all(call.translated for call in calls_in(tmp_path))
