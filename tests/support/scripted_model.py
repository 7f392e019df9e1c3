"""A model server that plays a script in all four protocols: one turn for each tool result that it has seen."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.support.servers import asgi_server

PROMPT_TOKENS, COMPLETION_TOKENS = 120, 30
"""Of every answer; CACHED_TOKENS are among the former, REASONING_TOKENS among the latter."""
CACHED_TOKENS, REASONING_TOKENS = 40, 10


@dataclass(frozen=True)
class Say:
    """A turn that only speaks."""

    text: str


@dataclass(frozen=True)
class Use:
    """A turn that calls a tool."""

    tool: str
    arguments: dict[str, Any]


Turn = Say | Use


@dataclass
class ScriptedModel:
    """The server's address, and what it was asked."""

    base: str = ""
    """With `/v1`, as OpenAI's clients want it; the others cut it off."""
    requests: list[dict[str, Any]] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    """Statuses to answer with before the script is played."""
    failure: Any = field(default_factory=lambda: {"error": {"message": "scripted failure"}})
    answers: list[bytes] = field(default_factory=list)
    """The bytes of every answer."""


@asynccontextmanager
async def scripted_model(turns: Sequence[Turn]) -> AsyncIterator[ScriptedModel]:
    """Serve a script; the last turn is repeated for ever."""
    model = ScriptedModel()

    def play(protocol: "_Protocol") -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            raw = await request.body()
            body = json.loads(raw)
            model.raw.append(raw)
            model.requests.append(body)
            model.paths.append(str(request.url).removeprefix(str(request.base_url).rstrip("/")))
            model.headers.append(dict(request.headers))
            model.keys.append(request.headers.get(protocol.key, ""))
            if model.failures:
                return JSONResponse(model.failure, status_code=model.failures.pop(0))
            if request.url.path.lower().endswith(("count_tokens", "counttokens")):
                return JSONResponse({"input_tokens": PROMPT_TOKENS, "totalTokens": PROMPT_TOKENS})
            seen = protocol.results(body)
            turn = turns[min(seen, len(turns) - 1)]
            streaming = body.get("stream") or "stream" in request.url.path
            if streaming:
                pieces = [one.encode() for one in protocol.events(body, turn, seen)]
                model.answers.append(b"".join(pieces))
                return StreamingResponse(_each(pieces), media_type="text/event-stream")
            model.answers.append(json.dumps(protocol.whole(body, turn, seen)).encode())
            return Response(model.answers[-1], media_type="application/json")

        return answer

    routes = [
        Route("/v1/chat/completions", play(_Chat()), methods=["POST"]),
        Route("/v1/responses", play(_Responses()), methods=["POST"]),
        Route("/v1/messages", play(_Messages()), methods=["POST"]),
        Route("/v1/messages/count_tokens", play(_Messages()), methods=["POST"]),
        Route("/v1beta/models/{target:path}", play(_Gemini()), methods=["POST"]),
    ]
    async with asgi_server(Starlette(routes=routes)) as base:
        model.base = f"{base}/v1"
        yield model


async def _each(pieces: Sequence[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _event(value: dict[str, Any]) -> str:
    name = f"event: {value['type']}\n" if "type" in value else ""
    return f"{name}data: {json.dumps(value)}\n\n"


class _Protocol:
    key = "authorization"

    def results(self, body: dict[str, Any]) -> int:
        """How many tool results the conversation holds."""
        raise NotImplementedError

    def whole(self, body: dict[str, Any], turn: Turn, number: int) -> dict[str, Any]:
        raise NotImplementedError

    def events(self, body: dict[str, Any], turn: Turn, number: int) -> list[str]:
        raise NotImplementedError


class _Chat(_Protocol):
    def results(self, body: dict[str, Any]) -> int:
        return sum(message["role"] == "tool" for message in body["messages"])

    def whole(self, body: dict[str, Any], turn: Turn, number: int) -> dict[str, Any]:
        message = _chat_message(turn, number)
        reason = "tool_calls" if "tool_calls" in message else "stop"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return {"id": "1", "object": "chat.completion", "model": body["model"], "created": 0,
                "choices": [choice], "usage": _OPENAI_USAGE}  # fmt: skip

    def events(self, body: dict[str, Any], turn: Turn, number: int) -> list[str]:
        head = {"id": "1", "object": "chat.completion.chunk", "model": body["model"], "created": 0}
        message = _chat_message(turn, number)
        reason = "tool_calls" if "tool_calls" in message else "stop"
        for index, call in enumerate(message.get("tool_calls", [])):
            call["index"] = index
        events = [{**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
                  {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}]  # fmt: skip
        if (body.get("stream_options") or {}).get("include_usage"):
            events.append({**head, "choices": [], "usage": _OPENAI_USAGE})
        return [*map(_event, events), "data: [DONE]\n\n"]


_OPENAI_USAGE: dict[str, Any] = {
    "prompt_tokens": PROMPT_TOKENS,
    "completion_tokens": COMPLETION_TOKENS,
    "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
    "prompt_tokens_details": {"cached_tokens": CACHED_TOKENS},
    "completion_tokens_details": {"reasoning_tokens": REASONING_TOKENS},
}


def _chat_message(turn: Turn, number: int) -> dict[str, Any]:
    if isinstance(turn, Say):
        return {"role": "assistant", "content": turn.text}
    function = {"name": turn.tool, "arguments": json.dumps(turn.arguments)}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


class _Responses(_Protocol):
    def results(self, body: dict[str, Any]) -> int:
        items = body["input"] if isinstance(body["input"], list) else []
        return sum(item.get("type") == "function_call_output" for item in items)

    def whole(self, body: dict[str, Any], turn: Turn, number: int) -> dict[str, Any]:
        if isinstance(turn, Say):
            content = [{"type": "output_text", "text": turn.text, "annotations": []}]
            item: dict[str, Any] = {"type": "message", "id": f"msg_{number}", "role": "assistant",
                                    "status": "completed", "content": content}  # fmt: skip
        else:
            item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": turn.tool,
                    "arguments": json.dumps(turn.arguments), "status": "completed"}  # fmt: skip
        usage = {"input_tokens": PROMPT_TOKENS, "input_tokens_details": {"cached_tokens": CACHED_TOKENS},
                 "output_tokens": COMPLETION_TOKENS,
                 "output_tokens_details": {"reasoning_tokens": REASONING_TOKENS},
                 "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS}  # fmt: skip
        return {"id": f"resp_{number}", "object": "response", "created_at": 0, "model": body["model"],
                "status": "completed", "output": [item], "usage": usage}  # fmt: skip

    def events(self, body: dict[str, Any], turn: Turn, number: int) -> list[str]:
        whole = self.whole(body, turn, number)
        started = {**whole, "status": "in_progress", "output": [], "usage": None}
        (item,) = whole["output"]
        empty = {name: type(item[name])() for name in ("content", "arguments") if name in item}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": started},
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, **empty}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        ]
        return [_event({**one, "sequence_number": index}) for index, one in enumerate(events)]


class _Messages(_Protocol):
    key = "x-api-key"

    def results(self, body: dict[str, Any]) -> int:
        blocks = [block for message in body["messages"] for block in message["content"]]
        return sum(isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks)

    def whole(self, body: dict[str, Any], turn: Turn, number: int) -> dict[str, Any]:
        block: dict[str, Any] = {"type": "text", "text": turn.text} if isinstance(turn, Say) else {
            "type": "tool_use", "id": f"toolu_{number}", "name": turn.tool, "input": turn.arguments}  # fmt: skip
        usage = {"input_tokens": PROMPT_TOKENS - CACHED_TOKENS, "cache_read_input_tokens": CACHED_TOKENS,
                 "cache_creation_input_tokens": 0, "output_tokens": COMPLETION_TOKENS}  # fmt: skip
        return {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"],
                "content": [block], "stop_reason": "end_turn" if isinstance(turn, Say) else "tool_use",
                "stop_sequence": None, "usage": usage}  # fmt: skip

    def events(self, body: dict[str, Any], turn: Turn, number: int) -> list[str]:
        whole = self.whole(body, turn, number)
        (block,) = whole["content"]
        if isinstance(turn, Say):
            empty: dict[str, Any] = {**block, "text": ""}
            delta = {"type": "text_delta", "text": turn.text}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(turn.arguments)}
        first = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
        end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": first},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": COMPLETION_TOKENS}},
            {"type": "message_stop"},
        ]
        return [_event(one) for one in events]


class _Gemini(_Protocol):
    key = "x-goog-api-key"

    def results(self, body: dict[str, Any]) -> int:
        parts = [part for content in body["contents"] for part in content["parts"]]
        return sum("functionResponse" in part or "function_response" in part for part in parts)

    def whole(self, body: dict[str, Any], turn: Turn, number: int) -> dict[str, Any]:
        part: dict[str, Any] = {"text": turn.text} if isinstance(turn, Say) else {
            "functionCall": {"id": f"call_{number}", "name": turn.tool, "args": turn.arguments}}  # fmt: skip
        usage = {"promptTokenCount": PROMPT_TOKENS, "cachedContentTokenCount": CACHED_TOKENS,
                 "candidatesTokenCount": COMPLETION_TOKENS - REASONING_TOKENS,
                 "thoughtsTokenCount": REASONING_TOKENS,
                 "totalTokenCount": PROMPT_TOKENS + COMPLETION_TOKENS}  # fmt: skip
        content = {"role": "model", "parts": [part]}
        return {"candidates": [{"index": 0, "content": content, "finishReason": "STOP"}], "usageMetadata": usage}

    def events(self, body: dict[str, Any], turn: Turn, number: int) -> list[str]:
        return [f"data: {json.dumps(self.whole(body, turn, number))}\r\n\r\n"]
