"""Servers on loopback for tests: any ASGI application, or a handler that owns the connection."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import yaml
from anyio.abc import SocketListener
from starlette.types import ASGIApp

from sregym.cluster.tasks import single_error
from sregym.gateway.http1 import Handler, serve_connection
from sregym.gateway.web import served, tcp_socket

LOOPBACK = "127.0.0.1"


@asynccontextmanager
async def asgi_server(app: ASGIApp) -> AsyncIterator[str]:
    """Yields its base address."""
    listening = tcp_socket(LOOPBACK, 0)
    port = listening.getsockname()[1]
    async with served(app, [listening]):
        yield f"http://{LOOPBACK}:{port}"


@asynccontextmanager
async def raw_server(handler: Handler) -> AsyncIterator[str]:
    """A server whose handler sees heads, bodies and connections as they are. Yields its base address."""
    listening = tcp_socket(LOOPBACK, 0)
    port = listening.getsockname()[1]

    async def serve(stream: anyio.abc.SocketStream) -> None:
        await serve_connection(stream, handler)

    with single_error():
        async with await SocketListener.from_socket(listening) as listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, serve)
            yield f"http://{LOOPBACK}:{port}"
            tasks.cancel_scope.cancel()


def kubeconfig(folder: Path, server: str, **user: object) -> Path:
    """A kubeconfig file for a server."""
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path
