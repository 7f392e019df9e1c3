"""ASGI applications behind the attempt's token, on sockets that we opened ourselves."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import uvicorn
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from sregym.cluster import waits
from sregym.errors import PrerequisiteError
from sregym.gateway.identity import TokenGate

START_WITHIN_S = 10.0
LONGEST_SOCKET_PATH = 107
"""Bytes (unix(7): sun_path has 108 with its final zero)."""


class Guarded:
    """An ASGI application that only requests with the attempt's token reach."""

    def __init__(self, app: ASGIApp, gate: TokenGate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        authorization = headers.get(b"authorization", b"").decode("latin-1")
        admitted = self._gate.admit(scope["path"], authorization)
        if admitted is None:
            refusal = JSONResponse({"status": "401", "message": "No valid token."}, status_code=401)
            await refusal(scope, receive, send)
            return
        # The token stays in front of the target as `root_path`, so that links (MCP over SSE has one) are whole.
        root = scope["path"].removesuffix(admitted.target)
        path = root + admitted.target
        await self._app({**scope, "path": path, "raw_path": path.encode(), "root_path": root}, receive, send)


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the coordinator's own stay."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def served(app: ASGIApp, sockets: Sequence[socket.socket]) -> AsyncIterator[None]:
    """Serve an ASGI application on listening sockets while the context is open; open requests are cut at its end."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        ws="none",  # an upgrade is answered by the application, as any request
        lifespan="off",
        timeout_graceful_shutdown=1,
        server_header=False,
    )
    server = _Server(config)

    async def started() -> bool | None:
        return server.started or None

    async def serve() -> None:
        with anyio.CancelScope(shield=True):  # ends by `should_exit`, so that its sockets are closed in any case
            await server.serve(sockets=list(sockets))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        try:
            await waits.poll(started, what="web server on its sockets", every=0.01, within=START_WITHIN_S)
            yield
        finally:
            server.should_exit = True
            server.force_exit = True


def unix_socket(path: Path) -> socket.socket:
    """A listening UNIX socket that any local user may connect to; the token is what protects it."""
    if len(str(path).encode()) > LONGEST_SOCKET_PATH:
        raise PrerequisiteError(
            f"the path of a socket is too long: {path}", cure="set SREGYM_STATE_DIR to a shorter folder"
        )
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o666)
    listener.listen(1024)
    listener.setblocking(False)
    return listener


def tcp_socket(host: str, port: int) -> socket.socket:
    """A listening TCP socket. Port 0 = any free one. Raises PrerequisiteError where the port is taken."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise PrerequisiteError(
            f"cannot listen on {host}:{port}: {error.strerror}",
            cure="stop what uses it, or choose another (API_PORT, MCP_SERVER_PORT, KUBE_PROXY_PORT; 0 = any free one)",
        ) from error
    listener.listen(1024)
    listener.setblocking(False)
    return listener


def check_ports(host: str, *ports: int) -> None:
    """Raises PrerequisiteError where one of them is taken."""
    for port in ports:
        tcp_socket(host, port).close()
