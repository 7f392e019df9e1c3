"""Services of a node and what they wrote."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from sregym.cluster.node_undo import UnitState
from sregym.gateway.node.contract import Node, Operation, Refused, Said, said_by

SERVICES = (
    "kubelet",
    "containerd",
    "systemd-journald",
    "systemd-resolved",
    "systemd-timesyncd",
    "chrony",
    "cron",
    "rsyslog",
    "nftables",
)
"""Units that may be started, stopped and restarted. Any may be looked at."""
LOOKS = ("status", "is-active", "show")
SHOWN = "Id,LoadState,ActiveState,SubState,Result,NRestarts,ExecMainStatus,ActiveEnterTimestamp,UnitFileState"
Unit = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9@_.:-]{0,100}$")]


class Service(Operation):
    """Look at, start, stop or restart a systemd unit (kubelet, containerd, ...). `list` shows all."""

    op: Literal["service"] = "service"
    action: Literal["list", "status", "is-active", "show", "start", "stop", "restart"]
    unit: Unit | None = None
    changes: ClassVar[bool] = True

    async def run(self, node: Node) -> Said:
        if self.action == "list":
            return await node.said("systemctl", "list-units", "--type=service", "--all", "--no-pager", "--plain")
        if self.unit is None:
            raise Refused(f"`{self.action}` needs a unit, such as kubelet")
        name = self.unit.removesuffix(".service")
        if self.action == "show":
            return await node.said("systemctl", "show", f"--property={SHOWN}", "--", name)
        if self.action in LOOKS:
            return await node.said("systemctl", self.action, *_QUIET.get(self.action, ()), "--", name)
        if name not in SERVICES:
            raise Refused(f"{name} cannot be changed here; these can: {', '.join(SERVICES)}")
        return await self._change(node, name)

    async def _change(self, node: Node, name: str) -> Said:
        now = await node.run("systemctl", "is-active", "--", name)
        state = now.stdout.strip()
        if state in ("", "inactive") and self.action != "stop" and not await _is_there(node, name):
            return Said(text=f"there is no unit {name} on {node.name}", ok=False)
        await node.will_change(UnitState(node=node.name, unit=name, active=state == "active"))
        done = await node.run("systemctl", self.action, "--", name)
        after = await node.run("systemctl", "is-active", "--", name)
        told = f"{name}: {self.action} done; it is now {after.stdout.strip() or 'unknown'}"
        failed = said_by(done)
        return Said(text=told, ok=True) if done.code == 0 else Said(text=f"{failed.text}\n{told}", ok=False)


_QUIET = {"status": ("--no-pager", "--full", "--lines=20")}


async def _is_there(node: Node, name: str) -> bool:
    found = await node.run("systemctl", "show", "--property=LoadState", "--value", "--", name)
    return found.stdout.strip() == "loaded"


class Journal(Operation):
    """Read the node's journal, newest lines last: of one unit or all, filtered by a regular expression or priority."""

    op: Literal["journal"] = "journal"
    unit: Unit | None = None
    lines: int = Field(default=200, ge=1, le=2000)
    minutes: int | None = Field(default=None, ge=1, le=24 * 60)
    """How far to look back."""
    grep: str | None = Field(default=None, min_length=1, max_length=200)
    priority: Literal["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"] | None = None
    keeps: ClassVar[Literal["head", "tail"]] = "tail"

    async def run(self, node: Node) -> Said:
        argv = ["journalctl", "--no-pager", "--output=short-iso", f"--lines={self.lines}"]
        if since := self._since(node):
            argv.append(f"--since=@{since.timestamp():.0f}")
        if self.unit is not None:
            argv.append(f"--unit={self.unit}")
        if self.grep is not None:
            argv.append(f"--grep={self.grep}")
        if self.priority is not None:
            argv.append(f"--priority={self.priority}")
        done = await node.run(*argv)
        nothing = done.code != 0 and not done.stderr.strip()
        return Said(text="-- No entries --") if nothing else said_by(done)

    def _since(self, node: Node) -> datetime | None:
        asked = datetime.now(UTC) - timedelta(minutes=self.minutes) if self.minutes is not None else None
        known = [one for one in (asked, node.since) if one is not None]
        return max(known) if known else None
