"""Faults in the objects of the API: patched in place, deleted, created, one key of a mounted file gone.

Objects are patched in place and never made anew, so that age and revision history stay as a colleague's change would
leave them; nothing of ours is added to them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from injectors.patches import Change
from sregym.api import Fault, FaultContext, InjectionError, Obj, Ref, dig
from sregym.errors import Invalid, NotFound


@dataclass(frozen=True)
class PatchObject(Fault):
    """Changes an object that exists."""

    ref: Ref
    change: Change

    async def inject(self, ctx: FaultContext) -> None:
        try:
            await ctx.editor.patch(self.ref.within(ctx.namespace), self.change.body, self.change.kind)
        except (NotFound, Invalid) as error:
            raise InjectionError(f"{self.ref} could not be changed: {error}") from error


@dataclass(frozen=True)
class DeleteObject(Fault):
    """Deletes an object that exists."""

    ref: Ref

    async def inject(self, ctx: FaultContext) -> None:
        ref = self.ref.within(ctx.namespace)
        if await ctx.reader.find(ref) is None:
            raise InjectionError(f"{ref} is not there, so it cannot be deleted")
        await ctx.editor.delete(ref)


@dataclass(frozen=True)
class CreateObject(Fault):
    """Creates an object. Where it would give the fault away by its youth, ship it with the app and patch it instead."""

    obj: Obj

    async def inject(self, ctx: FaultContext) -> None:
        meta = {"namespace": ctx.namespace, **self.obj["metadata"]}
        await ctx.editor.create({**self.obj, "metadata": meta})


@dataclass(frozen=True, kw_only=True)
class DropConfigKey(Fault):
    """Removes one top-level key from a JSON file that a ConfigMap holds; all else in the file stays as it is."""

    configmap: Ref
    file: str
    key: str

    async def inject(self, ctx: FaultContext) -> None:
        ref = self.configmap.within(ctx.namespace)
        found = await ctx.reader.find(ref)
        text = dig(found, "data", self.file)
        if text is None:
            raise InjectionError(f"{ref} holds no file {self.file}")
        await ctx.editor.patch(ref, {"data": {self.file: without_key(text, self.key)}})


def without_key(text: str, key: str) -> str:
    """A JSON object as text without one key, laid out as before. Raises InjectionError where the key is not there."""
    content = json.loads(text)
    if key not in content:
        raise InjectionError(f"the file has no key {key!r}; it has {sorted(content)}")
    del content[key]
    if "\n" not in text.strip():
        return json.dumps(content)
    second = text.splitlines()[1]
    indent = len(second) - len(second.lstrip())
    return json.dumps(content, indent=indent or 2) + ("\n" if text.endswith("\n") else "")
