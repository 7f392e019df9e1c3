"""A model server that plays a script over OpenAI chat completions: one turn for each tool result that it has seen."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.support.servers import asgi_server

PROMPT_TOKENS, COMPLETION_TOKENS = 120, 30
USAGE = {
    "prompt_tokens": PROMPT_TOKENS,
    "completion_tokens": COMPLETION_TOKENS,
    "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
}


@dataclass(frozen=True)
class Say:
    """A turn that only speaks."""

    text: str


@dataclass(frozen=True)
class Use:
    """A turn that calls a tool."""

    tool: str
    arguments: dict[str, Any]


@dataclass
class ScriptedModel:
    """The server's address, and what it was asked."""

    base: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    """Statuses to answer with before the script is played."""


@asynccontextmanager
async def scripted_model(turns: Sequence[Say | Use]) -> AsyncIterator[ScriptedModel]:
    """Serve a script; the last turn is repeated for ever."""
    model = ScriptedModel()

    async def chat(request: Request) -> Response:
        body = await request.json()
        model.requests.append(body)
        model.keys.append(request.headers.get("authorization", ""))
        if model.failures:
            status = model.failures.pop(0)
            return JSONResponse({"error": {"message": "scripted failure"}}, status_code=status)
        seen = sum(message["role"] == "tool" for message in body["messages"])
        message = _message(turns[min(seen, len(turns) - 1)], seen)
        reason = "tool_calls" if "tool_calls" in message else "stop"
        if body.get("stream"):
            return StreamingResponse(_events(message, reason, body), media_type="text/event-stream")
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return JSONResponse({"id": "1", "object": "chat.completion", "model": body["model"], "created": 0,
                             "choices": [choice], "usage": USAGE})  # fmt: skip

    async with asgi_server(Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])) as base:
        model.base = f"{base}/v1"
        yield model


def _message(turn: Say | Use, number: int) -> dict[str, Any]:
    if isinstance(turn, Say):
        return {"role": "assistant", "content": turn.text}
    function = {"name": turn.tool, "arguments": json.dumps(turn.arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}],
    }


async def _events(message: dict[str, Any], reason: str, body: dict[str, Any]) -> AsyncIterator[str]:
    head = {"id": "1", "object": "chat.completion.chunk", "model": body["model"], "created": 0}
    yield _event({**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]})
    yield _event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event({**head, "choices": [], "usage": USAGE})
    yield "data: [DONE]\n\n"


def _event(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value)}\n\n"
