"""A limit on the size of request bodies, enforced while they arrive."""

from __future__ import annotations

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyLimit:
    """ASGI middleware: answers 413 to bodies and closes sockets (1009) on messages over `limit` bytes."""

    def __init__(self, app: ASGIApp, *, limit: int) -> None:
        self._app, self._limit = app, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is small enough."""
        if scope["type"] == "websocket":
            await self._app(scope, self._counted_socket(receive, send), send)
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        elif self._declared(scope) > self._limit:
            await self._refuse(scope, receive, send)
        else:
            await self._http(scope, receive, send)

    def _declared(self, scope: Scope) -> int:
        for key, value in scope["headers"]:
            if key == b"content-length":
                return int(value) if value.isdigit() else self._limit + 1
        return 0

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        text = f"request body is larger than {self._limit} bytes"
        await PlainTextResponse(text, status_code=413)(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Without a declared length the body is read first, up to the limit."""
        if any(key == b"content-length" for key, _ in scope["headers"]) or scope["method"] in ("GET", "HEAD", "DELETE"):
            await self._app(scope, receive, send)
            return
        parts: list[Message] = []
        size = 0
        while True:
            message = await receive()
            parts.append(message)
            size += len(message.get("body", b""))
            if size > self._limit:
                await self._refuse(scope, receive, send)
                return
            if message["type"] != "http.request" or not message.get("more_body", False):
                break

        async def replay() -> Message:
            return parts.pop(0) if parts else await receive()

        await self._app(scope, replay, send)

    def _counted_socket(self, receive: Receive, send: Send) -> Receive:
        async def limited() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive":
                text, data = message.get("text") or "", message.get("bytes") or b""
                if len(text) + len(data) > self._limit:
                    await send({"type": "websocket.close", "code": 1009, "reason": "message too big"})
                    return {"type": "websocket.disconnect", "code": 1009}
            return message

        return limited
