"""Takes what is hidden out of the API server's answers: objects, lists, tables and watch events.

A document or event in which no hidden name occurs goes on byte for byte. Resource versions and bookmarks stay as they
are. Two things would speak of what was taken out and are mended: a page never ends with a hidden object, because the
token for the next page names the last one, and the count of remaining objects is left out. A table's rows must hold
what they are judged by, so the API server may be asked for more of each object than the client wants; the surplus is
cut off again.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote_plus

from sregym.cluster.objects import Obj
from sregym.gateway.hiding import Hiding
from sregym.gateway.target import Target

LONGEST_EVENT = 32 * 1024 * 1024
"""Bytes of one watch event; the API server's own limit for an object is far below."""
_AMOUNT = ("None", "Metadata", "Object")
"""How much of each object a table's rows hold, in rising order (`includeObject`)."""


class Unreadable(Exception):
    """An answer that is not what it should be, and so cannot be judged."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The request as it goes to the API server, and what must be cut off the rows of its answer (None: nothing)."""

    accept: bytes
    path: str
    surplus: str | None = None


def asked(hiding: Hiding, target: Target, accept: bytes) -> Asked | None:
    """How to ask so that the answer can be judged. None where no form that the client takes can be."""
    whole = hiding.needs_whole_objects(target)
    kinds = [part.strip() for part in accept.split(b",") if part.strip()]
    fit = [kind for kind in kinds if not (whole and b"as=partialobjectmetadata" in kind.lower())]
    if kinds and not fit:
        return None
    joined = b", ".join(fit)
    if b"as=table" not in joined.lower():
        return Asked(accept=joined, path=target.canonical)
    wanted = _first(target.query, "includeObject")
    if wanted not in _AMOUNT:
        wanted = "Metadata"
    needed = max(wanted, "Object" if whole else "Metadata", key=_AMOUNT.index)
    path = replaced(target.canonical, "includeObject", needed)
    return Asked(accept=joined, path=path, surplus=wanted if needed != wanted else None)


def replaced(request: str, name: str, value: str) -> str:
    """A path and query with one parameter set; the others stay as they are."""
    path, _, query = request.partition("?")
    others = [part for part in query.split("&") if part and unquote_plus(part.partition("=")[0]) != name]
    return path + "?" + "&".join([*others, f"{name}={quote(value, safe='')}"])


class Filter:
    """Judges the answers to one request."""

    def __init__(self, hiding: Hiding, target: Target, surplus: str | None = None) -> None:
        self._hiding = hiding
        self._target = target
        self._surplus = surplus
        self._columns: Any = None

    def untouched(self, raw: bytes) -> bool:
        """Whether an answer may go on as it is."""
        return self._surplus is None and not self._hiding.may_hold(raw)

    def ends_hidden(self, document: Obj) -> bool:
        """Whether a page's last object is hidden while more pages follow."""
        entries = document.get(_entries(document) or "") or []
        return bool(entries and continued(document)) and not self._shown(entries[-1], document)

    def document(self, document: Obj) -> Obj | None:
        """An object, list or table without what is hidden; None where the object itself is."""
        key = _entries(document)
        if key is None:
            return self._hiding.cleaned(self._target, document) if self._shown(document, {}) else None
        entries = [self._cleaned(one, document) for one in document[key] or [] if self._shown(one, document)]
        if not entries and self._target.name and document.get("kind") == "Table":
            return None
        meta = {name: value for name, value in (document.get("metadata") or {}).items() if name != "remainingItemCount"}
        return {**document, "metadata": meta, key: entries}

    async def events(self, pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        """A watch's events, one line each, without those about hidden objects. Raises Unreadable."""
        pending = bytearray()
        async for piece in pieces:
            pending += piece
            *lines, rest = pending.split(b"\n")
            pending = rest
            if kept := b"".join(self._event(bytes(line)) for line in lines if line.strip()):
                yield kept
            if len(pending) > LONGEST_EVENT:
                raise Unreadable("an event is too long")
        if pending.strip():
            yield self._event(bytes(pending))

    def _event(self, line: bytes) -> bytes:
        if self._columns is None and self.untouched(line):
            return line + b"\n"
        event = parsed(line)
        if "type" not in event:  # no event, so that the request was no watch
            found = self.document(event)
            return b"" if found is None else dumped(found)
        if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
            return line + b"\n"
        subject = event["object"]
        if _entries(subject) == "rows":
            return self._table_event(event)
        if not self._shown(subject, {}):
            return b""
        return dumped({**event, "object": self._hiding.cleaned(self._target, subject)})

    def _table_event(self, event: Obj) -> bytes:
        """Only a watch's first event has the table's columns: they move to the first one that is shown."""
        table = self.document({"metadata": {}, **event["object"]})
        if table is None or not table["rows"]:
            self._columns = event["object"].get("columnDefinitions") or self._columns
            return b""
        if self._columns and not table.get("columnDefinitions"):
            table = {**table, "columnDefinitions": self._columns}
        self._columns = None
        return dumped({**event, "object": table})

    def _shown(self, entry: Obj, document: Obj) -> bool:
        subject = entry.get("object") if document.get("kind") == "Table" else entry
        if not isinstance(subject, dict):
            raise Unreadable("a row without its object")
        kinds = {str(subject.get("kind")), str(document.get("kind")).removesuffix("List")}
        if "PartialObjectMetadata" in kinds and self._hiding.needs_whole_objects(self._target):
            raise Unreadable("only the metadata of an object that must be seen whole")
        return self._hiding.visible(self._target, subject)

    def _cleaned(self, entry: Obj, document: Obj) -> Obj:
        if document.get("kind") != "Table":
            return self._hiding.cleaned(self._target, entry)
        if self._surplus == "None":
            return {**entry, "object": None}
        if self._surplus == "Metadata":
            kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
            return {**entry, "object": {**kind, "metadata": entry["object"].get("metadata") or {}}}
        return {**entry, "object": self._hiding.cleaned(self._target, entry["object"])}


def continued(document: Obj) -> str:
    """The token for the page after this one, or ''."""
    return str((document.get("metadata") or {}).get("continue") or "")


def joined(page: Obj, following: Obj) -> Obj:
    """A page with the one that follows it."""
    key = _entries(page)
    if key is None or _entries(following) != key:
        raise Unreadable("a page of another kind")
    return {**page, "metadata": following.get("metadata"), key: [*(page[key] or []), *(following[key] or [])]}


def parsed(raw: bytes) -> Obj:
    """Raises Unreadable where this is no JSON object."""
    try:
        found = json.loads(raw)
    except ValueError as error:
        raise Unreadable(f"not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Unreadable("not a JSON object")
    return found


def dumped(document: Obj) -> bytes:
    """As the API server writes it: compact, one line."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _entries(document: Obj) -> str | None:
    kind = str(document.get("kind", ""))
    if kind == "Table":
        return "rows"
    return "items" if kind.endswith("List") and "items" in document else None


def _first(query: str, name: str) -> str | None:
    for part in query.split("&"):
        key, _, value = part.partition("=")
        if unquote_plus(key) == name:
            return unquote_plus(value)
    return None
