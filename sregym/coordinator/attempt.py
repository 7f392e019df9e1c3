"""One graded attempt, from a clean cluster to a clean cluster, as nested contexts.

Whatever happens inside, a record is written that says what became of it: graded, void (the incident never was as it
should be), or unscored (it was, but could not be judged). Only errors that must stop the run leave this module.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Protocol

import anyio

from sregym.api.grading import Verdict
from sregym.api.problem import Problem, Provenance
from sregym.cluster.check import Observation
from sregym.cluster.journal import Journal
from sregym.cluster.snapshot import Snapshot
from sregym.cluster.tasks import Beside, beside
from sregym.coordinator.clock import AGENT, HEALTHY, PhaseClock, SessionClock
from sregym.coordinator.putback import PutBack, put_back
from sregym.coordinator.session import OnCall, SessionOutcome, hold_session
from sregym.coordinator.witnessing import Witness, clock_of, emptied, lost_since, memory_of, on_record
from sregym.coordinator.world import Bench, Incident, World, active_fault, app_info, running_app
from sregym.errors import (
    AgentError,
    DefinitionError,
    InjectionError,
    JudgeError,
    PrerequisiteError,
    RecoveryError,
    SregymError,
    principal,
)
from sregym.events import Emit, EventLog
from sregym.gateway.desk import Desk, Submission
from sregym.judge import Judge, JudgeInput
from sregym.results import (
    AgentFacts,
    AttemptFolder,
    AttemptRecord,
    DiagnosisRecord,
    MitigationRecord,
    ProblemFacts,
    Status,
    SubmissionRecord,
    Times,
    Usage,
    cpu_pressure,
)
from sregym.results.record import Grade

STOPS_THE_RUN = (RecoveryError, DefinitionError, PrerequisiteError)


class AgentOnCall(OnCall, Protocol):
    """An agent that also says what it used."""

    def usage(self) -> Usage: ...


class MakesAgent(Protocol):
    """Prepares an agent's surroundings for one attempt; everything slow is done on entry, before its clock starts."""

    def __call__(
        self, *, problem: Problem, desk: Desk, folder: Path, journal: Journal, emit: Emit
    ) -> AbstractAsyncContextManager[AgentOnCall]: ...


class AuditUnderWay(Protocol):
    """A look at the incident with the agent's eyes, which has begun."""

    async def finish(self, agent: AgentOnCall) -> None:
        """Looks into the agent's container, too. Raises LeakError with what was found, ClusterError or AgentError."""


class BeginsAudit(Protocol):
    """Begins to look for leaks, while the incident gets on record."""

    def __call__(self, world: World, incident: Incident, emit: Emit) -> AbstractAsyncContextManager[AuditUnderWay]: ...


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is to be attempted, by whom, and how it is graded."""

    problem_id: str
    problem: Problem
    provenance: Provenance
    agent: AgentFacts
    make_agent: MakesAgent
    begin_audit: BeginsAudit
    attempt: int
    judge: Judge
    profile: str
    session_limit_s: float
    healthy_s: float


@dataclass
class _Draft:
    """What is known so far; becomes the record."""

    order: Order
    began: datetime
    clock: PhaseClock
    session: SessionClock
    pressure: dict[str, float] = field(default_factory=dict)
    status: Status = Status.UNSCORED
    reason: str = "not finished"
    outcome: SessionOutcome | None = None
    diagnosis: DiagnosisRecord | None = None
    mitigation: MitigationRecord | None = None
    usage: Usage = field(default_factory=Usage)
    lost: str = ""
    """What of the telemetry was lost while the agent worked."""
    back: PutBack | None = None

    def record(self) -> AttemptRecord:
        order, clock, session = self.order, self.clock, self.session
        return AttemptRecord(
            problem=ProblemFacts.of(order.problem_id, order.problem, order.provenance),
            agent=order.agent,
            attempt=order.attempt,
            profile=order.profile,
            noise=False,
            status=self.status,
            reason=self.reason,
            diagnosis=self.diagnosis,
            mitigation=self.mitigation,
            submissions=self._submissions(),
            times=Times(
                started_at=self.began,
                ended_at=datetime.now(UTC),
                phases_s=clock.record(),
                hold_s=round(clock.hold_s, 3),
                healthy_s=clock.phases.get(HEALTHY, 0.0),
                overhead_s=clock.overhead_s,
                agent_s=clock.phases.get(AGENT, 0.0),
                ttd_s=session.ttd_s,
                ttm_s=session.ttm_s,
                timed_out=self.outcome is not None and self.outcome.timed_out,
                agent_timeout_s=session.limit_s,
            ),
            usage=self.usage,
            cpu_pressure=self.pressure,
            cluster_replaced=False,
            world_equal=None if self.back is None else True,
            world_diff=tuple(str(one) for one in self.back.differences) if self.back else (),
        )

    def _submissions(self) -> tuple[SubmissionRecord, ...]:
        taken = (self.outcome.diagnosis, self.outcome.mitigation) if self.outcome else ()
        began = self.session.started_at or 0.0
        return tuple(
            SubmissionRecord(stage=str(one.stage), text=one.solution, at_s=round(one.at - began, 3))
            for one in taken
            if one is not None
        )


async def run_attempt(
    bench: Bench,
    order: Order,
    *,
    base: Snapshot,
    journal: Journal,
    place: AttemptFolder,
    write: Callable[[AttemptRecord], None],
    emit: EventLog,
) -> AttemptRecord:
    """Runs one attempt and writes its record, also when it is interrupted.

    Raises RecoveryError (DirtyClusterError among them) where the world could not be put back; the record is written
    before. Anything that voids the attempt or leaves it unscored is in the record, not raised.
    """
    draft = _Draft(
        order=order,
        began=datetime.now(UTC),
        clock=PhaseClock(),
        session=SessionClock(limit_s=order.session_limit_s),
    )
    emit("attempt.begun", problem=order.problem_id, agent=order.agent.name, number=order.attempt)
    try:
        try:
            await _live(bench, order, draft, journal, place.path, emit)
            draft.pressure = await cpu_pressure()
            draft.status, draft.reason = _status(draft)
        except (SregymError, ExceptionGroup) as error:
            _book(draft, error, emit)
        except anyio.get_cancelled_exc_class():
            draft.reason = "interrupted"
            raise
        finally:
            await _clean_up(bench, order, draft, journal, base, emit)
    finally:
        record = draft.record()
        write(record)
        emit("attempt.ended", status=draft.status, overhead_s=draft.clock.overhead_s, hold_s=draft.clock.hold_s)
    return record


def _status(draft: _Draft) -> tuple[Status, str]:
    """Graded where both tasks have a grade; else unscored, with the error that left it so.

    An agent that passed without what it lacked has passed; one that failed may have failed for want of it.
    """
    tasks = [one for one in (draft.diagnosis, draft.mitigation) if one]
    errors = [one.error for one in tasks if one.grade is Grade.UNSCORED]
    if any(one.grade is not Grade.PASSED for one in tasks):
        errors += [lacked for lacked in (draft.lost, _unanswered(draft.usage)) if lacked]
    return (Status.UNSCORED, "; ".join(str(error) for error in errors)) if errors else (Status.GRADED, "")


def _unanswered(usage: Usage) -> str:
    """Why the agent had no model, where it asked for one in vain; empty where it had, or never asked."""
    if usage.calls == 0 or usage.failed < usage.calls or usage.budget_spent:
        return ""
    return f"the model's server refused or broke off all {usage.calls} calls: see model_calls.jsonl"


def _book(draft: _Draft, error: BaseException, emit: Emit) -> None:
    """What an error makes of the attempt. Errors that stop the run, and bugs, are raised again."""
    known = principal(error)
    if known is None:
        raise error
    draft.reason = f"{type(known).__name__}: {known}"
    if isinstance(known, STOPS_THE_RUN):
        raise known from error
    handed_over = draft.session.started_at is not None
    voids = isinstance(known, InjectionError) or not (handed_over or isinstance(known, AgentError))
    draft.status = Status.VOID if voids else Status.UNSCORED
    emit("attempt.void" if voids else "attempt.unscored", reason=draft.reason)


async def _clean_up(bench: Bench, order: Order, draft: _Draft, journal: Journal, base: Snapshot, emit: Emit) -> None:
    namespaces = [order.problem.app.namespace]
    budget_s = bench.timeouts.teardown_s
    with draft.clock.phase("put_back"), anyio.move_on_after(budget_s, shield=True) as budget:
        draft.back = await put_back(bench.cluster, journal, base, namespaces, emit=emit)
    if budget.cancelled_caught:
        raise RecoveryError(f"cleaning up took longer than {budget_s:g} s; finish it with: python main.py recover")


async def _live(bench: Bench, order: Order, draft: _Draft, journal: Journal, folder: Path, emit: Emit) -> None:
    problem, clock = order.problem, draft.clock
    await problem.app.remove(bench.cluster)  # so that nothing of an application of before is seen again
    async with (
        emptied(bench.witness, emit) as until_emptied,
        running_app(bench, problem, journal, clock=clock, emit=emit) as world,
    ):
        with clock.phase("emptying"):
            await until_emptied()
        with clock.phase("baseline"):
            baseline = await problem.mitigation().baseline(world.oracle_ctx)
        desk = Desk(app_info(problem), emit=emit)
        # Its surroundings take seconds, in which users are served anyway; the agent itself is started much later.
        made = order.make_agent(problem=problem, desk=desk, folder=folder, journal=journal, emit=emit)
        async with beside(made) as surroundings:
            await _healthy_phase(world, order.healthy_s, clock, emit)
            async with active_fault(world, baseline, clock=clock, timeouts=bench.timeouts) as incident:
                memory = await memory_of(bench.witness)
                await _on_call(order, draft, world, incident, bench.witness, desk, surroundings, emit)
                draft.lost = await lost_since(bench.witness, memory)


async def _healthy_phase(world: World, seconds: float, clock: PhaseClock, emit: Emit) -> None:
    if seconds <= 0:
        return
    emit("healthy.begun", seconds=seconds)
    with clock.phase(HEALTHY):
        await world.faults.elapse(seconds, why="normal traffic before the incident")


async def _on_call(
    order: Order,
    draft: _Draft,
    world: World,
    incident: Incident,
    witness: Witness | None,
    desk: Desk,
    surroundings: Beside[AgentOnCall],
    emit: Emit,
) -> None:
    """The agent's part: its session, the end of its surroundings, and both grades.

    It is handed over once the incident is on record and has been audited.
    """
    clock, bites_at = draft.clock, await clock_of(witness)

    async def grade(taken: Submission) -> None:
        draft.diagnosis = await _grade_diagnosis(order, taken, emit)

    async with anyio.create_task_group() as graders, order.begin_audit(world, incident, emit) as audit:
        with clock.phase("on_record"):
            await on_record(witness, bites_at)
        with clock.phase("agent_setup"):
            agent = await surroundings.entered()
        with clock.phase("audit"):
            await audit.finish(agent)
        with clock.phase(AGENT):
            draft.outcome = await hold_session(
                desk=desk, agent=agent, clock=draft.session, grade=grade, graders=graders, emit=emit
            )
        draft.usage = agent.usage()
        with clock.phase("agent_removal"):
            await surroundings.leave()
        draft.mitigation = await _grade_mitigation(draft, world, incident, emit)
    if draft.diagnosis is None:
        why = _why_none(draft.outcome)
        reason = "no diagnosis was submitted" + (f" ({why})" if why else "")
        draft.diagnosis = DiagnosisRecord.missing(tau=_tau(order.judge), reason=reason, judge=order.judge.name)
    desk.finish()


def _why_none(outcome: SessionOutcome | None) -> str:
    if outcome is None:
        return ""
    return outcome.agent_reason or ("the session's time was up" if outcome.timed_out else "")


async def _grade_diagnosis(order: Order, taken: Submission, emit: Emit) -> DiagnosisRecord:
    begun = anyio.current_time()
    try:
        judgement = await order.judge.grade(JudgeInput.of(order.problem, taken.solution))
    except JudgeError as error:
        emit("diagnosis.graded", state="unscored", score="", why=str(error))
        return DiagnosisRecord.unscored(
            submission=taken.solution, error=str(error), judge=order.judge.name, tau=_tau(order.judge)
        )
    seconds = anyio.current_time() - begun
    state = "passed" if judgement.passed else "failed"
    emit("diagnosis.graded", state=state, score=str(judgement.score), why=judgement.why)
    return DiagnosisRecord.of(judgement, submission=taken.solution, seconds=seconds)


async def _grade_mitigation(draft: _Draft, world: World, incident: Incident, emit: Emit) -> MitigationRecord:
    begun = anyio.current_time()
    emit("mitigation.checking")
    with draft.clock.phase("mitigation"):
        verdict = await incident.oracle.check(world.oracle_ctx, incident.baseline)
    draft.clock.hold_s += verdict.hold_s
    why = f" ({'; '.join(verdict.reasons)[:300]})" if verdict.reasons else ""
    emit("mitigation.graded", state=verdict.state, why=why, looks=_looks(verdict))
    return MitigationRecord.of(verdict, seconds=anyio.current_time() - begun)


def _tau(judge: Judge) -> Fraction:
    return Fraction(judge.fingerprint().tau)


def _looks(verdict: Verdict) -> list[dict[str, str]]:
    leaves: list[Observation] = [leaf for seen in verdict.observations for leaf in seen.leaves()]
    return [{"check": leaf.check, "state": str(leaf.state), "reason": leaf.reason} for leaf in leaves]
