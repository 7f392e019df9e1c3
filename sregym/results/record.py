"""What is kept of an attempt: `attempt.json`, one a folder, with a schema version.

It holds everything that tables, statistics and a re-grade need, and the reason of every verdict. Scores are exact
fractions written as text ("7/9"); times are seconds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Any, Literal, Protocol, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from sregym.api.grading import Verdict
from sregym.api.problem import Problem, Provenance
from sregym.cluster.check import Observation

SCHEMA_VERSION: Literal[2] = 2
"""Of `attempt.json` and of the CSV files. A change that readers must know of counts it up; version 1, which lacks what
is said below about tokens and internet access, is still read."""


def _fraction(value: object) -> object:
    return Fraction(value) if isinstance(value, str) else value


ExactFraction = Annotated[
    Fraction, BeforeValidator(_fraction), PlainSerializer(str, return_type=str), Field(ge=0, le=1)
]
"""A fraction in [0, 1], as text in JSON."""


def _writable(value: object) -> object:
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_writable)]
"""An agent's own words, which may be anything; what UTF-8 cannot hold becomes a question mark."""


class Record(BaseModel):
    """Base of all records: frozen, and strict about unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Status(StrEnum):
    """What became of an attempt. Only GRADED ones enter scores; the others are counted apart, with their reason.

    UNSCORED: a judge or a probe gave no answer, or the agent could not be run. VOID: the fault did not bite, or what
    was measured was not a fair attempt. SKIPPED: it could not be run here at all (a missing capability).
    """

    GRADED = "graded"
    UNSCORED = "unscored"
    VOID = "void"
    SKIPPED = "skipped"


class Grade(StrEnum):
    """Of one task."""

    PASSED = "passed"
    FAILED = "failed"
    UNSCORED = "unscored"


class ProblemFacts(Record):
    """Which problem, and what results are broken down by."""

    id: str
    primitive: str
    revision: int
    app: str
    fault_class: str
    layer: str
    provenance: str = Provenance.UNKNOWN.value
    params: Mapping[str, Any] = Field(default_factory=dict)

    @classmethod
    def of(cls, problem_id: str, problem: Problem, provenance: Provenance | None = None) -> Self:
        """The facts of an instance; its provenance is that of the variant of this id, unless given."""
        variant = type(problem).variants.get(problem_id)
        known = provenance or (variant.provenance if variant else Provenance.UNKNOWN)
        return cls(
            id=problem_id,
            primitive=type(problem).__name__,
            revision=problem.revision,
            app=problem.app.name,
            fault_class=problem.fault_class.value,
            layer=problem.layer.value,
            provenance=known.value,
            params=plain(problem.params),
        )


class AgentFacts(Record):
    """Who was on call. `leaderboard` is false for agents that were told the answer (`reference`)."""

    name: str
    model: str | None = None
    version: str | None = None
    reasoning_effort: str | None = None
    leaderboard: bool = True
    internet_access: Literal["filtered", "open", "outside"] = "filtered"
    """What it could reach besides the gateway; of an agent outside our container we cannot tell."""
    endpoints: tuple[str, ...] = ()
    """Further hosts and ports that it might reach."""


class Times(Record):
    """Seconds. The agent's clock starts when the incident is handed over; install, judging and probing do not count.

    `overhead_s` is the whole attempt without the agent's time, the healthy phase and the proof windows (`hold_s`).
    """

    started_at: datetime
    ended_at: datetime
    phases_s: Mapping[str, float] = Field(default_factory=dict)
    hold_s: float = 0.0
    healthy_s: float = 0.0
    agent_s: float = 0.0
    overhead_s: float | None = None
    ttd_s: float | None = None
    """Start to diagnosis; at the cap where there was none in time."""
    ttm_s: float | None = None
    """Start to the mitigation submit; at the cap where there was none in time."""
    timed_out: bool = False
    agent_timeout_s: float | None = None


class SubmissionRecord(Record):
    """One call of the submission API, taken or refused (then `note` says why)."""

    stage: Text
    text: Text
    at_s: float
    """Seconds since the incident was handed over."""
    accepted: bool = True
    note: str = ""


class AnswerRecord(Record):
    """One question of the checklist and its answer."""

    question: str
    dimension: str
    text: str
    yes: bool
    reason: Text


class Usage(Record):
    """Calls of a model. `cost_usd` is None where the price is not known."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    failed: int = 0
    """Among the calls: those that the model's server refused or broke off."""
    cached_tokens: int = 0
    """Among the tokens in: those read from the provider's cache."""
    reasoning_tokens: int = 0
    """Among the tokens out."""
    unmetered: int = 0
    """Answered calls whose tokens are not known, so that the sums are too low."""
    budget_spent: bool = False
    """Whether calls were refused because of `--max-cost` or `--max-tokens`."""


class JudgedAnswer(Protocol):
    """An answer as a judge gives it."""

    @property
    def question(self) -> str: ...
    @property
    def dimension(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def yes(self) -> bool: ...
    @property
    def reason(self) -> str: ...


class JudgedUsage(Protocol):
    """What a judge's calls cost."""

    @property
    def calls(self) -> int: ...
    @property
    def tokens_in(self) -> int: ...
    @property
    def tokens_out(self) -> int: ...
    @property
    def cost_usd(self) -> float | None: ...


class Judged(Protocol):
    """A judgement as `sregym.judge` gives it (results and judge do not know each other)."""

    @property
    def judge(self) -> str: ...
    @property
    def fingerprint(self) -> Mapping[str, str]: ...
    @property
    def tau(self) -> Fraction: ...
    @property
    def score(self) -> Fraction: ...
    @property
    def shares(self) -> Mapping[Any, Fraction]: ...
    @property
    def answers(self) -> Sequence[JudgedAnswer]: ...
    @property
    def usage(self) -> JudgedUsage: ...
    @property
    def passed(self) -> bool: ...
    @property
    def why(self) -> str: ...


class DiagnosisRecord(Record):
    """How the diagnosis was graded. `reason` is short; the whole of it stands in `answers`."""

    grade: Grade
    reason: Text
    judge: str
    fingerprint: Mapping[str, str] = Field(default_factory=dict)
    tau: ExactFraction
    score: ExactFraction | None = None
    shares: Mapping[str, ExactFraction] = Field(default_factory=dict)
    answers: tuple[AnswerRecord, ...] = ()
    submission: Text | None = None
    error: str | None = None
    seconds: float = 0.0
    usage: Usage = Usage()

    @classmethod
    def of(cls, judgement: Judged, *, submission: str, seconds: float) -> Self:
        """What a judge said."""
        return cls(
            grade=Grade.PASSED if judgement.passed else Grade.FAILED,
            reason=judgement.why,
            judge=judgement.judge,
            fingerprint=dict(judgement.fingerprint),
            tau=judgement.tau,
            score=judgement.score,
            shares={str(name): share for name, share in judgement.shares.items()},
            answers=tuple(
                AnswerRecord(question=a.question, dimension=a.dimension, text=a.text, yes=a.yes, reason=a.reason)
                for a in judgement.answers
            ),
            submission=submission,
            seconds=seconds,
            usage=Usage(
                calls=judgement.usage.calls,
                tokens_in=judgement.usage.tokens_in,
                tokens_out=judgement.usage.tokens_out,
                cost_usd=judgement.usage.cost_usd,
            ),
        )

    @classmethod
    def missing(cls, *, reason: str, judge: str, tau: Fraction, fingerprint: Mapping[str, str] | None = None) -> Self:
        """No diagnosis was submitted in time: FAILED, with a score of 0; no judge was asked."""
        return cls(
            grade=Grade.FAILED, reason=reason, judge=judge, tau=tau, score=Fraction(), fingerprint=fingerprint or {}
        )

    @classmethod
    def unscored(
        cls, *, submission: str, error: str, judge: str, tau: Fraction, fingerprint: Mapping[str, str] | None = None
    ) -> Self:
        """The judge gave no usable answer."""
        return cls(
            grade=Grade.UNSCORED,
            reason=error,
            error=error,
            judge=judge,
            tau=tau,
            submission=submission,
            fingerprint=fingerprint or {},
        )


class ObservationRecord(Record):
    """One look of a check, with its evidence."""

    check: str
    state: str
    reason: str = ""
    evidence: Mapping[str, Any] = Field(default_factory=dict)
    parts: tuple[ObservationRecord, ...] = ()

    @classmethod
    def of(cls, seen: Observation) -> Self:
        return cls(
            check=seen.check,
            state=seen.state.value,
            reason=seen.reason,
            evidence=plain(seen.evidence),
            parts=tuple(cls.of(part) for part in seen.parts),
        )


class MitigationRecord(Record):
    """How the mitigation was graded: the verdict, its reasons, and every look that it rests on."""

    grade: Grade
    reasons: tuple[str, ...] = ()
    observations: tuple[ObservationRecord, ...] = ()
    hold_s: float = 0.0
    seconds: float = 0.0
    error: str | None = None

    @classmethod
    def of(cls, verdict: Verdict, *, seconds: float) -> Self:
        """What an oracle said."""
        grade = Grade(verdict.state.value)
        return cls(
            grade=grade,
            reasons=tuple(verdict.reasons),
            observations=tuple(ObservationRecord.of(one) for one in verdict.observations),
            hold_s=verdict.hold_s,
            seconds=seconds,
            error="; ".join(verdict.reasons) if grade is Grade.UNSCORED else None,
        )


class AttemptRecord(Record):
    """One attempt of one agent at one problem. Raises ValidationError (a ValueError) where it contradicts itself."""

    schema_version: Literal[1, 2] = SCHEMA_VERSION
    problem: ProblemFacts
    agent: AgentFacts
    attempt: int = Field(ge=1)
    profile: str
    noise: bool = False
    status: Status
    reason: str = ""
    """Why it is not graded; empty where it is."""
    diagnosis: DiagnosisRecord | None = None
    mitigation: MitigationRecord | None = None
    submissions: tuple[SubmissionRecord, ...] = ()
    times: Times
    usage: Usage = Usage()
    """What the agent used of its model."""
    cpu_pressure: Mapping[str, float] = Field(default_factory=dict)
    """Share of time in which something waited for a CPU (percent), by what was measured."""
    cluster_replaced: bool = False
    world_equal: bool | None = None
    """Whether the world afterwards was proven to be as before; None where that was not looked at."""
    world_diff: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _fits_its_status(self) -> Self:
        grades = [None if one is None else one.grade for one in (self.diagnosis, self.mitigation)]
        if self.status is Status.GRADED and any(one in (None, Grade.UNSCORED) for one in grades):
            raise ValueError("a graded attempt has a grade for diagnosis and for mitigation")
        if self.status is not Status.GRADED and not self.reason:
            raise ValueError(f"an attempt that is {self.status} says why")
        return self

    @property
    def counted(self) -> tuple[Grade, Grade]:
        """The grades of diagnosis and mitigation, as they enter rates.

        An attempt that is unscored though both tasks have a grade lacked something, a model that answers or its
        telemetry: what failed may have failed for want of it.
        """
        first, second = (Grade.UNSCORED if one is None else one.grade for one in (self.diagnosis, self.mitigation))
        if self.status is not Status.UNSCORED or Grade.UNSCORED in (first, second):
            return first, second
        return _unless_failed(first), _unless_failed(second)

    @property
    def end_to_end(self) -> Grade:
        """PASSED where both tasks passed; UNSCORED unless both were scored, so that a broken judge tilts nothing."""
        if self.status is not Status.GRADED or Grade.UNSCORED in self.counted:
            return Grade.UNSCORED
        return Grade.PASSED if all(one is Grade.PASSED for one in self.counted) else Grade.FAILED

    def to_json(self) -> str:
        """The text of `attempt.json`."""
        return self.model_dump_json(indent=2) + "\n"


def _unless_failed(grade: Grade) -> Grade:
    return Grade.UNSCORED if grade is Grade.FAILED else grade


def plain(value: Any) -> Any:
    """A value as JSON can hold it: dataclasses become mappings, whatever else is unknown becomes text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain(dataclasses.asdict(value))
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
