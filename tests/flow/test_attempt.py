"""An attempt from clean cluster to clean cluster: every way it can end, and what is on disk then."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import anyio
import pytest

from sregym.api.problem import Provenance
from sregym.cluster import snapshot
from sregym.cluster.fake import FakeCluster
from sregym.cluster.journal import Journal, open_journals
from sregym.coordinator.attempt import BeginsAudit, Order, run_attempt
from sregym.coordinator.world import Bench, Incident, World
from sregym.errors import JudgeError, LeakError, RecoveryError, Unavailable
from sregym.events import Emit, EventLog
from sregym.judge import JudgeInput, Judgement, OfflineJudge
from sregym.results import AgentFacts, AttemptRecord, RunFolder, Status, Usage, load_run
from sregym.results.record import Grade
from sregym.settings import Timeouts
from tests.flow.toy import NAMESPACE, RIGHT, BackIsGone, MakesScripted, Script, Shift, Shop, ToyWitness, toy_users

pytestmark = pytest.mark.usefixtures("fake_time")

USAGE = Usage(calls=1, tokens_in=2, tokens_out=3)
TIMEOUTS = Timeouts(session_s=600, app_ready_s=60, symptom_s=20, teardown_s=60)


async def good(shift: Shift) -> None:
    await anyio.sleep(40)
    await shift.submit(RIGHT)
    await anyio.sleep(20)
    await shift.repair()
    await shift.submit("")


async def nop(shift: Shift) -> None:
    await shift.submit("unknown")
    await shift.submit("")


@dataclass
class Stand:
    """A run folder, a cluster with its base snapshot, and one attempt to be made."""

    cluster: FakeCluster
    base: snapshot.Snapshot
    folder: RunFolder
    state: Path
    journal: Journal
    witness: ToyWitness = field(default_factory=ToyWitness)

    async def attempt(self, script: Script, **changes: Any) -> AttemptRecord:
        order, bench, makes = self.order(script, **changes)
        place = self.folder.attempt(agent="scripted", problem="toy", attempt=1)
        self.makes = makes
        with EventLog(place.events) as emit:
            return await run_attempt(
                bench, order, base=self.base, journal=self.journal, place=place, write=self._write, emit=emit
            )

    def order(self, script: Script, **changes: Any) -> tuple[Order, Bench, MakesScripted]:
        makes = MakesScripted(cluster=self.cluster, script=script, usage=changes.pop("usage", USAGE))
        problem = changes.pop("problem", BackIsGone(app=Shop()))
        order = Order(
            problem_id="toy",
            problem=problem,
            provenance=Provenance.NEW,
            agent=AgentFacts(name="scripted"),
            make_agent=makes,
            begin_audit=clean,
            attempt=1,
            judge=changes.pop("judge", OfflineJudge()),
            profile="lite",
            session_limit_s=600,
            healthy_s=120,
        )
        bench = Bench(
            cluster=self.cluster, users=toy_users, access=lambda _: [], witness=self.witness, timeouts=TIMEOUTS
        )
        return replace(order, **changes), bench, makes

    def _write(self, record: AttemptRecord) -> None:
        self.folder.write(record)

    def events(self) -> list[str]:
        path = self.folder.attempt(agent="scripted", problem="toy", attempt=1).events
        return [json.loads(line)["event"] for line in path.read_text().splitlines()]

    @property
    def on_disk(self) -> Sequence[AttemptRecord]:
        return load_run(self.folder.path).attempts

    async def world_is_clean(self) -> bool:
        same = not snapshot.differences(self.base, await snapshot.retake(self.cluster, self.base))
        return same and not open_journals(self.state)


@pytest.fixture
async def stand(fake_cluster: FakeCluster, tmp_path: Path) -> Stand:
    base = await snapshot.take(fake_cluster, namespaces=snapshot.SYSTEM_NAMESPACES, scope=snapshot.Scope.CLUSTER)
    journal = Journal.create(tmp_path / "state", identity=await fake_cluster.identity(), attempt="one")
    folder = RunFolder.create(tmp_path / "results")
    return Stand(cluster=fake_cluster, base=base, folder=folder, state=tmp_path / "state", journal=journal)


async def test_a_right_diagnosis_and_a_right_repair_pass(stand: Stand) -> None:
    record = await stand.attempt(good)
    assert record.status is Status.GRADED
    assert record.diagnosis is not None
    assert record.diagnosis.grade is Grade.PASSED
    assert record.mitigation is not None
    assert record.mitigation.grade is Grade.PASSED
    assert record.times.ttd_s == pytest.approx(40, abs=1)
    assert record.times.ttm_s == pytest.approx(60, abs=1)
    assert record.usage.calls == 1
    assert await stand.world_is_clean()


async def test_doing_nothing_fails_both(stand: Stand) -> None:
    record = await stand.attempt(nop)
    assert record.status is Status.GRADED
    assert record.end_to_end is Grade.FAILED
    assert record.mitigation is not None
    assert record.mitigation.grade is Grade.FAILED
    assert record.mitigation.reasons
    assert await stand.world_is_clean()


async def test_an_agent_whose_model_never_answered_has_not_failed(stand: Stand) -> None:
    record = await stand.attempt(nop, usage=Usage(calls=4, failed=4))
    assert record.status is Status.UNSCORED
    assert "4 calls" in record.reason


@pytest.mark.parametrize("usage", [Usage(calls=4, failed=3), Usage(calls=4, failed=4, budget_spent=True), Usage()])
async def test_an_agent_whose_model_answered_or_was_too_expensive_is_graded(stand: Stand, usage: Usage) -> None:
    assert (await stand.attempt(nop, usage=usage)).status is Status.GRADED


async def test_an_agent_that_passes_without_an_answer_has_passed(stand: Stand) -> None:
    assert (await stand.attempt(good, usage=Usage(calls=4, failed=4))).status is Status.GRADED


async def test_times_of_proof_windows_and_the_healthy_phase_stand_apart(stand: Stand) -> None:
    times = (await stand.attempt(good)).times
    assert times.healthy_s == pytest.approx(120, abs=1)
    assert times.hold_s == pytest.approx(30, abs=1)
    assert times.agent_s == pytest.approx(60, abs=1)
    assert times.overhead_s is not None
    assert times.overhead_s < 10


async def test_a_fault_that_does_not_bite_voids_the_attempt(stand: Stand) -> None:
    record = await stand.attempt(good, problem=BackIsGone(app=Shop(), bites=False))
    assert record.status is Status.VOID
    assert "does not show" in record.reason
    assert record.diagnosis is None
    assert await stand.world_is_clean()


async def test_an_oracle_that_cannot_judge_the_incident_is_asked_again(stand: Stand) -> None:
    record = await stand.attempt(good, problem=BackIsGone(app=Shop(), blind=["late requests"] * 3))
    assert record.status is Status.GRADED


async def test_an_oracle_that_never_can_voids_the_attempt(stand: Stand) -> None:
    record = await stand.attempt(good, problem=BackIsGone(app=Shop(), blind=["late requests"] * 100))
    assert record.status is Status.VOID
    assert "late requests" in record.reason
    assert await stand.world_is_clean()


async def test_what_was_seen_of_earlier_attempts_is_forgotten_first(stand: Stand) -> None:
    await stand.attempt(good)
    assert stand.witness.emptied_times == 1


async def test_telemetry_that_cannot_be_emptied_voids_the_attempt(stand: Stand) -> None:
    stand.witness.gone = Unavailable("the observability stack is not back after 90 s")
    record = await stand.attempt(good)
    assert record.status is Status.VOID
    assert "observability stack is not back" in record.reason
    assert "fault.injecting" not in stand.events()
    assert await stand.world_is_clean()


async def test_an_incident_that_nothing_recorded_voids_the_attempt(stand: Stand) -> None:
    stand.witness.blind = Unavailable("Prometheus has no newer scrape")
    record = await stand.attempt(good)
    assert record.status is Status.VOID
    assert "telemetry of the incident is not there" in record.reason
    assert "desk.stage" not in stand.events()
    assert await stand.world_is_clean()


async def test_telemetry_that_is_lost_meanwhile_is_no_failure_of_the_agent(stand: Stand) -> None:
    async def nop_while_metrics_are_lost(shift: Shift) -> None:
        stand.witness.memory["metrics"] = "second"
        await nop(shift)

    record = await stand.attempt(nop_while_metrics_are_lost)
    assert record.status is Status.UNSCORED
    assert record.reason == "telemetry was lost while the agent worked: metrics"
    assert await stand.world_is_clean()


async def test_who_passes_without_what_was_lost_has_passed(stand: Stand) -> None:
    async def good_while_logs_are_lost(shift: Shift) -> None:
        stand.witness.memory["logs"] = "second"
        await good(shift)

    record = await stand.attempt(good_while_logs_are_lost)
    assert record.status is Status.GRADED
    assert record.end_to_end is Grade.PASSED


async def test_an_application_that_does_not_come_up_voids_the_attempt(stand: Stand) -> None:
    record = await stand.attempt(good, problem=BackIsGone(app=Shop(broken=True)))
    assert record.status is Status.VOID
    assert "WaitTimeout" in record.reason
    assert await stand.world_is_clean()


async def test_an_agent_that_never_submits_is_graded_at_the_limit(stand: Stand) -> None:
    async def silent(shift: Shift) -> None:
        await shift.repair()
        await anyio.sleep_forever()

    record = await stand.attempt(silent)
    assert record.status is Status.GRADED
    assert record.times.timed_out
    assert record.diagnosis is not None
    assert "time was up" in record.diagnosis.reason
    assert record.times.ttm_s == 600
    assert record.diagnosis is not None
    assert record.diagnosis.grade is Grade.FAILED
    assert record.mitigation is not None
    assert record.mitigation.grade is Grade.PASSED


async def test_an_agent_that_leaves_ends_its_session(stand: Stand) -> None:
    async def leaves(shift: Shift) -> None:
        await shift.submit(RIGHT)

    record = await stand.attempt(leaves)
    assert record.status is Status.GRADED
    assert not record.times.timed_out
    assert record.diagnosis is not None
    assert record.diagnosis.grade is Grade.PASSED
    assert record.mitigation is not None
    assert record.mitigation.grade is Grade.FAILED


async def test_a_repeated_submission_is_told_so_and_changes_nothing(stand: Stand) -> None:
    said: list[str] = []

    async def twice(shift: Shift) -> None:
        from sregym.gateway.desk import Stage

        said.append(await shift.submit(RIGHT))
        said.append(await shift.submit("something else", Stage.DIAGNOSIS))
        await shift.repair()
        said.append(await shift.submit(""))
        said.append(await shift.submit(""))

    record = await stand.attempt(twice)
    assert said == ["accepted", "repeated", "accepted", "over"]
    assert record.end_to_end is Grade.PASSED


async def test_a_judge_without_an_answer_leaves_the_diagnosis_unscored(stand: Stand) -> None:
    class Mute(OfflineJudge):
        async def grade(self, question: JudgeInput) -> Judgement:
            raise JudgeError("no usable answer after 5 tries")

    record = await stand.attempt(good, judge=Mute())
    assert record.status is Status.UNSCORED
    assert record.diagnosis is not None
    assert record.diagnosis.grade is Grade.UNSCORED
    assert record.mitigation is not None
    assert record.mitigation.grade is Grade.PASSED


async def test_a_probe_that_fails_is_not_the_agents_failure(stand: Stand) -> None:
    record = await stand.attempt(good, problem=BackIsGone(app=Shop(), probe_error="the API server is away"))
    assert record.status is Status.UNSCORED
    assert "API server is away" in record.reason


async def test_the_judge_works_while_the_agent_goes_on(stand: Stand) -> None:
    class Slow(OfflineJudge):
        async def grade(self, question: JudgeInput) -> Judgement:
            await anyio.sleep(50)
            return await super().grade(question)

    record = await stand.attempt(good, judge=Slow())
    assert record.times.ttm_s == pytest.approx(60, abs=1)
    assert record.diagnosis is not None
    assert record.diagnosis.score == Fraction(1)


async def test_access_is_withdrawn_before_the_mitigation_is_checked(stand: Stand) -> None:
    await stand.attempt(good)
    events = stand.events()
    assert stand.makes.made[0].withdrawn >= 1
    assert events.index("session.ended") < events.index("mitigation.checking")


async def test_what_the_agent_did_elsewhere_is_put_back(stand: Stand) -> None:
    async def vandal(shift: Shift) -> None:
        meta = {"name": "notes", "namespace": "default"}
        await shift.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "b"}})
        await shift.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}})
        await nop(shift)

    record = await stand.attempt(vandal)
    assert record.world_equal
    assert len(record.world_diff) == 2
    assert await stand.world_is_clean()


async def test_an_interrupted_attempt_is_recorded_and_cleaned_up(stand: Stand) -> None:
    async def waits(shift: Shift) -> None:
        await anyio.sleep_forever()

    async with anyio.create_task_group() as group:

        async def attempt() -> None:
            await stand.attempt(waits)

        group.start_soon(attempt)
        await anyio.sleep(300)
        group.cancel_scope.cancel()
    assert [one.reason for one in stand.on_disk] == ["interrupted"]
    assert await stand.world_is_clean()


async def test_a_world_that_cannot_be_put_back_stops_the_run_after_the_record_is_written(stand: Stand) -> None:
    async def breaks_the_api(shift: Shift) -> None:
        await nop(shift)
        stand.cluster.failing["patch"] = Unavailable("no answer")
        stand.cluster.failing["replace"] = Unavailable("no answer")
        stand.cluster.failing["delete"] = Unavailable("no answer")

    with pytest.raises(RecoveryError):
        await stand.attempt(breaks_the_api)
    (record,) = stand.on_disk
    assert record.status is Status.GRADED, "what was known before is kept"
    assert record.world_equal is None
    assert open_journals(stand.state)


async def test_an_undo_that_fails_costs_no_grade_where_the_world_is_clean_afterwards(stand: Stand) -> None:
    record = await stand.attempt(good, problem=BackIsGone(app=Shop(), undo_fails=True))
    assert (record.status, record.end_to_end) == (Status.GRADED, Grade.PASSED)
    assert "fault.not_undone" in stand.events()
    assert await stand.world_is_clean()


async def test_the_namespace_is_gone_afterwards(stand: Stand) -> None:
    from sregym.cluster.objects import NAMESPACE as KIND
    from sregym.cluster.objects import Ref

    await stand.attempt(good)
    assert await stand.cluster.find(Ref(KIND, NAMESPACE)) is None


class Clean:
    """An audit that finds nothing."""

    async def finish(self, agent: object) -> None:
        return


@asynccontextmanager
async def clean(world: World, incident: Incident, emit: Emit) -> AsyncIterator[Clean]:
    yield Clean()


class Found:
    """An audit that finds something."""

    async def finish(self, agent: object) -> None:
        raise LeakError("the incident gives itself away: own-names: Service web: x")


@asynccontextmanager
async def finding(world: World, incident: Incident, emit: Emit) -> AsyncIterator[Found]:
    yield Found()


class Waiting:
    """An audit that does not come to an end."""

    async def finish(self, agent: object) -> None:
        await anyio.sleep_forever()


@asynccontextmanager
async def failing(world: World, incident: Incident, emit: Emit) -> AsyncIterator[Waiting]:
    """An audit that cannot look."""

    async def look() -> None:
        raise Unavailable("the API server does not answer")

    async with anyio.create_task_group() as group:
        group.start_soon(look)
        yield Waiting()


@pytest.mark.parametrize(("audit", "reason"), [(finding, "own-names"), (failing, "does not answer")])
async def test_an_incident_that_gives_itself_away_or_cannot_be_audited_is_void(
    stand: Stand, audit: BeginsAudit, reason: str
) -> None:
    record = await stand.attempt(good, begin_audit=audit)
    assert record.status is Status.VOID
    assert reason in record.reason
    assert record.submissions == ()
    assert await stand.world_is_clean()
