"""Waiting: deadlines, holding, waking on changes, giving up early. The clock is fake, so nothing really waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from sregym.cluster import waits
from sregym.cluster.check import Check, Look, Observation, State
from sregym.cluster.contract import Selection
from sregym.cluster.fake import FakeCluster
from sregym.cluster.objects import CONFIGMAP, POD, Ref
from sregym.errors import Unavailable, WaitTimeout

pytestmark = pytest.mark.usefixtures("fake_time")

SETTING = Ref(CONFIGMAP, "setting", "default")


@dataclass
class Here:
    """A `Look` at a fake cluster."""

    reader: FakeCluster
    namespace: str = "default"

    @property
    def shell(self) -> FakeCluster:
        return self.reader

    @property
    def traffic(self) -> Any:
        raise AssertionError("no traffic here")


@dataclass
class Scripted(Check):
    """Answers by what a function of the time says."""

    says: Callable[[float], State]
    looks: list[float] = field(default_factory=list)

    async def look(self, at: Look) -> Observation:
        now = anyio.current_time()
        self.looks.append(now)
        state = self.says(now)
        return Observation(check=self.title, state=state, reason=f"it is {state} at {now:g}")


@dataclass
class SettingIs(Check):
    """Holds when the ConfigMap says so; watched."""

    value: str
    looks: int = 0

    def watches(self, namespace: str) -> Sequence[Selection]:
        return [Selection(kind=CONFIGMAP, namespace=namespace)]

    async def look(self, at: Look) -> Observation:
        self.looks += 1
        found = await at.reader.find(SETTING)
        value = found and found["data"]["value"]
        return self.holding() if value == self.value else self.not_yet(f"value is {value}")


@pytest.fixture
def here(fake_cluster: FakeCluster) -> Here:
    return Here(fake_cluster)


async def test_until_returns_when_the_check_holds(here: Here) -> None:
    check = Scripted(lambda now: State.HOLDS if now >= 7.5 else State.NOT_YET)
    seen = await waits.until(check, here, within=60)
    assert seen.holds
    assert anyio.current_time() == pytest.approx(8.0)


async def test_a_time_out_tells_what_how_long_and_the_last_reason(here: Here) -> None:
    with pytest.raises(WaitTimeout) as caught:
        await waits.until(Scripted(lambda _: State.NOT_YET), here, within=10)
    assert caught.value.what == "Scripted"
    assert "not within 10 s" in str(caught.value)
    assert "it is not-yet at 10" in str(caught.value)
    assert anyio.current_time() == pytest.approx(10.0)


async def test_unknown_is_not_healthy(here: Here) -> None:
    with pytest.raises(WaitTimeout, match="unknown"):
        await waits.until(Scripted(lambda _: State.UNKNOWN), here, within=3)


async def test_a_check_that_cannot_hold_ends_the_wait_early(here: Here) -> None:
    check = Scripted(lambda now: State.CANNOT if now >= 2 else State.NOT_YET)
    with pytest.raises(WaitTimeout, match="cannot come true by itself"):
        await waits.until(check, here, within=600)
    assert anyio.current_time() == pytest.approx(2.0)


async def test_holds_starts_again_after_a_break(here: Here) -> None:
    check = Scripted(lambda now: State.NOT_YET if now in (0.0, 5.0) else State.HOLDS)
    await waits.holds(check, here, for_=10, within=60)
    assert anyio.current_time() == pytest.approx(16.0)


async def test_holds_ends_exactly_when_the_time_is_full(here: Here) -> None:
    await waits.holds(Scripted(lambda _: State.HOLDS), here, for_=2.5, within=60)
    assert anyio.current_time() == pytest.approx(2.5)


async def test_held_too_late_is_a_time_out_that_says_so(here: Here) -> None:
    check = Scripted(lambda now: State.HOLDS if now >= 8 else State.NOT_YET)
    with pytest.raises(WaitTimeout):
        await waits.holds(check, here, for_=5, within=10)


async def test_a_change_of_what_is_watched_is_seen_at_once(here: Here, fake_cluster: FakeCluster) -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "setting", "namespace": "default"}}
    await fake_cluster.create({**obj, "data": {"value": "old"}})

    async def change() -> None:
        await anyio.sleep(30.2)
        await fake_cluster.patch(SETTING, {"data": {"value": "new"}})

    check = SettingIs("new")
    async with anyio.create_task_group() as group:
        group.start_soon(change)
        await waits.until(check, here, within=600, every=100)
    assert anyio.current_time() == pytest.approx(30.2, abs=0.2)
    assert check.looks <= 4


async def test_a_watch_that_fails_leaves_polling(here: Here, fake_cluster: FakeCluster) -> None:
    fake_cluster.failing["list"] = Unavailable("down")
    told: list[str] = []

    def emit(name: str, /, **data: Any) -> None:
        told.append(name)

    with pytest.raises(WaitTimeout, match="value is None"):
        await waits.until(SettingIs("new"), here, within=5, emit=emit)
    assert told == ["wait.unwatched", "wait.failed"]


async def test_a_time_out_shows_the_pods_that_are_not_well(here: Here, fake_cluster: FakeCluster) -> None:
    await fake_cluster.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "sick", "namespace": "default"}, "spec": {}}
    )
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    last = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    status = {"name": "main", "ready": False, "restartCount": 4, "state": waiting, "lastState": last}
    fake_cluster.set_status(Ref(POD, "sick", "default"), {"phase": "Running", "containerStatuses": [status]})
    with pytest.raises(WaitTimeout, match="sick") as caught:
        await waits.until(Scripted(lambda _: State.NOT_YET), here, within=1)
    assert "CrashLoopBackOff" in str(caught.value)
    assert "exit 137 OOMKilled" in str(caught.value)


async def test_an_error_in_diagnostics_never_hides_the_time_out(here: Here, fake_cluster: FakeCluster) -> None:
    fake_cluster.failing["list"] = Unavailable("down")
    with pytest.raises(WaitTimeout, match="no diagnostics"):
        await waits.until(Scripted(lambda _: State.NOT_YET), here, within=1)


async def test_what_a_check_raises_by_mistake_reaches_the_caller_as_it_is(here: Here) -> None:
    def broken(_: float) -> State:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await waits.until(Scripted(broken), here, within=5)


async def test_a_look_that_hangs_does_not_hold_up_the_deadline_for_ever(here: Here) -> None:
    class Hanging(Check):
        async def look(self, at: Look) -> Observation:
            await anyio.sleep(10_000)
            return self.holding()

    with pytest.raises(WaitTimeout, match="did not end in time"):
        await waits.until(Hanging(), here, within=5)
    assert anyio.current_time() == pytest.approx(5 + waits.LAST_LOOK_S)


async def test_every_wait_tells_how_long_it_took(here: Here) -> None:
    told: list[tuple[str, Any]] = []

    def emit(name: str, /, **data: Any) -> None:
        told.append((name, data["seconds"]))

    await waits.until(Scripted(lambda now: State.HOLDS if now >= 4 else State.NOT_YET), here, within=9, emit=emit)
    assert told == [("wait.ended", 4.0)]


async def test_poll_gives_what_the_probe_found(here: Here) -> None:
    async def probe() -> str | None:
        return "there" if anyio.current_time() >= 3 else None

    assert await waits.poll(probe, what="it", every=1, within=10) == "there"


async def test_poll_times_out(here: Here) -> None:
    async def probe() -> str | None:
        return None

    with pytest.raises(WaitTimeout, match="it: not within 10 s"):
        await waits.poll(probe, what="it", every=3, within=10)
    assert anyio.current_time() == pytest.approx(10.0)
