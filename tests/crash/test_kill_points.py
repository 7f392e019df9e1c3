"""SIGKILL at every point of inject and undo, then recovery by another process: the state equals the start.

A child process works on a cluster that is kept in a file; it is killed at the n-th checkpoint (before and after each
line of the journal, in the middle of a line, before and after each call). The parent then recovers from the disk, and
is itself killed at every point of that, too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from sregym.cluster.contract import PatchType
from sregym.cluster.editor import JournalledEditor
from sregym.cluster.fake import FakeCluster
from sregym.cluster.journal import Journal, open_journals
from sregym.cluster.normalise import comparable
from sregym.cluster.objects import CONFIGMAP, DEPLOYMENT, SERVICE, Obj, Ref
from sregym.cluster.recovery import recover

WEB = Ref(DEPLOYMENT, "web", "shop")
PORT = Ref(SERVICE, "web", "shop")
SETTINGS = Ref(CONFIGMAP, "settings", "shop")
KINDS = (DEPLOYMENT, SERVICE, CONFIGMAP)

Checkpoint = Callable[[str], None]
Work = Callable[[Path, Checkpoint], Awaitable[None]]


def make(ref: Ref, **body: Any) -> Obj:
    meta = {"name": ref.name, "namespace": ref.namespace}
    return {"apiVersion": ref.kind.api_version, "kind": ref.kind.name, "metadata": meta, **body}


async def build(folder: Path) -> None:
    """The world at the start."""
    cluster = FakeCluster(path=folder / "cluster.json")
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    await cluster.create(make(WEB, spec=spec))
    await cluster.create(make(PORT, spec={"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}))
    await cluster.create(make(SETTINGS, data={"mode": "good"}))


def world(folder: Path) -> dict[str, Obj]:
    cluster = FakeCluster(path=folder / "cluster.json")
    return {str(ref): comparable(ref.kind, obj) for ref, obj in cluster.objects.items() if ref.kind in KINDS}


async def attempt(folder: Path, at: Checkpoint) -> None:
    """A fault, a trigger that ends itself, an exercise, and undo."""
    cluster = FakeCluster(path=folder / "cluster.json", checkpoint=at)
    journal = Journal.create(folder, identity="c", attempt="a", checkpoint=at)
    editor = JournalledEditor(cluster, journal)
    await editor.patch(PORT, {"spec": {"ports": [{"port": 80, "targetPort": 9999}]}}, PatchType.STRATEGIC)
    trigger = editor.section("trigger")
    await trigger.patch(WEB, {"spec": {"replicas": 0}})
    await editor.delete(SETTINGS)
    await editor.create(make(Ref(CONFIGMAP, "new", "shop"), data={"a": "b"}))
    await trigger.undo_all()
    await editor.patch(WEB, {"spec": {"replicas": 7}})
    await editor.undo_all()
    journal.close()


async def recovery(folder: Path, at: Checkpoint) -> None:
    cluster = FakeCluster(path=folder / "cluster.json", checkpoint=at)
    for found in open_journals(folder):
        await recover(Journal.open(found.path, checkpoint=at), cluster)


def run(work: Work, folder: Path, *, kill_at: int | None) -> list[str] | None:
    """Runs work in a child process. The points that it passed, or None where it was killed at point `kill_at`."""
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(work, folder, kill_at, theirs))
    child.start()
    theirs.close()
    child.join(timeout=30)
    if child.exitcode == -signal.SIGKILL:
        return None
    assert child.exitcode == 0
    points: list[str] = mine.recv()
    return points


def _child(work: Work, folder: Path, kill_at: int | None, pipe: Any) -> None:
    points: list[str] = []

    def checkpoint(point: str) -> None:
        points.append(point)
        if kill_at is not None and len(points) > kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    anyio.run(partial(work, folder, checkpoint))
    pipe.send(points)


@pytest.fixture
def start(tmp_path: Path) -> dict[str, Obj]:
    anyio.run(build, tmp_path)
    return world(tmp_path)


def reset(folder: Path) -> None:
    """Back to the world of the start, with no journal."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    anyio.run(build, folder)


def test_unharmed_it_comes_back_by_itself(tmp_path: Path, start: dict[str, Obj]) -> None:
    assert run(attempt, tmp_path, kill_at=None)
    assert world(tmp_path) == start
    assert open_journals(tmp_path) == []


@pytest.mark.timeout(300)
def test_killed_at_every_point_recovery_brings_back_the_start(tmp_path: Path, start: dict[str, Obj]) -> None:
    points = run(attempt, tmp_path, kill_at=None)
    assert points is not None
    assert len(points) > 50
    for number, point in enumerate(points):
        reset(tmp_path)
        assert run(attempt, tmp_path, kill_at=number) is None
        anyio.run(recovery, tmp_path, lambda _: None)
        assert world(tmp_path) == start, f"killed at {number}: {point}"
        assert open_journals(tmp_path) == [], f"killed at {number}: {point}"


@pytest.mark.timeout(300)
def test_recovery_itself_may_be_killed_at_every_point(tmp_path: Path, start: dict[str, Obj]) -> None:
    points = run(attempt, tmp_path, kill_at=None)
    assert points is not None
    injected = max(number for number, point in enumerate(points) if point == "after:patch")
    reset(tmp_path)
    assert run(attempt, tmp_path, kill_at=injected) is None
    broken = world(tmp_path)
    assert broken != start
    steps = run(recovery, tmp_path, kill_at=None)
    assert steps is not None
    assert len(steps) > 10
    for number, point in enumerate(steps):
        reset(tmp_path)
        assert run(attempt, tmp_path, kill_at=injected) is None
        assert world(tmp_path) == broken
        assert run(recovery, tmp_path, kill_at=number) is None
        anyio.run(recovery, tmp_path, lambda _: None)
        assert world(tmp_path) == start, f"recovery killed at {number}: {point}"
        assert open_journals(tmp_path) == []
