"""How a change is taken back: created objects go, deleted ones come back, changed ones get their old values.

What somebody else changed in the meantime stays: only what led from before to after is reverted.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jsonpatch

from sregym.cluster.normalise import CONTROLLERS_ANNOTATIONS, SERVER_META, comparable, counts
from sregym.cluster.objects import KNOWN_KINDS, Kind, Obj, dig, uid_of
from sregym.cluster.patching import revert
from sregym.gateway.mcp.stack import Change

Key = tuple[str, str, str, str]
MOST_DIFFERENCES = 20

_LOSING = {
    "Namespace": "what was in a namespace does not come back with it",
    "CustomResourceDefinition": "objects of a kind do not come back with the kind",
    "PersistentVolumeClaim": "the data of a volume does not come back with its claim",
    "PersistentVolume": "the data of a volume does not come back with it",
}
_NOT_BACK = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
             "generation", "managedFields", "selfLink")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Step:
    """One object's way back: `obj` is to be created or deleted, or the present one, to be patched (RFC 6902)."""

    action: Literal["create", "patch", "delete"]
    obj: Obj
    patch: Sequence[Mapping[str, Any]] = ()

    @property
    def title(self) -> str:
        return title_of(self.obj)


def key_of(obj: Obj) -> Key:
    """Names an object whatever version it is read in."""
    meta = obj["metadata"]
    group = obj["apiVersion"].partition("/")[0] if "/" in obj["apiVersion"] else ""
    return (group, obj["kind"], meta.get("namespace") or "", meta["name"])


def title_of(obj: Obj) -> str:
    place = dig(obj, "metadata", "namespace")
    return f"{obj['kind']} {obj['metadata']['name']}" + (f" in {place}" if place else "")


def kind_of(obj: Obj) -> Kind:
    """The kind, as the comparison of worlds knows it; kinds that it does not know are compared as they are."""
    known = KNOWN_KINDS.get((obj["apiVersion"], obj["kind"]))
    return known or Kind(obj["apiVersion"], obj["kind"], obj["kind"].lower() + "s")


def remarkable(before: Sequence[Obj], after: Sequence[Obj]) -> bool:
    """Whether anything that counts was changed."""
    return bool(differences(before, after))


def differences(wanted: Sequence[Obj], found: Sequence[Obj]) -> list[str]:
    """Where two states of the same objects differ, as paths, after leaving out what servers and controllers write."""
    ours, theirs = _living(wanted), _living(found)
    out: list[str] = []
    for key in dict.fromkeys([*ours, *theirs]):
        one_side = ours.get(key) or theirs[key]
        title = title_of(one_side)
        if key not in theirs or key not in ours:
            if counts(kind_of(one_side), one_side):
                out.append(f"{title}: missing" if key in ours else f"{title}: there, but was not")
        else:
            one, other = (comparable(kind_of(side[key]), side[key]) for side in (ours, theirs))
            out += [f"{title}: {path}" for path in _paths(one, other)]
    return out


def pairs(before: Sequence[Obj], now: Sequence[Obj]) -> list[tuple[Obj, Obj]]:
    """Objects as they were and as they are, by name."""
    were = _by_key(before)
    return [(were[key], obj) for key, obj in _by_key(now).items() if key in were]


def warnings_for(before: Sequence[Obj], after: Sequence[Obj]) -> list[str]:
    """What a deletion loses for good."""
    gone = {obj["kind"] for obj in before if _gone(obj, after)}
    return [said for kind, said in _LOSING.items() if kind in gone]


def way_back(change: Change, present: Sequence[Obj]) -> list[Step]:
    """The steps that take a change back, given what there is now; objects that are right already have none."""
    before, after, now = (_by_key(side) for side in (change.before, change.after, present))
    steps: list[Step] = []
    for key in reversed([*dict.fromkeys([*before, *after])]):
        was, became, is_now = before.get(key), after.get(key), now.get(key)
        if was is None:
            if is_now is not None and became is not None and uid_of(is_now) == uid_of(became):
                steps.append(Step(action="delete", obj=is_now))
        elif is_now is None:
            if counts(kind_of(was), was):
                steps.append(Step(action="create", obj=as_new(was)))
        elif became is not None and (patch := _reverting(is_now, was, became)):
            steps.append(Step(action="patch", obj=is_now, patch=patch))
    return steps


def as_new(obj: Obj) -> Obj:
    """An object as it can be created again."""
    result = {key: copy.deepcopy(value) for key, value in obj.items() if key != "status"}
    result["metadata"] = {key: value for key, value in result["metadata"].items() if key not in _NOT_BACK}
    if obj["kind"] == "PersistentVolume":
        result.get("spec", {}).pop("claimRef", None)
    if obj["kind"] == "Job":
        _without_controller_uid(result)
    return result


def _without_controller_uid(job: Obj) -> None:
    """A Job's selector names its uid; the server makes a new one."""
    spec = job.get("spec", {})
    spec.pop("selector", None)
    for labels in (dig(spec, "template", "metadata", "labels", default={}), job["metadata"].get("labels") or {}):
        for name in ("controller-uid", "batch.kubernetes.io/controller-uid"):
            labels.pop(name, None)


def _reverting(present: Obj, was: Obj, became: Obj) -> list[dict[str, Any]]:
    """The patch that takes a change back, refused by the server where the object has changed by then; empty where
    nothing of the change is left.

    A patch and no replacement, because `kubectl replace` writes the annotation of `kubectl apply` anew.
    """
    now = _ours(present, present)
    target = revert(now, _ours(was, present), _ours(became, present))
    operations: list[dict[str, Any]] = list(jsonpatch.make_patch(now, target))
    version = {
        "op": "replace",
        "path": "/metadata/resourceVersion",
        "value": present["metadata"].get("resourceVersion"),
    }
    return [*operations, version] if operations else []


def _ours(obj: Obj, present: Obj) -> Obj:
    """The object without what servers write; what controllers note in annotations is as it is at present."""
    result = {key: value for key, value in obj.items() if key != "status"}
    meta = {key: value for key, value in obj["metadata"].items() if key not in SERVER_META}
    notes = {k: v for k, v in (meta.pop("annotations", None) or {}).items() if k not in CONTROLLERS_ANNOTATIONS}
    theirs = dig(present, "metadata", "annotations", default={})
    notes |= {key: value for key, value in theirs.items() if key in CONTROLLERS_ANNOTATIONS}
    result["metadata"] = {**meta, "annotations": notes} if notes else meta
    return result


def _by_key(objects: Sequence[Obj]) -> dict[Key, Obj]:
    return {key_of(obj): obj for obj in objects}


def _gone(obj: Obj, after: Sequence[Obj]) -> bool:
    left = _by_key(after).get(key_of(obj))
    return left is None or bool(left["metadata"].get("deletionTimestamp"))


def _living(objects: Sequence[Obj]) -> dict[Key, Obj]:
    return {key: obj for key, obj in _by_key(objects).items() if not obj["metadata"].get("deletionTimestamp")}


def _paths(one: Any, other: Any, at: str = "") -> list[str]:
    if one == other:
        return []
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [*one, *(key for key in other if key not in one)]
        return [path for key in keys for path in _paths(one.get(key), other.get(key), f"{at}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [path for index, (a, b) in pairs for path in _paths(a, b, f"{at}[{index}]")]
    return [at or "."]
