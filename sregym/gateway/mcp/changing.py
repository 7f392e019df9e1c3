"""What the kubectl tool does with a command: a dry run first, the undo written down, the command, and a look at what
it did.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from sregym.cluster import waits
from sregym.cluster.objects import Obj, dig, uid_of
from sregym.errors import WaitTimeout
from sregym.events import Emit
from sregym.gateway.mcp.command import FOLLOW_S, Command, Effect, parse, with_flags, without_flags
from sregym.gateway.mcp.kubectl import WITHIN_S, Kubectl, Ran
from sregym.gateway.mcp.stack import Change, UndoStack
from sregym.gateway.mcp.undoing import (
    MOST_DIFFERENCES,
    Step,
    differences,
    pairs,
    remarkable,
    title_of,
    warnings_for,
    way_back,
)

MOST_OBJECTS = 200
"""That one command may change here; what is larger is hardly meant."""
GONE_WITHIN_S = 20.0
TRIES = 3
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

_OUTPUT = frozenset({"o", "output", "template"})
_OPTIONAL = frozenset({"dry-run"})
"""Take a value only behind `=`."""
_DELETE_ONLY = frozenset({"grace-period", "timeout"})
_DELETE_SWITCHES = frozenset({"wait", "now", "force", "cascade", "all"})
_DRAIN_ONLY = frozenset({"grace-period", "timeout", "pod-selector", "skip-wait-for-delete-timeout", "chunk-size"})
_DRAIN_SWITCHES = frozenset({"ignore-daemonsets", "delete-emptydir-data", "force", "disable-eviction"})
_UNDO_ONLY = frozenset({"to-revision"})


class Failed(Exception):
    """The command, or its undo, did not do what it should; the text is for the agent."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """What a command said and what its undo is."""

    output: str
    undo: str | None = None
    facts: dict[str, Any] | None = None


class Changing:
    """Runs commands of all sessions, changing ones one at a time, so that stacks are in the order of what happened."""

    def __init__(self, kubectl: Kubectl, undo: Path, *, emit: Emit) -> None:
        self._kubectl = kubectl
        self._undo = undo
        self._emit = emit
        self._one_at_a_time = anyio.Lock()

    async def run(self, text: str, session: str) -> Done:
        """Raises Refused, Failed, KubectlFailed, CommandError, PrerequisiteError."""
        command = parse(text)
        if command.effect is Effect.READS:
            return await self._read(command)
        async with self._one_at_a_time:
            if command.effect is Effect.CANNOT_BE_UNDONE:
                return await self._irrevocable(command)
            return await self._change(command, text.strip(), UndoStack(self._undo, session))

    def newest(self, session: str) -> Change | None:
        """The change that an undo would take back."""
        top = UndoStack(self._undo, session).top()
        return top[1] if top else None

    def others(self, session: str) -> dict[str, int]:
        """Other sessions with changes."""
        return UndoStack(self._undo, session).others()

    async def roll_back(self, session: str) -> Done:
        """Takes the newest change of a session back. Raises Failed, KubectlFailed, CommandError, PrerequisiteError."""
        async with self._one_at_a_time:
            stack = UndoStack(self._undo, session)
            top = stack.top()
            if top is None:
                raise Failed(_nothing_to_undo(stack))
            path, change = top
            said = await self._walk_back(change)
            now = await self._kubectl.present(change.named)
            left = differences(change.before, now)
            stack.drop(path)
            stack.come_back({uid_of(was): uid_of(obj) for was, obj in pairs(change.before, now)})
            self._emit("mcp.undone", command=change.command, steps=len(said), equal=not left, differences=left)
            facts = {
                "undone": change.command,
                "as_before": not left,
                "differences": left[:MOST_DIFFERENCES],
                "left_on_the_stack": stack.depth(),
            }
            return Done(output="\n".join(said) or "everything is as it was before that command already", facts=facts)

    async def _walk_back(self, change: Change) -> list[str]:
        """Takes a change back, looking anew where somebody else was faster. Returns what was done."""
        if change.state == "pending":  # the gateway ended before it had seen what the command did
            change = change.model_copy(update={"after": await self._kubectl.present(change.named)})
        said: list[str] = []
        for tries_left in reversed(range(TRIES)):
            steps = way_back(change, await self._settled(await self._kubectl.present(change.named)))
            try:
                for step in steps:
                    said.append(await self._take(step))
                return said
            except Failed as error:
                if not tries_left or "the object has been modified" not in str(error):
                    raise
        return said

    async def _read(self, command: Command) -> Done:
        if command.endless:
            ran = await self._kubectl.run(command.argv, stdin=command.stdin, within=FOLLOW_S)
            note = f"(stopped after {FOLLOW_S:g} s; for more, ask again with --since or without following)"
            return Done(output=f"{_output(ran) if ran.stdout or not ran.timed_out else ''}\n{note}".strip())
        bounded = command
        if command.verb[0] == "logs" and not any(word.startswith("--limit-bytes") for word in command.argv):
            bounded = with_flags(command, "--limit-bytes=4000000")
        ran = await self._kubectl.run(bounded.argv, stdin=command.stdin)
        return Done(output=_output(_checked(ran)))

    async def _irrevocable(self, command: Command) -> Done:
        ran = _checked(await self._kubectl.run(command.argv, stdin=command.stdin))
        self._emit("mcp.changed", command=command.name, undo=False)
        return Done(output=_output(ran), undo=f"cannot be undone: {command.warning}")

    async def _change(self, command: Command, text: str, stack: UndoStack) -> Done:
        named = await self._objects_of(command)
        if len(named) > MOST_OBJECTS:
            raise Failed(f"this would change {len(named)} objects; more than {MOST_OBJECTS} at once are not taken")
        before = await self._kubectl.present(named)
        names = [_name_only(obj) for obj in named]
        change = Change(command=text, state="pending", before=before, named=names, warning=command.warning)
        entry = stack.push(change)
        ran = await self._kubectl.run(command.argv, stdin=command.stdin)
        change = change.model_copy(update={"named": [*names, *_named_by_the_server(named, ran.stdout)]})
        after = await self._kubectl.present(change.named)
        lost = [command.warning, *warnings_for(before, after)]
        warning = "; ".join(filter(None, lost))
        if not remarkable(before, after):
            stack.drop(entry)
            undo = "nothing to undo: what is meant is as it was before"
        else:
            stack.write(entry, change.model_copy(update={"state": "done", "after": after, "warning": warning}))
            undo = "rollback_command() takes it back" + (f", but {warning}" if warning else "")
        changed = differences(before, after)
        self._emit("mcp.changed", command=text[:2000], undo=bool(changed), differences=changed[:MOST_DIFFERENCES])
        if not ran.ok:
            raise Failed(f"{_why(ran)}\n{'It changed something before that: ' + undo if changed else ''}".strip())
        return Done(output=_output(ran), undo=undo)

    async def _objects_of(self, command: Command) -> list[Obj]:
        """The objects that a command is about, by a dry run on the server or by its own arguments."""
        plain = without_flags(command.argv, valued=_OUTPUT, switches=_OPTIONAL)
        if command.effect is Effect.DELETES:
            _checked(await self._kubectl.run(_flagged(plain, "--dry-run=server", "-o", "name"), stdin=command.stdin))
            words = _in_place(plain, "delete", "get")
            words = without_flags(words, valued=_DELETE_ONLY, switches=_DELETE_SWITCHES)
            flags = ("-o", "json", "--ignore-not-found")
            return await self._kubectl.objects(_flagged(words, *flags), stdin=command.stdin)
        if command.has_dry_run and command.effect is Effect.CHANGES:
            return await self._kubectl.objects(_flagged(plain, "--dry-run=server", "-o", "json"), stdin=command.stdin)
        if command.has_dry_run:
            _checked(await self._kubectl.run(_flagged(plain, "--dry-run=server"), stdin=command.stdin))
        return await self._kubectl.objects(_looking_at(command, plain), stdin=command.stdin)

    async def _settled(self, present: list[Obj]) -> list[Obj]:
        """The present objects when those that are being deleted are gone."""
        if not any(obj["metadata"].get("deletionTimestamp") for obj in present):
            return present

        async def gone() -> list[Obj] | None:
            now = await self._kubectl.present(present)
            return None if any(obj["metadata"].get("deletionTimestamp") for obj in now) else now

        try:
            return await waits.poll(gone, what="the end of a deletion", every=1.0, within=GONE_WITHIN_S)
        except WaitTimeout:
            going = [title_of(obj) for obj in present if obj["metadata"].get("deletionTimestamp")]
            raise Failed(f"still being deleted: {', '.join(going)}; look for finalizers, then try again") from None

    async def _take(self, step: Step) -> str:
        given = json.dumps(step.obj)
        if step.action == "patch":
            ran = await self._kubectl.patch(step.obj, step.patch)
        elif step.action == "delete":
            ran = await self._kubectl.run(["delete", "-f", "-", "--ignore-not-found", "--timeout=30s"], stdin=given)
        else:
            ran = await self._kubectl.run(["create", "-f", "-"], stdin=given)
            if ran.ok and (note := dig(step.obj, "metadata", "annotations", LAST_APPLIED)) is not None:
                # Where there is such an annotation, `kubectl create` writes it anew.
                path = f"/metadata/annotations/{LAST_APPLIED.replace('/', '~1')}"
                await self._kubectl.patch(step.obj, [{"op": "add", "path": path, "value": note}])
        if not ran.ok:
            raise Failed(f"{step.title} could not be put back: {_why(ran)}. The change is still on the stack")
        return ran.stdout.strip()


def _nothing_to_undo(stack: UndoStack) -> str:
    others = ", ".join(f"{name} ({count})" for name, count in stack.others().items())
    more = f" Other sessions have changes: {others}. Name one with ?session_id= or the header sregym_ssid."
    return f"This session has changed nothing that can be taken back.{more if others else ''}"


def _looking_at(command: Command, plain: Sequence[str]) -> list[str]:
    """The `get` that shows what a command without a telling dry run is about."""
    words = without_flags(plain, valued=_DRAIN_ONLY | _UNDO_ONLY, switches=_DRAIN_SWITCHES)
    at = words.index(command.verb[0])
    if command.verb[0] == "rollout":
        second = words.index(command.verb[1], at)
        words = [*words[:at], "get", *words[at + 1 : second], *words[second + 1 :]]
    else:
        words = [*words[:at], "get", "nodes", *words[at + 1 :]]
    return _flagged(words, "-o", "json")


def _in_place(words: Sequence[str], old: str, new: str) -> list[str]:
    at = list(words).index(old)
    return [*words[:at], new, *words[at + 1 :]]


def _flagged(words: Sequence[str], *flags: str) -> list[str]:
    at = list(words).index("--") if "--" in words else len(words)
    return [*words[:at], *flags, *words[at:]]


def _name_only(obj: Obj) -> Obj:
    meta = obj["metadata"]
    kept = {name: meta[name] for name in ("name", "namespace") if meta.get(name)}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": kept}


def _named_by_the_server(named: Sequence[Obj], said: str) -> list[Obj]:
    """Objects whose names the server made up (generateName): a dry run has told others than they now have."""
    found: list[Obj] = []
    for obj in named:
        stem = obj["metadata"].get("generateName")
        for name in re.findall(r"^\S+/(\S+) created$", said, re.MULTILINE) if stem else ():
            if name.startswith(stem):
                found.append(_name_only({**obj, "metadata": {**obj["metadata"], "name": name}}))
    return found


def _checked(ran: Ran) -> Ran:
    if not ran.ok:
        raise Failed(_why(ran))
    return ran


def _why(ran: Ran) -> str:
    if ran.timed_out:
        return f"it did not end within {WITHIN_S:g} s and was stopped; what it said so far:\n{ran.stdout[-4000:]}"
    return ran.said or f"kubectl ended with status {ran.code}"


def _output(ran: Ran) -> str:
    text = ran.stdout + (f"\n{ran.stderr}" if ran.stderr.strip() else "")
    return text.rstrip("\n") + ("\n(the rest was dropped: ask for less)" if ran.cut else "")
