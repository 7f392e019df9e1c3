"""A real MCP server (streamable HTTP, with initialize) on the same path as OpenEnv's JSON-RPC: `/mcp`.

Requests that accept an event stream, as every MCP client's do, come here; all others go to the stock route.
An MCP session plays its own episode, chosen by `?scenario=&level=&seed=` (seed 0 without them), or the episode that
`?episode_id=` or the header `X-Session-ID` names. The first answer carries the briefing. Rewards are not shown.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from sregym.incidentops.errors import IncidentOpsError
from sregym.incidentops.models import IncidentObservation, ToolCallAction
from sregym.incidentops.server.environment import ABOUT, VERSION, IncidentEnvironment
from sregym.incidentops.server.http import HEADER
from sregym.incidentops.server.sessions import Sessions
from sregym.incidentops.server.tools import TOOLS

INSTRUCTIONS = (
    f"{ABOUT} The first answer holds the incident: its id, its page and the goal. Work with the tools; close it with "
    "resolve_incident after run_healthcheck shows health."
)


def descriptions() -> list[types.Tool]:
    """The tools as MCP has them."""
    return [
        types.Tool(
            name=tool.name,
            description=tool.description,
            inputSchema=tool.schema(),
            annotations=types.ToolAnnotations(readOnlyHint=not tool.changes and tool.name != "resolve_incident"),
        )
        for tool in TOOLS.values()
    ]


def answer(observation: IncidentObservation, incident: dict[str, Any] | None) -> types.CallToolResult:
    """An observation as a tool's result."""
    seen: dict[str, Any] = {"incident": incident} if incident is not None else {}
    seen |= {"result": observation.result} if observation.ok else {"error": observation.error}
    seen |= {"clock": observation.clock, "steps_left": observation.steps_left, "done": observation.done}
    text = json.dumps(seen, ensure_ascii=False)
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=content, structuredContent=seen, isError=not observation.ok)


class McpEndpoint:
    """The MCP server and its session manager."""

    def __init__(self, sessions: Sessions, *, idle_s: float) -> None:
        self._sessions = sessions
        self._server: Server[Any, Any] = Server("incidentops", version=VERSION, instructions=INSTRUCTIONS)
        self._server.list_tools()(self._list_tools)  # type: ignore[no-untyped-call]
        # The episode checks arguments itself and says what would be right.
        self._server.call_tool(validate_input=False)(self._call_tool)
        self._manager = StreamableHTTPSessionManager(
            app=self._server, json_response=True, session_idle_timeout=max(idle_s, 1.0)
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the session manager's tasks alive."""
        async with self._manager.run():
            yield

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request of an MCP client."""
        await self._manager.handle_request(scope, receive, send)

    async def _list_tools(self) -> list[types.Tool]:
        return descriptions()

    async def _call_tool(self, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        request = self._server.request_context.request
        assert isinstance(request, Request)  # the transport is HTTP
        try:
            environment, incident = self._environment(request)
            observation = environment.step(ToolCallAction(tool_name=name[:64], arguments=arguments or {}))
        except (IncidentOpsError, IndexError) as error:
            text = types.TextContent(type="text", text=str(error))
            return types.CallToolResult(content=[text], isError=True)
        return answer(observation, incident)

    def _environment(self, request: Request) -> tuple[IncidentEnvironment, dict[str, Any] | None]:
        """The environment of this MCP session, and the briefing when it was begun just now."""
        named = request.headers.get(HEADER) or request.query_params.get("episode_id")
        if named:
            environment = self._sessions.find(named)
            return environment, environment.briefing if environment.state.step_count == 0 else None
        session = request.headers.get("mcp-session-id", "")
        _, environment = self._sessions.open(f"mcp-{session}")
        if environment.briefing is not None:
            return environment, None
        query = request.query_params
        seed = query.get("seed", "0")
        environment.reset(
            seed=int(seed) if seed.isascii() and seed.isdigit() and len(seed) < 19 else 0,
            scenario=query.get("scenario"),
            level=query.get("level"),
        )
        return environment, environment.briefing


class McpSwitch:
    """ASGI middleware: MCP clients to the MCP server, everybody else to the application."""

    def __init__(self, app: ASGIApp, endpoint: McpEndpoint) -> None:
        self._app, self._endpoint = app, endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Dispatch on path and accepted types."""
        if scope["type"] == "http" and scope["path"].rstrip("/") == "/mcp" and _is_mcp(scope):
            await self._endpoint.handle(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _is_mcp(scope: Scope) -> bool:
    headers = {key: value for key, value in scope["headers"]}
    return scope["method"] in ("GET", "DELETE") or b"text/event-stream" in headers.get(b"accept", b"")


class DirectClient:
    """What OpenEnv's own `/mcp` route wants of an environment (`mcp_client`): tools without a transport."""

    def __init__(self, environment: IncidentEnvironment) -> None:
        self._environment = environment

    async def __aenter__(self) -> DirectClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    def is_connected(self) -> bool:
        """Always: there is nothing to connect."""
        return True

    async def list_tools(self) -> list[types.Tool]:
        """The tools."""
        return descriptions()

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        """One step of the session's episode, which is begun (seed 0) when there is none."""
        first = self._environment.briefing is None
        if first:
            self._environment.reset()
        observation = self._environment.step(ToolCallAction(tool_name=name[:64], arguments=arguments or {}))
        return answer(observation, self._environment.briefing if first else None)
