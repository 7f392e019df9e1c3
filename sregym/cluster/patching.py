"""The three kinds of PATCH on JSON objects, as an API server would apply them: for the fake, and for reverting.

Strategic merge is approximated by the merge keys of the lists that people patch (Kubernetes API reference,
"patch merge key"); `$patch: delete` and `$patch: replace` are understood, other directives are refused.
"""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch

from sregym.cluster.contract import PatchType
from sregym.errors import Invalid

MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
    "ports": "containerPort",
    "hostAliases": "ip",
    "secrets": "name",
    "ownerReferences": "uid",
    "conditions": "type",
    "taints": "key",
    "topologySpreadConstraints": "topologyKey",
}
_SERVICE_PORTS = "port"
"""A Service's `ports` merge by `port`, a container's by `containerPort`."""


def apply_patch(obj: Any, patch: Any, kind: PatchType) -> Any:
    """The patched copy of an object. Raises Invalid where the patch cannot be applied."""
    if kind is PatchType.MERGE:
        return merge(obj, patch)
    if kind is PatchType.STRATEGIC:
        return strategic(obj, patch)
    try:
        return jsonpatch.apply_patch(obj, patch)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError) as error:
        raise Invalid(f"the JSON patch does not fit: {error}", status=422) from error


def merge(obj: Any, patch: Any) -> Any:
    """RFC 7386: null removes, lists are replaced."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(obj) if isinstance(obj, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def strategic(obj: Any, patch: Any) -> Any:
    """Strategic merge: lists with a merge key are merged by it, others replaced."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    rest = dict(patch)
    directive = rest.pop("$patch", None)
    if directive == "replace":
        return copy.deepcopy(rest)
    if directive is not None:
        raise Invalid(f"$patch: {directive} makes no sense here", status=422)
    result = dict(obj) if isinstance(obj, dict) else {}
    for key, value in rest.items():
        if key.startswith("$"):
            raise Invalid(f"the directive {key} is not understood", status=422)
        if value is None:
            result.pop(key, None)
        elif isinstance(value, list):
            result[key] = _merged_list(key, result.get(key), value)
        else:
            result[key] = strategic(result.get(key), value)
    return result


def merge_key(name: str, *lists: list[Any]) -> str | None:
    """The merge key of a list field, where all its members have it."""
    key = MERGE_KEYS.get(name)
    members = [member for one in lists for member in one if not _is_directive(member)]
    if name == "ports" and any(isinstance(member, dict) and _SERVICE_PORTS in member for member in members):
        key = _SERVICE_PORTS
    if key and all(isinstance(member, dict) and key in member for member in members):
        return key
    return None


def _is_directive(member: Any) -> bool:
    return isinstance(member, dict) and member.get("$patch") == "replace"


def _merged_list(name: str, old: Any, new: list[Any]) -> list[Any]:
    old = old if isinstance(old, list) else []
    if any(_is_directive(member) for member in new):
        return [copy.deepcopy(member) for member in new if not _is_directive(member)]
    key = merge_key(name, old, new)
    if key is None:
        return copy.deepcopy(new)
    by_key = {member[key]: member for member in old}
    for member in new:
        if member.get("$patch") == "delete":
            by_key.pop(member[key], None)
        else:
            by_key[member[key]] = strategic(by_key.get(member[key]), member)
    return list(by_key.values())


def revert(present: Any, before: Any, after: Any, *, name: str = "") -> Any:
    """The present with what led from `before` to `after` taken back, and everything else left as it is now."""
    if before == after:
        return present
    if isinstance(before, dict) and isinstance(after, dict) and isinstance(present, dict):
        return _reverted_dict(present, before, after)
    if isinstance(before, list) and isinstance(after, list) and isinstance(present, list):
        key = merge_key(name, before, after, present)
        if key is not None:
            sides = [{member[key]: member for member in side} for side in (present, before, after)]
            return list(_reverted_dict(*sides).values())
    return copy.deepcopy(before)


def _reverted_dict(present: dict[Any, Any], before: dict[Any, Any], after: dict[Any, Any]) -> dict[Any, Any]:
    result = dict(present)
    for key in [*before, *(key for key in after if key not in before)]:
        if key not in before:
            result.pop(key, None)
        elif before[key] != after.get(key):
            if key in present and key in after:
                result[key] = revert(present[key], before[key], after[key], name=str(key))
            else:
                result[key] = copy.deepcopy(before[key])
    return result
