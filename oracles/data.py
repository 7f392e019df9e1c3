"""Checks of data: whoever needs it can log in and read it, and nobody else can."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from oracles.combine import Kept
from oracles.wiring import running_pod
from sregym.api import Check, ExecResult, Look, Observation, Ref
from sregym.errors import Unavailable

SHELL = "mongo"
SHELL_S = 30.0


@dataclass(frozen=True, kw_only=True)
class MongoStore:
    """Where a collection is: the database's pods and container, database and collection."""

    selector: str
    container: str
    database: str
    collection: str

    def count_script(self) -> str:
        return f"print('documents=' + db.getSiblingDB('{self.database}').{self.collection}.count({{}}))"

    def ids_script(self) -> str:
        """Prints `ids=` and the `_id`s, parted by blanks."""
        found = f"db.getSiblingDB('{self.database}').{self.collection}.find({{}}, {{_id: 1}}).toArray()"
        return f"print('ids=' + {found}.map(d => String(d._id)).join(' '))"


@dataclass(frozen=True, kw_only=True)
class MongoReadable(Check):
    """An account can log in to the database and reads at least that many documents."""

    store: MongoStore
    user: str
    password: str = field(repr=False)
    at_least: int = 1

    @property
    def title(self) -> str:
        return f"{self.user} reads {self.store.database}"

    async def look(self, at: Look) -> Observation:
        ref = await running_pod(at, self.store.selector)
        if ref is None:
            return self.not_yet("the database has no running pod")
        credentials = ("-u", self.user, "-p", self.password, "--authenticationDatabase", "admin")
        said = await _evaluate(at, ref, self.store, credentials, self.store.count_script())
        count = _documents(said)
        if count is None:
            return self.not_yet(f"login or reading failed: {_last_line(said)}", code=said.code)
        if count < self.at_least:
            return self.not_yet(f"only {count} documents, at least {self.at_least} belong there", documents=count)
        return self.holding(documents=count)


@dataclass(frozen=True, kw_only=True)
class DocumentsKept(Kept):
    """The documents of a collection: a store that was emptied and filled anew holds others, by their `_id`s."""

    store: MongoStore
    user: str
    password: str = field(repr=False)

    @property
    def name(self) -> str:
        return f"documents of {self.store.database}.{self.store.collection}"

    @property
    def credentials(self) -> tuple[str, ...]:
        return ("-u", self.user, "-p", self.password, "--authenticationDatabase", "admin")

    async def note(self, at: Look) -> Any:
        ref = await running_pod(at, self.store.selector)
        said = await _evaluate(at, ref, self.store, self.credentials, self.store.ids_script()) if ref else None
        if said is None or (ids := _ids(said)) is None:
            raise Unavailable(f"{self.name} cannot be read: {_last_line(said) if said else 'no running pod'}")
        return ids

    def check(self, noted: Any) -> Check:
        return SameDocuments(kept=self, former=frozenset(noted))


@dataclass(frozen=True, kw_only=True)
class SameDocuments(Check):
    """None of the former documents is gone."""

    kept: DocumentsKept
    former: frozenset[str] = field(repr=False)

    @property
    def title(self) -> str:
        return f"{self.kept.store.database} keeps its data"

    async def look(self, at: Look) -> Observation:
        ref = await running_pod(at, self.kept.store.selector)
        if ref is None:
            return self.not_yet("the database has no running pod")
        said = await _evaluate(at, ref, self.kept.store, self.kept.credentials, self.kept.store.ids_script())
        ids = _ids(said)
        if ids is None:
            return self.not_yet(f"login or reading failed: {_last_line(said)}", code=said.code)
        if gone := self.former - set(ids):
            return self.not_yet(f"{len(gone)} of {len(self.former)} documents are gone", documents=len(ids))
        return self.holding(documents=len(ids))


@dataclass(frozen=True, kw_only=True)
class AnonymousRefused(Check):
    """Without an account nothing can be read: authentication has not been switched off."""

    store: MongoStore

    @property
    def title(self) -> str:
        return f"{self.store.database} refuses anonymous access"

    async def look(self, at: Look) -> Observation:
        ref = await running_pod(at, self.store.selector)
        if ref is None:
            return self.not_yet("the database has no running pod")
        said = await _evaluate(at, ref, self.store, (), self.store.count_script())
        count = _documents(said)
        if count is not None:
            return self.not_yet(f"anyone reads {count} documents without an account", documents=count)
        if "auth" in (said.stdout + said.stderr).lower():
            return self.holding(answer=_last_line(said))
        return self.unknown(f"the database gave no clear answer: {_last_line(said)}")


async def _evaluate(at: Look, ref: Ref, store: MongoStore, credentials: tuple[str, ...], script: str) -> ExecResult:
    argv = (SHELL, "--quiet", *credentials, "admin", "--eval", script)
    return await at.shell.exec(ref, argv, container=store.container, within=SHELL_S)


def _documents(said: ExecResult) -> int | None:
    if said.code != 0:
        return None
    for line in said.stdout.splitlines():
        name, _, count = line.strip().partition("documents=")
        if name == "" and count.isdigit():
            return int(count)
    return None


def _ids(said: ExecResult) -> list[str] | None:
    lines = (line.strip() for line in said.stdout.splitlines()) if said.code == 0 else ()
    return next((line.removeprefix("ids=").split() for line in lines if line.startswith("ids=")), None)


def _last_line(said: ExecResult) -> str:
    lines = (said.stderr.strip() or said.stdout.strip()).splitlines()
    return lines[-1] if lines else f"exit code {said.code}, nothing said"
