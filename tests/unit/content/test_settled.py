"""The oracle that most problems use: early failure, proof windows, exercises, back-off, and what is not the agent's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import anyio
import pytest

from oracles.combine import GRACE_S, Settled, app_settled
from oracles.exercises import RestartPods
from oracles.requests import RARE
from sregym.api import Check, Exercise, Look, Observation, OracleContext, VerdictState, deployment
from sregym.cluster.contract import PatchType, Selection
from sregym.cluster.fake import FakeCluster
from sregym.cluster.objects import POD, Ref, ref_of
from sregym.errors import Unavailable
from tests.unit.content.worlds import HOTEL, RecordingEditor, ScriptedTraffic, hotel, oracles

pytestmark = pytest.mark.usefixtures("fake_time")


CRASHING = {
    "phase": "Running",
    "containerStatuses": [
        {"name": "c", "restartCount": 5, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
    ],
}


@dataclass(frozen=True)
class From(Check):
    """Holds from a moment on; `until` ends it again."""

    at: float
    until: float = float("inf")

    async def look(self, at: Look) -> Observation:
        now = anyio.current_time()
        return self.holding() if self.at <= now < self.until else self.not_yet("too early or too late")


@dataclass(frozen=True)
class Saying(Check):
    """Says what it is told to say, one observation a look; the last one for ever."""

    states: Iterator[str]

    async def look(self, at: Look) -> Observation:
        said = next(self.states)
        if said == "error":
            raise Unavailable("no answer")
        return self.cannot("gone") if said == "cannot" else self.holding()


@dataclass(frozen=True)
class Noted(Exercise):
    times: list[float] = field(default_factory=list)

    async def run(self, ctx: OracleContext) -> None:
        self.times.append(anyio.current_time())


async def test_success_must_hold_for_the_window(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    verdict = await Settled(condition=From(0), hold=15).check(oracles(fake_cluster, ScriptedTraffic()), {})
    assert verdict.passed
    assert verdict.hold_s == 15
    assert 15 <= anyio.current_time() < 17


async def test_a_window_that_breaks_begins_anew(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    oracle = Settled(condition=From(0, until=5), hold=15)
    verdict = await oracle.check(oracles(fake_cluster, ScriptedTraffic()), {})
    assert verdict.state is VerdictState.FAILED


async def test_nothing_in_motion_fails_after_the_grace_time(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    verdict = await Settled(condition=From(1e9)).check(oracles(fake_cluster, ScriptedTraffic()), {})
    assert verdict.state is VerdictState.FAILED
    assert verdict.reasons == ["From: too early or too late"]
    assert GRACE_S <= anyio.current_time() < GRACE_S + 3


async def test_what_cannot_heal_fails_at_once(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    verdict = await Settled(condition=Saying(iter(["cannot"]))).check(oracles(fake_cluster, ScriptedTraffic()), {})
    assert verdict.state is VerdictState.FAILED
    assert anyio.current_time() < 1


async def test_looks_that_fail_are_never_the_agents_failure(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    oracle = Settled(condition=Saying(iter(["error"] * 1000)), within=30)
    verdict = await oracle.check(oracles(fake_cluster, ScriptedTraffic()), {})
    assert verdict.state is VerdictState.UNSCORED


async def test_one_bad_answer_of_the_api_is_no_verdict(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    states = iter(["holds", "error", *["holds"] * 100])
    verdict = await Settled(condition=Saying(states), hold=5).check(oracles(fake_cluster, ScriptedTraffic()), {})
    assert verdict.passed


async def test_an_api_that_stays_away_is_unscored(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    fake_cluster.failing["list"] = Unavailable("down")
    verdict = await Settled(condition=From(0), within=30).check(oracles(fake_cluster, ScriptedTraffic()), {})
    assert verdict.state is VerdictState.UNSCORED


async def test_exercises_come_between_two_passes_and_only_the_last_is_held(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    exercise = Noted()
    oracle = Settled(condition=From(0), exercises=(exercise,), hold=10)
    assert (await oracle.check(oracles(fake_cluster, ScriptedTraffic()), {})).passed
    assert len(exercise.times) == 1
    assert exercise.times[0] < 2
    assert anyio.current_time() >= 10


async def test_exercises_are_not_run_on_what_has_failed_already(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    exercise = Noted()
    oracle = Settled(condition=From(1e9), exercises=(exercise,))
    assert not (await oracle.check(oracles(fake_cluster, ScriptedTraffic()), {})).passed
    assert exercise.times == []


async def test_proofs_are_made_at_the_end_of_a_window_and_may_fail_it(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    oracle = Settled(condition=From(0), proofs=(From(1e9),), hold=5)
    verdict = await oracle.check(oracles(fake_cluster, ScriptedTraffic()), {})
    assert verdict.state is VerdictState.FAILED
    assert anyio.current_time() < 5 + GRACE_S + 3


async def test_a_pod_in_back_off_is_restarted_once(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    name = next(n["metadata"]["name"] for n in await fake_cluster.list(_pods()) if "geo" in n["metadata"]["name"])
    fake_cluster.set_status(Ref(POD, name, HOTEL.namespace), CRASHING)
    editor = RecordingEditor(fake_cluster)
    oracle = Settled(condition=From(4), hold=2)
    assert (await oracle.check(oracles(fake_cluster, ScriptedTraffic(), editor), {})).passed
    assert [one.name for one in editor.recycled] == [name]


async def test_what_somebody_started_by_hand_is_no_part_of_the_application(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    labels = dict(HOTEL.topology.service("geo").labels)
    meta = {"name": "tmp-shell", "namespace": HOTEL.namespace, "labels": labels}
    left = await fake_cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": []}})
    fake_cluster.set_status(ref_of(left, POD), CRASHING)
    editor = RecordingEditor(fake_cluster)
    oracle = Settled(condition=From(4), exercises=(RestartPods(("geo",)),), hold=2)
    assert (await oracle.check(oracles(fake_cluster, ScriptedTraffic(), editor), {})).passed
    assert await fake_cluster.find(ref_of(left, POD)) is not None
    assert anyio.current_time() < 4 + 2 + 3


async def test_rare_operations_get_their_share_and_the_load_comes_back(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    traffic = ScriptedTraffic()
    verdict = await app_settled(HOTEL.topology, hold=5).check(oracles(fake_cluster, traffic), {})
    assert verdict.passed
    mix = traffic.phases[0].operations
    assert mix is not None
    assert min(mix.values()) == RARE
    assert traffic.phases[-1] == traffic.base


async def test_a_glance_takes_no_time_and_says_what_is_wrong(fake_cluster: FakeCluster) -> None:
    await hotel(fake_cluster)
    ctx = oracles(fake_cluster, ScriptedTraffic(failing={"search"}))
    await fake_cluster.patch(deployment("geo").within(HOTEL.namespace), {"spec": {"replicas": 0}}, PatchType.MERGE)
    verdict = await app_settled(HOTEL.topology).glance(ctx, {})
    assert verdict.state is VerdictState.FAILED
    assert verdict.reasons[0] == "rolled out: geo: wants 0 pods, at least 1 are needed"
    assert anyio.current_time() < 0.5


def _pods() -> Selection:
    return Selection(kind=POD, namespace=HOTEL.namespace)
