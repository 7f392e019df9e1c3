"""Patches as an API server applies them, and taking one change back out of a present that has moved on."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sregym.cluster.contract import PatchType
from sregym.cluster.patching import apply_patch, merge, revert, strategic
from sregym.errors import Invalid

POD = {
    "containers": [
        {"name": "main", "image": "a:1", "env": [{"name": "A", "value": "1"}], "args": ["x", "y"]},
        {"name": "side", "image": "b:1", "ports": [{"containerPort": 80}]},
    ]
}


def test_merge_removes_null_and_replaces_lists() -> None:
    assert merge({"a": 1, "b": {"c": [1, 2], "d": 3}}, {"a": None, "b": {"c": [9]}}) == {"b": {"c": [9], "d": 3}}


def test_strategic_adds_to_one_container_and_leaves_the_other() -> None:
    patched = strategic(POD, {"containers": [{"name": "main", "env": [{"name": "B", "value": "2"}]}]})
    assert [e["name"] for e in patched["containers"][0]["env"]] == ["A", "B"]
    assert patched["containers"][1] == POD["containers"][1]


def test_strategic_replaces_lists_without_a_merge_key() -> None:
    patched = strategic(POD, {"containers": [{"name": "main", "args": ["z"]}]})
    assert patched["containers"][0]["args"] == ["z"]


def test_strategic_directives() -> None:
    gone = strategic(POD, {"containers": [{"name": "side", "$patch": "delete"}]})
    assert [c["name"] for c in gone["containers"]] == ["main"]
    fresh = strategic(POD, {"containers": [{"name": "new"}, {"$patch": "replace"}]})
    assert fresh["containers"] == [{"name": "new"}]
    with pytest.raises(Invalid, match="not understood"):
        strategic(POD, {"$setElementOrder/containers": []})


def test_a_json_patch_that_does_not_fit_is_invalid() -> None:
    with pytest.raises(Invalid):
        apply_patch({"a": 1}, [{"op": "test", "path": "/a", "value": 2}], PatchType.JSON)


def test_patches_never_change_what_they_are_given() -> None:
    original = copy.deepcopy(POD)
    strategic(POD, {"containers": [{"name": "main", "env": [{"name": "A", "value": "9"}]}]})
    merge(POD, {"containers": None})
    assert original == POD


def test_revert_takes_back_one_variable_and_keeps_another_change() -> None:
    before: Any = {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]}
    after: Any = {"env": [{"name": "A", "value": "BAD"}, {"name": "B", "value": "1"}]}
    present: Any = {"env": [{"name": "A", "value": "BAD"}, {"name": "B", "value": "2"}], "extra": True}
    expected = {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "extra": True}
    assert revert(present, before, after) == expected


def test_revert_brings_back_what_was_removed_and_removes_what_was_added() -> None:
    assert revert({"new": 1, "kept": 2}, {"old": 3}, {"new": 1}) == {"kept": 2, "old": 3}


json_objects = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        st.integers(0, 2), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=4
    ),
    max_size=3,
)


@given(json_objects, json_objects)
def test_reverting_an_untouched_change_gives_the_state_before(before: Any, after: Any) -> None:
    assert revert(after, before, after) == before


@given(json_objects, json_objects)
def test_reverting_nothing_changes_nothing(state: Any, present: Any) -> None:
    assert revert(present, state, state) == present


@given(json_objects, json_objects)
def test_a_merge_patch_says_what_it_says(obj: Any, patch: Any) -> None:
    patched = merge(obj, patch)
    assert merge(patched, patch) == patched
