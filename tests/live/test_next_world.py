"""An agent that changes things all over the place: the next attempt starts from a world proven clean."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from sregym.results import AttemptRecord, Status, load_run
from sregym.results.record import Grade
from tests.live.command import ON_CLUSTER, PROBLEM, ROOT, call, journals
from tests.live.world import world_differences

pytestmark = [pytest.mark.live, pytest.mark.acceptance, pytest.mark.timeout(900)]

VANDAL = str(ROOT / "tests" / "live" / "agents" / "vandal" / "agent.yaml")


def test_the_next_attempt_inherits_nothing(tmp_path: Path) -> None:
    arguments = ["--problem", PROBLEM, "--agent", VANDAL, "--agent", "reference"]
    code, said = call(*arguments, *ON_CLUSTER, "--judge-model", "offline", "--healthy-phase", "3", folder=tmp_path)
    assert code == 0, said
    (run,) = (tmp_path / "results").iterdir()
    records = {one.agent.name: one for one in load_run(run).attempts}
    vandal, reference = records["vandal"], records["reference"]
    assert vandal.status is Status.GRADED, vandal.reason
    _names(vandal, "Namespace intruder", "ClusterRole left-behind", "ConfigMap notes", "ConfigMap coredns", "Node ")
    assert reference.end_to_end is Grade.PASSED
    assert anyio.run(world_differences) == []
    assert journals() == []


def _names(record: AttemptRecord, *wanted: str) -> None:
    found = "\n".join(record.world_diff)
    missing = [one for one in wanted if one not in found]
    assert not missing, f"not noticed: {missing} in\n{found}"
