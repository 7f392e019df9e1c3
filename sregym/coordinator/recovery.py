"""Finishes what a killed process left: on this machine and in the cluster.

Everything it needs stands in the journals: what to undo, which namespaces to remove, which base snapshot to compare
with. A journal whose cluster is gone needs only its host things removed.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sregym.cluster import recovery
from sregym.cluster.contract import Cluster
from sregym.cluster.journal import Journal, clusters_with_journals, journals_of, open_journals
from sregym.cluster.lease import lease
from sregym.cluster.snapshot import Snapshot
from sregym.coordinator.putback import put_back
from sregym.errors import ClusterError, PrerequisiteError, RecoveryError
from sregym.events import Emit, silent


@dataclass(frozen=True, kw_only=True)
class JournalFacts:
    """What an attempt writes into its journal's head, so that another process can put its world back."""

    kubeconfig: Path
    context: str | None
    nodes: tuple[str, ...]
    namespaces: tuple[str, ...]
    base: Path
    """The base snapshot's file."""
    problem: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "kubeconfig": str(self.kubeconfig),
            "context": self.context,
            "nodes": list(self.nodes),
            "namespaces": list(self.namespaces),
            "base": str(self.base),
            "problem": self.problem,
        }

    @classmethod
    def of(cls, journal: Journal) -> JournalFacts:
        """The facts of a journal. Raises RecoveryError where it holds none."""
        facts = journal.header.facts
        try:
            return cls(
                kubeconfig=Path(facts["kubeconfig"]),
                context=facts["context"],
                nodes=tuple(facts["nodes"]),
                namespaces=tuple(facts["namespaces"]),
                base=Path(facts["base"]),
                problem=facts.get("problem", ""),
            )
        except KeyError as error:
            raise RecoveryError(f"the journal {journal.path} does not say {error}") from error


class Connect(Protocol):
    """Opens the cluster that a journal speaks of."""

    def __call__(self, facts: JournalFacts) -> AbstractAsyncContextManager[Cluster]: ...


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """One journal's end."""

    attempt: str
    problem: str
    how: str
    error: str = ""

    @property
    def ok(self) -> bool:
        return not self.error


async def recover_cluster(state: Path, cluster: Cluster, *, emit: Emit = silent) -> list[Recovered]:
    """Puts back what open journals of this cluster left. Raises RecoveryError where something stays."""
    done = [
        await _put_back(journal, cluster, emit) for journal in open_journals(state, identity=await cluster.identity())
    ]
    if bad := [one for one in done if not one.ok]:
        raise RecoveryError("\n".join(one.error for one in bad))
    return done


async def abandon_cluster(state: Path, identity: str, *, emit: Emit = silent) -> None:
    """Closes the journals of a cluster that was replaced: only this machine has to be cleaned. Raises RecoveryError."""
    for journal in open_journals(state, identity=identity):
        await recovery.abandon(journal, emit=emit)


async def forget_replaced(
    state: Path, kubeconfig: Path, context: str | None, identity: str, *, emit: Emit = silent
) -> list[Recovered]:
    """Cleans this machine of what runs left on earlier clusters of ours that were reached the same way as this one.

    Such a cluster is gone: nothing of it can be put back. Journals of a run that is alive are left alone, and so are
    those of clusters that others use, and what cannot be read or removed: `main.py recover` says so.
    """
    done = []
    for other in clusters_with_journals(state):
        if other == identity:
            continue
        with suppress(PrerequisiteError, RecoveryError):
            async with lease(state, other, cluster=other, holder="recover"):
                for journal in open_journals(state, other):
                    facts = JournalFacts.of(journal)
                    if facts.nodes and (facts.kubeconfig, facts.context) == (kubeconfig, context):
                        done.append(await _abandon(journal, "its cluster was replaced", emit))
    return done


async def recover_everything(state: Path, connect: Connect, *, emit: Emit = silent) -> list[Recovered]:
    """Puts back what every open journal left; goes on past failures and reports each.

    The journals of a run that is alive are not left-overs: its cluster is leased, and it is left alone.
    """
    return [
        one
        for identity in clusters_with_journals(state)
        for one in await _unless_in_use(state, identity, connect, emit)
    ]


async def _unless_in_use(state: Path, identity: str, connect: Connect, emit: Emit) -> list[Recovered]:
    """What became of one cluster's journals. They are opened under its lease: their run may be writing."""
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(lease(state, identity, cluster=identity, holder="recover"))
        except PrerequisiteError as error:
            return [
                Recovered(attempt=name, problem="", how=f"left alone: {error.message}")
                for name in journals_of(state, identity)
            ]
        return [await _recover_one(journal, connect, emit) for journal in open_journals(state, identity)]


async def _recover_one(journal: Journal, connect: Connect, emit: Emit) -> Recovered:
    try:
        facts = JournalFacts.of(journal)
        if not facts.kubeconfig.exists():
            return await _abandon(journal, "its cluster was removed", emit)
        async with connect(facts) as cluster:
            if await cluster.identity() != journal.header.identity:
                return await _abandon(journal, "its cluster was replaced", emit)
            return await _put_back(journal, cluster, emit)
    except (RecoveryError, ClusterError, PrerequisiteError) as error:
        return Recovered(attempt=journal.header.attempt, problem="", how="not recovered", error=str(error))


async def _put_back(journal: Journal, cluster: Cluster, emit: Emit) -> Recovered:
    facts = JournalFacts.of(journal)
    name = journal.header.attempt
    try:
        base = Snapshot.load(facts.base)
        back = await put_back(cluster, journal, base, facts.namespaces, emit=emit)
    except (RecoveryError, ClusterError, OSError) as error:
        return Recovered(attempt=name, problem=facts.problem, how="not recovered", error=f"{name}: {error}")
    return Recovered(attempt=name, problem=facts.problem, how=f"put back ({back.count} differences written back)")


async def _abandon(journal: Journal, why: str, emit: Emit) -> Recovered:
    await recovery.abandon(journal, emit=emit)
    return Recovered(attempt=journal.header.attempt, problem="", how=f"{why}; cleaned up this machine")
