"""The model relay: OpenAI, Anthropic and Gemini clients on one side, the configured model on the other.

The agent holds no key and has no other way out. Only the configured model is served; the key is added here; answers
stream through; every call is written to the attempt's folder with its tokens and its cost, and none is made when the
attempt's budget is spent. A provider that speaks the agent's protocol gets the request as it is; every other is reached
through LiteLLM.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.abc
import httpx
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from sregym.gateway.litellm_backend import UNTRANSLATABLE, Backend, is_own_fault, litellm_errors
from sregym.gateway.models import ModelAccess, Protocol
from sregym.gateway.relay.asking import read_asked
from sregym.gateway.relay.events import EventSplitter, value_of
from sregym.gateway.relay.log import Call, CallLog
from sregym.gateway.relay.passing import Asked, answer_headers, upstream_request, wants_usage
from sregym.gateway.relay.prices import Prices
from sregym.gateway.relay.protocols import (
    EVENT_STREAM,
    Refused,
    error_body,
    error_event,
    model_entry,
    model_list,
    protocol_of,
    tokens_in,
)
from sregym.gateway.relay.redaction import Redactor

TIMEOUT = httpx.Timeout(600.0, connect=10.0)
LONGEST_ERROR = 2000
"""Characters of a provider's words that are passed on; clients look for some of them ("prompt is too long")."""
NO_RETRY = {"x-should-retry": "false"}
"""Tells the providers' own clients that waiting will not help."""


class ModelRelay:
    """Serves one configured model. `key` is the provider's, or None where there is none or LiteLLM finds it.

    An async context manager: leaving it closes the connections to the model's server.

    Args:
        secrets: What must never be written down or sent to the agent, besides the key.
    """

    def __init__(
        self, access: ModelAccess, *, key: str | None, folder: Path, retries: int, secrets: Iterable[str] = ()
    ) -> None:
        self._access = access
        self._key = key
        self._redactor = Redactor((*secrets, key or ""))
        self._prices = Prices(access)
        self._log = CallLog(
            folder, model=access.model, budget=access.budget, prices=self._prices, redactor=self._redactor
        )
        self._backend = Backend(access, key=key, retries=retries)
        # A provider's public address may lie behind the operator's proxy; a server that was named does not.
        self._client = httpx.AsyncClient(timeout=TIMEOUT, trust_env=access.is_public)
        self._tasks: anyio.abc.TaskGroup

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._load)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(kind, error, trace)
        with anyio.CancelScope(shield=True):
            await self._backend.aclose()
            await self._client.aclose()

    async def _load(self) -> None:
        """What takes long to load and will be needed, before it is needed."""
        await anyio.to_thread.run_sync(self._prices.load, abandon_on_cancel=True)
        if not self._access.passes:
            await self._backend.load()

    def app(self) -> Starlette:
        """The relay as an ASGI application, without the check of the token."""
        return Starlette(routes=list(self._routes()), exception_handlers={HTTPException: _no_such_thing})

    def _routes(self) -> Iterable[Route]:
        for at in ("", "/v1"):
            yield Route(f"{at}/chat/completions", self._chat, methods=["POST"])
            yield Route(f"{at}/responses", self._responses, methods=["POST"])
            yield Route(f"{at}/responses", _no_websocket, methods=["GET"])
            yield Route(f"{at}/messages", self._messages, methods=["POST"])
            yield Route(f"{at}/messages/count_tokens", self._messages, methods=["POST"])
            yield Route(f"{at}/models", self._models, methods=["GET"])
            yield Route(f"{at}/models/{{name:path}}", self._model, methods=["GET"])
        for at in ("/v1beta", "/v1alpha", "/v1"):
            yield Route(f"{at}/models/{{target:path}}", self._gemini, methods=["POST"])
        for at in ("/v1beta", "/v1alpha"):
            yield Route(f"{at}/models", self._models, methods=["GET"])
            yield Route(f"{at}/models/{{name:path}}", self._model, methods=["GET"])
        yield Route("/", _here, methods=["GET", "HEAD"])

    async def _models(self, request: Request) -> Response:
        names = (self._access.model, *self._access.aliases)
        return JSONResponse(model_list(protocol_of(request.url.path, request.headers), names))

    async def _model(self, request: Request) -> Response:
        protocol, name = protocol_of(request.url.path, request.headers), request.path_params["name"]
        if not self._access.allows(name):
            return _error(protocol, 404, f"the model `{name[:100]}` is not available", "model_not_found")
        return JSONResponse(model_entry(protocol, name))

    async def _chat(self, request: Request) -> Response:
        return await self._serve(request, Protocol.CHAT)

    async def _responses(self, request: Request) -> Response:
        return await self._serve(request, Protocol.RESPONSES)

    async def _messages(self, request: Request) -> Response:
        return await self._serve(request, Protocol.MESSAGES)

    async def _gemini(self, request: Request) -> Response:
        return await self._serve(request, Protocol.GEMINI)

    async def _serve(self, request: Request, protocol: Protocol) -> Response:
        try:
            asked = await read_asked(request, protocol, self._access)
            if asked.action:
                return await self._count(asked)
            if self._log.budget_is_spent:
                self._log.refused(protocol=protocol, streaming=asked.streaming, status=429)
                return _error(protocol, 429, "the budget of this session is spent", "insufficient_quota", NO_RETRY)
            return await self._answer(asked)
        except Refused as refused:
            return _error(protocol, refused.status, refused.message, refused.code)

    async def _answer(self, asked: Asked) -> Response:
        passed = asked.protocol in self._access.passes
        call = self._log.begin(
            protocol=asked.protocol,
            streaming=asked.streaming,
            translated=not passed,
            path=asked.path,
            request=asked.raw,
        )
        return await (self._pass_on(asked, call) if passed else self._translate(asked, call))

    async def _pass_on(self, asked: Asked, call: Call) -> Response:
        try:
            answer = await self._client.send(
                upstream_request(self._client, self._access, asked, self._key), stream=True
            )
            kind = answer.headers.get("content-type", "application/json")
            if kind.startswith(EVENT_STREAM):
                events = self._passed_events(answer, asked, call)
                return StreamingResponse(events, answer.status_code, answer_headers(answer), media_type=kind)
            content = self._redactor.clean(await answer.aread())
        except httpx.HTTPError as error:
            call.done(502, repr(error))
            return _error(asked.protocol, 502, "the model's server cannot be reached", "upstream_unavailable")
        call.answer.add(content)
        call.see(tokens_in(asked.protocol, _json(content)))
        call.done(answer.status_code, None if answer.is_success else "refused by the model's server")
        return Response(content, answer.status_code, answer_headers(answer), media_type=kind)

    async def _passed_events(self, answer: httpx.Response, asked: Asked, call: Call) -> AsyncIterator[bytes]:
        """Events exactly as they come, with the usage read on the way."""
        splitter, error = EventSplitter(), "ended early"
        try:
            async for data in answer.aiter_bytes():
                for one in splitter.feed(data):
                    if (seen := self._seen(one, asked, call)) is not None:
                        yield seen
            if (left := splitter.rest()) and (seen := self._seen(left, asked, call)) is not None:
                yield seen
            error = ""
        except httpx.HTTPError as broken:
            error = repr(broken)
            yield error_event(asked.protocol, 502, "the model's server broke off", "upstream_unavailable")
        finally:
            call.done(answer.status_code, error or None)
            with anyio.CancelScope(shield=True):
                await answer.aclose()

    def _seen(self, event: bytes, asked: Asked, call: Call) -> bytes | None:
        """An event for the agent; None for usage in a chat that it did not ask for: some clients trip over it."""
        cleaned = self._redactor.clean(event)
        call.answer.add(cleaned)
        value = value_of(cleaned)
        call.see(tokens_in(asked.protocol, value))
        uncalled = asked.protocol is Protocol.CHAT and isinstance(value, dict) and value.get("choices") == []
        return None if uncalled and "usage" in value and not wants_usage(asked) else cleaned

    async def _translate(self, asked: Asked, call: Call) -> Response:
        protocol = asked.protocol
        try:
            if asked.streaming:
                events = await self._backend.stream(protocol, asked.body)
                return StreamingResponse(self._translated_events(events, asked, call), media_type=EVENT_STREAM)
            whole = await self._backend.complete(protocol, asked.body)
        except litellm_errors() as error:
            if is_own_fault(error):
                call.done(400, f"not translated: {error!r}")
                raise _untranslated(error) from error
            status = getattr(error, "status_code", None) or 502
            call.done(status, type(error).__name__)
            return _error(protocol, status, self._words(error), "upstream_error")
        except (*UNTRANSLATABLE, Refused) as error:
            call.done(400, f"not translated: {error!r}")
            raise _untranslated(error) from error
        content = self._redactor.clean(json.dumps(whole).encode())
        call.answer.add(content)
        call.see(tokens_in(protocol, whole))
        call.done(200)
        return Response(content, media_type="application/json")

    async def _translated_events(self, events: AsyncIterator[bytes], asked: Asked, call: Call) -> AsyncIterator[bytes]:
        error: str | None = "ended early"
        try:
            async for event in events:
                if (seen := self._seen(event, asked, call)) is not None:
                    yield seen
            error = None
        except litellm_errors() as broken:
            error = type(broken).__name__
            yield error_event(asked.protocol, 502, self._words(broken), "upstream_error")
        except UNTRANSLATABLE as broken:
            error = f"not translated: {broken!r}"
            yield error_event(asked.protocol, 502, "the answer cannot be translated", "untranslatable")
        finally:
            call.done(200, error)

    async def _count(self, asked: Asked) -> Response:
        """Tokens of a request. Costs nothing and is no call of the model."""
        if asked.protocol in self._access.passes:
            try:
                answer = await self._client.send(upstream_request(self._client, self._access, asked, self._key))
            except httpx.HTTPError:
                raise Refused(502, "the model's server cannot be reached", "upstream_unavailable") from None
            return Response(
                self._redactor.clean(answer.content),
                answer.status_code,
                media_type=answer.headers.get("content-type", "application/json"),
            )
        try:
            tokens = await self._backend.count(asked.protocol, asked.body)
        except (*UNTRANSLATABLE, Refused) as error:
            raise _untranslated(error) from error
        name = "totalTokens" if asked.protocol is Protocol.GEMINI else "input_tokens"
        return JSONResponse({name: tokens})

    def _words(self, error: BaseException) -> str:
        said = "" if is_own_fault(error) else self._redactor.clean_text(str(error))[:LONGEST_ERROR]
        return f"the model's provider answered: {said or type(error).__name__}"


def _untranslated(error: BaseException) -> Refused:
    if isinstance(error, Refused):
        return error
    return Refused(400, "the request cannot be translated for this model", "untranslatable")


def _error(
    protocol: Protocol, status: int, message: str, code: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    return JSONResponse(error_body(protocol, status, message, code), status, headers)


async def _no_such_thing(request: Request, error: Exception) -> Response:
    """Unknown paths and methods, in the manner of the client that asks."""
    assert isinstance(error, HTTPException)
    protocol = protocol_of(request.url.path, request.headers)
    return _error(protocol, error.status_code, str(error.detail), "not_found", error.headers)


async def _no_websocket(request: Request) -> Response:
    """Clients that would rather have a WebSocket go on with HTTP when they are told so."""
    return _error(Protocol.RESPONSES, 426, "send the request with POST", "upgrade_required")


async def _here(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
