"""What an operation is: a validated request, run as argument lists on one node, with an answer of bounded size."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from sregym.cluster.contract import ExecResult, NodeShell
from sregym.cluster.node_undo import FileContent, SysctlValue, UnitState

Undo = FileContent | SysctlValue | UnitState
COMMAND_S = 45.0
"""How long one command may take on a node; it is ended there, not only here."""
MOST_CHARACTERS = 64 * 1024
"""Of an answer."""
_MACHINE = re.compile(r"/docker/[0-9a-f]{12,64}|docker-[0-9a-f]{64}\.scope")
"""How a node that is a container appears in the machine's control groups."""


class Refused(Exception):
    """An operation that this tool does not do; the text says why, and what to do instead."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """What an operation brought: the text, and whether the command succeeded."""

    text: str
    ok: bool = True


@dataclass(frozen=True, kw_only=True)
class Node:
    """One worker, as an operation sees it."""

    name: str
    shell: NodeShell
    will_change: Callable[[Undo], Awaitable[None]]
    """Journals what takes a change back; called before the change."""
    since: datetime | None
    """Nothing older is shown: it belongs to an earlier incident."""

    async def run(self, *argv: str, stdin: str = "") -> ExecResult:
        """One command, ended on the node after `COMMAND_S`. Raises Unavailable."""
        limited = ("timeout", "--kill-after=2", f"{COMMAND_S:g}", *argv)
        return await self.shell.run(self.name, limited, stdin=stdin, within=COMMAND_S + 10)

    async def said(self, *argv: str) -> Said:
        """One command, and what it said."""
        return said_by(await self.run(*argv))


def said_by(done: ExecResult) -> Said:
    """Output and errors of a command as one text."""
    parts = [part.rstrip() for part in (done.stdout, done.stderr) if part.strip()]
    return Said(text=without_machine("\n".join(parts)), ok=done.code == 0)


def without_machine(text: str) -> str:
    """The text without the names that a node has on the machine below it."""
    return _MACHINE.sub("", text)


class Operation(BaseModel):
    """A request. Subclasses have the field `op`, a literal that tells them apart, and a doc-string that teaches."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    changes: ClassVar[bool] = False
    """Whether it may change the node."""
    keeps: ClassVar[Literal["head", "tail"]] = "head"
    """Which end of a long answer is kept."""

    @abstractmethod
    async def run(self, node: Node) -> Said:
        """Raises Refused, or Unavailable where the node cannot be reached."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The reply to a caller. `truncated` says what was left out, empty where nothing was."""

    node: str
    op: str
    ok: bool
    text: str
    truncated: str = ""


def bounded(text: str, keeps: Literal["head", "tail"], most: int = MOST_CHARACTERS) -> tuple[str, str]:
    """A text of at most so many characters, cut between lines where that is possible, and what was cut."""
    if len(text) <= most:
        return text, ""
    if keeps == "head":
        kept = text[:most]
        kept = kept[: kept.rfind("\n") + 1] or kept
    else:
        kept = text[-most:]
        kept = kept[kept.find("\n") + 1 :] or kept
    end = "first" if keeps == "head" else "last"
    return kept, f"only the {end} {len(kept)} of {len(text)} characters are shown; ask for less"


def table(header: str, rows: Sequence[str]) -> str:
    """Lines under a header."""
    return "\n".join((header, *rows))
