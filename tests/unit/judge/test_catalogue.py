"""The offline judge tells every problem of the catalogue apart: from its victims, its neighbours, and the others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest
import yaml

from sregym.api.problem import Problem
from sregym.api.root_cause import Concept, Role
from sregym.catalogue import Catalogue
from sregym.judge import JudgeInput, Judgement, OfflineJudge
from tests.unit.judge import reports

CATALOGUE = Catalogue.discover("problems")
IDS = sorted(CATALOGUE.entries)
SHORT = yaml.safe_load(Path(__file__).with_name("short.yaml").read_text(encoding="utf-8"))


@cache
def problem(problem_id: str) -> Problem:
    return CATALOGUE.build(problem_id, "lite")


def grade(problem_id: str, text: str) -> Judgement:
    return asyncio.run(OfflineJudge().grade(JudgeInput.of(problem(problem_id), text)))


def explained(judgement: Judgement) -> str:
    return "\n".join(f"{one.question}: {one.yes} {one.reason}" for one in judgement.answers)


def test_there_are_problems_to_judge() -> None:
    assert IDS
    assert not CATALOGUE.broken


@pytest.mark.parametrize("problem_id", IDS)
def test_right_diagnoses_pass(problem_id: str) -> None:
    for text in problem(problem_id).diagnoses().right:
        judgement = grade(problem_id, text)
        assert judgement.passed, f"{text}\n{explained(judgement)}"


@pytest.mark.parametrize("problem_id", IDS)
def test_wrong_diagnoses_fail(problem_id: str) -> None:
    for text in problem(problem_id).diagnoses().wrong:
        judgement = grade(problem_id, text)
        assert not judgement.passed, f"{text}\n{explained(judgement)}"


@pytest.mark.parametrize("problem_id", sorted(reports.RIGHT))
def test_long_reports_pass_where_they_are_right(problem_id: str) -> None:
    judgement = grade(problem_id, reports.RIGHT[problem_id])
    assert judgement.passed, explained(judgement)


@pytest.mark.parametrize("problem_id", sorted(reports.WRONG))
def test_long_reports_fail_where_they_are_wrong(problem_id: str) -> None:
    judgement = grade(problem_id, reports.WRONG[problem_id])
    assert not judgement.passed, explained(judgement)


def short(texts: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    return [(problem_id, text) for problem_id, several in texts.items() for text in several]


@pytest.mark.parametrize(("problem_id", "text"), short(SHORT["right"]))
def test_short_right_diagnoses_pass(problem_id: str, text: str) -> None:
    judgement = grade(problem_id, text)
    assert judgement.passed, explained(judgement)


@pytest.mark.parametrize(("problem_id", "text"), short(SHORT["wrong"]))
def test_the_symptom_with_another_cause_fails(problem_id: str, text: str) -> None:
    judgement = grade(problem_id, text)
    assert not judgement.passed, explained(judgement)


@pytest.mark.parametrize("problem_id", IDS)
def test_the_right_diagnosis_of_another_problem_fails(problem_id: str) -> None:
    for other in IDS:
        for text in problem(other).diagnoses().right if other != problem_id else ():
            judgement = grade(problem_id, text)
            assert not judgement.passed, f"{other}: {text}\n{explained(judgement)}"


def everything() -> dict[str, str]:
    """Texts that hold the right words for every problem, and should pass for none."""
    right = {one: problem(one).diagnoses().right for one in IDS}
    app = problem(IDS[0]).topology
    words = [_spoken(c) for one in IDS for cause in problem(one).root_causes() for c in cause.mechanism_concepts]
    return {
        "all right diagnoses": "\n".join(texts[0] for texts in right.values()),
        "all right diagnoses as guesses": "Possible causes:\n" + "\n".join(f"- {t[0]}" for t in right.values()),
        "all right diagnoses twice": "\n".join(t for texts in right.values() for t in texts),
        "all components, all mechanisms": f"{', '.join(s.name for s in app.services)}: {', '.join(words)}",
        "every mechanism of every component": "\n".join(f"{s.name}: {', '.join(words)}." for s in app.services),
    }


def _spoken(concept: Concept) -> str:
    return "".join(c for c in concept.any_of[0] if c.isalnum() or c in " -")


@pytest.mark.parametrize("problem_id", IDS)
def test_naming_everything_fails(problem_id: str) -> None:
    for trick, text in everything().items():
        judgement = grade(problem_id, text)
        assert not judgement.passed, f"{trick}\n{explained(judgement)}"


@pytest.mark.parametrize("problem_id", IDS)
def test_the_concepts_alone_without_a_component_fail(problem_id: str) -> None:
    causes = problem(problem_id).root_causes()
    text = ". ".join(_spoken(c) for one in causes for c in (*one.mechanism_concepts, *one.effect_concepts))
    assert not grade(problem_id, text).passed


@pytest.mark.parametrize("problem_id", IDS)
def test_a_denied_truth_fails(problem_id: str) -> None:
    for cause in problem(problem_id).root_causes():
        names = " and ".join(str(ref) for ref in cause.components)
        text = f"{names} and everything about them were ruled out. The root cause is consul: its entries are stale."
        assert not grade(problem_id, text).passed


COLLAPSE = "search_rate_retry_collapse_hotel_reservation"
CONSTRAINT = (
    "Retry storm: Deployment search calls Deployment rate with a deadline of 750 ms and 3 attempts, and calls wait in"
    " rate's queue for longer than that. Retries keep the queue full, and hotel searches fail."
)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        (f"{CONSTRAINT} It began with a burst of searches that is over.", Fraction(1)),
        (CONSTRAINT, Fraction(7, 9)),
        ("A burst of searches filled the queue of Deployment rate, and calls time out.", Fraction(1, 9)),
        ("The root cause is a surge of searches on the deployments search and rate, which time out.", Fraction(4, 9)),
    ],
    ids=["both", "constraint only", "trigger only", "trigger blamed"],
)
def test_a_metastable_failure_is_its_constraint_and_its_trigger(text: str, score: Fraction) -> None:
    judgement = grade(COLLAPSE, text)
    assert judgement.score == score, explained(judgement)
    roles = [one.role for one in problem(COLLAPSE).root_causes()]
    assert roles == [Role.CONSTRAINT, Role.TRIGGER]
