"""The kube proxy: the agent's requests, on behalf of the agent's user, to the cluster's API server.

The proxy's own credentials never leave it; what a client says about identity (Authorization, Impersonate-*, bearer
tokens in WebSocket protocols) is dropped. Answers are JSON or tables only, so that what must be hidden can be found in
them. Bodies stream both ways; upgraded connections (exec, attach, port-forward, cp) are carried as bytes.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.abc
import httpcore

from sregym.cluster.objects import Obj
from sregym.errors import PrerequisiteError
from sregym.events import Emit, silent
from sregym.gateway.filtering import Filter, Unreadable, asked, continued, dumped, joined, parsed, replaced
from sregym.gateway.heads import NOT_JSON, downwards, inflated, odd_method, switch, unreadable, upwards
from sregym.gateway.hiding import Hidden, Hiding, Refusal
from sregym.gateway.http1 import Exchange, Headers, serve_connection
from sregym.gateway.identity import Identity, TokenGate
from sregym.gateway.target import BadTarget, Target, parse_target
from sregym.gateway.upstream import Upstream

_OF_BODIES = frozenset({b"content-length", b"content-type", b"transfer-encoding"})
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    502: "ServiceUnavailable",
}


class KubeProxy:
    """Serves connections of one attempt."""

    def __init__(
        self,
        *,
        upstream: Upstream,
        gate: TokenGate,
        identity: Identity,
        hidden: Hidden | None = None,
        emit: Emit = silent,
    ) -> None:
        self._upstream = upstream
        self._gate = gate
        self._hiding = Hiding(hidden)
        self._emit = emit
        self._identity: Headers = [
            (b"impersonate-user", identity.user.encode()),
            *((b"impersonate-group", group.encode()) for group in identity.groups),
        ]

    async def serve(self, stream: anyio.abc.ByteStream) -> None:
        """Serve one client's connection."""
        try:
            await serve_connection(stream, self._handle)
        except Exception as error:  # noqa: BLE001 - edge: one connection's surprise must not end the others
            self._emit("kube.crashed", error=repr(error))

    async def _handle(self, exchange: Exchange) -> None:
        head = exchange.head
        authorization = (head.get(b"authorization") or b"").decode("latin-1")
        admitted = self._gate.admit(head.target.decode("latin-1"), authorization)
        if admitted is None:
            await _status(exchange, Refusal(code=401, message="no valid token"))
            return
        try:
            target = parse_target(admitted.target)
        except BadTarget as error:
            await _status(exchange, Refusal(code=400, message=f"the request path {error}"))
            return
        if refusal := odd_method(head) or unreadable(head, target) or self._hiding.refusal(target):
            self._emit("kube.refused", path=target.path, code=refusal.code)
            await _status(exchange, refusal)
            return
        await self._forward(exchange, target)

    async def _forward(self, exchange: Exchange, target: Target) -> None:
        request = _Request(exchange, target, [*upwards(exchange.head, target), *self._identity])
        judged = self._hiding.concerns(target) and _may_show(request)
        try:
            await (self._judged(request) if judged else self._streamed(request))
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, PrerequisiteError) as error:
            self._emit("kube.unreachable", error=repr(error), path=target.path)
            if not exchange.answered:
                await _status(exchange, Refusal(code=502, message="the API server cannot be reached"))
        except Unreadable as error:
            self._emit("kube.unreadable", error=str(error), path=target.path)
            if not exchange.answered:
                await _status(exchange, NOT_JSON)

    async def _streamed(self, request: _Request) -> None:
        """Forward a request and its answer as they are."""
        exchange = request.exchange
        body = exchange.body() if exchange.head.has_body else None
        response: httpcore.Response | None = None
        squeezed = _may_squeeze(request)
        if squeezed:
            request = request.with_headers({b"accept-encoding": b"gzip"})
        async with AsyncExitStack() as stack:
            async with exchange.cancelled_by_hangup():
                response = await self._answer(stack, request, request.target.canonical, body)
                if response.status != 101:
                    headers, pieces = downwards(response.headers), _pieces(response)
                    if squeezed:
                        headers, pieces = inflated(headers, pieces)
                    await exchange.respond(response.status, headers, pieces)
            if response is not None and response.status == 101:
                await exchange.tunnel(switch(response.headers), response.extensions["network_stream"])

    async def _judged(self, request: _Request) -> None:
        """Forward a request, and of its answer what may be seen."""
        exchange, target, method = request.exchange, request.target, request.exchange.head.method
        form = asked(self._hiding, target, request.header(b"accept"))
        if form is None:
            await _status(exchange, NOT_JSON)
            return
        if method == b"DELETE" and not target.name and not target.namespace:
            await _status(exchange, Refusal(code=403, message=f"{target.resource} are deleted one by one"))
            return
        if method != b"GET" and target.name and not await self._sees(request):
            await _status(exchange, _not_found(target))
            return
        request = request.with_headers({b"accept": form.accept or b"application/json", b"accept-encoding": b"gzip"})
        sieve = Filter(self._hiding, target, form.surplus)
        body = exchange.body() if exchange.head.has_body else None
        async with AsyncExitStack() as stack, exchange.cancelled_by_hangup():
            response = await self._answer(stack, request, form.path, body)
            headers, pieces = inflated(downwards(response.headers), _pieces(response))
            headers = [one for one in headers if one[0].lower() != b"content-length"]
            if target.watch and response.status == 200:
                await exchange.respond(response.status, headers, sieve.events(pieces))
                return
            raw = b"".join([piece async for piece in pieces])
            if response.status == 409 and method == b"POST" and not sieve.untouched(raw):
                await _status(exchange, Refusal(code=403, message="this name is not available"))
                return
            if response.status < 300 and not sieve.untouched(raw):
                document = await self._page(request, form.path, parsed(raw), sieve)
                found = sieve.document(document)
                if found is None:
                    await _status(exchange, _not_found(target))
                    return
                raw = dumped(found)
            await exchange.respond_whole(response.status, headers, raw)

    async def _page(self, request: _Request, path: str, page: Obj, sieve: Filter) -> Obj:
        """A page, made longer until it ends with an object that may be seen."""
        while sieve.ends_hidden(page):
            async with AsyncExitStack() as stack:
                response = await self._answer(stack, request, replaced(path, "continue", continued(page)), None)
                if response.status != 200:
                    raise Unreadable(f"the next page has status {response.status}")
                _, pieces = inflated(response.headers, _pieces(response))
                page = joined(page, parsed(b"".join([piece async for piece in pieces])))
        return page

    async def _sees(self, request: _Request) -> bool:
        """Whether the object that is to be changed may be seen; one that is not there may."""
        target = request.target
        if not self._hiding.needs_whole_objects(target):
            return True
        look = request.with_headers({b"accept": b"application/json", b"accept-encoding": b"identity"}, bodiless=True)
        async with AsyncExitStack() as stack:
            response = await self._answer(stack, look, target.path_of_object, None, method=b"GET")
            raw = await response.aread()
        return response.status != 200 or self._hiding.visible(target, parsed(raw))

    async def _answer(
        self, stack: AsyncExitStack, request: _Request, path: str, body: Any, *, method: bytes | None = None
    ) -> httpcore.Response:
        """The API server's answer, closed with the stack."""
        response = await self._upstream.send(method or request.exchange.head.method, path, request.headers, body)
        stack.push_async_callback(_close, response)
        return response


@dataclass(frozen=True)
class _Request:
    """A request, and the headers that go up with it."""

    exchange: Exchange
    target: Target
    headers: Headers

    def header(self, name: bytes) -> bytes:
        return b", ".join(value for key, value in self.headers if key == name)

    def with_headers(self, changed: Mapping[bytes, bytes], *, bodiless: bool = False) -> _Request:
        dropped = {*changed, *(_OF_BODIES if bodiless else ())}
        kept = [(key, value) for key, value in self.headers if key not in dropped]
        return _Request(self.exchange, self.target, [*kept, *changed.items()])


def _may_show(request: _Request) -> bool:
    """Whether the answer can speak of what was there before: what one makes oneself one may see."""
    method = request.exchange.head.method
    return method in (b"GET", b"PUT", b"PATCH", b"DELETE") or request.target.resource == "namespaces"


def _not_found(target: Target) -> Refusal:
    resource = f"{target.resource}.{target.group}" if target.group else target.resource
    return Refusal(code=404, message=f'{resource} "{target.name}" not found')


async def _close(response: httpcore.Response) -> None:
    with anyio.CancelScope(shield=True):
        await response.aclose()


def _may_squeeze(request: _Request) -> bool:
    """Whether a long answer may come compressed although the client wants it plain: it has less to go through TLS.

    Only the API server's own answers, not those of servers behind it.
    """
    target, head = request.target, request.exchange.head
    own = bool(target.resource) and not target.subresource and not target.watch
    return own and head.method == b"GET" and b"gzip" not in request.header(b"accept-encoding")


async def _pieces(response: httpcore.Response) -> AsyncIterator[bytes]:
    async for piece in response.aiter_stream():
        yield piece


async def _status(exchange: Exchange, refusal: Refusal) -> None:
    """An answer of our own, in the form that Kubernetes clients understand."""
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": refusal.message,
        "reason": _REASONS[refusal.code],
        "code": refusal.code,
    }
    await exchange.respond_whole(refusal.code, [(b"content-type", b"application/json")], json.dumps(body).encode())
