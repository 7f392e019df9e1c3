"""Which session a request belongs to: the name that the agent gives it, or the transport's own.

An agent names its session with the header `sregym_ssid` or `?session_id=`. Without a name, streamable HTTP has the
`Mcp-Session-Id` that we hand out, and SSE the number in the address for messages. Names mean nothing but themselves,
so any of them is good after the gateway process was started anew.
"""

from __future__ import annotations

import re
import uuid
from collections import OrderedDict
from typing import Any
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = b"sregym_ssid"
TRANSPORT = b"mcp-session-id"
MOST_STREAMS = 1000

_KEY = "mcp.session"
_ENDPOINT = re.compile(rb"[?&]session_id=([0-9a-f]{32})")
_NAME = re.compile(r"[\x21-\x7e]{1,128}")


def session_of(scope: Scope) -> str:
    """The session's name."""
    return str(scope.get(_KEY) or "unnamed")


class Sessions:
    """Names the session of each request before it reaches the servers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._streams: OrderedDict[str, str] = OrderedDict()
        """Numbers of SSE streams -> the names that their agents gave them."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        named = _clean(headers.get(HEADER, b"").decode("latin-1"))
        asked = _clean(parse_qs(scope.get("query_string", b"").decode("latin-1")).get("session_id", [""])[0])
        path = scope["path"].rstrip("/")
        if path.endswith("/messages"):
            session = named or self._streams.get(asked, asked)
            await self._app({**scope, _KEY: session}, receive, send)
        elif path.endswith("/sse"):
            await self._app(scope, receive, self._watching(named or asked, send))
        else:
            await self._stateless(
                scope, receive, send, named or asked, _clean(headers.get(TRANSPORT, b"").decode("latin-1"))
            )

    def _watching(self, name: str, send: Send) -> Send:
        """Notes the number of a new stream, which its first event tells."""
        found = not name

        async def watch(message: Message) -> None:
            nonlocal found
            if not found and (match := _ENDPOINT.search(message.get("body", b""))):
                found = True
                self._streams[match[1].decode()] = name
                while len(self._streams) > MOST_STREAMS:
                    self._streams.popitem(last=False)
            await send(message)

        return watch

    async def _stateless(self, scope: Scope, receive: Receive, send: Send, name: str, given: str) -> None:
        """The servers keep nothing between requests, so the number we hand out is all there is to a session."""
        number = given or uuid.uuid4().hex

        async def numbered(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [pair for pair in message.get("headers", []) if pair[0].lower() != TRANSPORT]
                message = {**message, "headers": [*kept, (TRANSPORT, number.encode())]}
            await send(message)

        if scope["method"] == "DELETE":
            await _respond(send, 200)
            return
        await self._app({**scope, _KEY: name or number}, receive, numbered)


def _clean(name: str) -> str:
    return name if _NAME.fullmatch(name) else ""


async def _respond(send: Send, status: int) -> None:
    headers: list[Any] = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
