"""Undo from a journal: walks back, looks at the present, writes only differences. Safe to repeat, safe to kill.

Each entry is marked when it is undone, so that a second walk goes on where the first was killed; and because each
step compares with the present first, doing one twice changes nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Protocol

from sregym.cluster import restoring
from sregym.cluster.contract import Cluster, Compensation
from sregym.cluster.journal import Entry, Journal
from sregym.cluster.leftovers import remove_host_thing
from sregym.cluster.normalise import meant
from sregym.cluster.objects import Obj, Ref, uid_of
from sregym.cluster.patching import revert
from sregym.errors import DefinitionError, RecoveryError, SregymError
from sregym.events import Emit, silent

ACTIONS_FROM = ("injectors", "sregym.cluster.node_undo")
"""Where compensating actions are imported from: a journal is data and may not run anything else."""


class Action(Protocol):
    """What a compensating action's class must have. Idempotent."""

    async def undo(self, cluster: Cluster) -> None: ...


async def recover(journal: Journal, cluster: Cluster, *, emit: Emit = silent) -> None:
    """Undoes everything that is open and closes the journal. Raises RecoveryError naming what is left."""
    await undo(journal, cluster, emit=emit)
    journal.close()


async def undo(journal: Journal, cluster: Cluster, *, section: str = "", emit: Emit = silent) -> None:
    """Undoes what is open in a section (the empty one is all), newest first; goes on past failures.

    Raises RecoveryError naming what is left.
    """
    left: list[str] = []
    for entry in reversed(journal.open_entries(section)):
        try:
            await _undo_one(journal, cluster, entry, section)
        except (SregymError, TimeoutError, OSError) as error:
            left.append(f"{entry}: {error}")
            emit("undo.failed", entry=str(entry), error=str(error))
        else:
            journal.mark(entry.id, "undone")
            emit("undo.done", entry=str(entry))
    if left:
        raise RecoveryError("not undone:\n" + "\n".join(f"  {line}" for line in left))


async def abandon(journal: Journal, *, emit: Emit = silent) -> None:
    """For a journal whose cluster is gone for good: removes what is on this machine and closes it."""
    left: list[str] = []
    for entry in reversed(journal.open_entries()):
        try:
            if entry.host is not None:
                await remove_host_thing(entry.host)
        except SregymError as error:
            left.append(f"{entry}: {error}")
        else:
            journal.mark(entry.id, "undone")
            emit("undo.done", entry=str(entry))
    if left:
        raise RecoveryError("not removed:\n" + "\n".join(f"  {line}" for line in left))
    journal.close()


async def _undo_one(journal: Journal, cluster: Cluster, entry: Entry, section: str) -> None:
    if entry.host is not None:
        await remove_host_thing(entry.host)
    elif entry.compensation is not None:
        await _undo_effect(journal.entries, cluster, entry, entry.compensation, section)
    elif entry.is_change and entry.ref is not None:
        await _undo_change(journal.entries, cluster, entry, entry.ref, section)


async def _undo_change(entries: Sequence[Entry], cluster: Cluster, entry: Entry, ref: Ref, section: str) -> None:
    same = [other for other in entries if other.ref == ref and other.is_change]
    if any(o.seq < entry.seq and not o.closed and o.within(section) for o in same):
        # An older open entry of this walk knows the state before both: writing the one between would only cause a
        # roll-out that nobody needs.
        return
    later = [o for o in same if o.seq > entry.seq and not o.closed and not o.within(section)]
    if later and entry.before is not None and entry.after is not None:
        await _take_back(cluster, ref, entry.before, entry.after)
        return
    origin = _origin(entry, same)
    if origin.before is not None:
        await restoring.restore(cluster, ref, origin.before)
    else:
        await restoring.remove(cluster, ref, uid_of(origin.after) if origin.after else None)


def _origin(entry: Entry, same: Sequence[Entry]) -> Entry:
    """The oldest entry whose effect is part of what this one found.

    An entry that was undone only after this one was written had its effect in this one's pre-image: the state to go
    back to is the one before both.
    """
    origin = entry
    for other in reversed([o for o in same if o.seq < entry.seq]):
        if other.undone_seq is not None and other.undone_seq > origin.seq:
            origin = other
    return origin


async def _take_back(cluster: Cluster, ref: Ref, before: Obj, after: Obj) -> None:
    """Takes back one change only, because another section has since changed the same object and is still open."""
    present = await cluster.find(ref)
    if present is None:
        return
    wanted = revert(meant(present), meant(before), meant(after))
    await restoring.restore(cluster, ref, wanted)


async def _undo_effect(
    entries: Sequence[Entry], cluster: Cluster, entry: Entry, compensation: Compensation, section: str
) -> None:
    """As for changes of objects: among those on one subject, the oldest that counts knows what was before all."""
    if compensation.subject is None:
        await _compensate(compensation, cluster)
        return
    same = [o for o in entries if o.compensation is not None and o.compensation.subject == compensation.subject]
    if any(o.seq < entry.seq and not o.closed and o.within(section) for o in same):
        return
    origin = _origin(entry, same).compensation
    assert origin is not None
    await _compensate(origin, cluster)


async def _compensate(compensation: Compensation, cluster: Cluster) -> None:
    if compensation.bound_to is not None:
        present = await cluster.find(compensation.bound_to)
        if present is None or (compensation.uid and uid_of(present) != compensation.uid):
            return  # its target is gone, and the effect with it
    await check_action(compensation).undo(cluster)


def check_action(compensation: Compensation) -> Action:
    """The action itself, made from its name and arguments. Raises DefinitionError where there is no such thing."""
    module_name, _, class_name = compensation.action.partition(":")
    if not any(module_name == known or module_name.startswith(known + ".") for known in ACTIONS_FROM):
        raise DefinitionError(f"{compensation.action}: compensating actions come from {', '.join(ACTIONS_FROM)} only")
    try:
        action = getattr(importlib.import_module(module_name), class_name)(**compensation.arguments)
    except (ImportError, AttributeError, TypeError) as error:
        raise DefinitionError(f"{compensation.action} cannot be made: {error}") from error
    if not hasattr(action, "undo"):
        raise DefinitionError(f"{compensation.action} has no method undo(cluster)")
    made: Action = action
    return made
