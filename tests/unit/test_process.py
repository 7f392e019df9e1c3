"""Child processes: their end, their output apart, their death with us."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from sregym import process
from sregym.cluster import waits
from sregym.errors import CommandError, PrerequisiteError


async def test_keeps_status_stdout_and_stderr_apart() -> None:
    done = await process.run(["sh", "-c", "echo out; echo err >&2; exit 3"], check=False)
    assert (done.code, done.stdout, done.stderr) == (3, "out\n", "err\n")
    assert not done.ok


async def test_a_failure_quotes_the_last_words() -> None:
    with pytest.raises(CommandError, match="the reason") as caught:
        await process.run(["sh", "-c", "echo the reason >&2; exit 4"])
    assert caught.value.code == 4


async def test_a_failure_without_stderr_quotes_stdout() -> None:
    with pytest.raises(CommandError, match="said on stdout"):
        await process.run(["sh", "-c", "echo said on stdout; exit 1"])


async def test_an_absent_program_is_for_the_user_to_install() -> None:
    with pytest.raises(PrerequisiteError, match="no-such-program"):
        await process.run(["no-such-program"])


async def test_an_absent_folder_is_not_taken_for_an_absent_program(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no such folder"):
        await process.run(["true"], cwd=tmp_path / "absent")


async def test_output_streams_to_log_and_callback(tmp_path: Path) -> None:
    lines: list[str] = []
    log = tmp_path / "log"
    await process.run(["sh", "-c", "printf 'one\\ntwo\\rthree'"], log=log, on_line=lines.append)
    assert lines == ["one", "two", "three"]
    assert log.read_bytes() == b"one\ntwo\rthree"


async def test_stdin_may_be_bytes_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_text("from a file")
    assert (await process.run(["cat"], stdin=b"from bytes")).stdout == "from bytes"
    assert (await process.run(["cat"], stdin=file)).stdout == "from a file"


async def test_a_child_that_does_not_read_its_input_is_no_error() -> None:
    assert (await process.run(["true"], stdin=b"x" * 1_000_000)).ok


async def test_environment_is_added_to_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OURS", "1")
    done = await process.run(["sh", "-c", "echo $OURS$ADDED"], env={"ADDED": "2"})
    assert done.stdout == "12\n"


async def test_a_child_over_its_time_is_killed() -> None:
    with pytest.raises(CommandError, match=r"killed after 0\.2 s"):
        await process.run(["sleep", "60"], within=0.2)


async def test_cancelling_kills_the_child_and_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with anyio.move_on_after(0.5):
        await process.run(["sh", "-c", f"sleep 60 & echo $! $$ > {pids}; wait"])
    sleeper, shell = map(int, pids.read_text().split())
    await _until_dead(sleeper, "sleep")
    await _until_dead(shell, "sh")


async def test_running_child_ends_with_its_context(tmp_path: Path) -> None:
    async with process.running(["sleep", "60"], log=tmp_path / "log") as child:
        assert child.code is None
        assert Path(f"/proc/{child.pid}").exists()  # noqa: ASYNC240
    assert not process.is_alive(child.pid, name="sleep")


async def test_detached_child_outlives_the_call_and_can_be_terminated(tmp_path: Path) -> None:
    pid = process.start_detached(["sleep", "60"], log=tmp_path / "log")
    assert os.getsid(pid) == pid
    process.terminate(pid)
    await _until_dead(pid, "sleep")
    process.terminate(pid)  # gone already: no error


def test_a_reused_process_id_is_not_taken_for_ours() -> None:
    assert not process.is_alive(os.getpid(), name="dockerd")


async def _until_dead(pid: int, name: str) -> None:
    async def dead() -> bool | None:
        return None if process.is_alive(pid, name=name) else True

    await waits.poll(dead, what=f"{name} is dead", every=0.01, within=5)
