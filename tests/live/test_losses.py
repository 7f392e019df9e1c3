"""What is lost while an agent works: the attempt goes on, or is left unscored with the reason; it is no failure.

Each agent of the run loses something of its own, waits, and then submits what fails: so a grade would be a failure.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import anyio
import pytest

from sregym.results import Status
from sregym.results.record import Grade
from tests.live.attempts import agent, run
from tests.live.command import Command, Traces, journals
from tests.live.world import kill_pod_of_stack

pytestmark = [pytest.mark.live, pytest.mark.acceptance, pytest.mark.timeout(1200)]

STORES = ("prometheus", "victoria-logs", "jaeger")
GATEWAY = ("gateway-container", "gateway-process")
PATIENT = """
submit() { curl -s --retry 30 --retry-all-errors --retry-delay 1 -d "$1" http://$API_HOSTNAME:$API_PORT/submit; }
sleep 15
submit '{"solution": "unknown"}'
submit '{"solution": ""}'
"""


def take_away(what: str, command: Command) -> None:
    """Kills one thing of the attempt that is under way."""
    if what in STORES:
        anyio.run(kill_pod_of_stack, what)
    elif what == "gateway-container":
        things = Traces.of(journals()).things
        (container,) = (one for one in things if one.kind == "container" and one.name.endswith("-gateway"))
        subprocess.run(["docker", "kill", container.name], check=True, capture_output=True)
    else:
        (process,) = command.gateways()
        os.kill(process, signal.SIGKILL)


def test_what_is_lost_is_never_a_failure_of_the_agent(tmp_path: Path) -> None:
    lost = (*STORES, *GATEWAY)

    def take_each_away(command: Command) -> None:
        for number, what in enumerate(lost, 1):
            command.until_event("agent.started", count=number)
            take_away(what, command)
            command.until_event("attempt.ended", count=number)

    ended = run(tmp_path, *(agent(tmp_path, what, PATIENT) for what in lost), meanwhile=take_each_away)
    assert ended.code == 8, ended.said  # some attempts are unscored
    for what, one in ended.records.items():
        assert [taken.stage for taken in one.submissions] == ["diagnosis", "mitigation"], what
        if what in STORES:
            assert one.status is Status.UNSCORED, what
            assert f"telemetry was lost while the agent worked: {what}" in one.reason
        else:
            assert one.status is Status.GRADED, (what, one.reason)
            assert one.mitigation is not None
            assert one.mitigation.grade is Grade.FAILED
    ended.left_nothing()
