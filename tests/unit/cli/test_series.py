"""`verify` and `audit` go through their problems on one cluster, and on a new one after one that cost it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from main import content
from sregym.catalogue import Entry
from sregym.cli.series import one_after_the_other
from sregym.cluster.providers.base import ClusterSpec
from sregym.errors import DirtyClusterError
from sregym.events import EventLog
from sregym.settings import Paths, Settings


class ASite:
    """A site that knows how often it was replaced."""

    def __init__(self, number: int = 1) -> None:
        self.number = number

    async def replaced(self) -> ASite:
        return ASite(self.number + 1)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the sites that were opened."""
    numbers: list[int] = []

    async def prepare(*_: object) -> ASite:
        return ASite()

    @asynccontextmanager
    async def open_lab(site: ASite, *_: object, **__: object) -> AsyncIterator[int]:
        numbers.append(site.number)
        yield site.number

    monkeypatch.setattr("sregym.cli.series.prepare", prepare)
    monkeypatch.setattr("sregym.cli.series.open_lab", open_lab)
    return numbers


async def test_a_problem_that_costs_the_cluster_is_given_up_and_the_next_one_gets_a_new_cluster(
    opened: list[int], tmp_path: Path
) -> None:
    entries = content().catalogue.suite("smoke")[:4]

    async def look(lab: Any, entry: Entry, folder: Path, emit: EventLog) -> str:
        assert folder.parent == tmp_path
        assert folder.name.startswith("audit-")
        emit("looked")
        if entry is entries[1]:
            raise DirtyClusterError("not as before")
        return f"{entry.id} on {lab}"

    reports = await one_after_the_other(
        entries,
        look,
        lambda entry, error: f"{entry.id}: {error}",
        name="audit",
        content=content(),
        settings=Settings(paths=Paths(results=tmp_path)),
        spec=ClusterSpec(),
        profile="lite",
        seed=1,
    )
    first, second, third, fourth = (one.id for one in entries)
    assert reports == [f"{first} on 1", f"{second}: not as before", f"{third} on 2", f"{fourth} on 2"]
    assert opened == [1, 2]
