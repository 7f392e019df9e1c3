"""The demo, as a newcomer runs it: graded attempts, a table that explains itself, results on disk."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from sregym.results import Status, load_run
from sregym.results.record import Grade
from tests.live.command import ON_CLUSTER, call, journals
from tests.live.world import world_differences

pytestmark = [pytest.mark.live, pytest.mark.timeout(2400)]


def test_the_demo_grades_two_agents_on_two_problems(tmp_path: Path) -> None:
    code, said = call("demo", *ON_CLUSTER, folder=tmp_path, within=2400)
    assert code == 0, said
    (run,) = (tmp_path / "results").iterdir()
    results = load_run(run)
    assert results.lock is not None
    assert results.lock.judge["judge"] == "offline"
    assert len(results.attempts) == 4
    assert {one.status for one in results.attempts} == {Status.GRADED}, said
    assert {one.end_to_end for one in results.attempts if one.agent.name == "reference"} == {Grade.PASSED}, said
    assert str(run) in said.replace("\n", "")
    assert "mitigation" in said
    assert anyio.run(world_differences) == []
    assert journals() == []


@pytest.mark.acceptance
@pytest.mark.timeout(3600)
def test_reference_passes_the_whole_suite_and_nop_none_of_it(tmp_path: Path) -> None:
    arguments = ["--suite", "smoke", "--agent", "reference", "--agent", "nop", "--judge-model", "offline"]
    code, said = call(*arguments, *ON_CLUSTER, "--healthy-phase", "10", folder=tmp_path, within=3600)
    assert code == 0, said
    (run,) = (tmp_path / "results").iterdir()
    attempts = load_run(run).attempts
    told = {one.problem.id: one.end_to_end for one in attempts if one.agent.name == "reference"}
    idle = {one.problem.id: one for one in attempts if one.agent.name == "nop"}
    assert set(told.values()) == {Grade.PASSED}, said
    for one in idle.values():
        assert one.diagnosis is not None
        assert one.mitigation is not None
        assert (one.diagnosis.grade, one.mitigation.grade) == (Grade.FAILED, Grade.FAILED), one.problem.id
