"""The checklist that a diagnosis is graded by, and the formula that turns its answers into a score.

Nine yes/no questions in three equally weighted dimensions. A dimension's share is the part of its questions answered
yes; the score is the mean of the shares; a diagnosis passes when the score reaches tau. All in exact fractions, so
that a score on the threshold passes on every machine. With tau = 7/9 nobody passes who misses a whole dimension.
(The formula is that of the benchmark's paper, arXiv 2605.07161, section 2.5; the questions are our own.)

Several root causes: every question is asked of the whole set, and is answered yes only where it is true of each of
them. So one that is left out costs a question in each dimension that looks for it. A root cause in the role TRIGGER
(a transient event that is over) has no place to repair: only `mechanism` and `complete` ask for it, so leaving it out
costs one answer in characterization and one in scope.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from sregym.errors import DefinitionError, JudgeError


class Dimension(StrEnum):
    """What a diagnosis must get right: where, what, and how far."""

    LOCALIZATION = "localization"
    CHARACTERIZATION = "characterization"
    SCOPE = "scope"


@dataclass(frozen=True, kw_only=True)
class Question:
    """One yes/no question. `id` is unique within its checklist."""

    id: str
    dimension: Dimension
    text: str


@dataclass(frozen=True, kw_only=True)
class Score:
    """What the formula gives: the share of yes in each dimension, and their mean. All in [0, 1]."""

    shares: Mapping[Dimension, Fraction]
    total: Fraction


@dataclass(frozen=True)
class Checklist:
    """Questions by dimension, in the order in which they are asked. Every dimension has at least one."""

    questions: tuple[Question, ...]

    def __post_init__(self) -> None:
        if len({one.id for one in self.questions}) != len(self.questions):
            raise DefinitionError("a checklist names a question twice")
        if empty := [d.value for d in Dimension if not self.of(d)]:
            raise DefinitionError(f"a checklist has no question in {', '.join(empty)}")

    def of(self, dimension: Dimension) -> tuple[Question, ...]:
        """The questions of one dimension."""
        return tuple(one for one in self.questions if one.dimension is dimension)

    def digest(self) -> str:
        """Changes with every change of a question; recorded with each score."""
        body = json.dumps([[one.id, one.dimension, one.text] for one in self.questions])
        return hashlib.sha256(body.encode()).hexdigest()[:16]

    def score(self, answers: Mapping[Dimension, Sequence[bool]]) -> Score:
        """The score of a full set of answers. Raises JudgeError for a missing dimension or a wrong number of them."""
        if set(answers) != set(Dimension):
            raise JudgeError(f"answers for {sorted(answers)}, but the checklist asks about {sorted(Dimension)}")
        for dimension, given in answers.items():
            if len(given) != len(self.of(dimension)):
                raise JudgeError(f"{len(given)} answers in {dimension}, which asks {len(self.of(dimension))} questions")
        shares = {d: Fraction(sum(map(bool, answers[d])), len(answers[d])) for d in Dimension}
        return Score(shares=shares, total=sum(shares.values(), Fraction()) / len(shares))


DEFAULT_TAU = Fraction(7, 9)
"""The score that a diagnosis must reach, unless the run says otherwise; recorded with every score."""


def _asked(dimension: Dimension, **texts: str) -> tuple[Question, ...]:
    return tuple(Question(id=name, dimension=dimension, text=text) for name, text in texts.items())


CHECKLIST = Checklist(
    (
        *_asked(
            Dimension.LOCALIZATION,
            object="Is every object that is at fault named, so that an engineer would know which one to open?",
            place="Is it clear what kind of object that is, or which part of it holds the defect?",
            blame="Is the blame put on the objects at fault, and on none that is healthy or only suffers?",
        ),
        *_asked(
            Dimension.CHARACTERIZATION,
            mechanism="Is it said what is wrong with the objects at fault, in agreement with the ground truth?",
            detail="Is the concrete setting, key, value or name given that is wrong, lost or missing?",
            commitment="Does it settle on that explanation, without offering an untrue one beside it?",
        ),
        *_asked(
            Dimension.SCOPE,
            effect="Is it said what follows from the defect: how the failure shows, and for whom?",
            complete="Is every root cause of the ground truth covered, with none left out?",
            precise="Is it free of further causes that do not exist and of lists that would fit any incident?",
        ),
    )
)
"""The nine questions of the benchmark. Changing one changes the digest, and with it what scores may be compared."""
