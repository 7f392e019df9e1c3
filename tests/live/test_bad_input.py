"""Agents that are no good, through `main.py` as a user starts it: each is graded or said to be unusable, with the right
exit code, and leaves nothing behind. What needs no cluster is in `tests/unit/cli/test_bad_input.py`.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from sregym.cluster.leftovers import HostThing
from sregym.results import AttemptRecord, Status, load_run
from sregym.results.record import Grade
from tests.live.command import ON_CLUSTER, PROBLEM, Command, Traces, call, journals, main
from tests.live.world import world_differences

pytestmark = [pytest.mark.live, pytest.mark.acceptance, pytest.mark.timeout(1200)]

MIB = 1024 * 1024
OPTIONS = (*ON_CLUSTER, "--judge-model", "offline", "--healthy-phase", "0", "--agent-timeout", "40")
SLEEPER = "sleep 600"
FILLER = (
    "yes a long line of output that nobody will ever read | head -c 200000000;"
    " dd if=/dev/zero of=$AGENT_LOGS_DIR/big bs=1M count=4000; dd if=/dev/zero of=/tmp/big bs=1M count=4000; exit 3"
)
GLUTTON = "exec python3 -c 'x = bytearray(400 * 1024 * 1024); print(len(x))'"
FORKER = "for i in $(seq 2000); do sleep 500 & done 2>/dev/null; exit 4"
HANDS_IN = r"""
url=http://$API_HOSTNAME:$API_PORT/submit
say() { curl -s -o /dev/null -w '%{http_code}\n' -H 'content-type: application/json' "$@" $url; }
head -c 1048576 /dev/zero | tr '\0' x > /tmp/large
say --data-binary @/tmp/large
head -c 4096 /dev/urandom > /tmp/binary
say --data-binary @/tmp/binary
say -d '{"solution": "", "stage": "mitigation"}'
say -d '{"solution": "unknown"}'
say -d '{"solution": "again", "stage": "diagnosis"}'
say -d '{"solution": ""}'
"""


def agent(folder: Path, name: str, script: str, **more: Any) -> str:
    """Writes the description of an agent that runs a script; returns its path."""
    path = folder / name / "agent.yaml"
    path.parent.mkdir(parents=True)
    spec = {"name": name, "description": "x", "image": "workstation", "command": ["bash", "-c", script], **more}
    path.write_text(json.dumps(spec), encoding="utf-8")
    return str(path)


@dataclass(frozen=True)
class Ended:
    """A run that has ended, and all that it noted to have made on this machine while it went on."""

    code: int
    said: str
    folder: Path
    traces: Traces

    @property
    def records(self) -> dict[str, AttemptRecord]:
        return {one.agent.name: one for one in load_run(self.folder).attempts}

    def left_nothing(self) -> None:
        assert journals() == []
        assert self.traces.left() == []
        assert anyio.run(world_differences) == []


def run(folder: Path, *agents: str, meanwhile: Callable[[Command], None] | None = None) -> Ended:
    arguments = [word for one in agents for word in ("--agent", one)]
    things: dict[HostThing, None] = {}
    with main("--problem", PROBLEM, *arguments, *OPTIONS, folder=folder) as command:
        if meanwhile:
            meanwhile(command)
        while command.child.poll() is None:
            things |= dict.fromkeys(Traces.of(journals()).things)
            time.sleep(0.5)
    (found,) = (folder / "results").iterdir()
    return Ended(command.wait(), command.log.read_text(encoding="utf-8"), found, Traces(things=tuple(things)))


def test_agents_that_do_no_good_are_graded_and_leave_nothing(tmp_path: Path) -> None:
    small = {"limits": {"memory": "96m", "scratch": "32m", "logs": "16m"}}
    ended = run(
        tmp_path,
        agent(tmp_path, "leaver", "exit 5"),
        agent(tmp_path, "sleeper", SLEEPER),
        agent(tmp_path, "filler", FILLER, **small),
        agent(tmp_path, "glutton", GLUTTON, **small),
        agent(tmp_path, "forker", FORKER),
        agent(tmp_path, "confused", HANDS_IN),
    )
    assert ended.code == 0, ended.said
    records = ended.records
    assert {one.status for one in records.values()} == {Status.GRADED}, ended.said
    for name, one in records.items():
        assert one.diagnosis is not None
        assert one.mitigation is not None
        assert (one.diagnosis.grade, one.mitigation.grade) == (Grade.FAILED, Grade.FAILED), name
    assert records["sleeper"].times.timed_out
    assert records["sleeper"].times.ttm_s == 40.0
    reasons = {name: one.diagnosis.reason for name, one in records.items() if one.diagnosis}
    assert "ended with status 5" in reasons["leaver"]
    assert "more memory than its limit" in reasons["glutton"]
    kept = ended.folder / "filler" / PROBLEM / "run_1" / "agent"
    assert sum(path.stat().st_size for path in kept.rglob("*") if path.is_file()) < 64 * MIB
    replies = (ended.folder / "confused" / PROBLEM / "run_1" / "agent" / "output.log").read_text().split()
    assert replies == ["413", "400", "400", "200", "400", "200"]
    assert ended.traces.things
    ended.left_nothing()


def test_a_command_that_does_not_exist_leaves_the_attempt_unscored(tmp_path: Path) -> None:
    ended = run(tmp_path, agent(tmp_path, "typo", "", command=["/no/such/program"]))
    assert ended.code == 8, ended.said
    assert ended.records["typo"].status is Status.UNSCORED
    assert "/no/such/program" in ended.records["typo"].reason
    ended.left_nothing()


def test_an_image_that_does_not_build_is_said_before_anything_is_broken(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text("{name: broken, description: x, dockerfile: Dockerfile}", encoding="utf-8")
    (tmp_path / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\nRUN exit 9\n", encoding="utf-8")
    ended = run(tmp_path, str(tmp_path / "agent.yaml"))
    assert ended.code == 7, ended.said
    assert "does not build" in ended.said
    assert ended.records == {}
    ended.left_nothing()


def test_an_attempt_goes_on_when_its_gateway_container_is_killed(tmp_path: Path) -> None:
    submit = 'curl -s --retry 30 --retry-all-errors --retry-delay 1 -d \'{"solution": "unknown"}\' $url; '
    script = f"url=http://$API_HOSTNAME:$API_PORT/submit; sleep 10; {submit} {submit}"

    def kill_it(command: Command) -> None:
        command.until_event("agent.started")
        (gateway,) = (one for one in Traces.of(journals()).things if one.name.endswith("-gateway"))
        subprocess.run(["docker", "kill", gateway.name], check=True, capture_output=True)
        command.until_event("gateway.container_died")

    ended = run(tmp_path, agent(tmp_path, "patient", script), meanwhile=kill_it)
    assert ended.code == 0, ended.said
    assert [one.stage for one in ended.records["patient"].submissions] == ["diagnosis", "mitigation"]
    ended.left_nothing()


def test_a_taken_api_port_is_said_and_no_cluster_is_begun(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = call("cluster", "up", "--name", "never", "--api-port", str(port), folder=tmp_path)
    assert code == 2, said
    assert f"port {port} for the API server is taken" in said
    listed = subprocess.run(["docker", "ps", "-aq", "--filter", "label=io.x-k8s.kind.cluster=never"],
                            check=True, capture_output=True)  # fmt: skip
    assert listed.stdout == b""
