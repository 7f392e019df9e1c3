"""Runs a command: signals become clean cancellation, errors become messages and exit codes.

The first Ctrl-C (or SIGTERM) cancels, and everything cleans up after itself; the second ends the process at once and
prints the command that finishes the clean-up later.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Sequence
from difflib import get_close_matches

import anyio
from cyclopts import App as Cyclopts
from cyclopts import CycloptsError
from rich.markup import escape

from sregym.cli.console import console
from sregym.cli.recover import RECOVER_COMMAND
from sregym.cli.resume import in_its_own_words
from sregym.errors import PrerequisiteError, SregymError, principal

INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""
USAGE = 2
UNREAD = 1
RUN = "run"
"""What people take the default command's name for."""


def run(app: Cyclopts, tokens: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    return anyio.run(_run, app, list(sys.argv[1:] if tokens is None else tokens))


async def _run(app: Cyclopts, tokens: list[str]) -> int:
    codes: list[int] = []
    async with anyio.create_task_group() as group:

        async def command() -> None:
            codes.append(await _guarded(app, tokens))
            group.cancel_scope.cancel()

        scope = anyio.CancelScope()

        async def cancellable() -> None:
            with scope:
                await command()
            if scope.cancelled_caught:
                codes.append(INTERRUPTED)
                group.cancel_scope.cancel()

        group.start_soon(cancellable)
        group.start_soon(_on_signals, scope)
    return codes[0] if codes else INTERRUPTED


async def _on_signals(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            if scope.cancel_called:
                console.print(f"\n[red]ended at once.[/] Finish the clean-up with: {RECOVER_COMMAND}")
                os._exit(INTERRUPTED)
            console.print("\n[yellow]stopping cleanly[/] (again: stop at once, and clean up later)")
            scope.cancel()


async def _guarded(app: Cyclopts, tokens: list[str]) -> int:
    try:
        _check_command(app, tokens)
        words = in_its_own_words(tokens)
        code = await app.run_async(words, exit_on_error=False, print_error=True, result_action="return_value")
    except SystemExit:
        # Rich's way to say that whoever read our output has gone (`main.py problems list | head -1`).
        return UNREAD
    except CycloptsError:
        return USAGE
    except (SregymError, OSError, BaseExceptionGroup) as error:
        known = principal(error)
        if known is None:
            raise
        return _report(known)
    return code if isinstance(code, int) else 0


def _check_command(app: Cyclopts, tokens: list[str]) -> None:
    """Raises PrerequisiteError where the first word looks like a command and is none."""
    program, known = app.name[0], [name for name in app if not name.startswith("-")]
    word = next(iter(tokens), "-")
    if word.startswith("-") or word in known:
        return
    near = get_close_matches(word, known, n=1)
    if word == RUN:
        cure = f"leave the word out: python {program} {shlex.join(tokens[1:])}".rstrip()
    elif near:
        cure = f"did you mean {near[0]}? (python {program} --help)"
    else:
        cure = f"see what there is: python {program} --help"
    raise PrerequisiteError(f"there is no command {word!r}", cure=cure)


def _report(error: SregymError) -> int:
    if isinstance(error, PrerequisiteError):
        console.print(f"[red]{escape(error.message)}[/]\n  -> {escape(error.cure)}", soft_wrap=True)
    else:
        console.print(f"[red]{type(error).__name__}[/]: {escape(str(error))}", soft_wrap=True)
    return error.exit_code
