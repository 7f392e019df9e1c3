"""An agent's world, as the coordinator uses it: everything is there, nothing has begun.

Entering `agent_world` does all that is slow: the gateway process, the network, the gateway container, the agent's
container. `start` hands over; `withdraw` takes the access away and stops the agent. Leaving removes every trace.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.abc

from sregym.agents.container import KUBECONFIG, LOGS, AgentContainer, AgentExit, agent_container, agent_volume
from sregym.agents.environment import agent_environment
from sregym.agents.images import AgentImages, image_of
from sregym.agents.isolation import GATEWAY, gateway_container, isolated_network
from sregym.agents.spec import AgentSpec
from sregym.agents.things import HostJournal, Names, owned
from sregym.api.repair import KubectlCall
from sregym.cluster import waits
from sregym.cluster.tasks import single_error
from sregym.errors import AgentError, CommandError, PrerequisiteError, WaitTimeout
from sregym.events import Emit, silent
from sregym.gateway.desk import SubmissionDesk
from sregym.gateway.doors import API, INTERNET, KUBE, MODEL
from sregym.gateway.hiding import Hidden
from sregym.gateway.identity import Identity
from sregym.gateway.internet.access import InternetAccess
from sregym.gateway.kubeconfig import kubeconfig_text
from sregym.gateway.models import ModelAccess, ModelUsage
from sregym.gateway.node.tool import NodeTool
from sregym.gateway.server import Gateway, running_gateway
from sregym.gateway.telemetry.access import TelemetryAccess
from sregym.gateway.upstream import ClusterAccess

START_WITHIN_S = 30.0
OUTPUT_FOLDER = "agent"


@dataclass(frozen=True, kw_only=True)
class ReferencePayload:
    """What the `reference` agent reads on its standard input."""

    diagnosis: str
    calls: Sequence[KubectlCall]

    def encoded(self) -> bytes:
        calls = [{"argv": list(c.argv), "stdin": c.stdin, "within": c.within} for c in self.calls]
        return json.dumps({"diagnosis": self.diagnosis, "calls": calls}).encode() + b"\n"


class RunningAgent:
    """An agent in its container; the coordinator's handle."""

    def __init__(
        self, container: AgentContainer, gateway: Gateway, folder: Path, payload: bytes | None, emit: Emit
    ) -> None:
        self._container = container
        self._gateway = gateway
        self._folder = folder
        self._payload = payload
        self._emit = emit
        self._withdrawn = False
        self._tasks: anyio.abc.TaskGroup | None = None

    @property
    def container(self) -> str:
        """Name of its container."""
        return self._container.name

    async def start(self) -> None:
        """Hand over. Raises AgentError where the container does not start."""
        if self._payload is None:
            await self._container.start()
        else:
            await self._start_fed(self._payload)
        self._emit("agent.started", agent=self._container.spec.name)

    async def wait_finished(self) -> AgentExit:
        """Wait until the agent ends by itself."""
        ended = await self._container.wait()
        self._emit("agent.ended", code=ended.code, reason=ended.reason, oom_killed=ended.oom_killed)
        return ended

    async def withdraw(self) -> None:
        """Refuse its requests, stop it, keep its output. Idempotent.

        Raises AgentError where Docker does not stop it; its access is gone even then.
        """
        if self._withdrawn:
            return
        self._withdrawn = True
        await self._gateway.revoke()
        try:
            await self._container.stop()
        finally:
            await self._save_output()
        self._emit("agent.withdrawn")

    def usage(self) -> ModelUsage:
        """Model calls so far."""
        return self._gateway.usage()

    @property
    def gateway_deaths(self) -> int:
        """How often the gateway process died by itself."""
        return self._gateway.deaths

    async def _save_output(self) -> None:
        """The agent's output is a record, not a result: where it cannot be had, that is noted."""
        try:
            await self._container.save_output(self._folder)
        except (CommandError, OSError) as error:
            self._emit("agent.output_lost", error=str(error))

    async def _start_fed(self, payload: bytes) -> None:
        assert self._tasks is not None
        ended = anyio.Event()

        async def feed() -> None:
            await self._container.run_fed(payload, log=self._folder / "attached.log")
            ended.set()

        async def started() -> bool | None:
            if await self._container.has_started():
                return True
            if ended.is_set():
                why = await self._container.start_error()
                raise AgentError(f"agent {self._container.spec.name} cannot be started: {why}")
            return None

        self._tasks.start_soon(feed)
        try:
            await waits.poll(started, what="the agent's start", every=0.05, within=START_WITHIN_S)
        except WaitTimeout as error:
            raise AgentError(f"agent {self._container.spec.name} did not start: {error}") from error


@asynccontextmanager
async def agent_world(
    *,
    spec: AgentSpec,
    images: AgentImages,
    access: ClusterAccess,
    desk: SubmissionDesk,
    attempt_dir: Path,
    state_dir: Path,
    journal: HostJournal,
    telemetry: TelemetryAccess | None = None,
    kubectl: Sequence[str | Path] = ("kubectl",),
    model: ModelAccess | None = None,
    internet: InternetAccess | None = None,
    reasoning_effort: str | None = None,
    identity: Identity | None = None,
    hidden: Hidden | None = None,
    nodes: NodeTool | None = None,
    emit: Emit = silent,
    reference_payload: ReferencePayload | None = None,
) -> AsyncIterator[RunningAgent]:
    """Everything that an agent needs, ready; removed at the end.

    Args:
        attempt_dir: Logs and records go there (`agent/`, `gateway.log`, `model_calls.jsonl`).
        state_dir: Our state folder; sockets and the gateway's config get a private folder below it.
        telemetry: Where the observability stack is; where our own is, if not given.
        kubectl: How kubectl is called here, for the MCP tools.

    Raises:
        AgentError: Image, container or gateway cannot be made.
        PrerequisiteError: The agent needs a model and none is given.
    """
    check_fits(spec, model, reference_payload)
    names = Names.fresh()
    folder = attempt_dir / OUTPUT_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    image = await image_of(spec, images, log=folder / "image.log")
    async with AsyncExitStack() as stack:
        stack.enter_context(single_error())
        runtime = await stack.enter_async_context(private_folder(journal, state_dir, names))
        gateway = await stack.enter_async_context(
            running_gateway(
                access=access,
                desk=desk,
                folder=attempt_dir,
                runtime=runtime,
                telemetry=telemetry,
                kubectl=kubectl,
                model=model.with_aliases(spec.model_aliases) if model and spec.needs_model else None,
                internet=internet,
                identity=identity,
                hidden=hidden,
                nodes=nodes,
                emit=emit,
            )
        )
        await stack.enter_async_context(isolated_network(journal, names))
        await stack.enter_async_context(agent_volume(journal, names, spec.limits.logs))
        await stack.enter_async_context(gateway_container(journal, names, gateway, images.relay, emit=emit))
        container = await stack.enter_async_context(
            agent_container(
                journal=journal,
                names=names,
                spec=spec,
                image=image,
                environment=_environment(spec, gateway, reasoning_effort),
                kubeconfig=kubeconfig_text(f"http://{GATEWAY}:{KUBE.port}", desk.app_info().namespace),
            )
        )
        payload = reference_payload.encoded() if reference_payload else None
        agent = RunningAgent(container, gateway, folder, payload, emit)
        agent._tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(agent._tasks.cancel_scope.cancel)
        yield agent


def check_fits(spec: AgentSpec, model: ModelAccess | None, payload: ReferencePayload | None) -> None:
    """Raises PrerequisiteError or AgentError where the agent lacks what it cannot do without."""
    if spec.needs_model and model is None:
        raise PrerequisiteError(f"agent {spec.name} needs a model", cure="give one with --model or AGENT_MODEL_ID")
    if spec.reads_payload != (payload is not None):
        raise AgentError(
            f"agent {spec.name} " + ("needs the reference payload" if payload is None else "must not get it")
        )


@asynccontextmanager
async def private_folder(journal: HostJournal, state_dir: Path, names: Names) -> AsyncIterator[Path]:
    """A folder that only we can enter, for sockets and secrets of one attempt."""
    folder = Path(await anyio.Path(state_dir).absolute()) / "gw" / names.suffix
    async with owned(journal, "folder", str(folder)):
        folder.mkdir(parents=True, mode=0o700)
        yield folder


def _environment(spec: AgentSpec, gateway: Gateway, reasoning_effort: str | None) -> dict[str, str]:
    model_url = f"http://{GATEWAY}:{MODEL.port}/v1" if gateway.model else None
    return agent_environment(
        spec,
        api_host=GATEWAY,
        api_port=API.port,
        urls={door.variable: f"http://{GATEWAY}:{door.port}" for door in gateway.doors if door.variable},
        kubeconfig=KUBECONFIG,
        logs=LOGS,
        artifact=secrets.token_hex(8),
        model=gateway.model,
        model_url=model_url,
        proxy=f"http://{GATEWAY}:{INTERNET.port}" if INTERNET in gateway.doors else None,
        reasoning_effort=reasoning_effort,
    )
