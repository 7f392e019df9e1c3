"""Compensating actions: journalled by name, idempotent, bound to their target, never anything but an injector's."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest

from sregym.cluster.contract import Cluster, Compensation
from sregym.cluster.editor import JournalledEditor
from sregym.cluster.fake import FakeCluster
from sregym.cluster.journal import Journal, open_journals
from sregym.cluster.objects import CONFIGMAP, Obj, Ref
from sregym.cluster.recovery import recover
from sregym.errors import DefinitionError, RecoveryError, Unavailable

pytestmark = pytest.mark.usefixtures("fake_time")

TARGET = Ref(CONFIGMAP, "store", "default")


@dataclass
class GrantAgain:
    """Stands for an action of `injectors`."""

    user: str
    undone: ClassVar[list[str]] = []
    broken: ClassVar[bool] = False

    async def undo(self, cluster: Cluster) -> None:
        if self.broken:
            raise Unavailable("the database does not answer")
        self.undone.append(self.user)


@pytest.fixture(autouse=True)
def _injector(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("injectors.example")
    module.GrantAgain = GrantAgain  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "injectors.example", module)
    monkeypatch.setattr(GrantAgain, "undone", [])
    monkeypatch.setattr(GrantAgain, "broken", False)


@pytest.fixture
async def target(fake_cluster: FakeCluster) -> Obj:
    meta = {"name": TARGET.name, "namespace": "default"}
    return await fake_cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})


@pytest.fixture
def editor(fake_cluster: FakeCluster, tmp_path: Path) -> JournalledEditor:
    return JournalledEditor(fake_cluster, Journal.create(tmp_path, identity="c", attempt="a"))


def action(target: Obj | None = None, name: str = "injectors.example:GrantAgain") -> Compensation:
    bound = {"bound_to": TARGET, "uid": target["metadata"]["uid"]} if target else {}
    return Compensation(action=name, arguments={"user": "app"}, **bound)


async def test_an_action_is_run_from_the_file_alone(
    fake_cluster: FakeCluster, editor: JournalledEditor, tmp_path: Path, target: Obj
) -> None:
    await editor.compensate(action(target))
    [journal] = open_journals(tmp_path)
    await recover(journal, fake_cluster)
    assert GrantAgain.undone == ["app"]


async def test_actions_and_changes_are_undone_newest_first(fake_cluster: FakeCluster, editor: JournalledEditor) -> None:
    await editor.compensate(Compensation(action="injectors.example:GrantAgain", arguments={"user": "first"}))
    await editor.compensate(Compensation(action="injectors.example:GrantAgain", arguments={"user": "second"}))
    await editor.undo_all()
    assert GrantAgain.undone == ["second", "first"]


async def test_a_target_that_is_gone_counts_as_undone(
    fake_cluster: FakeCluster, editor: JournalledEditor, target: Obj
) -> None:
    await editor.compensate(action(target))
    await fake_cluster.delete(TARGET)
    await editor.undo_all()
    meta = {"name": TARGET.name, "namespace": "default"}
    await fake_cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    await editor.undo_all()
    assert GrantAgain.undone == []


async def test_a_new_target_of_the_same_name_is_not_touched(
    fake_cluster: FakeCluster, editor: JournalledEditor, target: Obj
) -> None:
    await editor.compensate(action({"metadata": {"uid": "another"}}))
    await editor.undo_all()
    assert GrantAgain.undone == []


async def test_an_action_that_fails_stays_open_and_is_named(
    editor: JournalledEditor, target: Obj, monkeypatch: pytest.MonkeyPatch
) -> None:
    await editor.compensate(action(target))
    monkeypatch.setattr(GrantAgain, "broken", True)
    with pytest.raises(RecoveryError, match=r"GrantAgain.*does not answer"):
        await editor.undo_all()
    monkeypatch.setattr(GrantAgain, "broken", False)
    await editor.undo_all()
    assert GrantAgain.undone == ["app"]


@pytest.mark.parametrize(
    "name", ["os:system", "injectorsx.example:GrantAgain", "injectors.example:Nothing", "injectors.absent:X"]
)
async def test_only_actions_of_injectors_can_be_journalled(editor: JournalledEditor, name: str) -> None:
    with pytest.raises(DefinitionError):
        await editor.compensate(action(name=name))
    assert editor.journal.entries == []


async def test_wrong_arguments_are_told_before_anything_is_done(editor: JournalledEditor) -> None:
    with pytest.raises(DefinitionError, match="cannot be made"):
        await editor.compensate(Compensation(action="injectors.example:GrantAgain", arguments={"person": "x"}))
