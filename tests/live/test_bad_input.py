"""Agents that are no good, through `main.py` as a user starts it: each is graded or said to be unusable, with the right
exit code, and leaves nothing behind. What needs no cluster is in `tests/unit/cli/test_bad_input.py`.
"""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest

from sregym.results import AttemptRecord, Status, load_run
from sregym.results.record import Grade
from tests.live.command import ON_CLUSTER, PROBLEM, call, journals, main
from tests.live.gateway_site import docker_names
from tests.live.world import world_differences

pytestmark = [pytest.mark.live, pytest.mark.timeout(1200)]

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


def run(folder: Path, *agents: str) -> tuple[int, str, dict[str, AttemptRecord]]:
    """Exit code, everything said, and the records by agent."""
    arguments = [word for one in agents for word in ("--agent", one)]
    code, said = call("--problem", PROBLEM, *arguments, *OPTIONS, folder=folder)
    (found,) = (folder / "results").iterdir()
    return code, said, {one.agent.name: one for one in load_run(found).attempts}


def nothing_is_left(before: set[str]) -> None:
    assert journals() == []
    assert anyio.run(docker_names) - before == set()
    assert anyio.run(world_differences) == []


def test_agents_that_do_no_good_are_graded_and_leave_nothing(tmp_path: Path) -> None:
    before = anyio.run(docker_names)
    small = {"limits": {"memory": "96m", "scratch": "32m", "logs": "16m"}}
    code, said, records = run(
        tmp_path,
        agent(tmp_path, "leaver", "exit 5"),
        agent(tmp_path, "sleeper", SLEEPER),
        agent(tmp_path, "filler", FILLER, **small),
        agent(tmp_path, "glutton", GLUTTON, **small),
        agent(tmp_path, "forker", FORKER),
        agent(tmp_path, "confused", HANDS_IN),
    )
    assert code == 0, said
    assert {one.status for one in records.values()} == {Status.GRADED}, said
    for name, one in records.items():
        assert one.diagnosis is not None
        assert one.mitigation is not None
        assert (one.diagnosis.grade, one.mitigation.grade) == (Grade.FAILED, Grade.FAILED), name
    assert records["sleeper"].times.timed_out
    assert records["sleeper"].times.ttm_s == 40.0
    reasons = {name: one.diagnosis.reason for name, one in records.items() if one.diagnosis}
    assert "ended with status 5" in reasons["leaver"]
    assert "more memory than its limit" in reasons["glutton"]
    (found,) = (tmp_path / "results").iterdir()
    kept = found / "filler" / PROBLEM / "run_1" / "agent"
    assert sum(path.stat().st_size for path in kept.rglob("*") if path.is_file()) < 64 * MIB
    replies = (found / "confused" / PROBLEM / "run_1" / "agent" / "output.log").read_text().split()
    assert replies == ["413", "400", "400", "200", "400", "200"]
    nothing_is_left(before)


def test_a_command_that_does_not_exist_leaves_the_attempt_unscored(tmp_path: Path) -> None:
    before = anyio.run(docker_names)
    path = agent(tmp_path, "typo", "", command=["/no/such/program"])
    code, said, records = run(tmp_path, path)
    assert code == 8, said
    assert records["typo"].status is Status.UNSCORED
    assert "/no/such/program" in records["typo"].reason
    nothing_is_left(before)


def test_an_image_that_does_not_build_is_said_before_anything_is_broken(tmp_path: Path) -> None:
    before = anyio.run(docker_names)
    (tmp_path / "agent.yaml").write_text("{name: broken, description: x, dockerfile: Dockerfile}", encoding="utf-8")
    (tmp_path / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\nRUN exit 9\n", encoding="utf-8")
    code, said, records = run(tmp_path, str(tmp_path / "agent.yaml"))
    assert code == 7, said
    assert "does not build" in said
    assert records == {}
    nothing_is_left(before)


def test_a_gateway_container_that_is_killed_comes_back(tmp_path: Path) -> None:
    waits_for_it = "while ! curl -s http://$API_HOSTNAME:$API_PORT/status; do sleep 0.2; done; "
    script = (
        'submit() { curl -s --retry 20 --retry-all-errors --retry-delay 1 -H "content-type: application/json"'
        ' -d "{\\"solution\\": \\"unknown\\"}" http://$API_HOSTNAME:$API_PORT/submit; }; '
        f"{waits_for_it} touch $AGENT_LOGS_DIR/mark; echo ready; sleep 8; {waits_for_it} submit; submit"
    )
    arguments = ["--problem", PROBLEM, "--agent", agent(tmp_path, "patient", script), *OPTIONS]
    before = anyio.run(docker_names)
    with main(*arguments, folder=tmp_path) as command:
        command.until_event("agent.started")
        (name,) = {one for one in anyio.run(docker_names) - before if one.endswith("-gateway")}
        subprocess.run(["docker", "kill", name], check=True, capture_output=True)
        command.until_event("gateway.container_died")
        assert command.wait() == 0, command.log.read_text()
    (found,) = (tmp_path / "results").iterdir()
    (record,) = load_run(found).attempts
    assert record.status is Status.GRADED
    assert [one.stage for one in record.submissions] == ["diagnosis", "mitigation"]
    assert (found / "patient" / PROBLEM / "run_1" / "agent" / "logs" / "mark").exists()
    nothing_is_left(before)


def test_a_taken_api_port_is_said_and_no_cluster_is_begun(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = call("cluster", "up", "--name", "never", "--api-port", str(port), folder=tmp_path)
    assert code == 2, said
    assert f"port {port} for the API server is taken" in said
    listed = subprocess.run(["docker", "ps", "-aq", "--filter", "label=io.x-k8s.kind.cluster=never"],
                            check=True, capture_output=True)  # fmt: skip
    assert listed.stdout == b""
