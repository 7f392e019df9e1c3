"""Agents that are no good, through `main.py` as a user starts it: each is graded or said to be unusable, with the right
exit code, and leaves nothing behind. What needs no cluster is in `tests/unit/cli/test_bad_input.py`.
"""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from sregym.results import Status
from sregym.results.record import Grade
from tests.live.attempts import agent, run
from tests.live.command import PROBLEM, call

pytestmark = [pytest.mark.live, pytest.mark.acceptance, pytest.mark.timeout(1200)]

MIB = 1024 * 1024
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


def test_a_taken_api_port_is_said_and_no_cluster_is_begun(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = call("cluster", "up", "--name", "never", "--api-port", str(port), folder=tmp_path)
    assert code == 2, said
    assert f"port {port} for the API server is taken" in said
    listed = subprocess.run(["docker", "ps", "-aq", "--filter", "label=io.x-k8s.kind.cluster=never"],
                            check=True, capture_output=True)  # fmt: skip
    assert listed.stdout == b""
