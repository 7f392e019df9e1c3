"""Faults in workloads, and what makes a change bite: old pods have to go, callers have to connect anew.

A rolling update whose new pod never becomes ready keeps the old one serving, and pooled connections outlive a broken
Service; without these steps several faults would change an object and hurt nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from injectors.patches import replicas
from sregym.api import Check, Fault, FaultContext, InjectionError, Look, Obj, Observation, Ref, Selection, dig
from sregym.cluster.objects import POD, REPLICASET
from sregym.errors import WaitTimeout

PODS_GONE_S = 60.0
"""Longer than the default grace period of a pod (30 s)."""

_REVISION = "deployment.kubernetes.io/revision"


@dataclass(frozen=True)
class ScaleTo(Fault):
    """Sets how many pods a workload wants, and waits until surplus ones are gone."""

    ref: Ref
    count: int

    async def inject(self, ctx: FaultContext) -> None:
        ref = self.ref.within(ctx.namespace)
        change = replicas(self.count)
        await ctx.editor.patch(ref, change.body, change.kind)
        await _wait(ctx, _AtMost(_selection(ctx, ref.name), self.count))


@dataclass(frozen=True)
class Reconnect(Fault):
    """Replaces the pods of services, so that they find and connect to their dependencies anew."""

    services: tuple[str, ...]

    def __init__(self, services: Iterable[str]) -> None:
        object.__setattr__(self, "services", tuple(services))

    async def inject(self, ctx: FaultContext) -> None:
        for name in self.services:
            selection = _selection(ctx, name)
            old = frozenset(_uid(one) for one in await ctx.reader.list(selection))
            await ctx.editor.recycle_pods(selection)
            await _wait(ctx, _Gone(selection, old))


@dataclass(frozen=True)
class RetireOldPods(Fault):
    """After a change of a Deployment's pod template: the pods of former revisions go, ready replacements or not.

    Scales the ReplicaSets of former revisions to zero; the Deployment keeps its history, so a rollback works.
    """

    ref: Ref

    async def inject(self, ctx: FaultContext) -> None:
        ref = self.ref.within(ctx.namespace)
        await _wait(ctx, _RevisionMade(ref))
        owner = await ctx.reader.get(ref)
        former = former_revisions(owner, await ctx.reader.list(Selection(kind=REPLICASET, namespace=ref.namespace)))
        names = frozenset(one["metadata"]["name"] for one in former)
        for one in former:
            if dig(one, "spec", "replicas", default=0) > 0:
                change = replicas(0)
                await ctx.editor.patch(
                    Ref(REPLICASET, one["metadata"]["name"], ref.namespace), change.body, change.kind
                )
        await _wait(ctx, _NoPodsOf(_selection(ctx, ref.name), names))


def former_revisions(owner: Obj, replica_sets: Iterable[Obj]) -> list[Obj]:
    """The Deployment's own ReplicaSets without the one of its newest revision."""
    own = [one for one in replica_sets if _owner_uid(one) == owner["metadata"]["uid"]]
    newest = max((_revision(one) for one in own), default=0)
    return [one for one in own if _revision(one) < newest]


@dataclass(frozen=True)
class _AtMost(Check):
    selection: Selection
    count: int

    async def look(self, at: Look) -> Observation:
        names = [one["metadata"]["name"] for one in await at.reader.list(self.selection)]
        if len(names) <= self.count:
            return self.holding(pods=names)
        return self.not_yet(f"pods still there: {', '.join(names)}")


@dataclass(frozen=True)
class _Gone(Check):
    selection: Selection
    uids: frozenset[str]

    async def look(self, at: Look) -> Observation:
        left = [one["metadata"]["name"] for one in await at.reader.list(self.selection) if _uid(one) in self.uids]
        return self.not_yet(f"pods still there: {', '.join(left)}") if left else self.holding()


@dataclass(frozen=True)
class _NoPodsOf(Check):
    selection: Selection
    replica_sets: frozenset[str]

    async def look(self, at: Look) -> Observation:
        pods = await at.reader.list(self.selection)
        left = [one["metadata"]["name"] for one in pods if _owner_name(one) in self.replica_sets]
        return self.not_yet(f"pods still there: {', '.join(left)}") if left else self.holding()


@dataclass(frozen=True)
class _RevisionMade(Check):
    """The controller has seen the newest template: a ReplicaSet of that revision exists."""

    ref: Ref

    async def look(self, at: Look) -> Observation:
        found = await at.reader.get(self.ref)
        seen = dig(found, "status", "observedGeneration", default=0)
        if seen < found["metadata"]["generation"]:
            return self.not_yet("the controller has not seen the change")
        wanted = int(dig(found, "metadata", "annotations", _REVISION, default=0))
        sets = await at.reader.list(Selection(kind=REPLICASET, namespace=self.ref.namespace))
        newest = max((_revision(one) for one in sets if _owner_uid(one) == found["metadata"]["uid"]), default=0)
        return self.holding() if newest >= wanted > 0 else self.not_yet("no ReplicaSet of the newest revision yet")


async def _wait(ctx: FaultContext, check: Check) -> None:
    try:
        await ctx.until(check, within=PODS_GONE_S)
    except WaitTimeout as error:
        raise InjectionError(str(error)) from error


def _selection(ctx: FaultContext, name: str) -> Selection:
    return Selection(kind=POD, namespace=ctx.namespace, labels=ctx.app.topology.service(name).selector)


def _uid(obj: Obj) -> str:
    return str(obj["metadata"]["uid"])


def _owner_uid(obj: Obj) -> str:
    return str(dig(obj, "metadata", "ownerReferences", 0, "uid", default=""))


def _owner_name(obj: Obj) -> str:
    return str(dig(obj, "metadata", "ownerReferences", 0, "name", default=""))


def _revision(replica_set: Obj) -> int:
    return int(dig(replica_set, "metadata", "annotations", _REVISION, default=0))
