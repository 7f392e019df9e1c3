"""An agent that is not in our container: anyone's own harness, or a person at a shell.

It gets the same gateway and the same rights, on loopback; the token is in its addresses. What it can reach besides is
its owner's business, so its results say that it was outside.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from sregym.agents.container import AgentExit, drop_specials
from sregym.agents.environment import agent_environment
from sregym.agents.runtime import private_folder
from sregym.agents.spec import AgentSpec
from sregym.agents.things import HostJournal, Names
from sregym.cluster.tasks import single_error
from sregym.events import Emit, silent
from sregym.gateway.desk import SubmissionDesk
from sregym.gateway.kubeconfig import kubeconfig_text
from sregym.gateway.models import ModelAccess, ModelUsage
from sregym.gateway.node.tool import NodeTool
from sregym.gateway.server import Gateway, TcpPorts, Urls, running_gateway
from sregym.gateway.telemetry.access import TelemetryAccess
from sregym.gateway.upstream import ClusterAccess


@dataclass(frozen=True, kw_only=True)
class Invitation:
    """All that an outside agent needs: what to call, and the environment that says the same to programs."""

    app_name: str
    namespaces: tuple[str, ...]
    kubeconfig: Path
    api_url: str
    """Of the submission API: POST /submit, GET /status, GET /get_app below it."""
    model_url: str | None
    environment: Mapping[str, str]


Greet = Callable[["OutsideAgent"], None]
"""Called when the incident is handed over; shows the invitation to whoever is on call."""


class OutsideAgent:
    """The coordinator's handle; has the methods of `RunningAgent`."""

    def __init__(self, invitation: Invitation, gateway: Gateway, greet: Greet, emit: Emit) -> None:
        self.invitation = invitation
        self._gateway = gateway
        self._greet = greet
        self._emit = emit
        self._left = anyio.Event()

    @property
    def container(self) -> None:
        """It has none of ours."""
        return None

    async def start(self) -> None:
        """Hand over."""
        self._emit("agent.invited", kubeconfig=str(self.invitation.kubeconfig))
        self._greet(self)

    def leave(self) -> None:
        """The agent gives up."""
        self._left.set()

    async def wait_finished(self) -> AgentExit:
        """Returns when it has left; an outside agent does not end by itself."""
        await self._left.wait()
        return AgentExit(code=None, reason="left")

    async def withdraw(self) -> None:
        """Refuse its requests. Idempotent."""
        await self._gateway.revoke()
        self._emit("agent.withdrawn")

    def usage(self) -> ModelUsage:
        """Model calls that went through the relay."""
        return self._gateway.usage()


@asynccontextmanager
async def outside_world(
    *,
    spec: AgentSpec,
    access: ClusterAccess,
    desk: SubmissionDesk,
    attempt_dir: Path,
    state_dir: Path,
    journal: HostJournal,
    ports: TcpPorts,
    greet: Greet,
    kubectl: Sequence[str | Path] = (),
    telemetry: TelemetryAccess | None = None,
    model: ModelAccess | None = None,
    reasoning_effort: str | None = None,
    nodes: NodeTool | None = None,
    emit: Emit = silent,
) -> AsyncIterator[OutsideAgent]:
    """The gateway on loopback, and an invitation to it.

    Args:
        kubectl: How kubectl is called here; put on the agent's path where given.

    Raises:
        PrerequisiteError: A port is taken.
        AgentError: The gateway process does not come up.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(single_error())
        names = Names.fresh()
        runtime = await stack.enter_async_context(private_folder(journal, state_dir, names))
        gateway = await stack.enter_async_context(
            running_gateway(
                access=access,
                desk=desk,
                folder=attempt_dir,
                runtime=runtime,
                telemetry=telemetry,
                kubectl=kubectl or ("kubectl",),
                model=model.with_aliases(spec.model_aliases) if model else None,
                tcp=ports,
                nodes=nodes,
                emit=emit,
            )
        )
        assert gateway.urls is not None
        logs = runtime / "logs"  # the attempt's own folder is named after its problem
        logs.mkdir()
        stack.callback(_keep, logs, attempt_dir / "agent" / "logs")
        invitation = _invite(spec, desk, gateway, gateway.urls, runtime, kubectl, reasoning_effort, logs)
        yield OutsideAgent(invitation, gateway, greet, emit)


def _invite(
    spec: AgentSpec,
    desk: SubmissionDesk,
    gateway: Gateway,
    urls: Urls,
    runtime: Path,
    kubectl: Sequence[str | Path],
    reasoning_effort: str | None,
    logs: Path,
) -> Invitation:
    app = desk.app_info()
    kubeconfig = runtime / "kubeconfig"
    kubeconfig.write_text(kubeconfig_text(urls.kube, app.namespace), encoding="utf-8")
    host, _, port = urls.api.removeprefix("http://").partition("/")[0].rpartition(":")
    environment = agent_environment(
        spec,
        api_host=host,
        api_port=int(port),
        urls={door.variable: urls.of(door) or "" for door in gateway.doors if door.variable},
        kubeconfig=str(kubeconfig),
        logs=str(logs),
        artifact=secrets.token_hex(8),
        model=gateway.model,
        model_url=f"{urls.model}/v1" if urls.model else None,
        reasoning_effort=reasoning_effort,
    )
    kept = {name: value for name, value in environment.items() if value and name not in ("HOME", "TZ", "LANG")}
    return Invitation(
        app_name=app.app_name,
        namespaces=app.namespaces,
        kubeconfig=kubeconfig,
        api_url=urls.api,
        model_url=f"{urls.model}/v1" if urls.model else None,
        environment={**kept, "API_URL": urls.api, **_path_with(runtime, kubectl)},
    )


def _keep(logs: Path, target: Path) -> None:
    """What the agent has left in its logs folder, with the attempt."""
    drop_specials(logs)
    if any(logs.iterdir()):
        shutil.copytree(logs, target, dirs_exist_ok=True)


def _path_with(runtime: Path, kubectl: Sequence[str | Path]) -> dict[str, str]:
    """A folder with `kubectl` in it, for the front of the path; nothing where none is given."""
    if not kubectl:
        return {}
    program = runtime / "bin" / "kubectl"
    program.parent.mkdir()
    words = " ".join(f"'{word}'" for word in kubectl)
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return {"TOOLS": str(program.parent)}
