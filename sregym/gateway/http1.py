"""The kube proxy's own edge: HTTP/1.1 on byte streams, with bodies that stream both ways and raw tunnels after 101.

Framing is h11's. ASGI servers cannot be used here because they hide the connection, which SPDY and WebSocket upgrades
need. A client that hangs up cancels what is done for it, so that an idle watch ends with its watcher.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

import anyio
import anyio.abc
import h11

from sregym.cluster.tasks import single_error

MAX_HEAD = 64 * 1024
"""Bytes of request line and headers together; the API server's own limit is of this order."""
MAX_AHEAD = 256 * 1024
"""Bytes that a client may send ahead of our answer before we stop reading."""
CHUNK = 64 * 1024

Headers = Sequence[tuple[bytes, bytes]]


class Tunnel(Protocol):
    """The far end of a tunnel (httpcore's network stream)."""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes: ...

    async def write(self, buffer: bytes, timeout: float | None = None) -> None: ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Head:
    """The head of a request, undecoded; header names in lower case."""

    method: bytes
    target: bytes
    headers: Headers

    def get(self, name: bytes) -> bytes | None:
        """All values of a header joined by commas, or None."""
        values = [value for key, value in self.headers if key == name]
        return b", ".join(values) if values else None

    @property
    def wants_upgrade(self) -> bool:
        tokens = (self.get(b"connection") or b"").lower().split(b",")
        return b"upgrade" in (t.strip() for t in tokens) and self.get(b"upgrade") is not None

    @property
    def has_body(self) -> bool:
        return self.get(b"transfer-encoding") is not None or (self.get(b"content-length") or b"0") != b"0"


Handler = Callable[["Exchange"], Awaitable[None]]


class Exchange:
    """One request and its answer on a client's connection."""

    def __init__(self, head: Head, stream: anyio.abc.ByteStream, connection: h11.Connection) -> None:
        self.head = head
        self._stream = stream
        self._h11 = connection
        self._body_read = anyio.Event()
        self.answered = False
        self.tunnelled = False

    async def body(self) -> AsyncIterator[bytes]:
        """The request's body, as it comes. Raises h11.RemoteProtocolError where the client breaks off or errs."""
        if self._body_read.is_set():
            return
        if self._h11.they_are_waiting_for_100_continue:
            await self._send(h11.InformationalResponse(status_code=100, headers=[]))
        while True:
            event = await _next(self._h11, self._stream)
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            else:
                self._body_read.set()
                return

    async def end_request(self) -> None:
        """Take the end of a request without a body, which is there already."""
        await _next(self._h11, self._stream)
        self._body_read.set()

    @asynccontextmanager
    async def cancelled_by_hangup(self) -> AsyncIterator[None]:
        """What runs inside is cancelled when the client goes away (noticed once its request has been read)."""
        with single_error():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, tasks.cancel_scope)
                yield
                tasks.cancel_scope.cancel()

    async def respond(self, status: int, headers: Headers, body: AsyncIterable[bytes]) -> None:
        """Send an answer; every piece of the body goes out at once. To HEAD only the head is sent."""
        self.answered = True
        reason = HTTPStatus(status).phrase if status in _KNOWN else ""
        await self._send(h11.Response(status_code=status, headers=list(headers), reason=reason.encode()))
        async for piece in body:
            if self.head.method != b"HEAD":
                await self._send(h11.Data(data=piece))
        await self._send(h11.EndOfMessage())

    async def respond_whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Send an answer that is there already."""
        await self.respond(status, [*headers, (b"content-length", str(len(body)).encode())], _once(body))

    async def tunnel(self, headers: Headers, far: Tunnel) -> None:
        """Answer 101 and carry bytes both ways until one side ends."""
        self.answered = self.tunnelled = True
        await self._send(
            h11.InformationalResponse(status_code=101, headers=list(headers), reason=b"Switching Protocols")
        )
        ahead, _ = self._h11.trailing_data
        if ahead:
            await far.write(ahead)
        with single_error():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._upwards, far, tasks.cancel_scope)
                while data := await far.read(CHUNK):
                    await self._stream.send(data)
                tasks.cancel_scope.cancel()

    async def _upwards(self, far: Tunnel, scope: anyio.CancelScope) -> None:
        async for data in self._stream:
            await far.write(data)
        scope.cancel()

    async def _watch(self, scope: anyio.CancelScope) -> None:
        await self._body_read.wait()
        ahead = 0
        while ahead < MAX_AHEAD:
            try:
                data = await self._stream.receive(CHUNK)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                scope.cancel()
                return
            ahead += len(data)
            self._h11.receive_data(data)

    async def _send(self, event: Any) -> None:
        data = self._h11.send(event)
        if data:
            await self._stream.send(data)


async def serve_connection(stream: anyio.abc.ByteStream, handle: Handler) -> None:
    """Serve one client's connection until it ends. The handler must answer every exchange."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
    async with stream:
        try:
            while await _serve_one(stream, connection, handle):
                connection.start_next_cycle()
        except h11.RemoteProtocolError as error:
            await _refuse(stream, connection, error)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # the client is gone


async def _serve_one(stream: anyio.abc.ByteStream, connection: h11.Connection, handle: Handler) -> bool:
    """Serve the next request. Returns whether another may follow on this connection."""
    event = await _next(connection, stream)
    if not isinstance(event, h11.Request):
        return False
    _check(event)
    exchange = Exchange(Head(method=event.method, target=event.target, headers=list(event.headers)), stream, connection)
    if not exchange.head.has_body:
        await exchange.end_request()
    await handle(exchange)
    if exchange.tunnelled or not exchange.answered:
        return False
    # An answer before the end of the request leaves SEND_BODY: no use reading the rest.
    return connection.our_state is h11.DONE and connection.their_state is h11.DONE


def _check(request: h11.Request) -> None:
    """Refuse what h11 lets pass: another HTTP, a long head (its limit is for heads that come in pieces), and bodies
    whose end two readers could see in different places (RFC 9112, 6.1). Raises h11.RemoteProtocolError."""
    if not request.http_version.startswith(b"1."):
        raise h11.RemoteProtocolError("not HTTP/1.1", error_status_hint=505)
    if len(request.target) + sum(len(name) + len(value) + 4 for name, value in request.headers) > MAX_HEAD:
        raise h11.RemoteProtocolError("the head is too long", error_status_hint=431)
    names = [name for name, _ in request.headers]
    if b"transfer-encoding" in names and (b"content-length" in names or request.http_version == b"1.0"):
        raise h11.RemoteProtocolError("Transfer-Encoding with Content-Length, or before HTTP/1.1")


async def _refuse(stream: anyio.abc.ByteStream, connection: h11.Connection, error: h11.RemoteProtocolError) -> None:
    if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        return
    text = f"{error}\n".encode()
    headers = [
        (b"content-type", b"text/plain"),
        (b"content-length", str(len(text)).encode()),
        (b"connection", b"close"),
    ]
    hint = error.error_status_hint
    answer = connection.send(h11.Response(status_code=hint, headers=headers)) or b""
    await stream.send(answer + (connection.send(h11.Data(data=text)) or b""))


async def _next(connection: h11.Connection, stream: anyio.abc.ByteStream) -> Any:
    while True:
        event = connection.next_event()
        if event is not h11.NEED_DATA:
            return event
        try:
            data = await stream.receive(CHUNK)
        except anyio.EndOfStream:
            data = b""
        connection.receive_data(data)


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


_KNOWN = frozenset(int(status) for status in HTTPStatus)
