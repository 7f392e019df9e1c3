"""Requests handed on to another part of the gateway, over its socket: bodies and answers stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpcore
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from sregym.gateway.http1 import Headers

CONNECT_S = 5.0
_KEPT = frozenset({b"accept", b"authorization", b"content-type", b"content-length", b"transfer-encoding"})
_KEPT_PREFIXES = (b"mcp-", b"sregym_")


async def forward(request: Request, socket: Path) -> Response:
    """The answer of what listens on `socket`; 503 where nothing does."""
    pool = httpcore.AsyncConnectionPool(uds=str(socket))
    url = httpcore.URL(scheme=b"http", host=b"gateway", port=80, target=_target(request))
    timeout = {"timeout": {"connect": CONNECT_S}}
    outgoing = httpcore.Request(
        request.method, url, headers=[(b"host", b"gateway"), *_upwards(request)], content=_body(request),
        extensions=timeout,
    )  # fmt: skip
    try:
        answer = await pool.handle_async_request(outgoing)
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, ClientDisconnect):
        await _close(pool)
        return JSONResponse({"error": "this part of the gateway is being started again"}, status_code=503)
    response = StreamingResponse(_pieces(answer, pool), status_code=answer.status)
    response.raw_headers = [
        (name.lower(), value)
        for name, value in answer.headers
        if name.lower() not in (b"connection", b"transfer-encoding", b"keep-alive", b"date")
    ]
    return response


def _target(request: Request) -> bytes:
    """Path and query as they came, the token's part of the path included."""
    raw: bytes = request.scope["raw_path"]
    query: bytes = request.scope.get("query_string", b"")
    return raw + (b"?" + query if query else b"")


def _upwards(request: Request) -> Headers:
    return [(name, value) for name, value in request.headers.raw if name in _KEPT or name.startswith(_KEPT_PREFIXES)]


async def _body(request: Request) -> AsyncIterator[bytes]:
    async for chunk in request.stream():
        yield chunk


async def _pieces(answer: httpcore.Response, pool: httpcore.AsyncConnectionPool) -> AsyncIterator[bytes]:
    try:
        async for piece in answer.aiter_stream():
            yield piece
    except (httpcore.NetworkError, httpcore.ProtocolError):
        return  # the part died: its stream ends
    finally:
        await _close(pool)


async def _close(pool: httpcore.AsyncConnectionPool) -> None:
    with anyio.CancelScope(shield=True):
        await pool.aclose()
