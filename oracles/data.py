"""Checks of data: whoever needs it can log in and read it, and nobody else can."""

from __future__ import annotations

from dataclasses import dataclass, field

from oracles.wiring import running_pod
from sregym.api import Check, ExecResult, Look, Observation, Ref

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
        said = await _evaluate(at, ref, self.store, credentials)
        count = _documents(said)
        if count is None:
            return self.not_yet(f"login or reading failed: {_last_line(said)}", code=said.code)
        if count < self.at_least:
            return self.not_yet(f"only {count} documents, at least {self.at_least} belong there", documents=count)
        return self.holding(documents=count)


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
        said = await _evaluate(at, ref, self.store, ())
        count = _documents(said)
        if count is not None:
            return self.not_yet(f"anyone reads {count} documents without an account", documents=count)
        if "auth" in (said.stdout + said.stderr).lower():
            return self.holding(answer=_last_line(said))
        return self.unknown(f"the database gave no clear answer: {_last_line(said)}")


async def _evaluate(at: Look, ref: Ref, store: MongoStore, credentials: tuple[str, ...]) -> ExecResult:
    argv = (SHELL, "--quiet", *credentials, "admin", "--eval", store.count_script())
    return await at.shell.exec(ref, argv, container=store.container, within=SHELL_S)


def _documents(said: ExecResult) -> int | None:
    if said.code != 0:
        return None
    for line in said.stdout.splitlines():
        name, _, count = line.strip().partition("documents=")
        if name == "" and count.isdigit():
            return int(count)
    return None


def _last_line(said: ExecResult) -> str:
    lines = (said.stderr.strip() or said.stdout.strip()).splitlines()
    return lines[-1] if lines else f"exit code {said.code}, nothing said"
