"""The world as it was: a baseline of everything that an agent could have changed through the API, and its digest.

Taken when the world is known to be good, taken again after an attempt, compared object by object in the form of
`normalise`. What lies outside the API (database users, seeded rows, registry entries) comes in as a fingerprint that
the caller took. `restore` writes back only differences.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import anyio

from sregym.cluster.contract import Cluster, Selection
from sregym.cluster.normalise import comparable, counts, kind_counts, meant
from sregym.cluster.objects import NAMESPACE, Kind, Obj, Ref, ref_of
from sregym.cluster.tasks import first_error
from sregym.errors import NotFound, RecoveryError

SCHEMA_VERSION = 1
LISTS_AT_ONCE = 6
SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class Scope(StrEnum):
    """How much of the cluster is ours to compare and to write back."""

    CLUSTER = "cluster"
    """The cluster is ours alone: cluster-scoped objects, and every namespace that exists. An extra namespace is
    removed by `restore`."""
    NAMESPACES = "namespaces"
    """Others use the cluster too: nothing but the objects inside the named namespaces."""


class Change(StrEnum):
    """How an object of the later snapshot differs."""

    MISSING = "missing"
    EXTRA = "extra"
    CHANGED = "changed"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One object (or fingerprint key) that differs. `paths` are the fields that do, at most a few."""

    change: Change
    what: str
    ref: Ref | None = None
    paths: tuple[str, ...] = ()

    def __str__(self) -> str:
        fields = f": {', '.join(self.paths)}" if self.paths else ""
        return f"{self.what} {self.change}{fields}"


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The world at one moment. `objects` are whole (without server fields), so that they can be written back."""

    scope: Scope
    namespaces: tuple[str, ...]
    objects: Mapping[Ref, Obj]
    fingerprint: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """Equal digests mean equal worlds (SHA-256 of the comparable form)."""
        rows = [[str(ref), comparable(ref.kind, obj)] for ref, obj in sorted(self.objects.items())]
        return hashlib.sha256(_canonical([rows, self.fingerprint]).encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Writes the snapshot to a file that only its owner can read: it holds Secrets."""
        rows = [{"ref": _row(ref), "object": obj} for ref, obj in sorted(self.objects.items())]
        body = {
            "v": SCHEMA_VERSION,
            "scope": self.scope,
            "namespaces": self.namespaces,
            "objects": rows,
            "fingerprint": self.fingerprint,
        }
        fresh = path.with_name(path.name + ".new")
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps(body), encoding="utf-8")
        fresh.replace(path)

    @classmethod
    def load(cls, path: Path) -> Snapshot:
        """Reads a saved snapshot. Raises RecoveryError where the file is none."""
        try:
            body = json.loads(path.read_text(encoding="utf-8"))
            if body["v"] != SCHEMA_VERSION:
                raise RecoveryError(f"{path}: schema {body['v']}, this program reads {SCHEMA_VERSION}")
            return cls(
                scope=Scope(body["scope"]),
                namespaces=tuple(body["namespaces"]),
                objects={_ref(row["ref"]): row["object"] for row in body["objects"]},
                fingerprint=body["fingerprint"],
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RecoveryError(f"the snapshot {path} cannot be read: {type(error).__name__}: {error}") from error


async def take(
    cluster: Cluster, *, namespaces: Sequence[str], scope: Scope, fingerprint: Mapping[str, Any] | None = None
) -> Snapshot:
    """Reads the world (some 40 lists, a few at a time).

    Args:
        namespaces: Ours. With `Scope.NAMESPACES` nothing else is looked at.
        fingerprint: What the API does not show, as JSON.

    Raises:
        ClusterError: A list failed. A world that could not be read is not equal to any.
    """
    kinds = [kind for kind in await cluster.kinds() if kind_counts(kind)]
    if scope is Scope.NAMESPACES:
        selections = [Selection(kind=kind, namespace=name) for kind in kinds if kind.namespaced for name in namespaces]
    else:
        selections = [Selection(kind=kind) for kind in kinds]
    found: dict[Ref, Obj] = {}
    limit = anyio.CapacityLimiter(LISTS_AT_ONCE)
    with first_error():
        async with anyio.create_task_group() as group:
            for selection in selections:
                group.start_soon(_collect, cluster, selection, found, limit)
    return Snapshot(
        scope=scope, namespaces=tuple(namespaces), objects=dict(sorted(found.items())), fingerprint=fingerprint or {}
    )


async def retake(cluster: Cluster, base: Snapshot, *, fingerprint: Mapping[str, Any] | None = None) -> Snapshot:
    """The world now, seen as `base` saw it."""
    return await take(cluster, namespaces=base.namespaces, scope=base.scope, fingerprint=fingerprint)


async def _collect(cluster: Cluster, selection: Selection, found: dict[Ref, Obj], limit: anyio.CapacityLimiter) -> None:
    async with limit:
        try:
            objects = await cluster.list(selection)
        except NotFound:
            return  # its definition was removed between discovery and this list, and its objects with it
    for obj in objects:
        if counts(selection.kind, obj):
            found[ref_of(obj, selection.kind)] = meant(obj)


def differences(before: Snapshot, after: Snapshot) -> list[Difference]:
    """What differs, in a stable order. What is inside an extra or missing namespace is told by that namespace."""
    told = {ref.name for ref in before.objects.keys() ^ after.objects.keys() if ref.kind == NAMESPACE}
    found: list[Difference] = []
    for ref in sorted(before.objects.keys() | after.objects.keys()):
        old, new = before.objects.get(ref), after.objects.get(ref)
        if ref.namespace in told:
            continue
        if old is None:
            found.append(Difference(change=Change.EXTRA, what=str(ref), ref=ref))
        elif new is None:
            found.append(Difference(change=Change.MISSING, what=str(ref), ref=ref))
        elif paths := changed_paths(comparable(ref.kind, old), comparable(ref.kind, new)):
            found.append(Difference(change=Change.CHANGED, what=str(ref), ref=ref, paths=tuple(paths)))
    return found + _fingerprint_differences(before.fingerprint, after.fingerprint)


def _fingerprint_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    return [
        Difference(change=Change.CHANGED, what=f"fingerprint {path}") for path in changed_paths(before, after, most=20)
    ]


_ABSENT = object()
"""Stands for a key that is not there, which differs from one that is null."""


def changed_paths(before: Any, after: Any, *, path: str = "", most: int = 8) -> list[str]:
    """Where two JSON values differ, as dotted paths, at most so many."""
    if before == after:
        return []
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = sorted(before.keys() | after.keys())
        pairs = [(str(key), before.get(key, _ABSENT), after.get(key, _ABSENT)) for key in keys]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [(str(i), old, new) for i, (old, new) in enumerate(zip(before, after, strict=True))]
    else:
        return [path or "(all)"]
    found = [
        deeper
        for key, old, new in pairs
        for deeper in changed_paths(old, new, path=f"{path}.{key}" if path else key, most=most)
    ]
    return found[:most]


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def _row(ref: Ref) -> list[Any]:
    kind = ref.kind
    return [kind.api_version, kind.name, kind.plural, kind.namespaced, ref.name, ref.namespace]


def _ref(row: Sequence[Any]) -> Ref:
    return Ref(Kind(row[0], row[1], row[2], namespaced=row[3]), row[4], row[5])
