"""The formula, by its golden cases and by its properties."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sregym.errors import DefinitionError, JudgeError
from sregym.judge import CHECKLIST, DEFAULT_TAU, Answer, Checklist, Dimension, Question
from sregym.judge.contract import judged
from sregym.judge.offline import OfflineJudge


def answers(*yes: int) -> dict[Dimension, list[bool]]:
    """So many times yes in each dimension, of three questions."""
    return {d: [i < n for i in range(3)] for d, n in zip(Dimension, yes, strict=True)}


def test_nine_questions_in_three_dimensions() -> None:
    assert [len(CHECKLIST.of(d)) for d in Dimension] == [3, 3, 3]


@pytest.mark.parametrize(
    ("yes", "total", "passes"),
    [
        ((3, 3, 3), Fraction(1), True),
        ((3, 3, 0), Fraction(2, 3), False),
        ((3, 3, 1), Fraction(7, 9), True),
        ((3, 2, 2), Fraction(7, 9), True),
        ((2, 2, 2), Fraction(2, 3), False),
        ((0, 0, 0), Fraction(0), False),
    ],
)
def test_golden_scores(yes: tuple[int, int, int], total: Fraction, passes: bool) -> None:
    score = CHECKLIST.score(answers(*yes))
    assert score.total == total
    assert (score.total >= DEFAULT_TAU) is passes


def test_a_missing_dimension_is_refused() -> None:
    given_answers = answers(3, 3, 3)
    del given_answers[Dimension.SCOPE]
    with pytest.raises(JudgeError, match="asks about"):
        CHECKLIST.score(given_answers)


@pytest.mark.parametrize("count", [0, 2, 4])
def test_a_wrong_number_of_answers_is_refused(count: int) -> None:
    with pytest.raises(JudgeError, match="asks 3 questions"):
        CHECKLIST.score({**answers(3, 3, 3), Dimension.SCOPE: [True] * count})


def test_dimensions_weigh_the_same_whatever_the_number_of_their_questions() -> None:
    sizes = dict(zip(Dimension, (1, 2, 5), strict=True))
    checklist = Checklist(
        tuple(Question(id=f"{d}{i}", dimension=d, text="?") for d, size in sizes.items() for i in range(size))
    )
    one_each = {d: [True] + [False] * (size - 1) for d, size in sizes.items()}
    assert checklist.score(one_each).total == (Fraction(1) + Fraction(1, 2) + Fraction(1, 5)) / 3


def test_a_checklist_without_a_dimension_is_refused() -> None:
    with pytest.raises(DefinitionError, match="scope"):
        Checklist(tuple(q for q in CHECKLIST.questions if q.dimension is not Dimension.SCOPE))


@settings(deadline=None)
@given(st.tuples(*[st.lists(st.booleans(), min_size=3, max_size=3)] * 3))
def test_no_one_passes_who_misses_a_dimension(lists: tuple[list[bool], ...]) -> None:
    score = CHECKLIST.score(dict(zip(Dimension, lists, strict=True)))
    assert 0 <= score.total <= 1
    if any(not any(one) for one in lists):
        assert score.total < DEFAULT_TAU


def test_digest_changes_with_a_question() -> None:
    first, *rest = CHECKLIST.questions
    other = Checklist((Question(id=first.id, dimension=first.dimension, text=first.text + " Really?"), *rest))
    assert other.digest() != CHECKLIST.digest()


def test_a_judgement_needs_one_answer_to_each_question() -> None:
    full = [Answer(question=q.id, yes=True, reason="so") for q in CHECKLIST.questions]
    fingerprint = OfflineJudge().fingerprint()
    assert judged(full, fingerprint=fingerprint, tau=DEFAULT_TAU).score == 1
    for broken in (full[1:], [*full, full[0]], [*full[1:], Answer(question="colour", yes=True, reason="")]):
        with pytest.raises(JudgeError):
            judged(broken, fingerprint=fingerprint, tau=DEFAULT_TAU)
