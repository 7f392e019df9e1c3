"""A disk that really fills up during a build: said with the step's name, and nothing half-built is trusted."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sregym import process
from sregym.cluster.providers.steps import Builder, Step, StepContext
from sregym.errors import PrerequisiteError, principal
from sregym.progress import Outcome, Recorded

MIB = 1024 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB; only root can make one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def graph(runs: list[str], *, how: str, mib: int) -> list[Step]:
    """`small` fits anywhere; `large`, which needs it, writes `mib` MiB."""

    async def small(context: StepContext) -> None:
        runs.append("small")
        (context.out / "result").write_text("small")

    async def large(context: StepContext) -> None:
        runs.append("large")
        if how == "a file":
            with (context.out / "result").open("wb") as file:
                for _ in range(mib):
                    file.write(b"x" * MIB)
        elif how == "a command":
            command = ["dd", "if=/dev/zero", f"of={context.out / 'result'}", "bs=1M", f"count={mib}"]
            await context.run(command)
        else:
            await context.run(["head", "--bytes", str(mib * MIB), "/dev/zero"])  # into its log

    return [
        Step(name="small", title="make small", fingerprint="1", run=small),
        Step(name="large", title="make large", fingerprint="1", run=large, needs=("small",)),
    ]


@pytest.mark.parametrize("how", ["a file", "a command", "the log"])
async def test_the_step_is_named_and_a_second_try_with_space_goes_on(small_disk: Path, how: str) -> None:
    builder = Builder(cache=small_disk / "cache", progress=Recorded(), space_needed=0)
    runs: list[str] = []
    with pytest.raises(PrerequisiteError) as caught:
        await builder.build(graph(runs, how=how, mib=8), wanted=["large"])
    assert "disk is full: the step `large` (make large)" in caught.value.message
    assert str(builder.cache) in caught.value.cure
    assert builder.timings()[0].step == "small"
    await process.run(["mount", "-o", "remount,size=64m", small_disk])
    results = await builder.build(graph(runs, how=how, mib=8), wanted=["large"])
    assert runs == ["small", "large", "large"]
    if how != "the log":
        assert (results["large"] / "result").stat().st_size == 8 * MIB
    assert builder.timings()[-1].outcome is Outcome.DONE


async def test_a_ledger_that_was_cut_short_is_read_past(tmp_path: Path) -> None:
    builder = Builder(cache=tmp_path, progress=Recorded(), space_needed=0)
    (tmp_path / "builds.jsonl").write_text('{"step": "small", "key": "0", "outc', encoding="utf-8")
    assert builder.timings() == []
    await builder.build(graph([], how="a file", mib=0), wanted=["small"])


def test_a_full_disk_anywhere_is_the_users_to_free() -> None:
    with pytest.raises(OSError) as caught, Path("/dev/full").open("w") as file:
        file.write("x" * 100_000)
    known = principal(ExceptionGroup("several", [caught.value, PrerequisiteError("a", cure="b")]))
    assert isinstance(known, PrerequisiteError)
    assert "the disk is full" in known.message
    assert principal(OSError(5, "Input/output error")) is None
