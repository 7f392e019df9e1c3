"""The tool itself: which nodes there are, which operations, and one call with its record, its journal and its limits.

worker nodes only · one change at a time · undo on disk before the deed · every call in the attempt's events
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

import anyio
from pydantic import Field, TypeAdapter, ValidationError

from sregym.cluster.contract import Cluster, Editor, Selection
from sregym.cluster.node_undo import of_node
from sregym.cluster.objects import NAMESPACE, NODE, Ref, dig
from sregym.errors import ClusterError
from sregym.events import Emit, silent
from sregym.gateway.node.contract import Answer, Node, Operation, Refused, Said, Undo, bounded
from sregym.gateway.node.files import DiskFree, DiskUsage, EmptyFile, FindFiles, RemoveFile
from sregym.gateway.node.kernel import KernelLog, SysctlRead, SysctlWrite, Time
from sregym.gateway.node.kubelet import KubeletConfig, KubeletSet
from sregym.gateway.node.network import Conntrack, Network
from sregym.gateway.node.processes import Kill, Processes
from sregym.gateway.node.units import Journal, Service

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
AT_ONCE = 4
OPERATIONS: Sequence[type[Operation]] = (
    Service,
    Journal,
    KubeletConfig,
    KubeletSet,
    DiskFree,
    DiskUsage,
    FindFiles,
    RemoveFile,
    EmptyFile,
    SysctlRead,
    SysctlWrite,
    Conntrack,
    Processes,
    Kill,
    Network,
    Time,
    KernelLog,
)
Any_ = Annotated[
    Service
    | Journal
    | KubeletConfig
    | KubeletSet
    | DiskFree
    | DiskUsage
    | FindFiles
    | RemoveFile
    | EmptyFile
    | SysctlRead
    | SysctlWrite
    | Conntrack
    | Processes
    | Kill
    | Network
    | Time
    | KernelLog,
    Field(discriminator="op"),
]
_REQUEST: TypeAdapter[Operation] = TypeAdapter(Any_)


class NoSuchNode(LookupError):
    """The node is not there, or not offered; the text names those that are."""


class NotHere(Exception):
    """This cluster's provider gives no way to its nodes."""


@dataclass(kw_only=True)
class NodeTool:
    """The node tool of one attempt. `workers` is fixed when it is made: labels may be changed later."""

    cluster: Cluster
    workers: Sequence[str]
    editor: Editor
    """Journals undo; a section of its own."""
    since: datetime | None = None
    emit: Emit = silent
    _limit: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(AT_ONCE))
    _changing: anyio.Lock = field(default_factory=anyio.Lock)
    _calls: set[anyio.CancelScope] = field(default_factory=set)
    _open: bool = True

    @classmethod
    async def of(cls, cluster: Cluster, editor: Editor, *, namespace: str, emit: Emit = silent) -> NodeTool:
        """The tool for a cluster as it is now; answers go back no further than the namespace's creation.

        Raises ClusterError.
        """
        shell = cluster.node_shell
        reachable = set(shell.nodes) if shell is not None else set()
        nodes = await cluster.list(Selection(kind=NODE))
        named = {
            one["metadata"]["name"] for one in nodes if CONTROL_PLANE not in dig(one, "metadata", "labels", default={})
        }
        app = await cluster.find(Ref(NAMESPACE, namespace))
        made = dig(app, "metadata", "creationTimestamp")
        since = datetime.fromisoformat(made) if made else None
        return cls(cluster=cluster, workers=sorted(named & reachable), editor=editor, since=since, emit=emit)

    async def call(self, node: str, request: Mapping[str, Any]) -> Answer:
        """One operation on one node.

        Raises:
            ValueError: The request is no valid operation; the text says why.
            Refused: The operation is not allowed.
            NoSuchNode, NotHere: See there.
            ClusterError: The node cannot be reached.
        """
        began = anyio.current_time()
        outcome, text = "failed", ""
        try:
            operation = parse(request)
            said = await self._run(self._node(node), operation)
            outcome = "ok" if said.ok else "not-ok"
            text, cut = bounded(said.text, operation.keeps)
            return Answer(node=node, op=str(request["op"]), ok=said.ok, text=text, truncated=cut)
        except (ValueError, Refused, NoSuchNode, NotHere, ClusterError) as error:
            outcome, text = type(error).__name__, str(error)
            raise
        finally:
            seconds = round(anyio.current_time() - began, 3)
            self.emit(
                "node.called", node=node, request=dict(request), outcome=outcome, said=text[:500], seconds=seconds
            )

    async def shut(self) -> None:
        """Take no more calls and end those under way. What they have changed is in the journal. Idempotent."""
        self._open = False
        for scope in list(self._calls):
            scope.cancel()
        async with self._changing:
            return

    async def _run(self, node: Node, operation: Operation) -> Said:
        with anyio.CancelScope() as scope:
            self._calls.add(scope)
            try:
                async with self._limit:
                    if not operation.changes:
                        return await operation.run(node)
                    async with self._changing:
                        return await operation.run(node)
            finally:
                self._calls.discard(scope)
        raise NotHere("the session is over")

    def _node(self, name: str) -> Node:
        if not self._open:
            raise NotHere("the session is over")
        shell = self.cluster.node_shell
        if shell is None:
            raise NotHere(
                "nodes of this cluster can be reached through Kubernetes only: this tool is not available here"
            )
        if name not in self.workers:
            raise NoSuchNode(f"{name} is no worker node here; there are {', '.join(self.workers) or 'none'}")

        async def will_change(undo: Undo) -> None:
            await self.editor.compensate(of_node(undo))

        return Node(name=name, shell=shell, will_change=will_change, since=self.since)


def parse(request: Mapping[str, Any]) -> Operation:
    """A request as an operation. Raises ValueError with what is wrong and what would be right."""
    try:
        return _REQUEST.validate_python(dict(request))
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] in ("union_tag_invalid", "union_tag_not_found"):
            raise ValueError(f"`op` must be one of {', '.join(names())}") from None
        where = ".".join(str(part) for part in first["loc"][1:]) or "request"
        raise ValueError(f"{where}: {first['msg']}; {described(str(request.get('op')))}") from None


def names() -> list[str]:
    """Names of all operations."""
    return [str(one.model_fields["op"].default) for one in OPERATIONS]


def described(op: str) -> str:
    """The arguments of an operation, in one line."""
    kind = next(one for one in OPERATIONS if one.model_fields["op"].default == op)
    fields = [name + ("" if f.is_required() else "?") for name, f in kind.model_fields.items() if name != "op"]
    return f"{op} takes {', '.join(fields) or 'no arguments'}"


def catalogue() -> list[dict[str, Any]]:
    """Every operation with its description and the JSON schema of its arguments, for help texts."""
    found = []
    for one in OPERATIONS:
        schema = one.model_json_schema()
        arguments = {name: body for name, body in schema.get("properties", {}).items() if name != "op"}
        found.append(
            {
                "op": one.model_fields["op"].default,
                "description": " ".join((one.__doc__ or "").split()),
                "changes": one.changes,
                "arguments": arguments,
                "required": [name for name in schema.get("required", []) if name != "op"],
            }
        )
    return found
