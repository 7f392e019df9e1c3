"""A run that is killed at any moment: `recover` restores the cluster and leaves nothing on the machine."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.live.command import ON_CLUSTER, PROBLEM, Traces, call, journals, main
from tests.live.world import world_differences

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

ALWAYS = ["editor.changed", "agent.started", "undo.done"]
"""Points that every live run tries: in the injection, while the agent works, in the clean-up."""
ALL = [
    "attempt.begun",
    "app.deploying",
    "app.datastores_applied",
    "load.started",
    "app.healthy",
    "healthy.begun",
    "fault.injecting",
    "fault.confirmed",
    "submission.received",
    "diagnosis.graded",
    "session.ended",
    "mitigation.checking",
    "oracle.exercise",
    "mitigation.graded",
    "load.ended",
    "app.removed",
    "world.equal",
]


def _killed_at(point: str, folder: Path) -> None:
    arguments = ["--problem", PROBLEM, "--agent", "reference", "--judge-model", "offline", "--healthy-phase", "3"]
    with main(*arguments, *ON_CLUSTER, folder=folder / "run") as command:
        command.until_event(point)
        command.kill()
    traces = Traces.of(journals())
    code, said = call("recover", folder=folder / "recover")
    assert code == 0, said
    assert traces.left() == []
    assert anyio.run(world_differences) == []
    assert journals() == []


@pytest.mark.parametrize("point", ALWAYS)
def test_recover_after_a_kill_at(point: str, tmp_path: Path) -> None:
    _killed_at(point, tmp_path)


@pytest.mark.acceptance
@pytest.mark.parametrize("point", ALL)
def test_recover_after_a_kill_at_every_point(point: str, tmp_path: Path) -> None:
    _killed_at(point, tmp_path)
