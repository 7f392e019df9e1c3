"""One connection to an API server: JSON calls, line streams, WebSockets; kubeconfig in, our own errors out.

The client library (`kubernetes.aio`) gives the kubeconfig (certificates, tokens, exec plugins), TLS and the
connection pool; its generated models are left aside, because objects are plain JSON here. Failed reads are tried
again for a moment; a write only where the server surely has not seen it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

import aiohttp
import anyio
import stamina
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import ApiClient, Configuration

from sregym.errors import (
    ClusterError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    PrerequisiteError,
    Unavailable,
)

Query = Mapping[str, str] | Sequence[tuple[str, str]]

CALL_WITHIN_S = 30.0
"""How long one call may take; lists of big clusters come in pages, so none needs more."""
READ_ATTEMPTS = 5
"""Tries of a read within some two seconds: enough for a leader election or a closed idle connection."""
PROXY_SLACK_S = 5.0
"""What the API server's proxy may take beyond the request that it forwards."""
CLOSE_WITHIN_S = 1.0
"""How long the other side of a WebSocket may take to say goodbye."""
_BY_STATUS: dict[int, type[ClusterError]] = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    405: Invalid,
    409: Conflict,
    410: Gone,
    415: Invalid,
    422: Invalid,
    429: Unavailable,
}


class _NotSeen(Unavailable):
    """No connection, or "come back later": the server has done nothing, so that a write may be repeated."""


class Transport:
    """Calls one API server. Open it with `async with Transport.open(...)`."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    @classmethod
    @asynccontextmanager
    async def open(cls, kubeconfig: Path, context: str | None = None) -> AsyncIterator[Self]:
        """Connects with a context of a kubeconfig (its current one where None is named).

        Raises:
            PrerequisiteError: The file or the context is missing or makes no sense.
        """
        configuration = await _configured(kubeconfig, context)
        api = ApiClient(configuration)
        try:
            yield cls(api)
        finally:
            await api.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        within: float = CALL_WITHIN_S,
    ) -> Any:
        """One call, JSON in and JSON out. Raises a ClusterError by the status."""
        data = await self.call_raw(
            method, path, query=query, body=body, headers=headers, content_type=content_type, within=within
        )
        return json.loads(data) if data else None

    async def call_raw(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        within: float = CALL_WITHIN_S,
    ) -> bytes:
        """As `call`, but the answer's body as it came."""
        repeatable = Unavailable if method == "GET" else _NotSeen
        sent = {"Content-Type": content_type, **(headers or {})}
        async for attempt in stamina.retry_context(
            on=repeatable, attempts=READ_ATTEMPTS, wait_initial=0.1, wait_max=1.0, wait_jitter=0.1, timeout=None
        ):
            with attempt:
                return await self._once(method, path, query, body, sent, within)
        raise AssertionError("retry_context always returns or raises")

    async def proxied(
        self, method: str, path: str, *, body: str | None, headers: Mapping[str, str], within: float
    ) -> tuple[int, str]:
        """A call through one of the API server's proxies: the status and body of whoever answered."""
        timeout = aiohttp.ClientTimeout(total=within + PROXY_SLACK_S, sock_connect=10)
        sent = {"Content-Type": "text/plain" if body else "application/json", **headers}
        with _mapped(f"{method} {path}"):
            response = await self._send(method, path, (), body, sent, timeout)
            data: bytes = await response.read()
        return response.status, data.decode(errors="replace")

    async def _once(
        self, method: str, path: str, query: Query, body: Any, headers: Mapping[str, str], within: float
    ) -> bytes:
        timeout = aiohttp.ClientTimeout(total=within, sock_connect=10)
        with _mapped(f"{method} {path}"):
            response = await self._send(method, path, query, body, headers, timeout)
            data: bytes = await response.read()
        if response.status >= 400:
            raise error_of(response.status, data, f"{method} {path}")
        return data

    async def _send(
        self,
        method: str,
        path: str,
        query: Query,
        body: Any,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
    ) -> Any:
        verb, url, full_headers, *_ = await self._api.param_serialize(
            method, _with_query(path, query), header_params=dict(headers), auth_settings=["BearerToken"]
        )
        return await self._api.call_api(verb, url, header_params=full_headers, body=body, _request_timeout=timeout)

    @asynccontextmanager
    async def lines(self, path: str, *, query: Query = (), idle_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """A streamed answer line by line. Silence of `idle_s` seconds raises Unavailable."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=idle_s)
        with _mapped(f"GET {path}"):
            response = (await self._send("GET", path, query, None, {}, timeout)).response
        try:
            if response.status >= 400:
                raise error_of(response.status, await response.read(), f"GET {path}")
            yield _lines_of(response, path)
        finally:
            transport = response.connection.transport if response.connection is not None else None
            response.close()
            _hang_up(transport)

    @asynccontextmanager
    async def websocket(
        self, path: str, *, query: Query = (), protocols: Sequence[str]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A WebSocket to a streaming subresource. Raises a ClusterError by the handshake's status."""
        _, url, headers, *_ = await self._api.param_serialize(
            "GET", _with_query(path, query), auth_settings=["BearerToken"]
        )
        rest = self._api.rest_client
        if rest.pool_manager is None:
            rest.pool_manager = rest._create_pool_manager()
        session: aiohttp.ClientSession = rest.pool_manager
        try:
            with _mapped(f"WebSocket {path}"):
                socket = await session.ws_connect(
                    "ws" + url.removeprefix("http"), headers=headers, protocols=protocols, max_msg_size=0, heartbeat=15
                )
        except aiohttp.WSServerHandshakeError as error:
            raise error_of(error.status, b"", f"WebSocket {path}") from error
        try:
            yield socket
        finally:
            await _close(socket)


def error_of(status: int, body: bytes, what: str) -> ClusterError:
    """The error for an answer's status; its text is the API server's own message."""
    try:
        message = json.loads(body).get("message", "")
    except (ValueError, AttributeError):
        message = body[:300].decode(errors="replace")
    if status == 429:
        return _NotSeen(f"{what}: {status} {message}", status=status)
    kind = _BY_STATUS.get(status, Unavailable if status >= 500 else ClusterError)
    return kind(f"{what}: {status} {message}".rstrip(), status=status)


class _mapped:
    """Turns errors of the connection into Unavailable."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, aiohttp.WSServerHandshakeError):
            return
        if isinstance(error, aiohttp.ClientConnectorError):
            raise _NotSeen(f"{self._what}: no connection: {error}") from error
        if isinstance(error, TimeoutError):
            raise Unavailable(f"{self._what}: no answer in time") from error
        if isinstance(error, aiohttp.ClientError | OSError):
            raise Unavailable(f"{self._what}: {type(error).__name__}: {error}") from error


async def _close(socket: aiohttp.ClientWebSocketResponse) -> None:
    """Says goodbye, also where we were cancelled, but waits only a moment for the answer."""
    connection = socket._conn
    transport = connection.transport if connection is not None else None
    with anyio.move_on_after(CLOSE_WITHIN_S, shield=True):
        await socket.close()
    _hang_up(transport)


def _hang_up(transport: asyncio.Transport | None) -> None:
    """Ends a connection now: aiohttp would only begin an orderly end of TLS, which outlives our event loop."""
    if transport is not None:
        transport.abort()


async def _lines_of(response: aiohttp.ClientResponse, path: str) -> AsyncIterator[bytes]:
    while True:
        with _mapped(f"GET {path}"):
            line = await response.content.readline()
        if not line:
            return
        yield line


def _with_query(path: str, query: Query) -> str:
    pairs = list(query.items()) if isinstance(query, Mapping) else list(query)
    return f"{path}?{urlencode(pairs)}" if pairs else path


async def _configured(kubeconfig: Path, context: str | None) -> Any:
    """The library's configuration for a kubeconfig, with exec plugins asked again when their token has expired."""
    configuration = Configuration(connection_pool_maxsize=0)
    try:
        loader = await kube_config.load_kube_config(
            config_file=str(kubeconfig), context=context, client_configuration=configuration, persist_config=False
        )
    except (kube_config.ConfigException, OSError) as error:
        named = f", context {context}" if context else ""
        raise PrerequisiteError(
            f"the kubeconfig {kubeconfig}{named} cannot be used: {error}",
            cure="give an existing file with --kubeconfig and one of its contexts with --context",
        ) from error
    if hasattr(loader, "exec_plugin_expiry"):

        async def refresh(client_configuration: Any) -> None:
            await loader.load_from_exec_plugin()  # returns at once while the token is good
            client_configuration.api_key["BearerToken"] = loader.token

        configuration.refresh_api_key_hook = refresh
    return configuration
