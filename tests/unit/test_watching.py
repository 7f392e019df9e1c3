"""The endless watch against a scripted API server: reconnects, 410, errors, and what a second list tells."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from sregym.cluster.contract import Selection
from sregym.cluster.objects import CONFIGMAP, Obj, Objs
from sregym.cluster.watching import watch_forever
from sregym.errors import ClusterError, Forbidden, Gone, Unavailable

pytestmark = pytest.mark.usefixtures("fake_time")

ALL = Selection(kind=CONFIGMAP)


def obj(name: str, version: int, uid: str = "u") -> Obj:
    return {"metadata": {"name": name, "namespace": "n", "uid": f"{uid}-{name}", "resourceVersion": str(version)}}


def line(kind: str, what: Obj) -> bytes:
    return json.dumps({"type": kind, "object": what}).encode() + b"\n"


@dataclass
class Script:
    """Answers of a server, one after the other: lists and streams. An exception in a stream breaks it there."""

    lists: Sequence[tuple[Objs, str] | ClusterError]
    streams: Sequence[Sequence[bytes | ClusterError]]
    asked_from: list[str] = field(default_factory=list)
    _lists: int = 0
    _streams: int = 0

    async def list_at(self, selection: Selection) -> tuple[Objs, str]:
        answer = self.lists[min(self._lists, len(self.lists) - 1)]
        self._lists += 1
        if isinstance(answer, ClusterError):
            raise answer
        return answer

    @asynccontextmanager
    async def lines(
        self, selection: Selection, resource_version: str, *, idle_s: float, server_s: int
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked_from.append(resource_version)
        number = self._streams
        self._streams += 1
        yield self._play(self.streams[number]) if number < len(self.streams) else self._silence()

    async def _play(self, stream: Sequence[bytes | ClusterError]) -> AsyncIterator[bytes]:
        for step in stream:
            if isinstance(step, ClusterError):
                raise step
            yield step

    async def _silence(self) -> AsyncIterator[bytes]:
        await anyio.sleep_forever()
        yield b""


async def told(script: Script, until: Callable[[list[Any]], bool]) -> list[Any]:
    """What the watch says until the condition is met."""
    events: list[Any] = []
    with anyio.fail_after(600):
        async with aclosing(watch_forever(script, ALL)) as watch:
            async for event in watch:
                events.append((event.change.value, event.obj["metadata"]["name"]) if event else None)
                if until(events):
                    break
    return events


def after(count: int) -> Callable[[list[Any]], bool]:
    return lambda events: len(events) >= count


async def test_a_stream_that_ends_goes_on_from_the_last_version() -> None:
    script = Script(
        lists=[([obj("a", 5)], "10")],
        streams=[[line("MODIFIED", obj("a", 11))], [line("BOOKMARK", obj("", 20))], [line("ADDED", obj("b", 21))]],
    )
    assert await told(script, after(4)) == [("LISTED", "a"), None, ("MODIFIED", "a"), ("ADDED", "b")]
    assert script.asked_from == ["10", "11", "20"]


@pytest.mark.parametrize(
    "gone",
    [Gone("too old"), line("ERROR", {"code": 410, "message": "too old resource version"})],
    ids=["answered", "in the stream"],
)
async def test_410_lists_again_and_tells_only_the_differences(gone: bytes | ClusterError) -> None:
    script = Script(
        lists=[([obj("a", 1), obj("b", 2), obj("c", 3)], "10"), ([obj("a", 1), obj("b", 12), obj("d", 13)], "20")],
        streams=[[gone]],
    )
    events = await told(script, after(7))
    assert events[:4] == [("LISTED", "a"), ("LISTED", "b"), ("LISTED", "c"), None]
    assert sorted(events[4:]) == [("ADDED", "d"), ("DELETED", "c"), ("MODIFIED", "b")]


async def test_an_object_made_again_under_the_same_name_is_deleted_and_added() -> None:
    script = Script(lists=[([obj("a", 1)], "10"), ([obj("a", 12, uid="new")], "20")], streams=[[Gone("old")]])
    assert await told(script, after(4)) == [("LISTED", "a"), None, ("DELETED", "a"), ("ADDED", "a")]


async def test_a_server_that_is_down_is_outlasted() -> None:
    down = Unavailable("down")
    script = Script(
        lists=[down, down, down, ([obj("a", 1)], "10")], streams=[[down], [down], [line("ADDED", obj("b", 2))]]
    )
    assert await told(script, after(3)) == [("LISTED", "a"), None, ("ADDED", "b")]
    assert 0.5 < anyio.current_time() < 10


async def test_the_pause_between_attempts_grows_but_not_for_ever() -> None:
    script = Script(lists=[Unavailable("down")] * 30 + [([], "1")], streams=[])
    await told(script, after(1))
    assert 100 < anyio.current_time() < 150


async def test_a_stream_that_stays_broken_leads_to_a_new_list() -> None:
    broken = [[Unavailable("down")]] * 12
    script = Script(lists=[([obj("a", 1)], "10"), ([obj("a", 1), obj("b", 2)], "20")], streams=broken)
    assert await told(script, after(3)) == [("LISTED", "a"), None, ("ADDED", "b")]


async def test_what_may_not_be_listed_is_raised_at_once() -> None:
    script = Script(lists=[Forbidden("no", status=403)], streams=[])
    with pytest.raises(Forbidden):
        await told(script, after(1))
