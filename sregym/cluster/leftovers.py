"""Things of ours on the coordinator's machine: noted before they are made, so that a killed run leaves none behind.

Containers and networks are named by us; a process is its id together with when it started and its command's name,
because ids are given again.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sregym import process
from sregym.cluster import waits
from sregym.errors import DefinitionError, RecoveryError, WaitTimeout

DOCKER_WITHIN_S = 60.0
PROCESS_ENDS_WITHIN_S = 5.0
_DOCKER_KINDS = {"container": ("rm", "--force", "--volumes"), "network": ("network", "rm"), "volume": ("volume", "rm")}
_GONE = ("no such container", "no such network", "no such volume", "not found")
AWAY = "cannot connect to the docker daemon"
UNDER_WAY = "already in progress"
KINDS = (*_DOCKER_KINDS, "process", "folder")


@dataclass(frozen=True, kw_only=True)
class HostThing:
    """One thing. `kind` is container, network, volume (of Docker), process or folder.

    Of a process `pid` and `started` are known (clock ticks since boot, /proc/PID/stat field 22); `name` is its command.
    For a folder `name` is its absolute path.
    """

    kind: str
    name: str
    pid: int | None = None
    started: int | None = None

    @classmethod
    def of(cls, kind: str, name: str, *, pid: int | None = None) -> HostThing:
        """A thing about to be made (a process: just started). Raises DefinitionError for an unknown kind."""
        if kind not in KINDS:
            raise DefinitionError(f"there is no kind of host thing {kind!r}: {', '.join(KINDS)}")
        if kind == "folder" and not Path(name).is_absolute():
            raise DefinitionError(f"a folder needs its absolute path, not {name!r}")
        if (kind == "process") != (pid is not None):
            raise DefinitionError("a process, and nothing else, has a pid")
        return cls(kind=kind, name=name, pid=pid, started=_started(pid) if pid is not None else None)

    def row(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" (pid {self.pid})" if self.pid else "")


async def remove_host_thing(thing: HostThing) -> None:
    """Removes it; one that is gone already is no error. Raises RecoveryError where it stays."""
    if thing.kind in _DOCKER_KINDS:
        await _docker_remove(thing, _DOCKER_KINDS[thing.kind])
    elif thing.kind == "process":
        await _end_process(thing)
    elif thing.kind == "folder":
        await process.run(("rm", "-rf", "--", thing.name), within=DOCKER_WITHIN_S)


async def _docker_remove(thing: HostThing, verb: Sequence[str]) -> None:
    if thing.kind == "network":
        await _detach_all(thing.name)
    said = await _refusal(thing, verb)
    if UNDER_WAY in said.lower():  # somebody else removes it
        said = await _gone_in_time(thing, verb)
    if said:
        raise RecoveryError(f"{thing} cannot be removed: {said}")


async def _refusal(thing: HostThing, verb: Sequence[str]) -> str:
    """What Docker says against removing it; empty where it is gone."""
    done = await process.run(("docker", *verb, thing.name), check=False, within=DOCKER_WITHIN_S)
    said = done.stderr.strip()
    if AWAY in said.lower():
        return "Docker does not answer; start it again"
    return "" if done.ok or any(text in said.lower() for text in _GONE) else said


async def _gone_in_time(thing: HostThing, verb: Sequence[str]) -> str:
    async def gone() -> bool | None:
        return None if await _refusal(thing, verb) else True

    try:
        await waits.poll(gone, what=f"{thing} is gone", every=0.5, within=DOCKER_WITHIN_S)
    except WaitTimeout:
        return "its removal does not end"
    return ""


async def _detach_all(network: str) -> None:
    """A network goes only when nothing hangs on it; what is ours is removed by its own entry."""
    template = "{{range .Containers}}{{.Name}} {{end}}"
    listed = await process.run(
        ("docker", "network", "inspect", network, "--format", template), check=False, within=DOCKER_WITHIN_S
    )
    for container in listed.stdout.split() if listed.ok else ():
        argv = ("docker", "network", "disconnect", "--force", network, container)
        await process.run(argv, check=False, within=DOCKER_WITHIN_S)


async def _end_process(thing: HostThing) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not _is_alive(thing):
            return
        _signal(thing, number)
        if await _ended(thing):
            return
    raise RecoveryError(f"{thing} does not end")


async def _ended(thing: HostThing) -> bool:
    async def gone() -> bool | None:
        return None if _is_alive(thing) else True

    try:
        return await waits.poll(gone, what=f"{thing} ends", every=0.1, within=PROCESS_ENDS_WITHIN_S)
    except WaitTimeout:
        return False


def _is_alive(thing: HostThing) -> bool:
    return thing.pid is not None and thing.started is not None and _started(thing.pid) == thing.started


def _signal(thing: HostThing, number: signal.Signals) -> None:
    try:
        os.kill(thing.pid or 0, number)
    except ProcessLookupError:
        return


def _started(pid: int | None) -> int | None:
    """When a process started (clock ticks since boot); None where there is none, or only its remains."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *fields = stat[stat.rindex(")") + 2 :].split()
    return None if state in "ZX" else int(fields[18])
