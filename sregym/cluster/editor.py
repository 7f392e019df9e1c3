"""Changes with undo: `JournalledEditor` writes to the journal, then to the cluster.

`undo_all` is all or one section of `recovery.undo`. What a run has left after a kill, `recovery.recover` undoes from
the journal alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from sregym.cluster import recovery
from sregym.cluster.contract import Cluster, Compensation, PatchType, Selection
from sregym.cluster.journal import Journal
from sregym.cluster.objects import NAMESPACE, Obj, Ref, is_owned, ref_of, uid_of
from sregym.errors import Conflict, DefinitionError, Forbidden, Invalid, NotFound
from sregym.events import Emit, silent

After = TypeVar("After", bound=Obj | None)


class JournalledEditor:
    """An `Editor` over a cluster and a journal."""

    def __init__(self, cluster: Cluster, journal: Journal, *, section: str = "", emit: Emit = silent) -> None:
        self._cluster = cluster
        self._journal = journal
        self._section = section
        self._emit = emit

    @property
    def journal(self) -> Journal:
        return self._journal

    async def create(self, obj: Obj) -> Obj:
        ref = ref_of(obj, await self._cluster.kind_of(obj))
        if await self._cluster.find(ref) is not None:
            raise Conflict(f"{ref} exists already", status=409)
        return await self._change("create", ref, None, lambda: self._cluster.create(obj))

    async def patch(self, ref: Ref, patch: Any, kind: PatchType = PatchType.MERGE) -> Obj:
        before = await self._cluster.get(ref)
        return await self._change("patch", ref, before, lambda: self._cluster.patch(ref, patch, kind))

    async def delete(self, ref: Ref) -> None:
        if ref.kind == NAMESPACE:
            raise DefinitionError(f"{ref}: what is inside could not be brought back; delete objects one by one")
        before = await self._cluster.get(ref)

        async def deletion() -> None:
            await self._cluster.delete(ref, uid=uid_of(before))

        await self._change("delete", ref, before, deletion)

    async def recycle_pods(self, selection: Selection, *, grace_s: int | None = None) -> None:
        for pod in await self._cluster.list(selection):
            ref = ref_of(pod, selection.kind)
            if not is_owned(pod):
                self._emit("editor.left", ref=str(ref), why="no controller would make it again")
                continue
            self._journal.note(f"recycle {ref}", section=self._section)
            self._emit("editor.recycled", ref=str(ref))
            await self._cluster.delete(ref, grace_s=grace_s)

    async def compensate(self, action: Compensation) -> None:
        recovery.check_action(action)
        self._journal.compensation(action, section=self._section)
        self._emit("editor.compensation", action=action.action)

    def section(self, name: str) -> JournalledEditor:
        # Unique, so that two sections of one name (the same trigger twice at once) do not undo each other.
        path = "/".join(filter(None, (self._section, f"{name}-{uuid.uuid4().hex[:8]}")))
        return JournalledEditor(self._cluster, self._journal, section=path, emit=self._emit)

    async def undo_all(self) -> None:
        await recovery.undo(self._journal, self._cluster, section=self._section, emit=self._emit)

    async def _change(self, verb: str, ref: Ref, before: Obj | None, call: Callable[[], Awaitable[After]]) -> After:
        entry = self._journal.change(verb, ref, before=before, section=self._section)
        try:
            after = await call()
        except (Invalid, Forbidden, NotFound, Conflict):
            # The server's plain no. Of any other failure nobody knows what it did, so the entry stays open.
            self._journal.mark(entry, "void")
            raise
        self._journal.mark(entry, "done", after=after)
        self._emit("editor.changed", verb=verb, ref=str(ref))
        return after
