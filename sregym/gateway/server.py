"""The gateway of one attempt, as the coordinator holds it.

The submission API and the node tool run here, in the coordinator's process: its ear, and what it journals. Kube proxy
and model relay run in a child that is started again when it dies. All of them listen on UNIX sockets in one folder,
which the gateway container mounts; TCP ports are opened only for agents that are not in our container.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.abc

from sregym import process
from sregym.cluster import waits
from sregym.cluster.tasks import single_error
from sregym.errors import AgentError, PrerequisiteError, WaitTimeout
from sregym.events import Emit, silent
from sregym.gateway.desk import SubmissionDesk
from sregym.gateway.doors import API, DOORS, INTERNET, KUBE, MCP, MODEL, Door
from sregym.gateway.hiding import Hidden
from sregym.gateway.identity import PREFIX, Identity, TokenGate, new_token
from sregym.gateway.internet.access import InternetAccess
from sregym.gateway.models import LOCAL, ModelAccess, ModelUsage, forget_calls, usage_in
from sregym.gateway.node.tool import NodeTool
from sregym.gateway.node.web import node_routes
from sregym.gateway.serve import Listen, Ports, ServeConfig
from sregym.gateway.submission import mcp_route, submission_app
from sregym.gateway.telemetry.access import TelemetryAccess
from sregym.gateway.upstream import ClusterAccess
from sregym.gateway.web import Guarded, check_ports, served, tcp_socket, unix_socket

START_WITHIN_S = 120.0
"""Long, for a machine that is busy: the process needs some seconds of CPU to start."""
RESTART_AFTER_S = 0.2
MOST_DEATHS = 10
"""A gateway process that dies more often than this in one attempt will not get better."""
LOG_FILE = "gateway.log"


@dataclass(frozen=True, kw_only=True)
class TcpPorts:
    """Where to listen for agents outside our container. 0 = any free port, as for every door that is not named here."""

    host: str = "127.0.0.1"
    api: int = 8000
    kube: int = 16443
    mcp: int = 0

    def of(self, door: Door) -> int:
        return int(getattr(self, door.name, 0))


@dataclass(frozen=True, kw_only=True)
class Urls:
    """Where an agent outside our container finds things; the token is in the path."""

    by_door: Mapping[str, str]
    """Addresses by the names of the doors that are open."""

    def of(self, door: Door) -> str | None:
        return self.by_door.get(door.name)

    @property
    def kube(self) -> str:
        return self.by_door[KUBE.name]

    @property
    def api(self) -> str:
        return self.by_door[API.name]

    @property
    def model(self) -> str | None:
        return self.of(MODEL)


@dataclass(frozen=True, kw_only=True)
class Sockets:
    """UNIX sockets that the gateway container forwards to."""

    folder: Path

    def of(self, door: Door) -> Path:
        return self.folder / f"{door.name}.sock"

    @property
    def kube(self) -> Path:
        return self.of(KUBE)

    @property
    def api(self) -> Path:
        return self.of(API)

    @property
    def model(self) -> Path:
        return self.of(MODEL)


@dataclass(kw_only=True)
class Gateway:
    """A running gateway. `urls` is there only where TCP ports were asked for."""

    token: str
    sockets: Sockets
    model: ModelAccess | None
    internet: InternetAccess
    folder: Path
    urls: Urls | None = None
    deaths: int = 0
    """How often the gateway process died by itself; a record for the attempt."""
    _gate: TokenGate
    _nodes: NodeTool | None = None
    _child: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _child_gone: anyio.Event = field(default_factory=anyio.Event)

    @property
    def doors(self) -> tuple[Door, ...]:
        """Those that are open: no model, no door to it; no internet, no door to that."""
        shut = {MODEL} if self.model is None else set()
        shut |= set() if self.internet.leads_somewhere else {INTERNET}
        return tuple(door for door in DOORS if door not in shut)

    async def revoke(self) -> None:
        """Refuse everything from now on, for good; what was open is cut. Returns when that is so. Idempotent."""
        self._gate.shut()
        if self._nodes is not None:
            await self._nodes.shut()
        self._child.cancel()
        await self._child_gone.wait()

    def usage(self) -> ModelUsage:
        """Model calls so far."""
        return usage_in(self.folder)


@asynccontextmanager
async def running_gateway(
    *,
    access: ClusterAccess,
    desk: SubmissionDesk,
    folder: Path,
    runtime: Path,
    telemetry: TelemetryAccess | None = None,
    kubectl: Sequence[str | Path] = ("kubectl",),
    model: ModelAccess | None = None,
    internet: InternetAccess | None = None,
    token: str | None = None,
    tcp: TcpPorts | None = None,
    identity: Identity | None = None,
    hidden: Hidden | None = None,
    nodes: NodeTool | None = None,
    emit: Emit = silent,
) -> AsyncIterator[Gateway]:
    """Run the gateway of one attempt while the context is open.

    Args:
        folder: The attempt's; logs and records go there.
        runtime: A private folder for sockets and the config, removed by the caller.
        telemetry: Where the observability stack is; where our own is, if not given.
        kubectl: How kubectl is called here, for the MCP tools.
        nodes: The node tool, served beside the submission API; without one callers are told that there is none.

    Raises:
        PrerequisiteError: A port is taken, the kubeconfig is unusable, or a local model has no address.
        AgentError: The gateway process does not come up, or does not stay up.
    """
    _check_model(model)
    forget_calls(folder)
    secret = token or new_token()
    gate = TokenGate(secret)
    sockets = Sockets(folder=runtime / "s")
    sockets.folder.mkdir(parents=True, exist_ok=True)
    gateway = Gateway(
        token=secret,
        sockets=sockets,
        model=model,
        internet=internet or InternetAccess(),
        folder=folder,
        _gate=gate,
        _nodes=nodes,
    )
    async with AsyncExitStack() as stack:
        stack.enter_context(single_error())
        listening = [stack.enter_context(closing(unix_socket(sockets.api)))]
        if tcp:
            listening.append(stack.enter_context(closing(tcp_socket(tcp.host, tcp.api))))
            # The child, which listens there, could only die of it.
            check_ports(tcp.host, *(tcp.of(door) for door in gateway.doors if door is not API))
        beside = [*node_routes(nodes), mcp_route(sockets.of(MCP))]
        api = Guarded(submission_app(desk, beside=beside), gate)
        await stack.enter_async_context(served(api, listening))
        config = ServeConfig(
            access=access,
            identity=identity or Identity(),
            hidden=hidden or Hidden(),
            token=secret,
            listen=_listen(gateway, tcp),
            model=model,
            internet=gateway.internet,
            telemetry=telemetry or TelemetryAccess(),
            kubectl=tuple(map(str, kubectl)),
            namespace=desk.app_info().namespace,
            api=sockets.api,
            tools_at_once=model is not None or tcp is not None,
            runtime=runtime,
            folder=folder,
            ready=runtime / "ready.json",
        )
        config.ready.unlink(missing_ok=True)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        tasks.start_soon(_keep_running, gateway, config, runtime, emit)
        ports = await _ready(config, folder / LOG_FILE)
        if tcp:
            opened = {**ports.by_door, API.name: listening[-1].getsockname()[1]}
            gateway.urls = Urls(by_door={name: _url(tcp.host, port, secret) for name, port in opened.items()})
        yield gateway


async def _keep_running(gateway: Gateway, config: ServeConfig, runtime: Path, emit: Emit) -> None:
    file = runtime / "gateway.json"
    file.touch(mode=0o600)
    file.write_text(config.model_dump_json(), encoding="utf-8")
    log = gateway.folder / LOG_FILE
    try:
        with gateway._child:
            while True:
                async with process.running([sys.executable, "-m", "sregym.gateway.serve", file], log=log) as child:
                    code = await child.wait()
                gateway.deaths += 1
                emit("gateway.died", code=code, deaths=gateway.deaths)
                if gateway.deaths > MOST_DEATHS:
                    raise AgentError(f"the gateway process does not stay up; it said\n{_tail(log)}")
                await waits.elapse(RESTART_AFTER_S, why="before the gateway process is started again", emit=emit)
    finally:
        gateway._child_gone.set()


async def _ready(config: ServeConfig, log: Path) -> Ports:
    async def look() -> Ports | None:
        return Ports.read(config.ready)

    try:
        return await waits.poll(look, what="gateway process", every=0.02, within=START_WITHIN_S)
    except WaitTimeout as error:
        raise AgentError(f"the gateway process did not come up; it said\n{_tail(log)}") from error


def _listen(gateway: Gateway, tcp: TcpPorts | None) -> dict[str, Listen]:
    """Where the gateway process listens, by door; the submission API is ours."""
    host = tcp.host if tcp else None
    return {
        door.name: Listen(unix=gateway.sockets.of(door), host=host, port=tcp.of(door) if tcp else 0)
        for door in gateway.doors
        if door is not API
    }


def _check_model(model: ModelAccess | None) -> None:
    if model and model.model.startswith(LOCAL) and not model.api_base:
        raise PrerequisiteError(
            f"the model {model.model} needs the address of its server",
            cure="set AGENT_API_BASE, e.g. http://host:8000/v1",
        )


def _url(host: str, port: int, token: str) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PREFIX}{token}"


def _tail(log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return "\n".join(text.splitlines()[-process.LAST_LINES :])
