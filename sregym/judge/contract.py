"""What a judge is asked, and what it answers. The coordinator knows judges by this alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, Self

from sregym.api.problem import Problem
from sregym.api.root_cause import RootCause
from sregym.api.topology import Topology
from sregym.errors import JudgeError
from sregym.judge.checklist import CHECKLIST, Checklist, Dimension


@dataclass(frozen=True, kw_only=True)
class JudgeInput:
    """One diagnosis to grade: the truth, what else there is in the application, and the agent's own words."""

    root_causes: tuple[RootCause, ...]
    components: tuple[str, ...]
    """Names of everything in the application that a diagnosis might blame: services and configuration objects."""
    namespace: str
    app: str
    submission: str

    @classmethod
    def of(cls, problem: Problem, submission: str) -> Self:
        """The question that a submission for this problem amounts to."""
        return cls(
            root_causes=tuple(problem.root_causes()),
            components=_names_in(problem.topology),
            namespace=problem.topology.namespace,
            app=problem.topology.name,
            submission=submission,
        )


def _names_in(topology: Topology) -> tuple[str, ...]:
    mounted = (v.configmap for s in topology.services for v in s.volumes if v.configmap)
    return tuple(dict.fromkeys([*(s.name for s in topology.services), *topology.configmaps, *mounted]))


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to one question, with the reason in a sentence."""

    question: str
    yes: bool
    reason: str


@dataclass(frozen=True, kw_only=True)
class AnsweredQuestion:
    """An answer together with what was asked, as it is recorded."""

    question: str
    dimension: str
    text: str
    yes: bool
    reason: str


@dataclass(frozen=True, kw_only=True)
class JudgeUsage:
    """What grading cost. `cost_usd` is None where the price is not known."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """What must be equal for two scores to be comparable. `prompt` is empty for the offline judge."""

    judge: str
    model: str
    checklist: str
    prompt: str
    rules: str
    tau: str

    def as_json(self) -> dict[str, str]:
        """The fingerprint for `run.lock.json`."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A graded diagnosis."""

    judge: str
    fingerprint: Mapping[str, str]
    tau: Fraction
    score: Fraction
    shares: Mapping[Dimension, Fraction]
    answers: tuple[AnsweredQuestion, ...]
    usage: JudgeUsage = JudgeUsage()

    @property
    def passed(self) -> bool:
        return self.score >= self.tau

    @property
    def why(self) -> str:
        """In short: what was missed, or that nothing was."""
        missed = [f"{one.question}: {one.reason}" for one in self.answers if not one.yes]
        return "; ".join(missed) or "every question is answered yes"


class Judge(Protocol):
    """Grades diagnoses. One judge grades all attempts of a run."""

    @property
    def name(self) -> str:
        """`offline`, or the model's name as LiteLLM knows it."""

    def fingerprint(self) -> Fingerprint:
        """What is recorded with every score of this judge."""

    async def grade(self, question: JudgeInput) -> Judgement:
        """Grades one diagnosis. Raises JudgeError where no usable answer could be had: the diagnosis is UNSCORED."""


def judged(
    answers: Sequence[Answer],
    *,
    fingerprint: Fingerprint,
    tau: Fraction,
    usage: JudgeUsage | None = None,
    checklist: Checklist = CHECKLIST,
) -> Judgement:
    """The judgement that a set of answers amounts to. Raises JudgeError unless each question has exactly one answer."""
    by_id = {one.question: one for one in answers}
    if len(by_id) != len(answers):
        raise JudgeError("a question was answered twice")
    if unknown := set(by_id) - {one.id for one in checklist.questions}:
        raise JudgeError(f"answers to questions that were not asked: {sorted(unknown)}")
    given = {d: [by_id[q.id].yes for q in checklist.of(d) if q.id in by_id] for d in Dimension}
    score = checklist.score(given)
    return Judgement(
        judge=fingerprint.judge,
        fingerprint=fingerprint.as_json(),
        tau=tau,
        score=score.total,
        shares=score.shares,
        answers=tuple(
            AnsweredQuestion(
                question=q.id, dimension=q.dimension.value, text=q.text, yes=by_id[q.id].yes, reason=by_id[q.id].reason
            )
            for q in checklist.questions
        ),
        usage=usage or JudgeUsage(),
    )
