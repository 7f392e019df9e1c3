"""What a cluster can be asked: protocols split by what the user needs, so that an oracle gets only the readers.

Errors are those of `sregym.errors`: `NotFound`, `Conflict`, `Forbidden`, `Gone`, `Invalid`, `Unavailable`.
Namespaces of references given here must be filled in already (`Ref.within`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from sregym.cluster.objects import Kind, Obj, Objs, Ref


class PatchType(StrEnum):
    """Content types of PATCH (Kubernetes API concepts, "Patch mechanisms")."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"


class Change(StrEnum):
    LISTED = "LISTED"
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True)
class WatchEvent:
    """One change. LISTED comes once for each object of the first list, then `None` marks the end of the list."""

    change: Change
    obj: Obj


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What to list or watch: one kind, optionally one namespace, one name, labels."""

    kind: Kind
    namespace: str | None = None
    name: str | None = None
    labels: str = ""


@dataclass(frozen=True, kw_only=True)
class ExecResult:
    """A command run in a container: exit code, stdout and stderr apart."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True, kw_only=True)
class HttpReply:
    """An HTTP answer seen from inside the cluster. `error` is set, and `status` 0, when no answer came."""

    status: int
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""


class Reader(Protocol):
    """Reads objects."""

    async def get(self, ref: Ref) -> Obj:
        """The object. Raises NotFound."""

    async def find(self, ref: Ref) -> Obj | None:
        """The object, or None where it does not exist."""

    async def list(self, selection: Selection) -> Objs:
        """All objects of the selection (paged inside; consistent read)."""

    def watch(self, selection: Selection) -> AsyncGenerator[WatchEvent | None, None]:
        """List, then None, then changes for ever: reconnects, and lists again after 410 Gone."""


class Writer(Protocol):
    """Changes objects, without a journal: only the editor, app deployment and agents' repairs use this."""

    async def create(self, obj: Obj) -> Obj: ...

    async def patch(self, ref: Ref, patch: Any, kind: PatchType = PatchType.MERGE) -> Obj: ...

    async def replace(self, obj: Obj) -> Obj: ...

    async def delete(self, ref: Ref, *, grace_s: int | None = None, uid: str | None = None) -> bool:
        """Whether it was there. Dependents are deleted in the background.

        With `uid` only that very object is deleted; Conflict where another one bears its name.
        """


class Shell(Protocol):
    """Looks from inside: commands in containers, logs, requests from inside the cluster's network.

    A look that fails raises a ClusterError; what it saw, good or bad, is a value.
    """

    async def exec(
        self, pod: Ref, argv: Sequence[str], *, container: str | None = None, stdin: str = "", within: float = 30.0
    ) -> ExecResult:
        """Runs a command in a container of a pod. Raises Unavailable where it has not ended `within` seconds."""

    async def logs(
        self, pod: Ref, *, container: str | None = None, previous: bool = False, tail: int | None = None
    ) -> str:
        """What a container wrote (`previous`: the one before its last restart; `tail`: that many last lines)."""

    async def request(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: str | None = None,
        within: float = 5.0,
    ) -> HttpReply:
        """A real HTTP request to a Service or pod of the cluster, over a fresh connection.

        The host is `service.namespace[.svc[.cluster.local]]` or an address. No answer is a reply with status 0 and
        `error`; raises Unavailable where the look itself failed.
        """


class Cluster(Reader, Writer, Shell, Protocol):
    """Everything. Held by the coordinator; handed on in parts."""

    @property
    def name(self) -> str: ...

    @property
    def node_shell(self) -> NodeShell | None:
        """Commands on the nodes; None where this cluster's provider has no such thing."""

    async def apply(self, manifests: Sequence[Obj], *, namespace: str | None = None) -> None:
        """Creates or changes objects in order (server-side apply, forced), with the neutral field manager."""

    async def identity(self) -> str:
        """What stays the same for a cluster's life: the uid of its namespace kube-system. Keys journals and leases."""

    async def kinds(self) -> Sequence[Kind]:
        """Every kind that the API server can list now, custom resources included."""

    async def kind_of(self, obj: Obj) -> Kind:
        """The kind of an object's apiVersion and kind. Raises NotFound where the cluster does not serve it."""

    async def raw(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Any other call of the API: JSON in, JSON out (impersonation through `headers`)."""


class NodeShell(Protocol):
    """Commands on the cluster's nodes, as root, beside Kubernetes. Nothing of it is visible in the cluster."""

    @property
    def nodes(self) -> Sequence[str]:
        """Names of the nodes that can be reached, as Kubernetes calls them."""

    @property
    def own_kernel(self) -> bool:
        """Whether each node has a kernel of its own; without one, kernel-wide settings are the host's too."""

    async def run(self, node: str, argv: Sequence[str], *, stdin: str = "", within: float = 30.0) -> ExecResult:
        """Runs a command. Raises Unavailable where the node cannot be reached or the command does not end in time."""


class Editor(Protocol):
    """Changes with undo written before the deed, on the coordinator's disk (synced).

    Every method journals the pre-image (or "absent") and only then calls the API. `undo_all` walks backwards, looks
    at the present and writes only differences: safe to repeat and to kill half-way.
    """

    async def create(self, obj: Obj) -> Obj: ...

    async def patch(self, ref: Ref, patch: Any, kind: PatchType = PatchType.MERGE) -> Obj: ...

    async def delete(self, ref: Ref) -> None: ...

    async def recycle_pods(self, selection: Selection, *, grace_s: int | None = None) -> None:
        """Deletes the pods of a selection that a controller makes again, and no others: journalled for the record,
        nothing to undo."""

    async def compensate(self, action: Compensation) -> None:
        """Journals an undo for an effect outside the API; call it before the deed."""

    def section(self, name: str) -> Editor:
        """An editor on the same journal; its `undo_all` undoes only what was done through it."""

    async def undo_all(self) -> None:
        """Raises RecoveryError naming what is left."""


@dataclass(frozen=True, kw_only=True)
class Compensation:
    """A named compensating action `module:Class` with JSON arguments, importable only from `injectors.*` and
    `sregym.cluster.node_undo`.

    The class is called with `**arguments` and must have `async def undo(self, cluster) -> None`, idempotent.
    `bound_to` is the uid of the object it belongs to: when that object is gone the action counts as undone.
    `subject` names what the action brings back as a whole (one file of a node): of several actions on one subject the
    oldest knows the state to go back to, in whatever order they are undone.
    """

    action: str
    arguments: Mapping[str, Any]
    bound_to: Ref | None = None
    uid: str | None = None
    subject: str | None = None
