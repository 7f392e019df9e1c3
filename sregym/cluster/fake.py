"""A cluster in memory (or in one JSON file) that obeys the `Cluster` contract: for tests and dry runs.

It keeps what callers rely on: resourceVersions, uids, generations, conflicts, watches with LISTED / None / changes,
the three patch types, ownership and namespace deletion. `FakeControllers` plays the built-in controllers well enough
for roll-outs to end. What a command, a request or a log says is scripted by the test. The contract suite
(tests/contract) holds it and the real client to the same behaviour.
"""

from __future__ import annotations

import copy
import json
import os
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from sregym.cluster import fake_controllers
from sregym.cluster.contract import (
    Change,
    ExecResult,
    HttpReply,
    NodeShell,
    PatchType,
    Selection,
    WatchEvent,
)
from sregym.cluster.fake_rules import (
    Checkpoint,
    ExecScript,
    LogScript,
    RequestScript,
    active_namespace,
    check_complete,
    kind_row,
    no_exec,
    no_logs,
    no_request,
    nothing,
    selects,
    unversioned,
    with_status_of,
    without_meta,
)
from sregym.cluster.objects import (
    KNOWN_KINDS,
    NAMESPACE,
    Kind,
    Obj,
    Objs,
    Ref,
    dig,
    ref_of,
    uid_of,
)
from sregym.cluster.patching import apply_patch, strategic
from sregym.errors import Conflict, Invalid, NotFound, Unavailable

CREATED_AT = "2025-01-01T00:00:00Z"


@dataclass(kw_only=True)
class FakeCluster:
    """See the module. `path` keeps the state in a file; `on_exec`, `on_request`, `on_logs` are scripts.

    `checkpoint` is called as `before:<verb>` and `after:<verb>` around every write: crash tests kill there.
    `failing` maps a verb (`get`, `list`, `create`, `patch`, ...) to the error that it raises now.
    """

    name: str = "fake"
    path: Path | None = None
    controllers: bool = True
    on_exec: ExecScript = no_exec
    on_request: RequestScript = no_request
    on_logs: LogScript = no_logs
    node_shell: NodeShell | None = None
    checkpoint: Checkpoint = nothing
    failing: dict[str, Exception] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    objects: dict[Ref, Obj] = field(default_factory=dict)
    extra_kinds: list[Kind] = field(default_factory=list)
    _version: int = 0
    _history: list[tuple[Kind, WatchEvent]] = field(default_factory=list)
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            self._load(self.path)
        elif not self.objects:
            for namespace in ("default", "kube-system"):
                self._put(Ref(NAMESPACE, namespace), active_namespace(namespace))
            self._save()

    # --- reading

    async def get(self, ref: Ref) -> Obj:
        self._called("get", ref)
        check_complete(ref)
        if ref not in self.objects:
            raise NotFound(f"{ref} not found", status=404)
        return copy.deepcopy(self.objects[ref])

    async def find(self, ref: Ref) -> Obj | None:
        try:
            return await self.get(ref)
        except NotFound:
            return None

    async def list(self, selection: Selection) -> Objs:
        self._called("list", selection)
        return [copy.deepcopy(obj) for ref, obj in sorted(self.objects.items()) if selects(selection, ref, obj)]

    async def watch(self, selection: Selection) -> AsyncGenerator[WatchEvent | None, None]:
        for obj in await self.list(selection):
            yield WatchEvent(Change.LISTED, obj)
        seen = len(self._history)
        yield None
        while True:
            changed = self._changed
            while seen < len(self._history):
                kind, event = self._history[seen]
                seen += 1
                if kind == selection.kind and selects(selection, ref_of(event.obj, kind), event.obj):
                    yield copy.deepcopy(event)
            if changed is self._changed:
                await changed.wait()

    # --- writing

    async def create(self, obj: Obj) -> Obj:
        ref = ref_of(obj, await self.kind_of(obj))
        self._called("create", ref)
        check_complete(ref)
        if ref.namespace and Ref(NAMESPACE, ref.namespace) not in self.objects:
            raise NotFound(f'namespaces "{ref.namespace}" not found', status=404)
        if ref in self.objects:
            raise Conflict(f"{ref} already exists", status=409)
        if "resourceVersion" in obj["metadata"]:
            raise Invalid("resourceVersion should not be set on objects to be created", status=422)
        self.checkpoint("before:create")
        stored = self._put(ref, copy.deepcopy(obj))
        self._finish("create")
        return copy.deepcopy(stored)

    async def patch(self, ref: Ref, patch: Any, kind: PatchType = PatchType.MERGE) -> Obj:
        self._called("patch", ref)
        check_complete(ref)
        if ref not in self.objects:
            raise NotFound(f"{ref} not found", status=404)
        self.checkpoint("before:patch")
        present = self.objects[ref]
        stored = self._put(ref, with_status_of(present, apply_patch(copy.deepcopy(present), patch, kind)))
        self._finish("patch")
        return copy.deepcopy(stored)

    async def replace(self, obj: Obj) -> Obj:
        ref = ref_of(obj, await self.kind_of(obj))
        self._called("replace", ref)
        check_complete(ref)
        present = self.objects.get(ref)
        if present is None:
            raise NotFound(f"{ref} not found", status=404)
        wanted = obj["metadata"].get("resourceVersion")
        if wanted is not None and wanted != present["metadata"]["resourceVersion"]:
            raise Conflict(f"{ref}: the object has been modified", status=409)
        self.checkpoint("before:replace")
        stored = self._put(ref, with_status_of(present, copy.deepcopy(obj)))
        self._finish("replace")
        return copy.deepcopy(stored)

    async def delete(self, ref: Ref, *, grace_s: int | None = None, uid: str | None = None) -> bool:
        self._called("delete", ref)
        check_complete(ref)
        if ref not in self.objects:
            return False
        if uid is not None and uid_of(self.objects[ref]) != uid:
            raise Conflict(f"{ref}: the uid in the precondition does not match", status=409)
        self.checkpoint("before:delete")
        self._remove(ref)
        self._finish("delete")
        return True

    async def apply(self, manifests: Sequence[Obj], *, namespace: str | None = None) -> None:
        for obj in manifests:
            kind = await self.kind_of(obj)
            ref = ref_of(obj, kind)
            ref = ref.within(namespace) if namespace else ref
            self._called("apply", ref)
            check_complete(ref)
            if ref.namespace and Ref(NAMESPACE, ref.namespace) not in self.objects:
                raise NotFound(f'namespaces "{ref.namespace}" not found', status=404)
            self._put(ref, strategic(copy.deepcopy(self.objects.get(ref, {})), obj))
            self._finish("apply")

    # --- the rest

    async def identity(self) -> str:
        return uid_of(await self.get(Ref(NAMESPACE, "kube-system")))

    async def kinds(self) -> Sequence[Kind]:
        self._called("kinds", "")
        return [*KNOWN_KINDS.values(), *self.extra_kinds]

    async def kind_of(self, obj: Obj) -> Kind:
        for kind in (*KNOWN_KINDS.values(), *self.extra_kinds):
            if (kind.api_version, kind.name) == (obj["apiVersion"], obj["kind"]):
                return kind
        raise NotFound(f"the cluster serves no {obj['kind']} of {obj['apiVersion']}", status=404)

    async def raw(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        raise Unavailable(f"the fake cluster does not know {method} {path}")

    async def exec(
        self, pod: Ref, argv: Sequence[str], *, container: str | None = None, stdin: str = "", within: float = 30.0
    ) -> ExecResult:
        await self.get(pod)
        self._called("exec", pod)
        return self.on_exec(pod, argv, stdin)

    async def logs(
        self, pod: Ref, *, container: str | None = None, previous: bool = False, tail: int | None = None
    ) -> str:
        await self.get(pod)
        self._called("logs", pod)
        lines = self.on_logs(pod, container, previous).splitlines(keepends=True)
        return "".join(lines[-tail:] if tail else lines)

    async def request(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: str | None = None,
        within: float = 5.0,
    ) -> HttpReply:
        self._called("request", url)
        return self.on_request(method, url, body)

    def set_status(self, ref: Ref, status: Mapping[str, Any]) -> None:
        """Merges into an object's status, as its controller or a kubelet would."""
        obj = copy.deepcopy(self.objects[ref])
        self._put(ref, {**obj, "status": {**obj.get("status", {}), **status}})
        self._wake()

    def settle(self) -> None:
        """Lets the built-in controllers do their work until nothing changes any more."""
        if self.controllers:
            fake_controllers.settle(self)
        self._wake()

    # --- how controllers write (no contract, no checkpoints)

    def put(self, ref: Ref, obj: Obj) -> None:
        """Stores an object without letting controllers look."""
        self._put(ref, obj)

    def drop(self, ref: Ref) -> None:
        """Removes an object and what it owns."""
        self._remove(ref)

    # --- inside

    def _called(self, verb: str, what: object) -> None:
        self.calls.append(f"{verb} {what}")
        if verb in self.failing:
            raise self.failing[verb]

    def _put(self, ref: Ref, obj: Obj) -> Obj:
        present = self.objects.get(ref)
        meta = dict(obj.get("metadata", {}))
        meta["name"] = ref.name
        if ref.namespace:
            meta["namespace"] = ref.namespace
        meta.pop("resourceVersion", None)
        before = dig(present, "metadata", default={})
        meta["uid"] = before.get("uid") or str(uuid.uuid4())
        meta["creationTimestamp"] = before.get("creationTimestamp") or CREATED_AT
        changed_spec = present is not None and without_meta(present) != without_meta(obj)
        meta["generation"] = int(before.get("generation", 0)) + (1 if present is None or changed_spec else 0)
        new = {**obj, "apiVersion": ref.kind.api_version, "kind": ref.kind.name, "metadata": meta}
        if present is not None and unversioned(present) == unversioned(new):
            return present
        self._version += 1
        meta["resourceVersion"] = str(self._version)
        self.objects[ref] = new
        self._record(ref.kind, Change.ADDED if present is None else Change.MODIFIED, new)
        return new

    def _remove(self, ref: Ref) -> None:
        gone = self.objects.pop(ref, None)
        if gone is None:
            return
        self._version += 1
        gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self._version)}}
        self._record(ref.kind, Change.DELETED, gone)
        uid = uid_of(gone)
        for other, obj in list(self.objects.items()):
            owned = any(owner.get("uid") == uid for owner in dig(obj, "metadata", "ownerReferences", default=[]))
            if owned or (ref.kind == NAMESPACE and other.namespace == ref.name):
                self._remove(other)

    def _record(self, kind: Kind, change: Change, obj: Obj) -> None:
        self._history.append((kind, WatchEvent(change, copy.deepcopy(obj))))

    def _finish(self, verb: str) -> None:
        self.settle()
        self._save()
        self.checkpoint(f"after:{verb}")

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def _save(self) -> None:
        if self.path is None:
            return
        rows = [{"kind": kind_row(ref.kind), "object": obj} for ref, obj in sorted(self.objects.items())]
        text = json.dumps({"version": self._version, "objects": rows})
        fresh = self.path.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        os.replace(fresh, self.path)

    def _load(self, path: Path) -> None:
        state = json.loads(path.read_text(encoding="utf-8"))
        self._version = state["version"]
        for row in state["objects"]:
            kind = Kind(**row["kind"])
            self.objects[ref_of(row["object"], kind)] = row["object"]
