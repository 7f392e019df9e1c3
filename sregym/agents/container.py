"""The agent's container: made before the clock starts, started at the hand-over, stopped at the withdrawal.

It has no rights, a read-only root, its own user and limits; what it may write is in memory. Nothing of the host's file
system is mounted (the mount table would show our paths): its kubeconfig is copied into a volume.
"""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sregym import process
from sregym.agents.isolation import NO_IPV6, NO_OTHER_DNS, NO_RIGHTS, docker
from sregym.agents.spec import AgentSpec
from sregym.agents.things import HostJournal, Names, owned
from sregym.errors import AgentError, CommandError

DESK = "/oncall"
"""Where the attempt's volume is mounted: the kubeconfig, and a folder for logs."""
LOGS = f"{DESK}/logs"
KUBECONFIG = f"{DESK}/kube/config"
HOME = "/home/oncall"
HOSTNAME = "workstation"
MOST_OUTPUT = "32m"
"""How much of the agent's standard output Docker keeps."""
LARGEST_FILE = 512 * 1024 * 1024
STOP_WITHIN_S = 3
"""Seconds between the request to end and the kill."""
COPY_WITHIN_S = 60.0
NOT_FOUND = 127
NOT_EXECUTABLE = 126
INIT_FAILED = "[FATAL tini"
"""How Docker's init begins to say that it cannot run a command."""


@dataclass(frozen=True, kw_only=True)
class AgentExit:
    """How an agent ended by itself. `code` is its exit status."""

    code: int | None
    reason: str
    oom_killed: bool = False


class AgentContainer:
    """One agent's container, by its name."""

    def __init__(self, name: str, spec: AgentSpec) -> None:
        self.name = name
        self.spec = spec

    async def start(self) -> None:
        """Raises AgentError where it does not start: command not found, no such user, ..."""
        await docker(["docker", "start", self.name], what=f"agent {self.spec.name} cannot be started")

    async def run_fed(self, payload: bytes, *, log: Path) -> None:
        """Start it with `payload` on its standard input, and return when it has ended."""
        await process.run(
            ["docker", "start", "--attach", "--interactive", self.name], stdin=payload, log=log, check=False
        )

    async def has_started(self) -> bool:
        return bool((await self._state())["Status"] != "created")

    async def start_error(self) -> str:
        """What Docker said about a start that failed."""
        return str((await self._state()).get("Error") or "unknown")

    async def wait(self) -> AgentExit:
        """Wait for its end. Raises AgentError where Docker cannot say, or where its command was never run."""
        try:
            await process.run(["docker", "wait", self.name])
        except CommandError as error:
            raise AgentError(f"Docker lost sight of agent {self.spec.name}: {error}") from error
        state = await self._state()
        if state["Status"] in ("removing", "dead"):
            raise AgentError(f"the container of agent {self.spec.name} was removed from outside")
        ended = _exit_of(state)
        if ended.code in (NOT_FOUND, NOT_EXECUTABLE) and (why := await self._never_ran()):
            raise AgentError(f"agent {self.spec.name} cannot be started: {why}")
        return ended

    async def _never_ran(self) -> str:
        """What the container's init said about a command that it could not run; empty where it ran."""
        said = await process.run(["docker", "logs", "--tail", "5", self.name], check=False)
        return next((line for line in said.stderr.splitlines() if line.startswith(INIT_FAILED)), "")

    async def stop(self) -> None:
        """End it now; one that has ended is left as it is."""
        command = ["docker", "stop", "-t", str(STOP_WITHIN_S), self.name]
        await docker(command, what=f"agent {self.spec.name} cannot be stopped")

    async def save_output(self, folder: Path) -> None:
        """Copy what it said and what it left in its logs folder. Links and special files are left out."""
        output = folder / "output.log"
        output.unlink(missing_ok=True)
        await process.run(["docker", "logs", self.name], log=output, check=False, within=COPY_WITHIN_S)
        target = folder / "logs"
        shutil.rmtree(target, ignore_errors=True)
        await process.run(["docker", "cp", f"{self.name}:{LOGS}", target], check=False, within=COPY_WITHIN_S)
        drop_specials(target)

    async def _state(self) -> dict[str, Any]:
        said = await docker(
            ["docker", "inspect", "--format", "{{json .State}}", self.name], what="Docker does not know the agent"
        )
        state: dict[str, Any] = json.loads(said)
        return state


def drop_specials(folder: Path) -> None:
    """Removes links, sockets and other special files below a folder: what an agent left is kept as plain files."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            path.unlink()


@asynccontextmanager
async def agent_volume(journal: HostJournal, names: Names, size: str) -> AsyncIterator[None]:
    """The volume for its kubeconfig and its logs, in memory, so that no agent can fill the host's disk.

    It lasts while a running container has it mounted: the gateway container does.
    """
    memory = ["--opt", "type=tmpfs", "--opt", "device=tmpfs", "--opt", f"o=size={size},nosuid,nodev"]
    async with owned(journal, "volume", names.volume):
        await docker(["docker", "volume", "create", *memory, names.volume], what="the agent's volume cannot be made")
        yield


@asynccontextmanager
async def agent_container(
    *,
    journal: HostJournal,
    names: Names,
    spec: AgentSpec,
    image: str,
    environment: Mapping[str, str],
    kubeconfig: str,
) -> AsyncIterator[AgentContainer]:
    """An agent's container, made and not started."""
    async with owned(journal, "container", names.agent):
        command = _create_command(names, spec, image, environment)
        await docker(command, what=f"the container of agent {spec.name} cannot be made")
        await _put(names.agent, spec.user, {"logs": None, "kube": None, "kube/config": kubeconfig})
        yield AgentContainer(names.agent, spec)


def _create_command(names: Names, spec: AgentSpec, image: str, environment: Mapping[str, str]) -> list[str]:
    limits = spec.limits
    scratch = f"rw,exec,nosuid,nodev,size={limits.scratch}"
    uid, gid = spec.user.split(":")
    return [
        *("docker", "create", "--name", names.agent, "--hostname", HOSTNAME, "--network", names.network),
        *(*NO_OTHER_DNS, *NO_IPV6, *NO_RIGHTS, "--init", "--user", spec.user),
        *("--pids-limit", str(limits.pids), "--cpus", str(limits.cpus)),
        *("--memory", limits.memory, "--memory-swap", limits.memory, "--ulimit", f"fsize={LARGEST_FILE}"),
        *("--tmpfs", f"/tmp:{scratch},mode=1777", "--tmpfs", f"{HOME}:{scratch},mode=0700,uid={uid},gid={gid}"),
        *("--volume", f"{names.volume}:{DESK}"),
        *("--log-opt", f"max-size={MOST_OUTPUT}", "--log-opt", "max-file=1"),
        *(["--interactive"] if spec.reads_payload else []),
        *(part for name, value in environment.items() for part in ("--env", f"{name}={value}")),
        image,
        *spec.command,
    ]


async def _put(container: str, owner: str, files: Mapping[str, str | None]) -> None:
    """Put files, and folders (None), into the attempt's volume; they belong to the agent's user."""
    uid, gid = map(int, owner.split(":"))
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.uid, member.gid, member.mtime = uid, gid, int(time.time())
            member.type, member.mode = (tarfile.DIRTYPE, 0o755) if content is None else (tarfile.REGTYPE, 0o644)
            data = (content or "").encode()
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    try:
        await process.run(["docker", "cp", "-", f"{container}:{DESK}"], stdin=archive.getvalue(), within=COPY_WITHIN_S)
    except CommandError as error:
        raise AgentError(f"the agent's files cannot be put into its container: {error}") from error


def _exit_of(state: Mapping[str, Any]) -> AgentExit:
    code = state.get("ExitCode")
    if state.get("OOMKilled"):
        return AgentExit(code=code, reason="killed: it used more memory than its limit", oom_killed=True)
    if code == NOT_FOUND:
        return AgentExit(code=code, reason="ended with status 127: a command was not found")
    return AgentExit(code=code, reason="ended by itself" if code == 0 else f"ended with status {code}")
