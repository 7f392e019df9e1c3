"""How the two programs start, whatever Python they are called with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cli import app as cli_app
from main import content
from sregym.cli.app import build
from sregym.cli.entry import run
from sregym.cli.version import version

REPO = Path(__file__).parents[3]


def test_the_version_is_the_projects(capsys: pytest.CaptureFixture[str]) -> None:
    for app in (build(content), cli_app):
        assert run(app, ["--version"]) == 0
        assert capsys.readouterr().out == f"{version()}\n"
    assert version() > "0.0.0"


@pytest.mark.parametrize("program", ["main.py", "cli.py"])
def test_a_python_without_the_libraries_is_told_what_to_do(program: str) -> None:
    done = subprocess.run([sys.executable, "-E", "-S", program, "--help"], cwd=REPO, capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert f"scripts/uv run {program}" in done.stderr
