"""What counts as right: a verdict that was expected, and nothing that was not looked at."""

from __future__ import annotations

import pytest

from sregym.api import Observation, State, Verdict
from sregym.catalogue import Catalogue
from sregym.judge import OfflineJudge
from sregym.verify.cells import CellKind, CellResult, Outcome, Report, RestartEverything, trials
from sregym.verify.verifier import diagnosis_cells

PASSED = Verdict.of(Observation(check="c", state=State.HOLDS), hold_s=5.0)
FAILED = Verdict.of(Observation(check="c", state=State.NOT_YET, reason="not ready"))
UNSCORED = Verdict.unscored("no answer")
PROBLEM = Catalogue.discover("problems").build("scale_pod_zero_hotel_reservation", "lite")


@pytest.mark.parametrize(
    ("passes", "verdict", "outcome"),
    [
        (True, PASSED, Outcome.RIGHT),
        (True, FAILED, Outcome.WRONG),
        (False, FAILED, Outcome.RIGHT),
        (False, PASSED, Outcome.WRONG),
        (True, UNSCORED, Outcome.UNKNOWN),
        (False, UNSCORED, Outcome.UNKNOWN),
    ],
)
def test_a_cell_is_right_only_where_the_verdict_is_the_expected_one(
    passes: bool, verdict: Verdict, outcome: Outcome
) -> None:
    assert CellResult.judged(CellKind.CHEAT, "x", passes=passes, verdict=verdict).outcome is outcome


def test_a_report_with_an_unknown_cell_or_an_error_is_not_right() -> None:
    good = CellResult.judged(CellKind.HEALTHY, "healthy", passes=True, verdict=PASSED)
    unknown = CellResult.judged(CellKind.REPAIR, "r", passes=True, verdict=UNSCORED)
    assert Report(problem_id="p", profile="lite", cells=[good]).right
    assert not Report(problem_id="p", profile="lite", cells=[good, unknown]).right
    assert not Report(problem_id="p", profile="lite", cells=[good], error="gave up").right
    told = Report(problem_id="p", profile="lite", cells=[good], seconds=30.0).as_json()
    assert (told["hold_s"], told["seconds_without_hold"]) == (5.0, 25.0)


def test_trials_leave_the_incident_on_as_long_as_possible() -> None:
    kinds = [one.kind for one in trials(PROBLEM, list(CellKind))]
    assert kinds[0] is CellKind.NOTHING
    assert kinds[-1] is CellKind.RESTART
    assert kinds == sorted(kinds, key=list(CellKind).index)
    passing = {one.repair.name for one in trials(PROBLEM, list(CellKind)) if one.passes}
    assert passing == {one.name for one in PROBLEM.repairs()}
    assert [one.kind for one in trials(PROBLEM, [CellKind.NOTHING])] == [CellKind.NOTHING]


def test_restarting_everything_is_one_command() -> None:
    assert RestartEverything().kubectl("ns").argv == ("rollout", "restart", "deployment", "--namespace", "ns")


async def test_diagnosis_cells_ask_the_judge_for_every_text() -> None:
    cells = await diagnosis_cells(PROBLEM, OfflineJudge())
    told = PROBLEM.diagnoses()
    assert len(cells) == len(told.right) + len(told.wrong)
    assert all(one.outcome is Outcome.RIGHT for one in cells)
