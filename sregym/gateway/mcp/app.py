"""The door to the MCP servers: `/MOUNT/sse` speaks SSE, `/MOUNT/mcp` and `/MOUNT` speak streamable HTTP.

The library behind it takes a second or two to import. That is done beside everything else, in a thread: at once where
an agent is likely to need it, with the first request otherwise. The socket listens from the beginning.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.abc
import anyio.to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sregym.cluster.tasks import single_error
from sregym.events import Emit
from sregym.gateway.mcp.sessions import Sessions
from sregym.gateway.telemetry.access import TelemetryAccess
from sregym.gateway.upstream import Upstream

LOADED_WITHIN_S = 180.0
MAX_BODY = 1024 * 1024
MOUNTS = ("kubectl", "prometheus", "jaeger", "loki", "node", "submit", "submit_mcp")
_PATH = re.compile(r"/([a-z_]{1,20})(/sse|/messages|/mcp)?/?")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the tools find what they work with."""

    folder: Path
    """For undo stacks and what is left of answers; it outlives the gateway process."""
    kubectl: Sequence[str | Path]
    """How kubectl is called here."""
    kubeconfig: Path
    """Of the agent's user."""
    api: Path
    """The socket of the submission API."""
    token: str
    telemetry: TelemetryAccess


@dataclass
class McpDoor:
    """An ASGI application, good from the beginning: requests wait until the servers are loaded."""

    place: Place
    upstream: Upstream
    emit: Emit
    _wanted: anyio.Event = field(default_factory=anyio.Event)
    _loaded: anyio.Event = field(default_factory=anyio.Event)
    _applications: Mapping[tuple[str, str], ASGIApp] = field(default_factory=dict)

    def want(self) -> None:
        """Load the servers now."""
        self._wanted.set()

    async def serve(self) -> None:
        """Load when wanted, and keep the servers alive until cancelled."""
        await self._wanted.wait()
        module = await anyio.to_thread.run_sync(importlib.import_module, "sregym.gateway.mcp.servers")
        async with AsyncExitStack() as stack:
            found: dict[tuple[str, str], ASGIApp] = {}
            for mount, server in module.servers(self.place, self.upstream, self.emit).items():
                stream = server.http_app(path="/mcp", transport="http", stateless_http=True, json_response=True)
                events = server.http_app(path="/sse", transport="sse")
                for kind, app in (("http", stream), ("sse", events)):
                    await stack.enter_async_context(app.lifespan(app))
                    found[(mount, kind)] = app
            self._applications = found
            self._loaded.set()
            await anyio.sleep_forever()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        root = scope.get("root_path", "")
        path = scope["path"].removeprefix(root)
        match = _PATH.fullmatch(path)
        if match is None or match[1] not in MOUNTS:
            served = ", ".join(f"/{mount}/sse, /{mount}/mcp" for mount in MOUNTS)
            await _refuse(404, f"there is no {path[:100]} here. Served: {served}", scope, receive, send)
            return
        mount, kind = match[1], match[2] or "/mcp"
        methods = {"/sse": ("GET",), "/messages": ("POST",), "/mcp": ("POST", "DELETE")}[kind]
        if scope["method"] not in methods:
            response = JSONResponse({"error": f"{kind} takes {' and '.join(methods)}"}, status_code=405)
            response.headers["allow"] = ", ".join(methods)
            await response(scope, receive, send)
            return
        if scope["method"] == "POST":
            try:
                receive = _replay(await _message(Request(scope, receive)))
            except _BadMessage as bad:
                await _refuse(bad.status, str(bad), scope, receive, send)
                return
        self.want()
        with anyio.move_on_after(LOADED_WITHIN_S) as waiting:
            await self._loaded.wait()
        if waiting.cancelled_caught:
            await _refuse(503, "the tools are still being loaded; try again", scope, receive, send)
            return
        base = f"{root}/{mount}"
        inner = {**scope, "root_path": base, "path": f"{base}{kind}{'/' if kind == '/messages' else ''}"}
        await self._applications[(mount, "http" if kind == "/mcp" else "sse")](inner, receive, send)


class _BadMessage(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def _message(request: Request) -> bytes:
    """The body, if it is JSON of a bearable size: what is none would be the library's own error. Raises _BadMessage."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                raise _BadMessage(413, f"the message is larger than {MAX_BODY} bytes")
        json.loads(body.decode("utf-8"))
    except ClientDisconnect:
        raise _BadMessage(400, "the message ended early") from None
    except (ValueError, RecursionError):
        raise _BadMessage(400, "the message is not JSON (see JSON-RPC 2.0 and the Model Context Protocol)") from None
    return bytes(body)


def _replay(body: bytes) -> Receive:
    """A body that was read, once more; behind it comes nothing until the client hangs up, which its answer shows."""
    told = False

    async def receive() -> Message:
        nonlocal told
        if told:
            await anyio.sleep_forever()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _refuse(status: int, message: str, scope: Scope, receive: Receive, send: Send) -> None:
    await JSONResponse({"error": message}, status_code=status)(scope, receive, send)


@asynccontextmanager
async def mcp_door(place: Place, upstream: Upstream, *, at_once: bool, emit: Emit) -> AsyncIterator[ASGIApp]:
    """The door, without the check of the token.

    Args:
        at_once: Load the servers without waiting for a request.
    """
    door = McpDoor(place, upstream, emit)
    if at_once:
        door.want()
    with single_error():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(door.serve)
            yield Sessions(door)
            tasks.cancel_scope.cancel()
