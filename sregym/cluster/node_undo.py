"""Compensating actions for what is changed on a node beside Kubernetes: a file, a service's state, a kernel setting.

Each holds the state before, looks at the present, writes only a difference, and is safe to repeat. Whoever changes a
node journals one of these first (`of_node`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sregym.cluster import waits
from sregym.cluster.contract import Cluster, Compensation, ExecResult, NodeShell
from sregym.cluster.objects import NODE, Ref, dig
from sregym.errors import RecoveryError, WaitTimeout

NODE_SERVICES = ("kubelet", "containerd")
"""Without them Kubernetes calls the node not ready."""
READY_WITHIN_S = 60.0
COMMAND_S = 60.0


def of_node(action: UnitState | FileContent | SysctlValue) -> Compensation:
    """The action as an entry for the journal.

    Not bound to the node's object: the machine stays as it is where somebody deletes that.
    """
    kind = type(action)
    return Compensation(
        action=f"{kind.__module__}:{kind.__qualname__}", arguments=asdict(action), subject=action.subject
    )


@dataclass(frozen=True, kw_only=True)
class UnitState:
    """A systemd unit runs, or does not."""

    node: str
    unit: str
    active: bool

    @property
    def subject(self) -> str:
        return f"{self.node} unit {self.unit}"

    async def undo(self, cluster: Cluster) -> None:
        """Raises RecoveryError."""
        shell = _shell(cluster, self.node)
        now = await shell.run(self.node, ["systemctl", "is-active", "--", self.unit])
        if (now.stdout.strip() == "active") is not self.active:
            await _done(shell, self.node, ["systemctl", "start" if self.active else "stop", "--", self.unit])
        if self.active and self.unit.removesuffix(".service") in NODE_SERVICES:
            await _until_ready(cluster, self.node)


@dataclass(frozen=True, kw_only=True)
class FileContent:
    """A file holds this text; `unit` reads it at its start, and is restarted where it had to be written."""

    node: str
    path: str
    text: str
    unit: str | None = None

    @property
    def subject(self) -> str:
        return f"{self.node} file {self.path}"

    async def undo(self, cluster: Cluster) -> None:
        """Raises RecoveryError."""
        shell = _shell(cluster, self.node)
        if await read_file(shell, self.node, self.path) == self.text:
            return
        await write_file(shell, self.node, self.path, self.text)
        if self.unit is not None:
            await _done(shell, self.node, ["systemctl", "restart", "--", self.unit])
            if self.unit in NODE_SERVICES:
                await _until_ready(cluster, self.node)


@dataclass(frozen=True, kw_only=True)
class SysctlValue:
    """A kernel setting has this value."""

    node: str
    key: str
    value: str

    @property
    def subject(self) -> str:
        return f"{self.node} sysctl {self.key}"

    async def undo(self, cluster: Cluster) -> None:
        """Raises RecoveryError."""
        shell = _shell(cluster, self.node)
        now = await _done(shell, self.node, ["sysctl", "-n", self.key])
        if now.stdout.split() != self.value.split():
            await _done(shell, self.node, ["sysctl", "-w", f"{self.key}={self.value}"])


async def read_file(shell: NodeShell, node: str, path: str) -> str:
    """Raises RecoveryError where it cannot be read."""
    return (await _done(shell, node, ["cat", "--", path])).stdout


async def write_file(shell: NodeShell, node: str, path: str, text: str) -> None:
    """Replaces a file at once: a reader sees the old text or the new one. Raises RecoveryError."""
    beside = f"{path}.new"
    await _done(shell, node, ["install", "-m", "0644", "/dev/stdin", beside], stdin=text)
    await _done(shell, node, ["mv", "-fT", "--", beside, path])


def _shell(cluster: Cluster, node: str) -> NodeShell:
    if cluster.node_shell is None:
        raise RecoveryError(f"node {node} was changed, and there is no way to its shell here")
    return cluster.node_shell


async def _done(shell: NodeShell, node: str, argv: Sequence[str], *, stdin: str = "") -> ExecResult:
    result = await shell.run(node, argv, stdin=stdin, within=COMMAND_S)
    if result.code != 0:
        said = result.stderr.strip() or result.stdout.strip()
        raise RecoveryError(f"node {node}: `{' '.join(argv)}` ended with status {result.code}: {said[-300:]}")
    return result


async def _until_ready(cluster: Cluster, node: str) -> None:
    async def ready() -> bool | None:
        conditions = dig(await cluster.get(Ref(NODE, node)), "status", "conditions", default=[])
        return True if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions) else None

    try:
        await waits.poll(ready, what=f"node {node} is ready", every=0.5, within=READY_WITHIN_S)
    except WaitTimeout as error:
        raise RecoveryError(str(error)) from error
