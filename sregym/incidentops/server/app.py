"""The server: OpenEnv's application with episodes that continue over HTTP, a real MCP endpoint and a page to play.

uvicorn server.app:app --host 0.0.0.0 --port 7860      (in the package folder)
python main.py incidentops serve                        (in the repository)
"""

from __future__ import annotations

import gc
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

# Started from the package folder the name `sregym` is not importable yet: the folder above it is its home.
if __name__ in ("server.app", "__main__"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import uvicorn
from anyio import Lock
from fastapi import FastAPI
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.types import ConcurrencyConfig
from starlette.responses import FileResponse, RedirectResponse

from sregym.incidentops.mechanisms import MECHANISMS
from sregym.incidentops.models import IncidentObservation, IncidentState, ToolCallAction
from sregym.incidentops.scenarios import catalogue
from sregym.incidentops.server.environment import NAME, IncidentEnvironment
from sregym.incidentops.server.http import replace_routes
from sregym.incidentops.server.limits import BodyLimit
from sregym.incidentops.server.mcp import DirectClient, McpEndpoint, McpSwitch
from sregym.incidentops.server.sessions import Sessions
from sregym.incidentops.settings import ServerSettings
from sregym.incidentops.store import Store
from sregym.incidentops.world.topology import company

PAGE = Path(__file__).parent / "web" / "index.html"


class ServedEnvironment(IncidentEnvironment):
    """An environment with the client that OpenEnv's JSON-RPC route asks for."""

    def __init__(self, store: Store, turn: Lock) -> None:
        super().__init__(store, turn=turn)
        self.mcp_client = DirectClient(self)


def make_app(settings: ServerSettings | None = None) -> FastAPI:
    """The application. The store is opened here and closed when the server stops.

    Raises:
        StoreError: the database file cannot be used.
        ScenarioError: a file of the package does not follow its schema.
    """
    settings = settings or ServerSettings()
    catalogue()  # read now: the first session would hold up the others for the time that it takes
    company()
    store = Store(settings.database(), keep=settings.keep_episodes)
    sessions = Sessions(store=store, limit=settings.max_sessions, idle_s=settings.idle_s)
    factory: Any = partial(ServedEnvironment, store, Lock())
    app: FastAPI = create_app(
        factory,
        ToolCallAction,
        IncidentObservation,
        env_name=NAME,
        concurrency_config=ConcurrencyConfig(
            max_concurrent_envs=settings.max_sessions, session_timeout=settings.idle_s
        ),
        state_cls=IncidentState,
    )
    if any(getattr(route, "path", "") == "/reset" for route in app.router.routes):  # not in production mode
        replace_routes(app, sessions)
    _add_page(app)
    endpoint = McpEndpoint(sessions, idle_s=settings.idle_s)
    app.add_middleware(McpSwitch, endpoint=endpoint)
    app.add_middleware(BodyLimit, limit=settings.max_body_bytes)
    _close_with(app, endpoint=endpoint, sessions=sessions, store=store)
    return app


def _add_page(app: FastAPI) -> None:
    taken = {getattr(route, "path", "") for route in app.router.routes}

    @app.get("/play", include_in_schema=False)
    async def play() -> FileResponse:
        return FileResponse(PAGE)

    @app.get("/play/choices", include_in_schema=False)
    async def choices() -> dict[str, Any]:
        return {"scenarios": [{"id": name} for name in catalogue().ids], "mechanisms": list(MECHANISMS)}

    if "/web" not in taken and not any(path.startswith("/web") for path in taken):

        @app.get("/web", include_in_schema=False)
        @app.get("/web/", include_in_schema=False)
        async def web() -> FileResponse:
            return FileResponse(PAGE)

    if "/" not in taken:

        @app.get("/", include_in_schema=False)
        async def root() -> RedirectResponse:
            return RedirectResponse("/play")


def _close_with(app: FastAPI, *, endpoint: McpEndpoint, sessions: Sessions, store: Store) -> None:
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(served: Any) -> AsyncIterator[Any]:
        async with inner(served) as state, endpoint.running():
            try:
                yield state
            finally:
                sessions.close()
                store.close()

    app.router.lifespan_context = lifespan


def __getattr__(name: str) -> Any:
    """`app`, made when a server asks for it and not when this module is imported."""
    if name == "app":
        globals()["app"] = made = make_app()
        return made
    raise AttributeError(name)


def listen(settings: ServerSettings) -> list[socket.socket]:
    """The sockets to serve on: the port, and the second one when there is one."""
    ports = [settings.port] + ([settings.also_port] if settings.also_port else [])
    return [socket.create_server((settings.host, port), backlog=2048) for port in ports]


def serving(settings: ServerSettings) -> uvicorn.Server:
    """A server for the application with our limits."""
    return uvicorn.Server(
        uvicorn.Config(
            make_app(settings),
            host=settings.host,
            port=settings.port,
            ws="websockets-sansio",
            ws_max_size=settings.max_body_bytes,
            ws_per_message_deflate=False,  # messages are small and mostly local: packing costs more than sending
            timeout_graceful_shutdown=5,
            log_level="warning",
        )
    )


def run(settings: ServerSettings) -> None:
    """Serve until stopped."""
    server = serving(settings)
    collect_seldom()
    server.run(sockets=listen(settings))


def collect_seldom() -> None:
    """What the application is made of lives as long as the process: walking it again and again would stop every
    session for tens of milliseconds. Episodes hold no cycles and go by reference counts."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)


def main() -> None:
    """Serve with the settings of the environment (the `server` script of the package)."""
    run(ServerSettings())


if __name__ == "__main__":
    main()
