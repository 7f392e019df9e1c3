"""A relay in front of a scripted model, and requests in all four protocols."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from sregym.gateway.model_relay import ModelRelay
from sregym.gateway.models import ModelAccess, Protocol
from sregym.gateway.relay.events import EventSplitter, value_of
from tests.support.scripted_model import ScriptedModel, Turn, scripted_model

KEY = "sk-very-secret-key-0123456789"
TOOL_SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
PROVIDERS = {"chat": "local/tiny", "messages": "anthropic/tiny", "gemini": "gemini/tiny", "responses": "openai/tiny"}


@asynccontextmanager
async def relayed(folder: Path, access: ModelAccess, *, key: str | None = KEY) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a relay."""
    async with ModelRelay(access, key=key, folder=folder, retries=0, secrets=["token-of-this-attempt"]) as relay:
        transport = httpx.ASGITransport(app=relay.app(), raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            yield client


@asynccontextmanager
async def relay_and_model(
    folder: Path, turns: Sequence[Turn], model: str = "local/tiny", **more: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, ScriptedModel]]:
    async with scripted_model(turns) as scripted:
        access = ModelAccess(model=model, api_base=scripted.base, **more)
        async with relayed(folder, access) as client:
            yield client, scripted


def url(protocol: Protocol, *, stream: bool = False, model: str = "tiny") -> str:
    if protocol is Protocol.GEMINI:
        return f"/v1beta/models/{model}:" + ("streamGenerateContent?alt=sse" if stream else "generateContent")
    paths = {Protocol.CHAT: "/v1/chat/completions", Protocol.RESPONSES: "/v1/responses"}
    return paths.get(protocol, "/v1/messages?beta=true")


def ask(protocol: Protocol, *, stream: bool = False, model: str = "tiny", done: int = 0) -> dict[str, Any]:
    """A conversation in which a shell tool was called `done` times already."""
    if protocol is Protocol.GEMINI:
        contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "hi"}]}]
        for number in range(done):
            call = {"id": f"call_{number}", "name": "bash", "args": {"command": "ls"}}
            result = {"id": f"call_{number}", "name": "bash", "response": {"output": "a file"}}
            contents += [{"role": "model", "parts": [{"functionCall": call}]},
                         {"role": "user", "parts": [{"functionResponse": result}]}]  # fmt: skip
        declared = {"name": "bash", "description": "A shell.", "parametersJsonSchema": TOOL_SCHEMA}
        return {"contents": contents, "tools": [{"functionDeclarations": [declared]}]}
    body: dict[str, Any] = {"model": model, **({"stream": True} if stream else {})}
    if protocol is Protocol.CHAT:
        messages: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
        for number in range(done):
            function = {"name": "bash", "arguments": '{"command": "ls"}'}
            calls = [{"id": f"call_{number}", "type": "function", "function": function}]
            messages += [{"role": "assistant", "content": None, "tool_calls": calls},
                         {"role": "tool", "tool_call_id": f"call_{number}", "content": "a file"}]  # fmt: skip
        tool = {"type": "function", "function": {"name": "bash", "description": "A shell.", "parameters": TOOL_SCHEMA}}
        return {**body, "messages": messages, "tools": [tool]}
    if protocol is Protocol.RESPONSES:
        items: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]
        for number in range(done):
            items += [{"type": "function_call", "call_id": f"call_{number}", "name": "bash",
                       "arguments": '{"command": "ls"}'},
                      {"type": "function_call_output", "call_id": f"call_{number}", "output": "a file"}]  # fmt: skip
        function_tool: dict[str, Any] = {
            "type": "function",
            "name": "bash",
            "description": "A shell.",
            "parameters": TOOL_SCHEMA,
            "strict": False,
        }
        return {**body, "input": items, "tools": [function_tool]}
    messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    for number in range(done):
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": "bash", "input": {"command": "ls"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "a file"}
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    tool = {"name": "bash", "description": "A shell.", "input_schema": TOOL_SCHEMA}
    return {**body, "max_tokens": 100, "messages": messages, "tools": [tool]}


def understood(protocol: Protocol, reply: httpx.Response) -> tuple[str, dict[str, Any]]:
    """What an answer says, and its tool calls: name -> arguments."""
    if reply.headers["content-type"].startswith("text/event-stream"):
        splitter = EventSplitter()
        events = [value_of(one) for one in (*splitter.feed(reply.content), splitter.rest())]
        return _streamed(protocol, [one for one in events if isinstance(one, dict)])
    return _whole(protocol, reply.json())


def _whole(protocol: Protocol, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if protocol is Protocol.CHAT:
        message = body["choices"][0]["message"]
        calls = {one["function"]["name"]: json.loads(one["function"]["arguments"])
                 for one in message.get("tool_calls") or []}  # fmt: skip
        return message.get("content") or "", calls
    if protocol is Protocol.RESPONSES:
        texts = [part["text"] for item in body["output"] if item["type"] == "message" for part in item["content"]]
        calls = {
            item["name"]: json.loads(item["arguments"]) for item in body["output"] if item["type"] == "function_call"
        }
        return "".join(text or "" for text in texts), calls
    parts = body["content"] if protocol is Protocol.MESSAGES else body["candidates"][0]["content"]["parts"]
    text = "".join(part.get("text") or "" for part in parts)
    if protocol is Protocol.MESSAGES:
        return text, {part["name"]: part["input"] for part in parts if part["type"] == "tool_use"}
    return text, {one["functionCall"]["name"]: one["functionCall"]["args"] for one in parts if "functionCall" in one}


def _streamed(protocol: Protocol, events: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    if protocol is Protocol.RESPONSES:
        return _whole(protocol, next(one["response"] for one in events if one["type"] == "response.completed"))
    if protocol is Protocol.GEMINI:
        parts = [part for one in events for part in one["candidates"][0]["content"]["parts"]]
        return _whole(protocol, {"candidates": [{"content": {"parts": parts}}]})
    if protocol is Protocol.CHAT:
        deltas = [choice["delta"] for one in events for choice in one.get("choices", [])]
        calls = [call["function"] for delta in deltas for call in delta.get("tool_calls") or []]
        text = "".join(delta.get("content") or "" for delta in deltas)
        name = "".join(call.get("name") or "" for call in calls)
        arguments = "".join(call.get("arguments") or "" for call in calls)
        return text, {name: json.loads(arguments)} if calls else {}
    names = [one["content_block"]["name"] for one in events
             if one["type"] == "content_block_start" and one["content_block"]["type"] == "tool_use"]  # fmt: skip
    deltas = [one["delta"] for one in events if one["type"] == "content_block_delta"]
    text = "".join(delta.get("text") or "" for delta in deltas)
    arguments = "".join(delta.get("partial_json") or "" for delta in deltas)
    return text, {names[0]: json.loads(arguments)} if names else {}
