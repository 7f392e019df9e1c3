"""The model relay: OpenAI chat completions for the agent, any provider behind it.

The agent holds no key and has no other way out. Only the configured model is served; the key is added here; answers
stream through; every call is written to the attempt's folder with its tokens. A server that speaks the OpenAI
protocol gets the request as it is; every other provider is reached through LiteLLM, imported at the first need.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from sregym.gateway.litellm_backend import LITELLM_ERRORS, complete, stream
from sregym.gateway.models import CALLS_FILE, ModelAccess, ModelCall

MAX_BODY = 32 * 1024 * 1024
"""Bytes; a long conversation with images stays below it."""
TIMEOUT = httpx.Timeout(600.0, connect=10.0)
EVENT_STREAM = "text/event-stream"


@dataclass(kw_only=True)
class _Meter:
    """Measures one call and writes its record once, whatever becomes of it."""

    record: Callable[[ModelCall], None]
    model: str
    streaming: bool
    started: float = field(default_factory=time.monotonic)
    tokens: Mapping[str, Any] = field(default_factory=dict)

    def see(self, usage: Any) -> None:
        if isinstance(usage, Mapping):
            self.tokens = usage

    def done(self, status: int, error: str | None = None) -> None:
        self.record(
            ModelCall(
                at=datetime.now(UTC).isoformat(timespec="milliseconds"),
                model=self.model,
                stream=self.streaming,
                status=status,
                seconds=round(time.monotonic() - self.started, 3),
                prompt_tokens=_count(self.tokens.get("prompt_tokens")),
                completion_tokens=_count(self.tokens.get("completion_tokens")),
                error=error,
            )
        )


class ModelRelay:
    """Serves one configured model. `key` is the provider's, or None where there is none or LiteLLM finds it.

    An async context manager: leaving it closes the connections to the model's server.
    """

    def __init__(self, access: ModelAccess, *, key: str | None, folder: Path, retries: int) -> None:
        self._access = access
        self._key = key
        self._retries = retries
        self._calls = folder / CALLS_FILE
        self._client = httpx.AsyncClient(timeout=TIMEOUT, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    def app(self) -> Starlette:
        """The relay as an ASGI application, without the check of the token."""
        routes = [Route(f"{at}/chat/completions", self._chat, methods=["POST"]) for at in ("", "/v1")]
        routes += [Route(f"{at}/models", self._models, methods=["GET"]) for at in ("", "/v1")]
        return Starlette(routes=routes)

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": self._access.model, "object": "model"}]})

    async def _chat(self, request: Request) -> Response:
        raw = b""
        async for chunk in request.stream():
            raw += chunk
            if len(raw) > MAX_BODY:
                return _error(413, f"the request is larger than {MAX_BODY} bytes", "request_too_large")
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            return _error(400, "the request is not JSON", "invalid_json")
        if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
            return _error(400, "the request must be an object with a list `messages`", "invalid_request")
        if not self._access.allows(body.get("model")):
            return _error(404, f"the model `{body.get('model')}` is not available", "model_not_found")
        meter = _Meter(record=self._record, model=self._access.model, streaming=bool(body.get("stream")))
        if meter.streaming:
            body["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
        return await (self._pass_on(body, meter) if self._access.speaks_openai else self._through_litellm(body, meter))

    async def _pass_on(self, body: dict[str, Any], meter: _Meter) -> Response:
        url = f"{(self._access.api_base or '').rstrip('/')}/chat/completions"
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        request = self._client.build_request("POST", url, json={**body, "model": self._access.bare}, headers=headers)
        try:
            answer = await self._client.send(request, stream=True)
            kind = answer.headers.get("content-type", "application/json")
            if kind.startswith(EVENT_STREAM):
                return StreamingResponse(
                    _metered_events(answer, meter), status_code=answer.status_code, media_type=kind
                )
            content = await answer.aread()
        except httpx.HTTPError as error:
            meter.done(502, repr(error))
            return _error(502, "the model's server cannot be reached", "upstream_unavailable")
        meter.see(_usage_of(content))
        meter.done(answer.status_code, None if answer.is_success else "refused by the model's server")
        return Response(content, status_code=answer.status_code, media_type=kind)

    async def _through_litellm(self, body: dict[str, Any], meter: _Meter) -> Response:
        try:
            if meter.streaming:
                pieces = await stream(self._access, body, key=self._key, retries=self._retries)
                return StreamingResponse(_metered_pieces(pieces, meter), media_type=EVENT_STREAM)
            whole = await complete(self._access, body, key=self._key, retries=self._retries)
        except LITELLM_ERRORS as error:
            status = getattr(error, "status_code", None) or 502
            meter.done(status, type(error).__name__)
            return _error(status, f"the model's provider answered: {type(error).__name__}", "upstream_error")
        meter.see(whole.get("usage"))
        meter.done(200)
        return JSONResponse(whole)

    def _record(self, call: ModelCall) -> None:
        with self._calls.open("a", encoding="utf-8") as file:
            file.write(call.line())


async def _metered_events(answer: httpx.Response, meter: _Meter) -> AsyncIterator[bytes]:
    """Server-sent events as they come, line by line, with the usage read on the way."""
    error: str | None = "ended early"
    try:
        async for line in answer.aiter_lines():
            if line.startswith("data:"):
                meter.see(_usage_of(line[5:].encode()))
            yield line.encode() + b"\n"
        error = None
    except httpx.HTTPError as broken:
        error = repr(broken)
    finally:
        meter.done(answer.status_code, error)
        await answer.aclose()


async def _metered_pieces(pieces: AsyncIterator[dict[str, Any]], meter: _Meter) -> AsyncIterator[bytes]:
    error: str | None = "ended early"
    try:
        async for piece in pieces:
            meter.see(piece.get("usage"))
            yield b"data: " + json.dumps(piece).encode() + b"\n\n"
        error = None
        yield b"data: [DONE]\n\n"
    except LITELLM_ERRORS as broken:
        error = type(broken).__name__
    finally:
        meter.done(200, error)


def _usage_of(content: bytes) -> Any:
    try:
        value = json.loads(content)
    except ValueError:
        return None
    return value.get("usage") if isinstance(value, dict) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _error(status: int, message: str, code: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "type": "relay", "code": code}}, status_code=status)
