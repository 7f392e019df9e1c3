"""The stage machine: what a submission counts for, and what agents are told."""

import anyio
import pytest

from sregym.gateway.desk import AppInfo, Desk, Outcome, Stage

APP = AppInfo(app_name="shop", namespace="shop", namespaces=("shop",), descriptions="A shop.")


def open_desk(*stages: Stage) -> Desk:
    desk = Desk(APP, stages=stages) if stages else Desk(APP)
    desk.open()
    return desk


async def test_nothing_is_taken_before_the_incident() -> None:
    desk = Desk(APP)
    receipt = await desk.submit(None, "x")
    assert (receipt.outcome, desk.status()) == (Outcome.NOT_READY, Stage.SETUP)
    assert desk.taken(Stage.DIAGNOSIS) is None


async def test_mitigation_is_due_as_soon_as_the_diagnosis_is_taken() -> None:
    desk = open_desk()
    assert (await desk.submit(None, "the cause")).outcome is Outcome.ACCEPTED
    assert desk.status() is Stage.MITIGATION
    assert (await desk.submit(None, "")).outcome is Outcome.ACCEPTED
    assert desk.status() is Stage.TEARING_DOWN
    taken = desk.taken(Stage.DIAGNOSIS)
    assert taken is not None
    assert taken.solution == "the cause"


async def test_a_repeated_diagnosis_is_told_so_and_changes_nothing() -> None:
    desk = open_desk()
    await desk.submit(Stage.DIAGNOSIS, "first")
    for stage, text in ((Stage.DIAGNOSIS, "second"), (None, "first")):
        receipt = await desk.submit(stage, text)
        assert receipt.outcome is Outcome.REPEATED
        assert "not taken" in receipt.message
    taken = desk.taken(Stage.DIAGNOSIS)
    assert taken is not None
    assert taken.solution == "first"
    assert desk.taken(Stage.MITIGATION) is None


async def test_a_mitigation_before_the_diagnosis_is_refused() -> None:
    desk = open_desk()
    assert (await desk.submit(Stage.MITIGATION, "")).outcome is Outcome.WRONG_STAGE
    assert desk.status() is Stage.DIAGNOSIS


async def test_after_the_end_nothing_more_is_taken() -> None:
    desk = open_desk()
    desk.close()
    assert (await desk.submit(Stage.DIAGNOSIS, "late")).outcome is Outcome.OVER
    desk.finish()
    assert (desk.status(), (await desk.submit(None, "")).outcome) == (Stage.DONE, Outcome.OVER)
    desk.open()
    assert desk.status() is Stage.DONE


async def test_a_problem_may_grade_one_stage_only() -> None:
    desk = open_desk(Stage.MITIGATION)
    assert (await desk.submit(Stage.DIAGNOSIS, "x")).outcome is Outcome.WRONG_STAGE
    assert (await desk.submit(None, "")).outcome is Outcome.ACCEPTED
    assert desk.status() is Stage.TEARING_DOWN


async def test_the_coordinator_waits_for_what_comes() -> None:
    desk = open_desk()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.submit, None, "the cause")
        with anyio.fail_after(1):
            submission = await desk.received(Stage.DIAGNOSIS)
    assert (submission.stage, submission.solution) == (Stage.DIAGNOSIS, "the cause")


@pytest.mark.parametrize("stages", [(), (Stage.SETUP,), (Stage.DIAGNOSIS, Stage.DONE)])
def test_only_graded_stages_can_be_asked_for(stages: tuple[Stage, ...]) -> None:
    with pytest.raises(ValueError, match="stages to grade"):
        Desk(APP, stages=stages)
