"""Child processes: the only module that starts any.

Argument lists only, never a shell string. The result keeps exit status, stdout and stderr apart. A child gets its own
session, so that killing it kills what it started; cancelling the caller kills it. `start_detached` is for the one kind
of child that must outlive us (a Docker daemon).
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import anyio
import anyio.abc
from anyio.streams.text import TextReceiveStream

from sregym.errors import CommandError, PrerequisiteError

LAST_LINES = 12
"""How many lines of output an error message quotes."""

LineCallback = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Completed:
    """A child that has ended."""

    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def ok(self) -> bool:
        return self.code == 0

    def raise_for_code(self) -> Completed:
        """Return self, or raise `CommandError` quoting the last lines of what the child said."""
        if self.ok:
            return self
        said = "\n".join((self.stderr.strip() or self.stdout.strip()).splitlines()[-LAST_LINES:])
        message = f"`{shlex.join(self.argv)}` ended with status {self.code}\n{said}"
        raise CommandError(message, code=self.code, stderr=self.stderr)


@dataclass(frozen=True, kw_only=True)
class Running:
    """A child that runs while its context is open."""

    argv: tuple[str, ...]
    pid: int
    _process: anyio.abc.Process

    @property
    def code(self) -> int | None:
        return self._process.returncode

    async def wait(self) -> int:
        return await self._process.wait()


async def run(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | Path | None = None,
    log: Path | None = None,
    on_line: LineCallback | None = None,
    check: bool = True,
    within: float | None = None,
    keep: int | None = None,
) -> Completed:
    """Run a command to its end.

    Args:
        env: Added to our own environment.
        stdin: Bytes, or a file, that the child reads; nothing where None.
        log: Output is also appended here as it comes.
        on_line: Called with each line of stdout and stderr as it comes.
        check: Raise `CommandError` on a non-zero status.
        within: Seconds after which the child is killed and `CommandError` raised.
        keep: Characters of each stream that are kept; what comes after them is read and dropped.

    Raises:
        PrerequisiteError: There is no such program.
        CommandError: See `check` and `within`.
    """
    args = tuple(str(a) for a in argv)
    started = time.monotonic()
    out: list[str] = []
    err: list[str] = []
    with contextlib.ExitStack() as files:
        sink = files.enter_context(log.open("a", encoding="utf-8")) if log else None
        try:
            with anyio.fail_after(within):
                code = await _run_to_end(
                    args, cwd, env, stdin, _Tee(out, sink, on_line, keep), _Tee(err, sink, on_line, keep)
                )
        except TimeoutError:
            tail = "\n".join((err or out)[-LAST_LINES:])
            message = f"`{shlex.join(args)}` was killed after {within:g} s\n{tail}"
            raise CommandError(message, stderr="".join(err)) from None
    done = Completed(argv=args, code=code, stdout="".join(out), stderr="".join(err), seconds=time.monotonic() - started)
    return done.raise_for_code() if check else done


@asynccontextmanager
async def running(
    argv: Sequence[str | Path],
    *,
    log: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    dies_with_us: bool = True,
) -> AsyncIterator[Running]:
    """Keep a child running while the context is open; its output goes to `log`.

    On exit it gets SIGTERM, then SIGKILL after 5 s. With `dies_with_us` the kernel kills it when we are killed (Linux).
    """
    args = tuple(str(a) for a in argv)
    command = ("setpriv", "--pdeathsig", "KILL", "--", *args) if dies_with_us else args
    with log.open("ab") as sink:
        process = await _open(command, cwd, env, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
    try:
        yield Running(argv=args, pid=process.pid, _process=process)
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process, patience=5.0)


@dataclass(frozen=True, kw_only=True)
class Dialogue:
    """A child that we talk with, line by line, while its context is open."""

    argv: tuple[str, ...]
    _process: anyio.abc.Process

    @property
    def code(self) -> int | None:
        return self._process.returncode

    async def send(self, line: str) -> None:
        """Writes one line to the child. Raises CommandError where it does not listen any more."""
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send(line.encode() + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError) as error:
            raise CommandError(f"`{shlex.join(self.argv)}` does not listen any more", code=self.code) from error

    async def lines(self) -> AsyncIterator[str]:
        """What the child says, line by line, until it ends. One reader only."""
        assert self._process.stdout is not None
        rest = ""
        async for text in TextReceiveStream(self._process.stdout, errors="replace"):
            *lines, rest = (rest + text).split("\n")
            for line in lines:
                yield line
        if rest:
            yield rest

    async def wait(self) -> int:
        return await self._process.wait()


@asynccontextmanager
async def dialogue(argv: Sequence[str | Path], *, log: Path) -> AsyncIterator[Dialogue]:
    """Keep a child running that reads lines and writes lines; its stderr goes to `log`. Dies with us (Linux)."""
    args = tuple(str(a) for a in argv)
    command = ("setpriv", "--pdeathsig", "KILL", "--", *args)
    with log.open("ab") as sink:
        process = await _open(command, None, None, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink)
    try:
        yield Dialogue(argv=args, _process=process)
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process, patience=1.0)


def start_detached(argv: Sequence[str | Path], *, log: Path) -> int:
    """Start a child that outlives us, in its own session, with its output in `log`. Returns its process id."""
    with log.open("ab") as sink:
        child = subprocess.Popen(
            [str(a) for a in argv],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
            cwd="/",
        )
    child.returncode = 0  # not ours to reap: keeps Popen from warning that it still runs
    return child.pid


def is_alive(pid: int, *, name: str) -> bool:
    """Is `pid` a live process whose command name is `name`? (A bare id may have been given to another process.)"""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    command = stat[stat.index("(") + 1 : stat.rindex(")")]
    state = stat[stat.rindex(")") + 2]
    return state not in "ZX" and command == name[:15]


def terminate(pid: int) -> None:
    """Ask a process to end; one that is gone already is no error."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


@dataclass(frozen=True)
class _Tee:
    """Where one output stream of a child goes."""

    kept: list[str]
    sink: IO[str] | None
    on_line: LineCallback | None
    keep: int | None = None

    async def drain(self, stream: anyio.abc.ByteReceiveStream) -> None:
        rest = ""
        room = self.keep
        async for text in TextReceiveStream(stream, errors="replace"):
            self.kept.append(text[:room])
            room = None if room is None else room - len(self.kept[-1])
            if self.sink:
                self.sink.write(text)
                self.sink.flush()
            if self.on_line:
                *lines, rest = (rest + text).replace("\r", "\n").split("\n")
                for line in filter(str.strip, lines):
                    self.on_line(line)
        if self.on_line and rest.strip():
            self.on_line(rest)


async def _run_to_end(
    args: tuple[str, ...],
    cwd: Path | None,
    env: Mapping[str, str] | None,
    stdin: bytes | Path | None,
    out: _Tee,
    err: _Tee,
) -> int:
    with contextlib.ExitStack() as files:
        source: int | IO[bytes] = subprocess.PIPE if isinstance(stdin, bytes) else subprocess.DEVNULL
        if isinstance(stdin, Path):
            source = files.enter_context(stdin.open("rb"))
        process = await _open(args, cwd, env, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        async with anyio.create_task_group() as tasks:
            assert process.stdout is not None
            assert process.stderr is not None
            tasks.start_soon(out.drain, process.stdout)
            tasks.start_soon(err.drain, process.stderr)
            if isinstance(stdin, bytes):
                await _feed(process, stdin)
        return await process.wait()
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process, patience=0.0)


async def _feed(process: anyio.abc.Process, data: bytes) -> None:
    assert process.stdin is not None
    # A child that ended early says so by its status; the broken pipe adds nothing.
    with contextlib.suppress(anyio.BrokenResourceError, ConnectionError):
        await process.stdin.send(data)
    await process.stdin.aclose()


async def _open(
    args: tuple[str, ...],
    cwd: Path | None,
    env: Mapping[str, str] | None,
    *,
    stdin: int | IO[bytes],
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
) -> anyio.abc.Process:
    # The child inherits our environment; nothing is read from it here.
    full_env = {**os.environ, **env} if env else None  # noqa: TID251
    try:
        return await anyio.open_process(
            args, cwd=cwd, env=full_env, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
        )
    except FileNotFoundError as error:
        if cwd is not None and str(error.filename) == str(cwd):
            raise CommandError(f"`{shlex.join(args)}`: no such folder: {cwd}") from error
        raise PrerequisiteError(f"there is no program named `{args[0]}`", cure=f"install {args[0]}") from error


async def _end(process: anyio.abc.Process, *, patience: float) -> None:
    """End a child and its session: SIGTERM, `patience` seconds, SIGKILL. Does nothing where it has ended."""
    if process.returncode is None:
        if patience:
            _signal_group(process.pid, signal.SIGTERM)
            with anyio.move_on_after(patience):
                await process.wait()
        if process.returncode is None:
            _signal_group(process.pid, signal.SIGKILL)
            await process.wait()
    await process.aclose()


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
