"""The endless watch: list, mark the end of the list, then changes, for ever.

The recipe is kopf's (`kopf/_cogs/clients/watching.py`): start at the list's resourceVersion; bookmarks keep it fresh;
410 Gone means list again; silence longer than bookmarks allow means a dead connection; reconnect with a growing pause.
Beyond it, a second list is told as changes against what is known, so that a consumer never misses a deletion.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, Protocol

from sregym.cluster import waits
from sregym.cluster.contract import Change, Selection, WatchEvent
from sregym.cluster.objects import Obj
from sregym.errors import ClusterError, Gone, Unavailable

IDLE_S = 100.0
"""The API server sends bookmarks about once a minute; a longer silence is a dead connection."""
SERVER_TIMEOUT_S = 290
"""After this the server ends the stream by itself and we go on from where it was."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0


class Source(Protocol):
    """What a watch reads from."""

    async def list_at(self, selection: Selection) -> tuple[list[Obj], str]:
        """The objects and the resourceVersion of the list."""

    def lines(
        self, selection: Selection, resource_version: str, *, idle_s: float, server_s: int
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The stream of changes after a resourceVersion."""


async def watch_forever(source: Source, selection: Selection) -> AsyncGenerator[WatchEvent | None, None]:
    """See `Reader.watch`. Raises what the first list raises, except Unavailable, which it outlasts."""
    known: dict[str, Obj] = {}
    pause = FIRST_PAUSE_S
    listed = False
    while True:
        try:
            objects, version = await source.list_at(selection)
        except Unavailable:
            await waits.pause(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)
            continue
        for event in _since(known, objects) if listed else [WatchEvent(Change.LISTED, obj) for obj in objects]:
            yield event
        known = {_key(obj): obj for obj in objects}
        if not listed:
            listed = True
            yield None
        pause = FIRST_PAUSE_S
        async with aclosing(_changes(source, selection, version, known)) as changes:
            async for event in changes:
                yield event


async def _changes(
    source: Source, selection: Selection, version: str, known: dict[str, Obj]
) -> AsyncGenerator[WatchEvent, None]:
    """Changes until the resourceVersion is too old; keeps `known` up to date."""
    pause = FIRST_PAUSE_S
    while True:
        try:
            async with source.lines(selection, version, idle_s=IDLE_S, server_s=SERVER_TIMEOUT_S) as lines:
                async for line in lines:
                    pause = FIRST_PAUSE_S
                    kind, obj = _parsed(line)
                    version = obj["metadata"]["resourceVersion"]
                    if kind == "BOOKMARK":
                        continue
                    change = Change(kind)
                    if change is Change.DELETED:
                        known.pop(_key(obj), None)
                    else:
                        known[_key(obj)] = obj
                    yield WatchEvent(change, obj)
        except Gone:
            return
        except ClusterError:
            # Not only lost connections: a kind may vanish and come back (a CRD), rights may be given again.
            await waits.pause(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)
            if pause == LONGEST_PAUSE_S:
                return


def _parsed(line: bytes) -> tuple[str, Any]:
    event = json.loads(line)
    kind, obj = event["type"], event["object"]
    if kind == "ERROR":
        code = obj.get("code")
        raise (Gone if code == 410 else Unavailable)(f"watch: {code} {obj.get('message', '')}", status=code)
    if kind not in ("BOOKMARK", "ADDED", "MODIFIED", "DELETED"):
        raise Unavailable(f"watch: unknown event {kind}")
    return kind, obj


def _since(known: dict[str, Obj], objects: list[Obj]) -> list[WatchEvent]:
    """A later list told as changes."""
    present = {_key(obj): obj for obj in objects}
    events = [WatchEvent(Change.DELETED, obj) for key, obj in known.items() if key not in present]
    for key, obj in present.items():
        if key not in known:
            events.append(WatchEvent(Change.ADDED, obj))
        elif known[key]["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
            events.append(WatchEvent(Change.MODIFIED, obj))
    return events


def _key(obj: Obj) -> str:
    meta = obj["metadata"]
    return f"{meta.get('namespace', '')}/{meta['name']}/{meta.get('uid', '')}"
