"""The agent that the documents offer for copying: it loads, compiles, does what it says, and is shown as it is."""

from __future__ import annotations

import json
import py_compile
import sys
from contextlib import closing
from pathlib import Path

import pytest

from sregym import process
from sregym.agents.spec import load_agent
from sregym.catalogue import Catalogue
from sregym.gateway.desk import AppInfo, Desk, Stage
from sregym.gateway.submission import submission_app
from sregym.gateway.web import served, tcp_socket
from sregym.judge import JudgeInput, OfflineJudge

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "agent"
PROBLEM = "scale_pod_zero_hotel_reservation"
KUBECTL = """#!/bin/sh
echo "$@" >> {calls}
[ "$1" = get ] && cat {deployments} || echo scaled
"""


def test_its_description_is_one() -> None:
    spec = load_agent(str(EXAMPLE))
    assert spec.dockerfile == EXAMPLE / "Dockerfile"
    assert spec.command[-1].endswith("/run.py")


@pytest.mark.parametrize("program", ["run.py", "tools.py"])
def test_its_programs_compile(program: str, tmp_path: Path) -> None:
    py_compile.compile(str(EXAMPLE / program), cfile=str(tmp_path / "compiled"), doraise=True)


def test_its_image_is_made_as_ours_are() -> None:
    lines = (EXAMPLE / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert lines[:2] == ["ARG BASE", "FROM ${BASE}"]
    assert lines[-1] == f"USER {load_agent(str(EXAMPLE)).user}"


@pytest.mark.parametrize("file", ["agent.yaml", "Dockerfile", "run.py", "tools.py"])
def test_the_documents_show_it_as_it_is(file: str) -> None:
    page = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
    assert f"\n{(EXAMPLE / file).read_text(encoding='utf-8')}```" in page


async def test_it_solves_a_problem(tmp_path: Path) -> None:
    problem = Catalogue.discover("problems").build(PROBLEM, "lite")
    service = str(problem.params["service"])
    listed = [{"metadata": {"name": name}, "spec": {"replicas": n}} for name, n in ((service, 0), ("other", 1))]
    calls, deployments, kubectl = tmp_path / "calls", tmp_path / "deployments", tmp_path / "kubectl"
    deployments.write_text(json.dumps({"items": listed}), encoding="utf-8")
    kubectl.write_text(KUBECTL.format(calls=calls, deployments=deployments), encoding="utf-8")
    kubectl.chmod(0o755)
    desk = Desk(AppInfo(app_name="x", namespace="x", namespaces=("x",), descriptions="."))
    desk.open()
    with closing(tcp_socket("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()
        environment = {
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "API_HOSTNAME": host,
            "API_PORT": str(port),
            "NO_PROXY": "*",
        }
        async with served(submission_app(desk), [listening]):
            await process.run([sys.executable, EXAMPLE / "run.py"], env=environment)
    diagnosis, mitigation = desk.taken(Stage.DIAGNOSIS), desk.taken(Stage.MITIGATION)
    assert diagnosis is not None
    assert mitigation is not None
    assert calls.read_text(encoding="utf-8").splitlines()[1:] == [f"scale deployment {service} --replicas=1"]
    assert (await OfflineJudge().grade(JudgeInput.of(problem, diagnosis.solution))).passed
