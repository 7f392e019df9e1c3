"""The gateway process: kube proxy, model relay, tools and telemetry. `python -m sregym.gateway.serve CONFIG`.

A child of the coordinator, so that a busy agent cannot slow the coordinator down and a crash here costs no attempt.
It keeps nothing in memory that matters, and its keys come from the environment, not from the config file.
"""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import SocketListener
from pydantic import BaseModel, ConfigDict
from starlette.types import ASGIApp

from sregym.cluster.tasks import single_error
from sregym.events import Emit, EventLog
from sregym.gateway.doors import INTERNET, KUBE, LOGS, MCP, METRICS, MODEL, TRACES
from sregym.gateway.hiding import Hidden
from sregym.gateway.identity import PREFIX, Identity, TokenGate, new_token
from sregym.gateway.internet.access import InternetAccess
from sregym.gateway.internet.proxy import serving_internet
from sregym.gateway.kube_proxy import KubeProxy
from sregym.gateway.kubeconfig import kubeconfig_text
from sregym.gateway.mcp.app import Place, mcp_door
from sregym.gateway.models import ModelAccess
from sregym.gateway.telemetry.access import TelemetryAccess
from sregym.gateway.telemetry.raw import logs_app, metrics_app, traces_app
from sregym.gateway.upstream import ClusterAccess, Upstream
from sregym.gateway.web import Guarded, served, tcp_socket, unix_socket
from sregym.settings import Settings, secrets_in_environment

EVENTS_FILE = "gateway.jsonl"
LOOPBACK = "127.0.0.1"


class Listen(BaseModel):
    """Where one part listens: a UNIX socket, and loopback TCP where the agent is not in our container."""

    model_config = ConfigDict(frozen=True)
    unix: Path
    host: str | None = None
    port: int = 0


class ServeConfig(BaseModel):
    """All that the process is told. Holds the attempt's token: the file is ours alone."""

    model_config = ConfigDict(frozen=True)
    access: ClusterAccess
    identity: Identity
    token: str
    hidden: Hidden = Hidden()
    listen: Mapping[str, Listen]
    """By the names of the doors that this process serves."""
    model: ModelAccess | None = None
    internet: InternetAccess = InternetAccess()
    telemetry: TelemetryAccess = TelemetryAccess()
    kubectl: tuple[str, ...] = ("kubectl",)
    """How kubectl is called here, for the tools."""
    namespace: str = "default"
    """Where the tools' kubectl looks if it is not told."""
    api: Path
    """The socket of the submission API, which is the coordinator's."""
    tools_at_once: bool = False
    """Load the MCP servers without waiting for a request."""
    runtime: Path
    """Private, and of the attempt: what must outlive this process."""
    folder: Path
    """Of the attempt: records are written here."""
    ready: Path
    """Written when everything listens: the TCP ports."""


class Ports(BaseModel):
    """The TCP ports that were opened, by the names of doors."""

    model_config = ConfigDict(frozen=True)
    by_door: Mapping[str, int] = {}

    @staticmethod
    def read(file: Path) -> Ports | None:
        """What a gateway process has opened; None where none has got that far."""
        return Ports.model_validate_json(file.read_text(encoding="utf-8")) if file.exists() else None


@dataclass(frozen=True, kw_only=True)
class Serving:
    """What the applications behind the doors are made of."""

    config: ServeConfig
    settings: Settings
    upstream: Upstream
    """The cluster as ourselves."""
    emit: Emit


Application = Callable[[Serving], AbstractAsyncContextManager[ASGIApp]]


async def serve(config: ServeConfig, settings: Settings) -> None:
    """Serve until cancelled. A process that follows another one takes over its ports."""
    gate = TokenGate(config.token)
    before = Ports.read(config.ready) or Ports()
    opened: dict[str, int] = {}
    async with AsyncExitStack() as stack:
        emit = stack.enter_context(EventLog(config.folder / EVENTS_FILE))
        upstream = await stack.enter_async_context(Upstream(config.access))
        serving = Serving(config=config, settings=settings, upstream=upstream, emit=emit)
        for name, listen in config.listen.items():
            sockets = _sockets(listen, before.by_door.get(name))
            if (port := _port(sockets)) is not None:
                opened[name] = port
            if name == INTERNET.name:
                await stack.enter_async_context(
                    serving_internet(config.internet, sockets, upstream=upstream, emit=emit)
                )
            elif name == KUBE.name:
                await stack.enter_async_context(
                    serving_kube(config.access, gate, config.identity, sockets, emit, config.hidden)
                )
            else:
                app = await stack.enter_async_context(_APPLICATIONS[name](serving))
                await stack.enter_async_context(served(Guarded(app, gate), sockets))
        pending = config.ready.with_suffix(".new")
        pending.write_text(Ports(by_door=opened).model_dump_json(), encoding="utf-8")
        pending.rename(config.ready)
        await anyio.sleep_forever()


@asynccontextmanager
async def serving_kube(
    access: ClusterAccess,
    gate: TokenGate,
    identity: Identity,
    sockets: list[socket.socket],
    emit: Emit,
    hidden: Hidden | None = None,
) -> AsyncIterator[int | None]:
    """Serve the kube proxy on listening sockets. Yields the TCP port, if there is one."""
    async with AsyncExitStack() as stack:
        for listening in sockets:
            stack.callback(listening.close)
        upstream = await stack.enter_async_context(Upstream(access))
        listeners = [
            await stack.enter_async_context(await SocketListener.from_socket(listening)) for listening in sockets
        ]
        proxy = KubeProxy(upstream=upstream, gate=gate, identity=identity, hidden=hidden, emit=emit)
        port = _port(sockets)
        with single_error():
            async with anyio.create_task_group() as tasks:
                for listener in listeners:
                    tasks.start_soon(listener.serve, proxy.serve)
                yield port
                tasks.cancel_scope.cancel()


@asynccontextmanager
async def _relay(serving: Serving) -> AsyncIterator[ASGIApp]:
    from sregym.gateway.model_relay import ModelRelay  # takes a second to import, and is seldom needed

    access, models = serving.config.model, serving.settings.models
    assert access is not None
    async with ModelRelay(
        access,
        key=models.key_for(access.provider, public=access.is_public),
        folder=serving.config.folder,
        retries=models.max_retries,
        secrets={serving.config.token, *secrets_in_environment()},
    ) as relay:
        yield relay.app()


def _raw(make: Callable[[TelemetryAccess, Upstream], ASGIApp]) -> Application:
    @asynccontextmanager
    async def application(serving: Serving) -> AsyncIterator[ASGIApp]:
        yield make(serving.config.telemetry, serving.upstream)

    return application


@asynccontextmanager
async def _mcp(serving: Serving) -> AsyncIterator[ASGIApp]:
    """The MCP servers; their kubectl has a kube proxy of its own on loopback, as it cannot use a UNIX socket."""
    config, secret = serving.config, new_token()
    sockets = [tcp_socket(LOOPBACK, 0)]
    kube = serving_kube(config.access, TokenGate(secret), config.identity, sockets, serving.emit, config.hidden)
    async with kube as port:
        folder = config.runtime / "mcp"
        folder.mkdir(mode=0o700, exist_ok=True)
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(kubeconfig_text(f"http://{LOOPBACK}:{port}{PREFIX}{secret}", config.namespace), "utf-8")
        place = Place(
            folder=folder,
            kubectl=config.kubectl,
            kubeconfig=kubeconfig,
            api=config.api,
            token=config.token,
            telemetry=config.telemetry,
        )
        async with mcp_door(place, serving.upstream, at_once=config.tools_at_once, emit=serving.emit) as app:
            yield app


_APPLICATIONS: Mapping[str, Application] = {
    MODEL.name: _relay,
    METRICS.name: _raw(metrics_app),
    TRACES.name: _raw(traces_app),
    LOGS.name: _raw(logs_app),
    MCP.name: _mcp,
}
"""What answers behind a door, without the check of the token."""


def _sockets(listen: Listen, before: int | None) -> list[socket.socket]:
    sockets = [unix_socket(listen.unix)]
    if listen.host is not None:
        sockets.append(tcp_socket(listen.host, before or listen.port))
    return sockets


def _port(sockets: list[socket.socket]) -> int | None:
    return next((int(s.getsockname()[1]) for s in sockets if s.family != socket.AF_UNIX), None)


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # libraries warn of every bad request, and whoever sends them would fill our log
    anyio.run(serve, ServeConfig.model_validate_json(Path(sys.argv[1]).read_text(encoding="utf-8")), Settings())
