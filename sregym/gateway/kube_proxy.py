"""The kube proxy: the agent's requests, on behalf of the agent's user, to the cluster's API server.

The proxy's own credentials never leave it; what a client says about identity (Authorization, Impersonate-*, bearer
tokens in WebSocket protocols) is dropped. Answers are JSON or tables only, so that what must be hidden can be found in
them. Bodies stream both ways; upgraded connections (exec, attach, port-forward, cp) are carried as bytes.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.abc
import httpcore

from sregym.errors import PrerequisiteError
from sregym.events import Emit, silent
from sregym.gateway.http1 import Exchange, Head, Headers, serve_connection
from sregym.gateway.identity import Identity, TokenGate
from sregym.gateway.target import BadTarget, Target, parse_target
from sregym.gateway.upstream import Upstream

_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Hop-by-hop (RFC 9110, 7.6.1)."""
_OURS = frozenset({b"host", b"authorization", b"expect", b"cookie", b"forwarded", b"x-relay-listener"})
_OURS_PREFIXES = (b"impersonate-", b"x-remote-", b"x-forwarded-")
_BINARY = ("application/vnd.kubernetes.protobuf", "application/cbor", "application/cbor-seq", "application/yaml")
_TOKEN_PROTOCOL = b"base64url.bearer.authorization.k8s.io."
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    406: "NotAcceptable",
    502: "ServiceUnavailable",
}


class KubeProxy:
    """Serves connections of one attempt."""

    def __init__(self, *, upstream: Upstream, gate: TokenGate, identity: Identity, emit: Emit = silent) -> None:
        self._upstream = upstream
        self._gate = gate
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
            await _status(exchange, 401, "no valid token")
            return
        try:
            target = parse_target(admitted.target)
        except BadTarget as error:
            await _status(exchange, 400, f"the request path {error}")
            return
        if refusal := _unreadable(head, target):
            await _status(exchange, *refusal)
            return
        await self._forward(exchange, target)

    async def _forward(self, exchange: Exchange, target: Target) -> None:
        head = exchange.head
        headers = [*_upwards(head, target), *self._identity]
        body = exchange.body() if head.has_body else None
        response: httpcore.Response | None = None
        try:
            async with exchange.cancelled_by_hangup():
                response = await self._upstream.send(head.method, target.canonical, headers, body)
                if response.status != 101:
                    await exchange.respond(response.status, _downwards(response.headers), _pieces(response))
            if response is not None and response.status == 101:
                await exchange.tunnel(_switch(response.headers), response.extensions["network_stream"])
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, PrerequisiteError) as error:
            self._emit("kube.unreachable", error=repr(error), path=target.path)
            if not exchange.answered:
                await _status(exchange, 502, "the API server cannot be reached")
        finally:
            if response is not None:
                with anyio.CancelScope(shield=True):
                    await response.aclose()


def _unreadable(head: Head, target: Target) -> tuple[int, str] | None:
    """Refuse answers that we could not read ourselves. OpenAPI documents hold no objects and may be binary."""
    if target.path.startswith("/openapi/"):
        return None
    accept = (head.get(b"accept") or b"").decode("latin-1")
    if accept and not _readable_of(accept):
        return 406, "only JSON is served here (application/json, also as=Table)"
    return None


def _readable_of(accept: str) -> str:
    kept = [part.strip() for part in accept.split(",")]
    return ",".join(part for part in kept if part and part.partition(";")[0].strip().lower() not in _BINARY)


def _upwards(head: Head, target: Target) -> list[tuple[bytes, bytes]]:
    """The client's headers that may go on to the API server."""
    named = {token.strip().lower() for token in (head.get(b"connection") or b"").split(b",")}
    kept = [
        (name, value)
        for name, value in head.headers
        if name not in _HOP and name not in _OURS and name not in named and not name.startswith(_OURS_PREFIXES)
    ]
    out: list[tuple[bytes, bytes]] = []
    for name, value in kept:
        if name == b"accept" and not target.path.startswith("/openapi/"):
            value = _readable_of(value.decode("latin-1")).encode("latin-1")
        elif name == b"sec-websocket-protocol":
            value = b", ".join(p for p in (v.strip() for v in value.split(b",")) if not p.startswith(_TOKEN_PROTOCOL))
        out.append((name, value))
    if head.get(b"transfer-encoding") is not None:
        out.append((b"transfer-encoding", b"chunked"))
    if head.wants_upgrade:
        out += [(b"connection", b"Upgrade"), (b"upgrade", head.get(b"upgrade") or b"")]
    return out


def _downwards(headers: Headers) -> Headers:
    return [(name, value) for name, value in headers if name.lower() not in _HOP]


def _switch(headers: Headers) -> Headers:
    upgrade = next((value for name, value in headers if name.lower() == b"upgrade"), b"")
    return [(b"connection", b"Upgrade"), (b"upgrade", upgrade), *_downwards(headers)]


async def _pieces(response: httpcore.Response) -> AsyncIterator[bytes]:
    async for piece in response.aiter_stream():
        yield piece


async def _status(exchange: Exchange, code: int, message: str) -> None:
    """An answer of our own, in the form that Kubernetes clients understand."""
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS[code],
        "code": code,
    }
    await exchange.respond_whole(code, [(b"content-type", b"application/json")], json.dumps(body).encode())
