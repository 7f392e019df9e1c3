"""The journal on disk, and undo through the editor: what is taken back, what is left alone, what survives a restart."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sregym.cluster.contract import PatchType, Selection
from sregym.cluster.editor import JournalledEditor
from sregym.cluster.fake import FakeCluster
from sregym.cluster.journal import Journal, open_journals
from sregym.cluster.normalise import meant
from sregym.cluster.objects import CONFIGMAP, DEPLOYMENT, NAMESPACE, POD, SERVICE, Obj, Ref
from sregym.cluster.recovery import abandon, recover
from sregym.errors import Conflict, DefinitionError, Invalid, NotFound, RecoveryError, Unavailable

pytestmark = pytest.mark.usefixtures("fake_time")

SHOP = Ref(NAMESPACE, "shop")
WEB = Ref(DEPLOYMENT, "web", "shop")
PORT = Ref(SERVICE, "web", "shop")
SETTINGS = Ref(CONFIGMAP, "settings", "shop")


def deployment() -> Obj:
    container = {"name": "web", "image": "web:1", "env": [{"name": "MODE", "value": "good"}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": spec,
    }


def service() -> Obj:
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}], "clusterIP": "10.96.0.7"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"}, "spec": spec}


def config(name: str = "settings", **data: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}, "data": data}


@pytest.fixture
async def shop(fake_cluster: FakeCluster) -> FakeCluster:
    await fake_cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    for obj in (deployment(), service(), config(mode="good", level="1")):
        await fake_cluster.create(obj)
    return fake_cluster


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal.create(tmp_path, identity="cluster-1", attempt="attempt-1", cluster="fake", facts={"run": "r1"})


@pytest.fixture
def editor(shop: FakeCluster, journal: Journal) -> JournalledEditor:
    return JournalledEditor(shop, journal)


async def world(cluster: FakeCluster) -> dict[str, Any]:
    kinds = (DEPLOYMENT, SERVICE, CONFIGMAP)
    return {str(ref): meant(obj) for ref, obj in cluster.objects.items() if ref.kind in kinds}


async def test_everything_is_taken_back(shop: FakeCluster, editor: JournalledEditor, journal: Journal) -> None:
    before = await world(shop)
    await editor.patch(PORT, {"spec": {"ports": [{"port": 80, "targetPort": 9999}]}}, PatchType.STRATEGIC)
    await editor.patch(WEB, {"spec": {"replicas": 0}})
    await editor.delete(SETTINGS)
    await editor.create(config("new", a="b"))
    assert await world(shop) != before
    await editor.undo_all()
    assert await world(shop) == before
    assert journal.open_entries() == []


async def test_the_entry_is_on_disk_before_the_call_goes_out(
    shop: FakeCluster, editor: JournalledEditor, journal: Journal
) -> None:
    seen: list[str] = []
    shop.checkpoint = lambda point: seen.append(journal.path.read_text()) if point == "before:patch" else None
    await editor.patch(WEB, {"spec": {"replicas": 0}})
    assert '"entry": "patch"' in seen[0]


async def test_undoing_twice_writes_nothing_the_second_time(shop: FakeCluster, editor: JournalledEditor) -> None:
    await editor.patch(WEB, {"spec": {"replicas": 0}})
    await editor.undo_all()
    shop.calls.clear()
    await editor.undo_all()
    assert shop.calls == []


async def test_what_the_agent_repaired_already_is_not_written_again(
    shop: FakeCluster, editor: JournalledEditor
) -> None:
    await editor.patch(WEB, {"spec": {"replicas": 0}})
    await shop.patch(WEB, {"spec": {"replicas": 2}})
    shop.calls.clear()
    await editor.undo_all()
    assert not [call for call in shop.calls if not call.startswith("get")]


async def test_several_changes_of_one_object_are_taken_back_in_one_write(
    shop: FakeCluster, editor: JournalledEditor
) -> None:
    before = await world(shop)
    for replicas in (1, 0, 5):
        await editor.patch(WEB, {"spec": {"replicas": replicas}})
    shop.calls.clear()
    await editor.undo_all()
    assert await world(shop) == before
    assert len([call for call in shop.calls if call.startswith("replace")]) == 1


async def test_an_object_that_the_agent_deleted_is_made_again(shop: FakeCluster, editor: JournalledEditor) -> None:
    before = await world(shop)
    await editor.patch(PORT, {"spec": {"selector": {"app": "nobody"}}})
    await shop.delete(PORT)
    await editor.undo_all()
    assert await world(shop) == before


async def test_an_object_of_ours_is_deleted_but_not_one_of_the_same_name(
    shop: FakeCluster, editor: JournalledEditor
) -> None:
    await editor.create(config("new", a="ours"))
    await shop.delete(Ref(CONFIGMAP, "new", "shop"))
    await shop.create(config("new", a="theirs"))
    await editor.undo_all()
    assert (await shop.get(Ref(CONFIGMAP, "new", "shop")))["data"] == {"a": "theirs"}


async def test_a_change_that_was_refused_leaves_nothing_to_undo(
    shop: FakeCluster, editor: JournalledEditor, journal: Journal
) -> None:
    shop.failing["patch"] = Invalid("no", status=422)
    with pytest.raises(Invalid):
        await editor.patch(WEB, {"spec": {"replicas": -1}})
    assert journal.open_entries() == []


async def test_a_call_whose_outcome_is_unknown_stays_open(
    shop: FakeCluster, editor: JournalledEditor, journal: Journal
) -> None:
    shop.failing["patch"] = Unavailable("connection reset")
    with pytest.raises(Unavailable):
        await editor.patch(WEB, {"spec": {"replicas": 0}})
    assert len(journal.open_entries()) == 1


async def test_creating_what_exists_is_a_conflict_and_journals_nothing(
    editor: JournalledEditor, journal: Journal
) -> None:
    with pytest.raises(Conflict):
        await editor.create(service())
    assert journal.entries == []


async def test_deleting_what_is_absent_is_not_found(editor: JournalledEditor) -> None:
    with pytest.raises(NotFound):
        await editor.delete(Ref(SERVICE, "nothing", "shop"))


async def test_a_section_takes_back_only_its_own(shop: FakeCluster, editor: JournalledEditor) -> None:
    trigger = editor.section("trigger")
    await editor.patch(WEB, {"spec": {"replicas": 1}})
    await trigger.patch(SETTINGS, {"data": {"mode": "bad"}})
    await trigger.undo_all()
    assert (await shop.get(SETTINGS))["data"]["mode"] == "good"
    assert (await shop.get(WEB))["spec"]["replicas"] == 1


async def test_a_section_leaves_a_later_change_of_the_same_object(shop: FakeCluster, editor: JournalledEditor) -> None:
    before = await world(shop)
    trigger = editor.section("trigger")
    await trigger.patch(SETTINGS, {"data": {"mode": "bad"}})
    await editor.patch(SETTINGS, {"data": {"level": "9"}})
    await trigger.undo_all()
    assert (await shop.get(SETTINGS))["data"] == {"mode": "good", "level": "9"}
    await editor.undo_all()
    assert await world(shop) == before


async def test_two_sections_of_one_name_do_not_undo_each_other(shop: FakeCluster, editor: JournalledEditor) -> None:
    one, two = editor.section("burst"), editor.section("burst")
    await one.patch(WEB, {"spec": {"replicas": 1}})
    await two.patch(SETTINGS, {"data": {"mode": "bad"}})
    await one.undo_all()
    assert (await shop.get(SETTINGS))["data"]["mode"] == "bad"


async def test_a_service_keeps_the_address_that_it_has_now(shop: FakeCluster, editor: JournalledEditor) -> None:
    await editor.patch(PORT, {"spec": {"ports": [{"port": 80, "targetPort": 9}]}})
    await shop.delete(PORT)
    other = service()
    other["spec"] |= {"clusterIP": "10.96.0.99", "selector": {"app": "agent"}}
    await shop.create(other)
    await editor.undo_all()
    spec = (await shop.get(PORT))["spec"]
    assert (spec["clusterIP"], spec["selector"]) == ("10.96.0.99", {"app": "web"})


async def test_a_vanished_namespace_counts_as_undone(
    shop: FakeCluster, editor: JournalledEditor, journal: Journal
) -> None:
    await editor.patch(WEB, {"spec": {"replicas": 0}})
    await shop.delete(SHOP)
    await editor.undo_all()
    assert journal.open_entries() == []


async def test_deleting_a_namespace_is_refused(editor: JournalledEditor) -> None:
    with pytest.raises(DefinitionError, match="one by one"):
        await editor.delete(SHOP)


async def test_what_cannot_be_undone_is_named_and_the_rest_is_done(
    shop: FakeCluster, editor: JournalledEditor, journal: Journal
) -> None:
    await editor.patch(WEB, {"spec": {"replicas": 0}})
    await editor.delete(SETTINGS)
    shop.failing["replace"] = Invalid("no", status=422)
    shop.failing["delete"] = Invalid("no", status=422)
    with pytest.raises(RecoveryError, match="patch Deployment web in shop"):
        await editor.undo_all()
    assert await shop.find(SETTINGS) is not None
    assert [str(entry) for entry in journal.open_entries()] == ["patch Deployment web in shop"]


async def test_recycled_pods_come_back_by_themselves(
    shop: FakeCluster, editor: JournalledEditor, journal: Journal
) -> None:
    selection = Selection(kind=POD, namespace="shop", labels="app=web")
    uids = {pod["metadata"]["uid"] for pod in await shop.list(selection)}
    await editor.recycle_pods(selection)
    fresh = {pod["metadata"]["uid"] for pod in await shop.list(selection)}
    assert len(fresh) == 2
    assert not fresh & uids
    assert journal.open_entries() == []


async def test_a_pod_that_nothing_would_make_again_is_not_recycled(
    shop: FakeCluster, editor: JournalledEditor, journal: Journal
) -> None:
    meta = {"name": "by-hand", "namespace": "shop", "labels": {"app": "web"}}
    await shop.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": []}})
    await editor.recycle_pods(Selection(kind=POD, namespace="shop", labels="app=web"))
    assert await shop.find(Ref(POD, "by-hand", "shop")) is not None


async def test_another_process_recovers_from_the_file_alone(
    shop: FakeCluster, editor: JournalledEditor, tmp_path: Path
) -> None:
    before = await world(shop)
    await editor.patch(WEB, {"spec": {"replicas": 0}})
    await editor.create(config("new"))
    [found] = open_journals(tmp_path, "cluster-1")
    assert found.header.facts == {"run": "r1"}
    await recover(found, shop)
    assert await world(shop) == before
    assert open_journals(tmp_path) == []


async def test_a_line_that_was_cut_short_is_dropped(
    shop: FakeCluster, editor: JournalledEditor, tmp_path: Path
) -> None:
    before = await world(shop)
    await editor.patch(WEB, {"spec": {"replicas": 0}})
    path = editor.journal.path
    with path.open("a") as file:
        file.write('{"entry": "delete", "id": "x", "sec')
    [found] = open_journals(tmp_path)
    assert len(found.entries) == 1
    await recover(found, shop)
    assert await world(shop) == before


def test_a_damaged_line_in_the_middle_stops_recovery(journal: Journal) -> None:
    with journal.path.open("a") as file:
        file.write('{"broken\n{"note": "x", "section": ""}\n')
    with pytest.raises(RecoveryError, match="line 2"):
        Journal.open(journal.path)


def test_a_journal_that_was_cut_while_being_made_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "journals" / "c"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_text('{"v": 1, "att')
    assert open_journals(tmp_path) == []
    assert list(folder.iterdir()) == []


def test_one_attempt_has_one_journal(tmp_path: Path, journal: Journal) -> None:
    with pytest.raises(RecoveryError, match="has a journal already"):
        Journal.create(tmp_path, identity="cluster-1", attempt="attempt-1")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


async def test_a_process_of_ours_is_ended(journal: Journal, child: subprocess.Popen[bytes]) -> None:
    journal.note_host("process", "sleep", pid=child.pid)
    await abandon(Journal.open(journal.path))
    assert child.wait(timeout=5) == -signal.SIGTERM


async def test_another_process_with_the_same_id_is_left_alone(journal: Journal, child: subprocess.Popen[bytes]) -> None:
    journal.note_host("process", "sleep", pid=child.pid)
    text = journal.path.read_text()
    journal.path.write_text(re.sub(r'"started": \d+', '"started": 1', text))
    await abandon(Journal.open(journal.path))
    assert child.poll() is None


def test_a_host_thing_of_unknown_kind_is_refused(journal: Journal) -> None:
    with pytest.raises(DefinitionError, match="no kind of host thing"):
        journal.note_host("teapot", "x")
