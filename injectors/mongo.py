"""Faults in a MongoDB: its accounts. Done as its administrator would, with the shell in the database's own container.

What changes is not in the Kubernetes API, so a compensation is journalled first, bound to the volume that holds the
accounts: a volume that is gone needs no undo.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from sregym.api import Compensation, ExecResult, Fault, FaultContext, InjectionError, Ref, Selection, dig
from sregym.cluster import waits
from sregym.cluster.contract import Cluster, Reader, Shell
from sregym.cluster.objects import POD, PVC
from sregym.errors import RecoveryError, Unavailable, WaitTimeout

SHELL = "mongo"
"""The client under its older name, which every image has; the newer one has it as a second name."""

SHELL_S = 60.0
"""Deadline of one shell command: the client needs seconds to start on a busy machine."""

DATABASE_BACK_S = 90.0


@dataclass(frozen=True, kw_only=True)
class Login:
    """An account's name and password, kept in the database `admin`."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class DropUser(Fault):
    """Removes a database account. Connections that are open stay valid; clients notice when they connect again."""

    service: str
    claim: str
    """The volume claim that the accounts are stored on."""
    account: Login
    roles: tuple[tuple[str, str], ...]
    """Its roles as (role, database): what undo gives back."""
    administrator: Login

    async def inject(self, ctx: FaultContext) -> None:
        spec = ctx.app.topology.service(self.service)
        claim = Ref(PVC, self.claim, ctx.namespace)
        volume = await ctx.reader.get(claim)
        arguments = {
            "namespace": ctx.namespace,
            "selector": spec.selector,
            "container": spec.container,
            "account": [self.account.user, self.account.password],
            "roles": [list(role) for role in self.roles],
            "administrator": [self.administrator.user, self.administrator.password],
        }
        await ctx.editor.compensate(
            Compensation(
                action="injectors.mongo:RestoreUser",
                arguments=arguments,
                bound_to=claim,
                uid=volume["metadata"]["uid"],
            )
        )
        pod = await running_pod(ctx.reader, ctx.namespace, spec.selector)
        if pod is None:
            raise InjectionError(f"{self.service} has no running pod")
        said = await evaluate(ctx.shell, pod, spec.container, self.administrator, drop_script(self.account.user))
        if said.code != 0:
            raise InjectionError(f"{self.service}: the account was not removed: {said.stderr or said.stdout}")


@dataclass(frozen=True, kw_only=True)
class RestoreUser:
    """Undo of `DropUser`: the account exists again with its former password and roles. Idempotent."""

    namespace: str
    selector: str
    container: str
    account: Sequence[str]
    roles: Sequence[Sequence[str]]
    administrator: Sequence[str]

    async def undo(self, cluster: Cluster) -> None:
        """Raises RecoveryError where the database cannot be reached or refuses."""

        async def attempt() -> ExecResult | None:
            pod = await running_pod(cluster, self.namespace, self.selector)
            if pod is None:
                return None
            user, password = self.administrator
            try:
                said = await evaluate(cluster, pod, self.container, Login(user=user, password=password), script)
            except Unavailable:
                return None
            return said if said.code == 0 else None

        user, password = self.account
        script = restore_script(Login(user=user, password=password), [(role, db) for role, db in self.roles])
        try:
            await waits.poll(attempt, what=f"account {user} restored", every=2.0, within=DATABASE_BACK_S)
        except WaitTimeout as error:
            raise RecoveryError(f"database account {user!r} in {self.namespace} ({self.selector}): {error}") from error


def drop_script(user: str) -> str:
    # The older shell answers `true`, the newer one `{ok: 1}`.
    return f"const gone = db.dropUser({json.dumps(user)}); if (gone !== true && !gone.ok) quit(1)"


def restore_script(account: Login, roles: Sequence[tuple[str, str]]) -> str:
    """Creates the account, or sets its password and roles where it exists."""
    name, password = json.dumps(account.user), json.dumps(account.password)
    granted = json.dumps([{"role": role, "db": database} for role, database in roles])
    return (
        f"const there = db.getUser({name}) !== null;"
        f" if (there) db.updateUser({name}, {{pwd: {password}, roles: {granted}}});"
        f" else db.createUser({{user: {name}, pwd: {password}, roles: {granted}}})"
    )


async def running_pod(reader: Reader, namespace: str, selector: str) -> Ref | None:
    """A pod of the selection whose containers are all ready and that is not being deleted."""
    for one in await reader.list(Selection(kind=POD, namespace=namespace, labels=selector)):
        statuses = dig(one, "status", "containerStatuses", default=[])
        if statuses and all(s.get("ready") for s in statuses) and not dig(one, "metadata", "deletionTimestamp"):
            return Ref(POD, one["metadata"]["name"], namespace)
    return None


async def evaluate(shell: Shell, pod: Ref, container: str, login: Login, script: str) -> ExecResult:
    """Runs a script in the Mongo shell against the database `admin`."""
    credentials = ("-u", login.user, "-p", login.password, "--authenticationDatabase", "admin")
    argv = (SHELL, "--quiet", *credentials, "admin", "--eval", script)
    return await shell.exec(pod, argv, container=container, within=SHELL_S)
