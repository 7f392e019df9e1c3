"""The agent's session: from the moment the incident is handed over until the agent's access is withdrawn.

Two submissions are waited for under one deadline. The diagnosis is graded while the agent goes on. The session ends
with the mitigation submit, with the agent's own end, or at the limit; what was submitted until then counts.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup

from sregym.coordinator.clock import SessionClock
from sregym.events import Emit
from sregym.gateway.desk import Desk, Stage, Submission


class Ended(StrEnum):
    """Why a session ended."""

    SUBMITTED = "submitted"
    AGENT_LEFT = "agent-left"
    TIMED_OUT = "timed-out"


class AgentExitLike(Protocol):
    @property
    def code(self) -> int | None: ...

    @property
    def reason(self) -> str: ...


class OnCall(Protocol):
    """An agent that is ready to start: a container, a person, a script in a test."""

    async def start(self) -> None:
        """Hands the incident over. Raises AgentError."""

    async def wait_finished(self) -> AgentExitLike:
        """Returns when the agent has ended by itself."""

    async def withdraw(self) -> None:
        """Takes its access away and stops it. Idempotent."""


@dataclass(frozen=True, kw_only=True)
class SessionOutcome:
    """What a session brought. `agent_reason` says how the agent ended where it left by itself."""

    ended: Ended
    diagnosis: Submission | None
    mitigation: Submission | None
    agent_reason: str = ""

    @property
    def timed_out(self) -> bool:
        return self.ended is Ended.TIMED_OUT


GradeDiagnosis = Callable[[Submission], Coroutine[Any, Any, None]]


async def hold_session(
    *, desk: Desk, agent: OnCall, clock: SessionClock, grade: GradeDiagnosis, graders: TaskGroup, emit: Emit
) -> SessionOutcome:
    """Runs the session; withdraws the agent's access before it returns, also when it is cancelled.

    `grade` is started in `graders` as soon as the diagnosis is there. Raises AgentError where the agent cannot start.
    """
    desk.open()
    clock.start()
    left: list[str] = []
    try:
        await agent.start()
        with anyio.move_on_after(clock.limit_s) as limit:
            await _until_over(desk, agent, clock, grade, graders, left, emit)
    finally:
        desk.close()
        with anyio.CancelScope(shield=True):
            await agent.withdraw()
    diagnosis, mitigation = desk.taken(Stage.DIAGNOSIS), desk.taken(Stage.MITIGATION)
    if diagnosis is not None and clock.diagnosis_at is None:
        _note(clock, diagnosis, grade, graders, emit)
    if mitigation is not None:
        clock.mitigation_at = mitigation.at
        ended = Ended.SUBMITTED
    else:
        ended = Ended.TIMED_OUT if limit.cancelled_caught else Ended.AGENT_LEFT
    emit("session.ended", how=ended, agent=left[0] if left else "")
    return SessionOutcome(ended=ended, diagnosis=diagnosis, mitigation=mitigation, agent_reason=left[0] if left else "")


async def _until_over(
    desk: Desk,
    agent: OnCall,
    clock: SessionClock,
    grade: GradeDiagnosis,
    graders: TaskGroup,
    left: list[str],
    emit: Emit,
) -> None:
    """Returns at the mitigation submit or when the agent has ended, whichever is first."""
    async with anyio.create_task_group() as group:

        async def watch_agent() -> None:
            gone = await agent.wait_finished()
            left.append(gone.reason)
            group.cancel_scope.cancel()

        group.start_soon(watch_agent)
        _note(clock, await desk.received(Stage.DIAGNOSIS), grade, graders, emit)
        last = await desk.received(Stage.MITIGATION)
        emit("submission.taken", stage=last.stage, seconds=round(last.at - (clock.started_at or last.at), 3))
        group.cancel_scope.cancel()


def _note(clock: SessionClock, taken: Submission, grade: GradeDiagnosis, graders: TaskGroup, emit: Emit) -> None:
    clock.diagnosis_at = taken.at
    emit("submission.taken", stage=taken.stage, seconds=round(taken.at - (clock.started_at or taken.at), 3))
    graders.start_soon(grade, taken)
