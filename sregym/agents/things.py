"""Things of an attempt on this machine: noted in the journal before they are made, removed when their context ends."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import anyio

from sregym.cluster.leftovers import HostThing, remove_host_thing

REMOVE_WITHIN_S = 90.0
PREFIX = "oncall"
"""Begins every name, which agents may come to see: it says nothing about us."""


class HostJournal(Protocol):
    """The part of the undo journal that is needed here (`sregym.cluster.journal.Journal`)."""

    def note_host(self, kind: str, name: str, *, section: str = "", **details: Any) -> str:
        """Synced to disk when it returns. Returns the entry's id."""

    def mark(self, entry: str, mark: Literal["done", "void", "undone"]) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Names:
    """Names of one attempt's things on this machine."""

    suffix: str

    @classmethod
    def fresh(cls) -> Names:
        return cls(suffix=secrets.token_hex(4))

    @property
    def network(self) -> str:
        return f"{PREFIX}-{self.suffix}"

    @property
    def gateway(self) -> str:
        return f"{PREFIX}-{self.suffix}-gateway"

    @property
    def agent(self) -> str:
        return f"{PREFIX}-{self.suffix}-agent"

    @property
    def volume(self) -> str:
        return f"{PREFIX}-{self.suffix}"


@asynccontextmanager
async def owned(journal: HostJournal, kind: str, name: str) -> AsyncIterator[str]:
    """Make the thing inside; it is removed at the end, whatever happens. Raises RecoveryError where it stays."""
    entry = journal.note_host(kind, name)
    try:
        yield name
    finally:
        with anyio.CancelScope(shield=True), anyio.fail_after(REMOVE_WITHIN_S):
            await remove_host_thing(HostThing.of(kind, name))
        journal.mark(entry, "undone")
