"""Checks of workloads and of what Services lead to: pure functions of objects.

"Ready" is not enough: a Deployment that wants no pods is ready too, a crash-looping pod is ready now and then, and a
Service may lead to somebody else's pods. So roll-outs are compared with what is wanted, restarts are counted from a
known moment, and endpoints are followed to the workload that owns them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sregym.api import Check, Look, Obj, Observation, Ref, Selection, State, dig
from sregym.cluster.objects import DEPLOYMENT, ENDPOINTSLICE, NODE, POD, REPLICASET, SERVICE, is_owned


def rollout(ref: Ref, found: Obj | None, *, at_least: int = 1) -> Observation:
    """What one Deployment's object says about its roll-out. A missing one, or one that wants too few, CANNOT hold."""
    title = f"rolled out: {ref.name}"

    def seen(state: State, reason: str = "") -> Observation:
        return Observation(check=title, state=state, reason=reason, evidence={"replicas": _counts(found)})

    if found is None or dig(found, "metadata", "deletionTimestamp"):
        return seen(State.CANNOT, f"{ref.kind} {ref.name} does not exist")
    wanted = dig(found, "spec", "replicas", default=1)
    if wanted < at_least:
        return seen(State.CANNOT, f"wants {wanted} pods, at least {at_least} are needed")
    if dig(found, "status", "observedGeneration", default=0) < found["metadata"]["generation"]:
        return seen(State.NOT_YET, "the controller has not seen the newest change")
    status = found.get("status", {})
    updated, ready, available = (status.get(f"{name}Replicas", 0) for name in ("updated", "ready", "available"))
    total = status.get("replicas", 0)
    if updated < wanted:
        held = " (the roll-out is paused)" if dig(found, "spec", "paused") else ""
        return seen(State.NOT_YET, f"{updated} of {wanted} pods are of the newest revision{held}")
    if total > updated:
        return seen(State.NOT_YET, f"{total - updated} pods of a former revision are still there")
    if min(ready, available) < wanted:
        return seen(State.NOT_YET, f"{min(ready, available)} of {wanted} pods are ready")
    return seen(State.HOLDS)


def _counts(found: Obj | None) -> Mapping[str, int]:
    status = dig(found, "status", default={})
    counts = {"wanted": dig(found, "spec", "replicas", default=0)}
    return counts | {key: status.get(key, 0) for key in ("replicas", "updatedReplicas", "readyReplicas")}


@dataclass(frozen=True)
class RolledOut(Check):
    """Each Deployment exists, wants at least that many pods, and has them, all of the newest revision and ready."""

    names: tuple[str, ...]
    at_least: int = 1

    @property
    def title(self) -> str:
        return f"rolled out: {', '.join(self.names) if len(self.names) < 4 else f'{len(self.names)} workloads'}"

    def watches(self, namespace: str) -> Sequence[Selection]:
        return [Selection(kind=DEPLOYMENT, namespace=namespace)]

    async def look(self, at: Look) -> Observation:
        listed = await at.reader.list(Selection(kind=DEPLOYMENT, namespace=at.namespace))
        found = {one["metadata"]["name"]: one for one in listed}
        parts = [
            rollout(Ref(DEPLOYMENT, name, at.namespace), found.get(name), at_least=self.at_least) for name in self.names
        ]
        for state in (State.CANNOT, State.NOT_YET):
            bad = [part for part in parts if part.state is state]
            if bad:
                reason = "; ".join(f"{part.check.removeprefix('rolled out: ')}: {part.reason}" for part in bad)
                return Observation(check=self.title, state=state, reason=reason, parts=parts)
        return Observation(check=self.title, state=State.HOLDS, parts=parts)


def owned(pods: Iterable[Obj]) -> list[Obj]:
    """Without those that no controller made: what somebody has started by hand is no part of the application."""
    return [one for one in pods if is_owned(one)]


def restart_counts(pods: Iterable[Obj]) -> dict[str, int]:
    """Restarts by `pod/container`, in the pods of controllers."""
    return {
        f"{one['metadata']['name']}/{status['name']}": status.get("restartCount", 0)
        for one in owned(pods)
        for status in dig(one, "status", "containerStatuses", default=[])
    }


@dataclass(frozen=True)
class PodsSteady(Check):
    """No container of the namespace's workloads has restarted more often than `since` says (new pods: never)."""

    since: Mapping[str, int] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return "no restarts"

    def watches(self, namespace: str) -> Sequence[Selection]:
        return [Selection(kind=POD, namespace=namespace)]

    async def look(self, at: Look) -> Observation:
        pods = await at.reader.list(Selection(kind=POD, namespace=at.namespace))
        more = {name: count for name, count in restart_counts(pods).items() if count > self.since.get(name, 0)}
        if not more:
            return self.holding()
        return self.not_yet(f"restarted meanwhile: {', '.join(sorted(more))}", restarts=more)


@dataclass(frozen=True)
class PodsReplaced(Check):
    """None of the former pods is left."""

    selection: Selection
    former: frozenset[str]
    """Their uids."""

    @property
    def title(self) -> str:
        return f"pods replaced: {self.selection.labels}"

    def watches(self, namespace: str) -> Sequence[Selection]:
        return [self.selection]

    async def look(self, at: Look) -> Observation:
        there = [one["metadata"] for one in await at.reader.list(self.selection)]
        left = [meta["name"] for meta in there if meta["uid"] in self.former]
        return self.not_yet(f"still there: {', '.join(left)}") if left else self.holding()


@dataclass(frozen=True)
class EndpointsOwned(Check):
    """A Service has ready endpoints, and every one is a ready pod of that Deployment."""

    service: str
    workload: str

    @property
    def title(self) -> str:
        return f"endpoints: {self.service}"

    def watches(self, namespace: str) -> Sequence[Selection]:
        return [Selection(kind=kind, namespace=namespace) for kind in (SERVICE, ENDPOINTSLICE)]

    async def look(self, at: Look) -> Observation:
        found = await at.reader.find(Ref(SERVICE, self.service, at.namespace))
        if found is None:
            return self.cannot(f"Service {self.service} does not exist")
        if dig(found, "spec", "publishNotReadyAddresses"):
            return self.cannot(f"Service {self.service} publishes pods that are not ready")
        if not dig(found, "spec", "selector"):
            return self.cannot(f"Service {self.service} selects no pods")
        slices = await at.reader.list(slices_of(self.service, at.namespace))
        ready = [one for piece in slices for one in piece.get("endpoints") or [] if _is_ready(one)]
        if not ready:
            return self.not_yet(f"Service {self.service} has no ready endpoint")
        owners = await owning_deployments(at)
        foreign = sorted({_leads_to(one, owners) for one in ready} - {self.workload})
        if foreign:
            return self.not_yet(f"Service {self.service} leads to {', '.join(foreign)} instead of {self.workload}")
        return self.holding(endpoints=[address for one in ready for address in one["addresses"]])


def slices_of(service: str, namespace: str) -> Selection:
    """The EndpointSlices of a Service."""
    return Selection(kind=ENDPOINTSLICE, namespace=namespace, labels=f"kubernetes.io/service-name={service}")


async def owning_deployments(at: Look) -> Mapping[str, str]:
    """Pod name -> name of the Deployment that owns it through its ReplicaSet, for pods that have such an owner."""
    sets = await at.reader.list(Selection(kind=REPLICASET, namespace=at.namespace))
    deployment_of = {one["metadata"]["uid"]: dig(one, "metadata", "ownerReferences", 0, "name") for one in sets}
    pods = await at.reader.list(Selection(kind=POD, namespace=at.namespace))
    owned = {one["metadata"]["name"]: deployment_of.get(_owner_uid(one)) for one in pods}
    return {name: owner for name, owner in owned.items() if owner}


def _owner_uid(pod: Obj) -> str:
    return str(dig(pod, "metadata", "ownerReferences", 0, "uid", default=""))


def _is_ready(endpoint: Obj) -> bool:
    # A missing condition means ready (EndpointSlice API).
    return dig(endpoint, "conditions", "ready") is not False


def _leads_to(endpoint: Obj, owners: Mapping[str, str]) -> str:
    target = dig(endpoint, "targetRef", default={})
    if target.get("kind") != "Pod":
        return f"the bare address {', '.join(endpoint['addresses'])}"
    return owners.get(target["name"], f"pod {target['name']}, which no Deployment owns")


@dataclass(frozen=True)
class NoNodeRenamed(Check):
    """No node passes for another by its host name label. (The label need not be the node's name: well-known labels.)"""

    hostname: str

    @property
    def title(self) -> str:
        return f"no other node is labelled {self.hostname}"

    async def look(self, at: Look) -> Observation:
        posing = [
            one["metadata"]["name"]
            for one in await at.reader.list(Selection(kind=NODE))
            if dig(one, "metadata", "labels", "kubernetes.io/hostname") == self.hostname
            and one["metadata"]["name"] != self.hostname
        ]
        return self.cannot(f"{', '.join(posing)} was labelled {self.hostname}") if posing else self.holding()
