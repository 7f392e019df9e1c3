"""The final table: readable at 100 columns, says why every verdict fell, and is honest about what it shows."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from sregym.cli.table import show
from sregym.results import AttemptRecord, RunResults, Status
from tests.unit.results.records import FAILED, PASSED, RIGHT, attempt, judged, unscored_diagnosis


def shown(*attempts: AttemptRecord, width: int = 100) -> str:
    out = io.StringIO()
    run = RunResults(path=Path("results/some-run"), lock=None, attempts=attempts)
    show(run, Console(file=out, width=width, color_system=None))
    return out.getvalue()


MIXED = (
    attempt("search_rate_retry_collapse_hotel_reservation", diagnosis=judged(RIGHT), mitigation=PASSED),
    attempt("b", diagnosis=judged("geo crashes"), mitigation=FAILED, timed_out=True, ttm_s=1800.0, minutes=1),
    attempt("c", diagnosis=unscored_diagnosis(), mitigation=PASSED, status=Status.UNSCORED, reason="judge", minutes=2),
    attempt("d", status=Status.VOID, reason="the fault did not bite", minutes=3),
    attempt("e", status=Status.SKIPPED, reason="needs two workers", minutes=4),
    attempt("b", agent="reference", diagnosis=judged(RIGHT), mitigation=PASSED),
)


def test_no_line_is_longer_than_100_columns_and_no_id_is_broken() -> None:
    text = shown(*MIXED)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 100
    assert "search_rate_retry_collapse_hotel_reservation " in text


@pytest.mark.parametrize(
    "reason",
    [
        "does not name ConfigMap geo-config",
        "search serves: 0 of 12 requests succeeded",
        "held for 30 s: whole app serves",
        "void: the fault did not bite",
        "skipped: needs two workers",
        "unscored: judge",
    ],
)
def test_every_verdict_says_why(reason: str) -> None:
    assert reason in shown(*MIXED)


def test_totals_count_what_is_not_scored_apart() -> None:
    text = " ".join(shown(*MIXED[:5]).split())
    assert "5 attempts: 2 graded, 1 unscored, 1 void, 1 skipped" in text
    assert "diagnosis 1 of 2 (50%) 9% to 91% 1" in text
    assert "mitigation 2 of 3 (67%) 21% to 94% 0" in text
    assert "end-to-end 1 of 2 (50%)" in text
    assert "1 timed out (*, counted at the cap)" in text


def test_labels_are_honest() -> None:
    text = " ".join(shown(*MIXED).split())
    assert "reference (is given the answer: not for the leaderboard)" in text
    assert "graded by the offline judge" in text
    assert "mixed" in text
    assert "results: results/some-run" in text
    model_only = shown(
        attempt(diagnosis=unscored_diagnosis(), mitigation=PASSED, status=Status.UNSCORED, reason="judge")
    )
    assert "offline judge" not in model_only
    assert "mixed" not in model_only


def test_a_run_without_attempts_says_so() -> None:
    assert "No attempt was finished" in shown()


def test_markup_in_reasons_is_only_text() -> None:
    assert "[red]nothing[/nope]" in shown(attempt(status=Status.VOID, reason="[red]nothing[/nope] happened"))
