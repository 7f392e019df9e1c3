"""Processes of a node, without those that somebody entered it with from outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from sregym.gateway.node.contract import Node, Operation, Refused, Said, said_by, table, without_machine

FORMAT = "pid=,ppid=,user=,stat=,etimes=,pcpu=,pmem=,rss=,comm:16=,args="
"""Of ps(1). A program's short name has at most 15 characters, and may hold spaces."""
NUMBERS = 8
NAME_WIDTH = 16
PROTECTED = (
    "systemd",
    "systemd-journal",
    "systemd-logind",
    "systemd-udevd",
    "dbus-daemon",
    "kubelet",
    "containerd",
    "containerd-shim",
    "runc",
    "init",
)
"""Names of programs that are not ended here: use `service`, or delete the pod."""
LONGEST_ARGS = 300
HEADER = "    PID    PPID USER     STAT   SECONDS  %CPU  %MEM     RSS KiB  COMMAND"


@dataclass(frozen=True, kw_only=True)
class Process:
    """One line of ps(1)."""

    pid: int
    ppid: int
    user: str
    stat: str
    seconds: int
    cpu: float
    memory: float
    rss_kib: int
    comm: str
    args: str

    def row(self) -> str:
        shown = without_machine(self.args)[:LONGEST_ARGS]
        left = f"{self.pid:>7} {self.ppid:>7} {self.user:<8} {self.stat:<6} {self.seconds:>7}"
        return f"{left} {self.cpu:>5} {self.memory:>5} {self.rss_kib:>11}  {shown}"


class Processes(Operation):
    """The node's processes, those of its containers included, by CPU or memory."""

    op: Literal["processes"] = "processes"
    sort: Literal["cpu", "memory", "age", "pid"] = "cpu"
    limit: int = Field(default=50, ge=1, le=500)
    containing: str | None = Field(default=None, min_length=1, max_length=100)
    """Only processes whose command line holds this text."""

    async def run(self, node: Node) -> Said:
        found = await processes_of(node)
        if self.containing is not None:
            found = [one for one in found if self.containing in one.args]
        keys: dict[str, Callable[[Process], float]] = {
            "cpu": lambda one: -one.cpu,
            "memory": lambda one: -one.rss_kib,
            "age": lambda one: -one.seconds,
            "pid": lambda one: one.pid,
        }
        found.sort(key=keys[self.sort])
        shown = found[: self.limit]
        told = "" if len(shown) == len(found) else f"\n({len(found) - len(shown)} more)"
        return Said(text=table(HEADER, [one.row() for one in shown]) + told)


class Kill(Operation):
    """Send a signal to one process of the node. Its own services and the container runtime are not ended this way."""

    op: Literal["kill"] = "kill"
    pid: int = Field(gt=1)
    signal: Literal["TERM", "KILL", "INT", "HUP", "QUIT", "CONT"] = "TERM"
    changes: ClassVar[bool] = True

    async def run(self, node: Node) -> Said:
        target = next((one for one in await processes_of(node) if one.pid == self.pid), None)
        if target is None:
            return Said(text=f"there is no process {self.pid}", ok=False)
        if target.comm in PROTECTED or target.comm.startswith("containerd-shim"):
            raise Refused(f"{target.comm} (process {self.pid}) is not ended here; use `service`, or delete the pod")
        done = await node.run("kill", "-s", self.signal, str(self.pid))
        return said_by(done) if done.code != 0 else Said(text=f"{self.signal} sent to {self.pid} ({target.comm})")


async def processes_of(node: Node) -> list[Process]:
    """Raises Refused where they cannot be listed."""
    done = await node.run("ps", "-eww", "-o", FORMAT)
    if done.code != 0:
        raise Refused(f"processes cannot be listed: {done.stderr.strip()}")
    return without_visitors([one for line in done.stdout.splitlines() if (one := parsed(line)) is not None])


def without_visitors(found: Sequence[Process]) -> list[Process]:
    """Without what entered the node from outside, which has parent 0 as PID 1 has, and what that has started."""
    parents = {one.pid: one.ppid for one in found}

    def is_visitor(pid: int) -> bool:
        while pid in parents and pid != 1:
            if parents[pid] == 0:
                return True
            pid = parents[pid]
        return False

    return [one for one in found if not is_visitor(one.pid)]


def parsed(line: str) -> Process | None:
    """A line of ps(1) in our format; None where it is none."""
    parts = line.split(None, NUMBERS)
    if len(parts) <= NUMBERS:
        return None
    pid, ppid, user, stat, seconds, cpu, memory, rss, rest = parts
    comm = rest[:NAME_WIDTH].strip()
    return Process(
        pid=int(pid),
        ppid=int(ppid),
        user=user,
        stat=stat,
        seconds=int(seconds),
        cpu=float(cpu),
        memory=float(memory),
        rss_kib=int(rss),
        comm=comm,
        args=rest[NAME_WIDTH:].strip() or f"[{comm}]",
    )
