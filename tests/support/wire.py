"""A client that sends bytes as they are, and reads what comes back."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import anyio
import anyio.abc
import h11

WITHIN_S = 60.0
MORE_WITHIN_S = 0.3
"""How long another answer on the same connection is waited for."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The status of the first answer (0: none came), and all bytes."""

    status: int
    raw: bytes


async def send_raw(host: str, port: int, raw: bytes, *, method: str = "GET") -> Reply:
    """Send bytes on a connection of their own; where there can be no whole request among them, also their end.

    Raises TimeoutError where no whole answer comes.
    """
    async with await anyio.connect_tcp(host, port) as stream:
        with contextlib.suppress(anyio.BrokenResourceError):  # refused before all was read
            await stream.send(raw)
            if b"\n\r\n" not in raw and b"\n\n" not in raw and len(raw) < 1000:
                await stream.send_eof()
        with anyio.fail_after(WITHIN_S):
            status, got = await _first(stream, method)
        if status and status != 101:
            got += await _more(stream)
        return Reply(status=status, raw=got)


async def _first(stream: anyio.abc.ByteStream, method: str) -> tuple[int, bytes]:
    """Read one whole answer."""
    parser = h11.Connection(h11.CLIENT)
    parser.send(h11.Request(method="HEAD" if method == "HEAD" else "GET", target="/", headers=[("Host", "x")]))
    parser.send(h11.EndOfMessage())
    status, got = 0, b""
    while True:
        event = parser.next_event()
        if event is h11.NEED_DATA:
            data = await _received(stream)
            got += data
            parser.receive_data(data)
            if not data and not status:
                return 0, got
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.InformationalResponse) and event.status_code == 101:
            return 101, got
        elif isinstance(event, (h11.EndOfMessage, h11.ConnectionClosed)):
            return status, got


async def _more(stream: anyio.abc.ByteStream) -> bytes:
    got = b""
    with anyio.move_on_after(MORE_WITHIN_S):
        while data := await _received(stream):
            got += data
    return got


async def _received(stream: anyio.abc.ByteStream) -> bytes:
    try:
        return await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return b""
