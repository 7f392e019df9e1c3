"""One coordinator at a time; a killed one never blocks the next."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sregym.cluster.lease import lease
from sregym.errors import PrerequisiteError

ROOT = Path(__file__).parents[2]
HOLD = """
import sys, anyio
from pathlib import Path
from sregym.cluster.lease import lease

async def main():
    async with lease(Path(sys.argv[1]), "cluster-1", cluster="dev", holder="run-a"):
        print("held", flush=True)
        await anyio.sleep(60)

anyio.run(main)
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lease."""
    argv = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


async def test_the_second_is_told_who_holds_it(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    with pytest.raises(PrerequisiteError, match=rf"run-a \(process {other.pid}\)"):
        async with lease(tmp_path, "cluster-1", cluster="dev", holder="run-b"):
            pass


async def test_a_killed_holder_is_no_holder(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    other.send_signal(signal.SIGKILL)
    other.wait()
    async with lease(tmp_path, "cluster-1", cluster="dev", holder="run-b"):
        pass


async def test_another_cluster_is_free(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    async with lease(tmp_path, "cluster-2", cluster="dev", holder="run-b"):
        pass


async def test_it_is_given_back(tmp_path: Path) -> None:
    for holder in ("run-a", "run-b"):
        async with lease(tmp_path, "cluster-1", cluster="dev", holder=holder):
            pass


async def test_within_one_process_too(tmp_path: Path) -> None:
    async with lease(tmp_path, "cluster-1", cluster="dev", holder="run-a"):
        with pytest.raises(PrerequisiteError, match="run-a"):
            async with lease(tmp_path, "cluster-1", cluster="dev", holder="run-b"):
                pass
