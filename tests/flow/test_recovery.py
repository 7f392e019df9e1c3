"""What another process does with the journals of one that was killed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from sregym.cluster import snapshot
from sregym.cluster.contract import Cluster
from sregym.cluster.editor import JournalledEditor
from sregym.cluster.fake import FakeCluster
from sregym.cluster.journal import Journal, open_journals
from sregym.cluster.lease import lease
from sregym.cluster.objects import CONFIGMAP, Ref
from sregym.coordinator.recovery import JournalFacts, forget_replaced, recover_cluster, recover_everything
from sregym.errors import RecoveryError, Unavailable

pytestmark = pytest.mark.usefixtures("fake_time")

NAMESPACE = "shop"
SETTINGS = Ref(CONFIGMAP, "settings", "default")


class Killed:
    """A cluster with a base snapshot, and the journal of an attempt whose process is gone."""

    def __init__(self, cluster: FakeCluster, folder: Path) -> None:
        self.cluster, self.state = cluster, folder / "state"
        self.kubeconfig, self.base = folder / "kubeconfig", folder / "base.json"
        self.nodes: tuple[str, ...] = ("worker",)

    async def begin(self) -> Journal:
        self.kubeconfig.write_text("{}", encoding="utf-8")
        await self.cluster.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}}
        )
        base = await snapshot.take(self.cluster, namespaces=snapshot.SYSTEM_NAMESPACES, scope=snapshot.Scope.CLUSTER)
        base.save(self.base)
        facts = JournalFacts(
            kubeconfig=self.kubeconfig,
            context=None,
            nodes=self.nodes,
            namespaces=(NAMESPACE,),
            base=self.base,
            problem="toy",
        )
        identity = await self.cluster.identity()
        journal = Journal.create(self.state, identity=identity, attempt="one", facts=facts.as_json())
        await self.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        editor = JournalledEditor(self.cluster, journal)
        await editor.patch(SETTINGS, {"data": {"broken": "yes"}})
        return journal

    def connect(self, facts: JournalFacts) -> AbstractAsyncContextManager[Cluster]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[Cluster]:
            yield self.cluster

        return opened()

    async def is_clean(self) -> bool:
        base = snapshot.Snapshot.load(self.base)
        return not snapshot.differences(base, await snapshot.retake(self.cluster, base))


@pytest.fixture
def killed(fake_cluster: FakeCluster, tmp_path: Path) -> Killed:
    return Killed(fake_cluster, tmp_path)


async def test_the_world_is_put_back_and_the_journal_closed(killed: Killed) -> None:
    await killed.begin()
    done = await recover_everything(killed.state, killed.connect)
    assert [one.ok for one in done] == [True]
    assert await killed.is_clean()
    assert not open_journals(killed.state)
    assert await recover_everything(killed.state, killed.connect) == []


async def test_a_run_that_is_alive_is_left_alone(killed: Killed) -> None:
    await killed.begin()
    async with lease(killed.state, await killed.cluster.identity(), cluster="fake", holder="run one"):
        done = await recover_everything(killed.state, killed.connect)
        assert "in use by run one" in done[0].how
        assert not await killed.is_clean()
    assert (await recover_everything(killed.state, killed.connect))[0].how.startswith("put back")


async def test_a_journal_without_its_cluster_is_abandoned(killed: Killed) -> None:
    await killed.begin()
    killed.kubeconfig.unlink()
    done = await recover_everything(killed.state, killed.connect)
    assert done[0].ok
    assert "removed" in done[0].how
    assert not open_journals(killed.state)


async def test_a_new_cluster_under_the_old_name_is_left_alone(killed: Killed) -> None:
    await killed.begin()
    newer = FakeCluster()
    await newer.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    killed.cluster = newer
    done = await recover_everything(killed.state, killed.connect)
    assert "replaced" in done[0].how
    assert not newer.failing
    assert any(ref.name == NAMESPACE for ref in newer.objects)


async def test_what_cannot_be_undone_is_reported_and_kept(killed: Killed) -> None:
    await killed.begin()
    for verb in ("patch", "replace", "delete"):
        killed.cluster.failing[verb] = Unavailable("no answer")
    done = await recover_everything(killed.state, killed.connect)
    assert not done[0].ok
    assert "no answer" in done[0].error
    assert open_journals(killed.state)
    killed.cluster.failing.clear()
    assert (await recover_everything(killed.state, killed.connect))[0].ok


async def test_a_new_run_does_not_begin_on_leftovers(killed: Killed) -> None:
    await killed.begin()
    killed.cluster.failing["patch"] = Unavailable("no answer")
    killed.cluster.failing["replace"] = Unavailable("no answer")
    with pytest.raises(RecoveryError):
        await recover_cluster(killed.state, killed.cluster)
    killed.cluster.failing.clear()
    assert [one.problem for one in await recover_cluster(killed.state, killed.cluster)] == ["toy"]
    assert await killed.is_clean()


async def test_a_new_cluster_reached_the_same_way_ends_the_journals_of_the_old_one(killed: Killed) -> None:
    await killed.begin()
    elsewhere = killed.kubeconfig.with_name("elsewhere")
    identity = await FakeCluster().identity()
    old = await killed.cluster.identity()
    assert identity != old
    assert await forget_replaced(killed.state, elsewhere, None, identity) == []
    assert await forget_replaced(killed.state, killed.kubeconfig, "another", identity) == []
    assert await forget_replaced(killed.state, killed.kubeconfig, None, old) == []
    async with lease(killed.state, old, cluster="fake", holder="run one"):
        assert await forget_replaced(killed.state, killed.kubeconfig, None, identity) == []
    assert open_journals(killed.state)
    done = await forget_replaced(killed.state, killed.kubeconfig, None, identity)
    assert ["replaced" in one.how for one in done] == [True]
    assert not open_journals(killed.state)


async def test_journals_of_a_cluster_in_use_are_not_even_opened(killed: Killed) -> None:
    """Opening one ends its last line where that is half written, or removes it where it is just being made."""
    journal = await killed.begin()
    old = await killed.cluster.identity()
    with journal.path.open("a", encoding="utf-8") as file:
        file.write('{"half": "a li')
    newborn = journal.path.with_name("newborn.jsonl")
    newborn.write_text('{"v": 1', encoding="utf-8")
    before = journal.path.read_bytes()
    async with lease(killed.state, old, cluster="fake", holder="run one"):
        assert await forget_replaced(killed.state, killed.kubeconfig, None, "another") == []
        done = await recover_everything(killed.state, killed.connect)
    assert [one.attempt for one in done] == ["newborn", "one"]
    assert journal.path.read_bytes() == before
    assert newborn.exists()


async def test_a_journal_that_cannot_be_read_holds_up_no_other_cluster(killed: Killed) -> None:
    journal = await killed.begin()
    journal.path.write_text("no json\n{}\n", encoding="utf-8")
    assert await forget_replaced(killed.state, killed.kubeconfig, None, "another") == []
    assert journal.path.exists()


async def test_journals_of_a_cluster_that_others_use_are_kept(killed: Killed) -> None:
    killed.nodes = ()
    await killed.begin()
    assert await forget_replaced(killed.state, killed.kubeconfig, None, "another") == []
    assert open_journals(killed.state)
