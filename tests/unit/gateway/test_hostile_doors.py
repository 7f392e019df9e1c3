"""Hostile requests to the submission API, the MCP servers and the raw endpoints.

Each gets a status of the table, none crashes a door, none shows a token, and none reaches the cluster with a path that
is not served.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import pytest
from starlette.types import ASGIApp

from sregym.gateway.desk import AppInfo, Desk
from sregym.gateway.identity import TokenGate
from sregym.gateway.mcp.app import Place, mcp_door
from sregym.gateway.submission import mcp_route, submission_app
from sregym.gateway.telemetry.access import TelemetryAccess
from sregym.gateway.telemetry.raw import logs_app, metrics_app, traces_app
from sregym.gateway.upstream import ClusterAccess, Upstream
from sregym.gateway.web import Guarded, served, tcp_socket, unix_socket
from tests.support import fake_kubectl
from tests.support.hostile import TOKEN
from tests.support.hostile_doors import DOORS, GOOD, OTHER_TOKEN, HostileCall, hostile_calls
from tests.support.observability import Observed
from tests.support.servers import LOOPBACK, kubeconfig, raw_server
from tests.support.wire import send_raw

pytestmark = pytest.mark.timeout(600)

SECRET = "inside-only"
TELLING = (SECRET.encode(), OTHER_TOKEN.encode(), b"/root/", b"Traceback", b"sregym")
AT_ONCE = 6
SERVED = re.compile(
    r"/api/v1/(query|query_range|series|labels|alerts|rules|targets|metadata|label/[^/]+/values)"
    r"|/api/(services|operations|services/[^/]+/operations|traces|traces/[0-9a-f]+|dependencies)"
    r"|/select/logsql/(query|field_names|field_values)"
)


@asynccontextmanager
async def doors(tmp_path: Path, observed: Observed) -> AsyncIterator[dict[str, int]]:
    """All doors on loopback. Yields their ports."""
    desk = Desk(AppInfo(app_name="shop", namespace="shop", namespaces=("shop",), descriptions="A shop."))
    desk.open()
    gate, access = TokenGate(TOKEN), TelemetryAccess()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(raw_server(observed.handle))
        cluster = ClusterAccess(kubeconfig=kubeconfig(tmp_path, server))
        upstream = await stack.enter_async_context(Upstream(cluster))
        place = Place(
            folder=tmp_path / "mcp",
            kubectl=(sys.executable, fake_kubectl.__file__, tmp_path / "world.json"),
            kubeconfig=tmp_path / "agents",
            api=tmp_path / "api.sock",
            token=SECRET,
            telemetry=access,
        )
        door = mcp_door(place, upstream, at_once=True, emit=lambda name, /, **data: None)
        inner = unix_socket(tmp_path / "mcp.sock")
        applications: dict[str, ASGIApp] = {
            "api": submission_app(desk, beside=[mcp_route(tmp_path / "mcp.sock")]),
            "mcp": await stack.enter_async_context(door),
            "metrics": metrics_app(access, upstream),
            "traces": traces_app(access, upstream),
            "logs": logs_app(access, upstream),
        }
        ports = {}
        for name, app in applications.items():
            sockets = [tcp_socket(LOOPBACK, 0), *([inner] if name == "mcp" else [])]
            ports[name] = int(sockets[0].getsockname()[1])
            await stack.enter_async_context(served(Guarded(app, gate), sockets))
        yield ports


async def test_hostile_requests_get_their_status_and_nothing_else(tmp_path: Path) -> None:
    calls, observed = hostile_calls(), Observed()
    assert len(calls) >= 120
    assert len({one.id for one in calls}) == len(calls)
    wrong: list[str] = []

    async with doors(tmp_path, observed) as ports:

        async def play(one: HostileCall, limit: anyio.Semaphore) -> None:
            async with limit:
                method = "HEAD" if one.raw.startswith(b"HEAD") else "GET"
                try:
                    reply = await send_raw(LOOPBACK, ports[one.door], one.raw, method=method)
                except TimeoutError:
                    wrong.append(f"{one.id}: no answer")
                    return
            if reply.status not in one.statuses:
                wrong.append(f"{one.id}: {reply.status} {reply.raw[:300]!r}")
            elif one.says.encode() not in reply.raw:
                wrong.append(f"{one.id}: does not say {one.says}: {reply.raw[:600]!r}")
            if any(
                secret.encode() in reply.raw for secret in (SECRET, OTHER_TOKEN, TOKEN + "\n", "/root/", "Traceback")
            ):
                wrong.append(f"{one.id}: says too much: {reply.raw[:600]!r}")

        limit = anyio.Semaphore(AT_ONCE)
        async with anyio.create_task_group() as tasks:
            for one in calls:
                tasks.start_soon(play, one, limit)
        assert not wrong, "\n".join(wrong)
        for door in DOORS:
            reply = await send_raw(LOOPBACK, ports[door], GOOD[door])
            assert reply.status == (404 if door == "mcp" else 200)
    unserved = {path for _, path, _ in observed.asked if not SERVED.fullmatch(path)}
    assert unserved == set()
