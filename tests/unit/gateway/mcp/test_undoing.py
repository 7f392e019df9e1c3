"""The way back from a change, the stack on disk, and bounded answers."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from sregym.gateway.mcp import stack as stacks
from sregym.gateway.mcp.answers import Answers, BadCursor
from sregym.gateway.mcp.stack import Change, UndoStack
from sregym.gateway.mcp.undoing import differences, warnings_for, way_back

Obj = dict[str, Any]


def web(*, uid: str = "u1", version: str = "1", replicas: int = 2, image: str = "web:1", **meta: Any) -> Obj:
    container = {"name": "web", "image": image, "resources": {}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": uid, "resourceVersion": version, **meta},
        "spec": {
            "replicas": replicas,
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}},
        },
        "status": {"replicas": replicas},
    }


def made(before: list[Obj], after: list[Obj]) -> Change:
    return Change(command="kubectl x", state="done", before=before, after=after)


def test_a_changed_object_gets_its_old_values_and_keeps_what_others_changed() -> None:
    present = web(version="9", replicas=7, image="web:9", labels={"mine": "yes"})
    (step,) = way_back(made([web()], [web(version="2", replicas=7)]), [present])
    assert step.action == "patch"
    assert step.patch == [
        {"op": "replace", "path": "/spec/replicas", "value": 2},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "9"},
    ]


def test_what_a_change_added_is_taken_away_and_controllers_notes_stay() -> None:
    revision = {"deployment.kubernetes.io/revision": "2"}
    after = web(version="2", annotations={"note": "x", **revision})
    (step,) = way_back(made([web(annotations={"deployment.kubernetes.io/revision": "1"})], [after]), [after])
    assert step.patch[:-1] == [{"op": "remove", "path": "/metadata/annotations/note"}]


def test_a_created_object_goes_unless_it_is_another_one_by_now() -> None:
    change = made([], [web()])
    assert [step.action for step in way_back(change, [web(version="5")])] == ["delete"]
    assert way_back(change, [web(uid="u2")]) == []
    assert way_back(change, []) == []


def test_a_deleted_object_comes_back_as_new() -> None:
    before = web(managedFields=[{}], creationTimestamp="t", generation=4, annotations={"note": "kept"})
    (step,) = way_back(made([before], []), [])
    assert step.action == "create"
    assert step.obj["metadata"] == {"name": "web", "namespace": "shop", "annotations": {"note": "kept"}}
    assert "status" not in step.obj


def test_a_pod_of_a_controller_is_not_made_again_by_us() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r1", "controller": True}
    pod: Obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "shop", "ownerReferences": [owner]},
    }
    assert way_back(made([pod], []), []) == []
    assert differences([pod], []) == []
    labelled = copy.deepcopy(pod)
    labelled["metadata"]["labels"] = {"a": "b"}
    assert differences([pod], [labelled]) == ["Pod p in shop: .metadata.labels"]


def test_several_objects_go_back_in_the_opposite_order() -> None:
    config: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop", "uid": "c1"}}
    steps = way_back(made([], [config, web()]), [config, web()])
    assert [step.title for step in steps] == ["Deployment web in shop", "ConfigMap c in shop"]


def test_what_servers_write_is_no_difference() -> None:
    after = web(version="7", generation=3, managedFields=[{}], annotations={"deployment.kubernetes.io/revision": "2"})
    after["status"] = {"replicas": 1}
    assert differences([web()], [after]) == []
    assert differences([web()], [web(replicas=3)]) == ["Deployment web in shop: .spec.replicas"]
    assert differences([web()], []) == ["Deployment web in shop: missing"]
    assert differences([], [web()]) == ["Deployment web in shop: there, but was not"]
    assert differences([web()], [web(deletionTimestamp="t")]) == ["Deployment web in shop: missing"]


def test_what_is_lost_for_good_is_said() -> None:
    namespace: Obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    assert warnings_for([namespace], []) == ["what was in a namespace does not come back with it"]
    assert warnings_for([namespace], [namespace]) == []


def test_stacks_are_of_sessions_and_on_disk(tmp_path: Path) -> None:
    first = UndoStack(tmp_path, "one/../../x")
    path = first.push(Change(command="a", state="pending", before=[]))
    first.write(path, Change(command="a", state="done", before=[]))
    UndoStack(tmp_path, "one/../../x").push(Change(command="b", state="pending", before=[web()]))
    again = UndoStack(tmp_path, "one/../../x")
    top = again.top()
    assert top is not None
    assert (top[1].command, top[1].before) == ("b", [web()])
    assert UndoStack(tmp_path, "two").top() is None
    assert UndoStack(tmp_path, "two").others() == {"one/../../x": 2}
    again.drop(top[0])
    assert again.depth() == 1
    assert {path.parent for path in tmp_path.glob("*")} == {tmp_path}


def test_what_came_back_under_a_new_uid_is_still_known_to_earlier_changes(tmp_path: Path) -> None:
    stack = UndoStack(tmp_path, "s")
    stack.push(Change(command="create", state="done", before=[], after=[web(uid="old")]))
    stack.come_back({"old": "new", "same": "same"})
    top = stack.top()
    assert top is not None
    assert [step.action for step in way_back(top[1], [web(uid="new")])] == ["delete"]


def test_the_oldest_changes_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "MOST_ENTRIES", 3)
    stack = UndoStack(tmp_path, "s")
    for number in range(5):
        stack.push(Change(command=str(number), state="done", before=[]))
    assert stack.depth() == 3
    monkeypatch.setattr(stacks, "MOST_BYTES", 1)
    stack.push(Change(command="last", state="done", before=[]))
    top = stack.top()
    assert stack.depth() == 1
    assert top is not None
    assert top[1].command == "last"


def test_long_texts_are_read_on_with_a_cursor(tmp_path: Path) -> None:
    lines = "".join(f"line {number}\n" for number in range(100))
    answers = Answers(tmp_path, limit=200)
    page = json.loads(answers.text(lines, undo="x"))
    assert page["undo"] == "x"
    found, pages = page["output"], 1
    while "cursor" in page:
        assert page["output"].endswith("\n")
        page = json.loads(Answers(tmp_path, limit=200).more(page["cursor"]))
        found, pages = found + page["output"], pages + 1
    assert found == lines
    assert pages > 3


def test_long_lists_are_read_on_by_items_and_a_giant_item_is_cut(tmp_path: Path) -> None:
    answers = Answers(tmp_path, limit=100)
    items: list[Any] = [{"n": number, "pad": "x" * 20} for number in range(6)] + ["y" * 500]
    page = json.loads(answers.items("lines", items))
    found = list(page["lines"])
    while "cursor" in page:
        page = json.loads(answers.more(page["cursor"]))
        found += page["lines"]
    assert found[:6] == items[:6]
    assert found[6]["of_characters"] == 502
    assert len(found) == 7


@pytest.mark.parametrize(
    "cursor", ["", "x", "0123456789abcdef.5", "../../etc/passwd.1", "0123456789abcdef.-1", "a" * 9999]
)
def test_cursors_that_nobody_gave(tmp_path: Path, cursor: str) -> None:
    with pytest.raises(BadCursor):
        Answers(tmp_path).more(cursor)
