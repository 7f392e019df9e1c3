"""The desk: where an agent's submissions are taken, and the stage machine that decides what a submission counts for.

    setup -> diagnosis -> mitigation -> tearing_down -> done

The diagnosis is graded while the agent goes on, so the stage is `mitigation` as soon as the diagnosis has been taken.
Nothing that the desk says tells anything about a verdict. The coordinator opens and closes it and waits for what
comes in; the submission API and `cli.py` hand things in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import anyio

from sregym.events import Emit, silent


class Stage(StrEnum):
    """Where an attempt stands, as agents see it at GET /status."""

    SETUP = "setup"
    DIAGNOSIS = "diagnosis"
    MITIGATION = "mitigation"
    TEARING_DOWN = "tearing_down"
    DONE = "done"


GRADED = (Stage.DIAGNOSIS, Stage.MITIGATION)


class Outcome(StrEnum):
    """What became of a submission."""

    ACCEPTED = "accepted"
    REPEATED = "repeated"
    WRONG_STAGE = "wrong_stage"
    NOT_READY = "not_ready"
    OVER = "over"


@dataclass(frozen=True, kw_only=True)
class AppInfo:
    """What GET /get_app says about the application on call. Must hold nothing about the problem."""

    app_name: str
    namespace: str
    namespaces: tuple[str, ...]
    descriptions: str


@dataclass(frozen=True, kw_only=True)
class Submission:
    """One submission that was taken. `at` is `anyio.current_time()` of that moment."""

    stage: Stage
    solution: str
    at: float


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """The answer to a submission: what became of it, the stage that the attempt is in now, and a sentence."""

    outcome: Outcome
    stage: Stage
    message: str


class SubmissionDesk(Protocol):
    """What the submission API needs of the coordinator."""

    async def submit(self, stage: Stage | None, solution: str) -> Receipt:
        """Take a submission for the given stage, or for the present one."""

    def status(self) -> Stage: ...

    def app_info(self) -> AppInfo: ...


class Desk:
    """A `SubmissionDesk` in memory. `stages` are those that this problem grades, in order."""

    def __init__(self, app: AppInfo, *, stages: Sequence[Stage] = GRADED, emit: Emit = silent) -> None:
        if not stages or any(stage not in GRADED for stage in stages):
            raise ValueError(f"stages to grade must be some of {[str(s) for s in GRADED]}, not {stages}")
        self._app = app
        self._stages = tuple(stages)
        self._stage = Stage.SETUP
        self._taken: dict[Stage, Submission] = {}
        self._arrived = {stage: anyio.Event() for stage in self._stages}
        self._emit = emit

    def status(self) -> Stage:
        return self._stage

    def app_info(self) -> AppInfo:
        return self._app

    def open(self) -> None:
        """Hand the incident over: from now on submissions are taken."""
        if self._stage is Stage.SETUP:
            self._enter(self._stages[0])

    def close(self) -> None:
        """Take nothing more."""
        if self._stage not in (Stage.TEARING_DOWN, Stage.DONE):
            self._enter(Stage.TEARING_DOWN)

    def finish(self) -> None:
        """The attempt is over."""
        self.close()
        if self._stage is not Stage.DONE:
            self._enter(Stage.DONE)

    def taken(self, stage: Stage) -> Submission | None:
        """What was submitted for a stage, if anything was."""
        return self._taken.get(stage)

    async def received(self, stage: Stage) -> Submission:
        """Wait for the submission for a stage. The caller sets the deadline."""
        await self._arrived[stage].wait()
        return self._taken[stage]

    async def submit(self, stage: Stage | None, solution: str) -> Receipt:
        receipt = self._judge(stage, solution) or self._take(solution)
        self._emit("submission.received", outcome=receipt.outcome, stage=receipt.stage, length=len(solution))
        return receipt

    def _judge(self, stage: Stage | None, solution: str) -> Receipt | None:
        """Why a submission cannot be taken now; None where it can."""
        if self._stage is Stage.SETUP:
            return self._receipt(Outcome.NOT_READY, "The incident has not begun yet. Try again when it has.")
        if self._stage in (Stage.TEARING_DOWN, Stage.DONE):
            return self._receipt(Outcome.OVER, "The session is over. Nothing more is taken.")
        if stage in self._taken:
            return self._receipt(
                Outcome.REPEATED,
                f"A {stage} was taken before and stays as it is; this one was not taken. Now due: {self._stage}.",
            )
        if stage is not None and stage is not self._stage:
            return self._receipt(Outcome.WRONG_STAGE, f"A {stage} cannot be taken now. Now due: {self._stage}.")
        before = self._taken.get(Stage.DIAGNOSIS)
        if stage is None and before is not None and solution and solution == before.solution:
            return self._receipt(
                Outcome.REPEATED,
                f"This diagnosis was taken before; it was not taken again. Now due: {self._stage} "
                '(submit "" when the incident is mitigated).',
            )
        return None

    def _take(self, solution: str) -> Receipt:
        stage = self._stage
        self._taken[stage] = Submission(stage=stage, solution=solution, at=anyio.current_time())
        due = self._stages[self._stages.index(stage) + 1 :]
        self._enter(due[0] if due else Stage.TEARING_DOWN)
        self._arrived[stage].set()
        after = f"Now due: {due[0]}." if due else "That was the last one."
        return self._receipt(Outcome.ACCEPTED, f"The {stage} was taken. {after}")

    def _receipt(self, outcome: Outcome, message: str) -> Receipt:
        return Receipt(outcome=outcome, stage=self._stage, message=message)

    def _enter(self, stage: Stage) -> None:
        self._stage = stage
        self._emit("desk.stage", stage=stage)
