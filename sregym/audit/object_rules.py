"""Rules about objects: traces of how an incident was made, by comparison with an object's own past and its siblings."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from sregym.audit.evidence import Evidence, Finding, named
from sregym.audit.vocabulary import Vocabulary
from sregym.cluster.objects import Obj, dig

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
RELEASE_TYPE = "helm.sh/release.v1"
MADE_BY_CONTROLLERS = frozenset(
    {
        "ComponentStatus",
        "CSINode",
        "Endpoints",
        "EndpointSlice",
        "Event",
        "Lease",
        "NodeMetrics",
        "PersistentVolume",
        "PodMetrics",
        "VolumeAttachment",
    }
)
"""They come and go with what they belong to, and not all of them name an owner."""
IN_EVERY_NAMESPACE = frozenset({("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")})
SYSTEM_CHANGES = ("kube-scheduler", "kube-controller-manager", "kubelet", "kube-apiserver", "local-path-provisioner")
"""Managers whose entries come and go with an object's life."""
LEAST_SIBLINGS = 4
"""With fewer, none of them is "the one"."""
COMMON = 0.75
"""The share of siblings that must agree before another one stands out."""


@dataclass(frozen=True)
class HealthyValue:
    """An annotation that still holds what an object said before it was changed."""

    name: ClassVar[str] = "healthy-value"

    def find(self, evidence: Evidence, words: Vocabulary) -> Iterator[Finding]:
        for obj in evidence.objects:
            text = dig(obj, "metadata", "annotations", LAST_APPLIED)
            if text and (paths := list(_changed(json.loads(text), obj))):
                yield Finding(self.name, named(obj), f"last-applied differs at {', '.join(sorted(paths)[:3])}")


def _changed(applied: Any, live: Any, path: str = "") -> Iterator[str]:
    """Where what was applied is not what is there; what was only added since does not count."""
    if path in ("metadata.annotations", "status"):
        return
    if isinstance(applied, Mapping) and isinstance(live, Mapping):
        for key, value in applied.items():
            if value in (None, "", {}, []) and key not in live:
                continue
            yield from _changed(value, live.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(applied, list) and isinstance(live, list) and len(applied) == len(live):
        for number, (one, other) in enumerate(zip(applied, live, strict=True)):
            yield from _changed(one, other, f"{path}[{number}]")
    elif str(applied) != str(live):
        yield path


@dataclass(frozen=True)
class ReleaseRecord:
    """A package manager's record, which holds every object as it was installed."""

    name: ClassVar[str] = "release-record"

    def find(self, evidence: Evidence, words: Vocabulary) -> Iterator[Finding]:
        for obj in evidence.objects:
            owner = dig(obj, "metadata", "labels", "owner")
            if obj.get("type") == RELEASE_TYPE or (obj["kind"] in ("Secret", "ConfigMap") and owner == "helm"):
                yield Finding(self.name, named(obj), "holds the installed manifests")
            annotations = dig(obj, "metadata", "annotations", default={})
            if any(key.startswith("meta.helm.sh/") for key in annotations):
                yield Finding(self.name, named(obj), "names a release that is not there")


@dataclass(frozen=True)
class LoneHelper:
    """An object that came with the incident and belongs to nothing that was installed."""

    name: ClassVar[str] = "lone-helper"

    def find(self, evidence: Evidence, words: Vocabulary) -> Iterator[Finding]:
        for obj in _unowned_since(evidence, evidence.changed_at):
            if (obj["kind"], obj["metadata"]["name"]) not in evidence.made:
                yield Finding(self.name, named(obj), f"made at {_made(obj)}, when the incident began; nothing owns it")


@dataclass(frozen=True)
class MadeAnew:
    """An installed object that was deleted and made again: much younger than its siblings, without a roll-out."""

    name: ClassVar[str] = "made-anew"

    def find(self, evidence: Evidence, words: Vocabulary) -> Iterator[Finding]:
        for obj in _unowned_since(evidence, evidence.changed_at):
            if (obj["kind"], obj["metadata"]["name"]) in evidence.made:
                yield Finding(self.name, named(obj), f"made at {_made(obj)}, long after its siblings")


def _unowned_since(evidence: Evidence, when: datetime | None) -> Iterator[Obj]:
    if when is None:
        return
    begun = when.replace(microsecond=0)
    for obj in evidence.objects:
        meta = obj["metadata"]
        key = (obj["kind"], meta.get("name", ""))
        if obj["kind"] in MADE_BY_CONTROLLERS or meta.get("ownerReferences") or key in IN_EVERY_NAMESPACE:
            continue
        if key in evidence.known or meta.get("namespace") not in (None, *evidence.namespaces):
            continue
        if (made := _made(obj)) is not None and made >= begun:
            yield obj


def _made(obj: Obj) -> datetime | None:
    stamp = obj["metadata"].get("creationTimestamp")
    return datetime.fromisoformat(stamp) if stamp else None


@dataclass(frozen=True)
class StandsOut:
    """The one object among its siblings that carries other labels, annotations, finalizers or managers."""

    name: ClassVar[str] = "stands-out"

    def find(self, evidence: Evidence, words: Vocabulary) -> Iterator[Finding]:
        families: defaultdict[tuple[str, str], list[Obj]] = defaultdict(list)
        for obj in evidence.inside():
            key = (obj["kind"], obj["metadata"]["name"])
            if obj["kind"] not in MADE_BY_CONTROLLERS and key not in IN_EVERY_NAMESPACE | evidence.known:
                families[obj["metadata"]["namespace"], obj["kind"]].append(obj)
        for siblings in families.values():
            for aspect, of in ASPECTS.items():
                yield from self._odd(siblings, aspect, of)

    def _odd(self, siblings: Sequence[Obj], aspect: str, of: Callable[[Obj], frozenset[str]]) -> Iterator[Finding]:
        if len(siblings) < LEAST_SIBLINGS:
            return
        counts = Counter(of(one) for one in siblings)
        usual, agree = counts.most_common(1)[0]
        if agree < COMMON * len(siblings):
            return
        for one in siblings:
            mine = of(one)
            if mine != usual and counts[mine] == 1:
                more, less = sorted(mine - usual), sorted(usual - mine)
                differs = "; ".join(
                    f"{word} {', '.join(these)}" for word, these in (("has", more), ("lacks", less)) if these
                )
                yield Finding(self.name, named(one), f"{aspect}: {differs}, unlike {agree} of {len(siblings)}")


def label_keys(obj: Obj) -> frozenset[str]:
    return frozenset(dig(obj, "metadata", "labels", default={}))


def annotation_keys(obj: Obj) -> frozenset[str]:
    return frozenset(dig(obj, "metadata", "annotations", default={}))


def finalizers(obj: Obj) -> frozenset[str]:
    return frozenset(dig(obj, "metadata", "finalizers", default=[]))


def managers(obj: Obj) -> frozenset[str]:
    """Who has set fields of it, and how (`kubectl Apply`). Status is left out, and what the system's parts do."""
    entries = dig(obj, "metadata", "managedFields", default=[])
    return frozenset(
        f"{one.get('manager')} {one.get('operation')}"
        for one in entries
        if not one.get("subresource") and one.get("manager") not in SYSTEM_CHANGES
    )


ASPECTS: Mapping[str, Callable[[Obj], frozenset[str]]] = {
    "labels": label_keys,
    "annotations": annotation_keys,
    "finalizers": finalizers,
    "managers": managers,
}


@dataclass(frozen=True)
class OnlyHistory:
    """The only workload that has earlier revisions: the one that was changed."""

    name: ClassVar[str] = "only-history"

    def find(self, evidence: Evidence, words: Vocabulary) -> Iterator[Finding]:
        sets: Counter[str] = Counter()
        for obj in evidence.inside():
            if obj["kind"] == "ReplicaSet":
                sets[dig(obj, "metadata", "ownerReferences", 0, "uid", default="")] += 1
        workloads = [obj for obj in evidence.inside() if obj["kind"] == "Deployment"]
        earlier = [obj for obj in workloads if sets[obj["metadata"].get("uid", "")] > 1]
        if len(workloads) >= LEAST_SIBLINGS and 0 < len(earlier) <= (1 - COMMON) * len(workloads):
            for obj in earlier:
                yield Finding(self.name, named(obj), f"only {len(earlier)} of {len(workloads)} have earlier revisions")
