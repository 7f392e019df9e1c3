"""An HTTP proxy that reaches what the agent may: CONNECT, and plain HTTP with absolute URLs.

It has no token of its own: its socket lies in the attempt's private folder, which the gateway container alone mounts.
What is asked for is written to `gateway.jsonl`; what is said inside a tunnel is nobody's to read.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from socket import socket
from urllib.parse import urlsplit

import anyio
import anyio.abc
import h11
import httpcore
from anyio.abc import SocketListener

from sregym.cluster.tasks import single_error
from sregym.events import Emit
from sregym.gateway.internet.access import (
    Address,
    InternetAccess,
    NotAllowed,
    address_of,
    judge_addresses,
    judge_target,
)
from sregym.gateway.upstream import Upstream

MAX_HEAD = 64 * 1024
CHUNK = 64 * 1024
HEAD_WITHIN_S = 30.0
CONNECT_WITHIN_S = 10.0
MOST_TUNNELS = 64
CLUSTER_KNOWN_S = 30.0
"""How long the addresses of the cluster's nodes are remembered."""
_HOP_BY_HOP = frozenset({b"proxy-connection", b"proxy-authorization", b"connection", b"keep-alive", b"te", b"upgrade"})

_CLUSTER_AWAY = (
    *(OSError, ValueError, TimeoutError),
    *(httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException),
)


class Unreachable(Exception):
    """A target that may be reached and cannot."""


@dataclass(frozen=True, kw_only=True)
class _Asked:
    host: str
    port: int
    first: bytes
    """What goes to the target before all else."""
    tunnel: bool


class InternetProxy:
    """Serves the agent's connections. `upstream`: the cluster, whose own addresses are never reached."""

    def __init__(self, access: InternetAccess, *, upstream: Upstream, emit: Emit) -> None:
        self._access = access
        self._upstream = upstream
        self._emit = emit
        self._free = anyio.Semaphore(MOST_TUNNELS)
        self._asking = anyio.Lock()
        self._cluster: list[Address] = []
        self._known_until = 0.0

    async def serve(self, client: anyio.abc.ByteStream) -> None:
        """One connection, which is one tunnel."""
        async with client, self._free:
            try:
                with anyio.fail_after(HEAD_WITHIN_S):
                    asked = await _read(client)
                far = await self._connect(asked)
            except h11.RemoteProtocolError as error:
                await _refuse(client, 400, str(error))
            except NotAllowed as error:
                await _refuse(client, 403, str(error))
            except (Unreachable, TimeoutError) as error:
                await _refuse(client, 502, str(error) or "no answer in time")
            except (anyio.BrokenResourceError, anyio.EndOfStream):
                return
            else:
                async with far:
                    await _carry(client, far, asked)

    async def _connect(self, asked: _Asked) -> anyio.abc.SocketStream:
        where = f"{asked.host}:{asked.port}"
        try:
            addresses = await self._addresses(asked)
            far = await _dial(addresses, asked.port)
        except (NotAllowed, Unreachable) as error:
            self._emit("internet.refused", target=where[:300], reason=str(error))
            raise
        self._emit("internet.reached", target=where)
        return far

    async def _addresses(self, asked: _Asked) -> Sequence[str]:
        written_down = judge_target(self._access, asked.host, asked.port)
        try:
            with anyio.fail_after(CONNECT_WITHIN_S):
                found = await anyio.getaddrinfo(asked.host.strip("[]"), asked.port, type=1)
        except (OSError, UnicodeError) as error:
            raise Unreachable(f"{asked.host} has no address") from error
        texts = [str(entry[4][0]) for entry in found]
        return texts if written_down else judge_addresses(texts, denied=await self._of_the_cluster())

    async def _of_the_cluster(self) -> list[Address]:
        """Addresses of the API server and the nodes. Unknown is not safe: without them nothing is reached."""
        async with self._asking:
            if anyio.current_time() >= self._known_until:
                try:
                    with anyio.fail_after(CONNECT_WITHIN_S):
                        self._cluster = await _addresses_of(self._upstream)
                except _CLUSTER_AWAY as error:
                    raise Unreachable("it cannot be told apart from the cluster now") from error
                self._known_until = anyio.current_time() + CLUSTER_KNOWN_S
            return self._cluster


async def _addresses_of(cluster: Upstream) -> list[Address]:
    answer = await cluster.send(b"GET", "/api/v1/nodes", [(b"accept", b"application/json")])
    async with aclosing(answer):
        body = await answer.aread()
    if answer.status != HTTPStatus.OK:
        raise ValueError(f"the nodes cannot be listed: status {answer.status}")
    texts = [str(entry[4][0]) for entry in await anyio.getaddrinfo(cluster.host, None)]
    for node in json.loads(body)["items"]:
        texts += [one["address"] for one in node["status"].get("addresses", [])]
    return [one for one in map(address_of, texts) if one is not None]


@asynccontextmanager
async def serving_internet(
    access: InternetAccess, sockets: Sequence[socket], *, upstream: Upstream, emit: Emit
) -> AsyncIterator[None]:
    """Serve the proxy on listening sockets while the context is open."""
    proxy = InternetProxy(access, upstream=upstream, emit=emit)
    listeners = [await SocketListener.from_socket(one) for one in sockets]
    with single_error():
        async with anyio.create_task_group() as tasks:
            for listener in listeners:
                tasks.start_soon(listener.serve, proxy.serve)
            yield
            tasks.cancel_scope.cancel()
    for listener in listeners:
        await listener.aclose()


async def _read(client: anyio.abc.ByteStream) -> _Asked:
    """The head of a request. Raises h11.RemoteProtocolError, NotAllowed."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await client.receive(CHUNK))
    if not isinstance(event, h11.Request):
        raise anyio.EndOfStream
    target = event.target.decode("ascii", "replace")
    ahead, _ = connection.trailing_data
    if event.method == b"CONNECT":
        host, port = _authority(target)
        return _Asked(host=host, port=port, first=ahead, tunnel=True)
    try:
        url = urlsplit(target)
        host, port = url.hostname or "", url.port or 80
    except ValueError:
        raise NotAllowed("the target is no URL") from None
    if url.scheme != "http" or not host:
        raise NotAllowed("ask with CONNECT, or for http://HOST/...")
    return _Asked(host=host, port=port, first=_direct(event, url.path, url.query, url.netloc) + ahead, tunnel=False)


def _authority(target: str) -> tuple[str, int]:
    host, _, port = target.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
        raise NotAllowed("CONNECT needs HOST:PORT")
    return host, int(port)


def _direct(request: h11.Request, path: str, query: str, netloc: str) -> bytes:
    """The same request as its target expects it; one a connection."""
    target = (path or "/") + (f"?{query}" if query else "")
    kept = [(name, value) for name, value in request.headers if name not in _HOP_BY_HOP | {b"host"}]
    host = netloc.rpartition("@")[2].encode()
    lines = [request.method + b" " + target.encode() + b" HTTP/1.1", b"Host: " + host, b"Connection: close"]
    return b"\r\n".join([*lines, *(name + b": " + value for name, value in kept), b"", b""])


async def _dial(addresses: Sequence[str], port: int) -> anyio.abc.SocketStream:
    for address in addresses:
        try:
            with anyio.fail_after(CONNECT_WITHIN_S):
                return await anyio.connect_tcp(address, port)
        except (OSError, TimeoutError):
            continue
    raise Unreachable("it does not answer")


async def _carry(client: anyio.abc.ByteStream, far: anyio.abc.ByteStream, asked: _Asked) -> None:
    """Carry bytes both ways until both sides have ended, or one has broken off."""
    try:
        if asked.tunnel:
            await client.send(b"HTTP/1.1 200 Connected\r\n\r\n")
        if asked.first:
            await far.send(asked.first)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_pour, far, client, tasks.cancel_scope)
            tasks.start_soon(_pour, client, far, tasks.cancel_scope)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return


async def _pour(source: anyio.abc.ByteStream, sink: anyio.abc.ByteStream, scope: anyio.CancelScope) -> None:
    try:
        async for data in source:
            await sink.send(data)
        await sink.send_eof()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        scope.cancel()


async def _refuse(client: anyio.abc.ByteStream, status: int, why: str) -> None:
    text = f"{why}\n".encode()
    head = f"HTTP/1.1 {status} Refused\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\nConnection: close"
    await client.send(head.encode() + b"\r\n\r\n" + text)
