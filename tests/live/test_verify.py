"""The adversarial self-test of problems: two always, those whose files a change touches, and all for acceptance."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sregym.catalogue import Catalogue
from tests.live.command import ON_CLUSTER, ROOT, call

pytestmark = [pytest.mark.live]

ALWAYS = ("scale_pod_zero_hotel_reservation", "configmap_drift_hotel_reservation")
"""One in workloads, one in configuration."""


def touched() -> list[str]:
    """Ids of problems whose files the last commit or the working tree changes."""
    named: set[str] = set()
    for arguments in (["diff", "--name-only", "HEAD"], ["diff", "--name-only", "HEAD~1", "HEAD"]):
        done = subprocess.run(
            ["git", *arguments, "--", "problems"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        named |= {Path(line).name for line in done.stdout.split()}
    return [one.id for one in Catalogue.discover("problems").entries.values() if one.file.name in named]


def _verified(ids: list[str], folder: Path, within: float) -> None:
    code, said = call("verify", *ids, *ON_CLUSTER, folder=folder, within=within)
    assert code == 0, said


@pytest.mark.timeout(1800)
def test_two_problems_and_the_touched_ones_hold(tmp_path: Path) -> None:
    _verified(list(dict.fromkeys([*ALWAYS, *touched()[:2]])), tmp_path, 1800)


@pytest.mark.acceptance
@pytest.mark.timeout(5400)
def test_every_problem_holds(tmp_path: Path) -> None:
    _verified(["--all"], tmp_path, 5400)
