"""Totals: intervals, and what is counted apart."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sregym.results import Rate, Status, summarise
from sregym.results.rows import row
from tests.unit.results.records import FAILED, PASSED, RIGHT, attempt, judged, unscored_diagnosis


def test_wilson_interval_against_a_worked_example() -> None:
    # Newcombe 1998, Statistics in Medicine 17:857, table I: 81 of 263 by the score method.
    rate = Rate.of(81, 263)
    assert rate.low == pytest.approx(0.2553, abs=1e-4)
    assert rate.high == pytest.approx(0.3662, abs=1e-4)


def test_nothing_scored_is_no_zero() -> None:
    rate = Rate.of(0, 0)
    assert rate.share is None
    assert rate.low is None


@settings(deadline=None)
@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_share(counts: tuple[int, int]) -> None:
    rate = Rate.of(*counts)
    assert rate.low is not None
    assert rate.high is not None
    assert rate.share is not None
    assert 0 <= rate.low <= rate.share + 1e-12
    assert rate.share - 1e-12 <= rate.high <= 1


def test_void_and_skipped_enter_no_rate_and_unscored_only_the_task_that_was_scored() -> None:
    total = summarise(
        [
            attempt("a", diagnosis=judged(RIGHT), mitigation=PASSED, ttm_s=10.0),
            attempt("b", diagnosis=judged("unknown"), mitigation=FAILED, ttm_s=1800.0, timed_out=True),
            attempt(
                "c",
                diagnosis=unscored_diagnosis(),
                mitigation=PASSED,
                status=Status.UNSCORED,
                reason="judge",
                ttm_s=20.0,
            ),
            attempt("d", status=Status.VOID, reason="did not bite"),
            attempt("e", status=Status.SKIPPED, reason="needs two workers"),
        ]
    )
    assert (total.diagnosis.passed, total.diagnosis.scored) == (1, 2)
    assert (total.mitigation.passed, total.mitigation.scored) == (2, 3)
    assert (total.end_to_end.passed, total.end_to_end.scored) == (1, 2)
    assert (total.diagnosis_unscored, total.mitigation_unscored) == (1, 0)
    assert total.by_status == {Status.GRADED: 2, Status.UNSCORED: 1, Status.VOID: 1, Status.SKIPPED: 1}
    assert total.timed_out == 1
    assert total.mean_ttm_s == pytest.approx(610.0)


def test_what_failed_for_want_of_a_model_is_no_failure_of_the_agent() -> None:
    lacking = attempt(
        diagnosis=judged("unknown"), mitigation=FAILED, status=Status.UNSCORED, reason="the server refused all calls"
    )
    part = attempt("b", diagnosis=judged(RIGHT), mitigation=FAILED, status=Status.UNSCORED, reason="telemetry was lost")
    total = summarise([lacking, part])
    assert (total.diagnosis.passed, total.diagnosis.scored, total.diagnosis_unscored) == (1, 1, 1)
    assert (total.mitigation.scored, total.mitigation_unscored, total.end_to_end.scored) == (0, 2, 0)
    assert (row(lacking)["Diagnosis.success"], row(lacking)["Mitigation.success"]) == ("", "")
