"""What of a request's head goes up to the API server, and of an answer's head down to the client."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

from sregym.gateway.hiding import Refusal
from sregym.gateway.http1 import Head, Headers
from sregym.gateway.target import Target

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
_METHODS = frozenset({b"DELETE", b"GET", b"HEAD", b"OPTIONS", b"PATCH", b"POST", b"PUT"})
_UPGRADED = frozenset({"attach", "exec", "portforward", "proxy"})
"""Subresources whose connections are carried as bytes. A watch over a WebSocket could not be read on its way."""
_PROTOCOLS = frozenset({b"spdy/3.1", b"websocket"})
_TOKEN_PROTOCOL = b"base64url.bearer.authorization.k8s.io."
NOT_JSON = Refusal(code=406, message="only JSON is served here (application/json, also as=Table)")


def odd_method(head: Head) -> Refusal | None:
    return None if head.method in _METHODS else Refusal(code=405, message="the method is not one of this API")


def unreadable(head: Head, target: Target) -> Refusal | None:
    """Refuse answers that we could not read ourselves. OpenAPI documents hold no objects and may be binary."""
    if target.path.startswith("/openapi/"):
        return None
    accept = (head.get(b"accept") or b"").decode("latin-1")
    if accept and not _readable_of(accept):
        return NOT_JSON
    return None


def _readable_of(accept: str) -> str:
    kept = [part.strip() for part in accept.split(",")]
    return ",".join(part for part in kept if part and part.partition(";")[0].strip().lower() not in _BINARY)


def upwards(head: Head, target: Target) -> list[tuple[bytes, bytes]]:
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
    protocol = head.get(b"upgrade") or b""
    if head.wants_upgrade and target.subresource in _UPGRADED and protocol.lower() in _PROTOCOLS:
        out += [(b"connection", b"Upgrade"), (b"upgrade", protocol)]
    return out


def downwards(headers: Headers) -> Headers:
    return [(name, value) for name, value in headers if name.lower() not in _HOP]


def switch(headers: Headers) -> Headers:
    upgrade = next((value for name, value in headers if name.lower() == b"upgrade"), b"")
    return [(b"connection", b"Upgrade"), (b"upgrade", upgrade), *downwards(headers)]


def inflated(headers: Headers, pieces: AsyncIterator[bytes]) -> tuple[Headers, AsyncIterator[bytes]]:
    """An answer without its gzip encoding, if it has one."""
    if (b"content-encoding", b"gzip") not in [(name.lower(), value.lower()) for name, value in headers]:
        return headers, pieces
    gone = (b"content-encoding", b"content-length")
    return [one for one in headers if one[0].lower() not in gone], _inflate(pieces)


async def _inflate(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    inflater = zlib.decompressobj(wbits=31)
    async for piece in pieces:
        if plain := inflater.decompress(piece):
            yield plain
    yield inflater.flush()
