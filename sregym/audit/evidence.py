"""What an agent can reach, collected: objects, texts, rights. Plain data, so that a rule can be tested by planting."""

from __future__ import annotations

import base64
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property

from sregym.cluster.objects import Obj

WORD = re.compile(r"[A-Za-z][A-Za-z0-9_./@-]{2,}")
"""A path or an identifier is one word."""
SCHEMAS = ("CustomResourceDefinition", "APIService")
"""Their texts are other people's documentation; only their names count."""


class Kind(StrEnum):
    """Where a text comes from."""

    OBJECT = "object"
    LOG = "log"
    POD = "pod"
    """Seen from inside a pod: environment, mounts, files."""
    AGENT = "agent"
    """Seen from inside the agent's container."""
    NODE = "node"
    TELEMETRY = "telemetry"
    NAME = "name"
    """A registry's or name server's entry."""
    PLATFORM = "platform"
    """Contents of the distributions' own files: only our names count there, not words."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """One text that an agent can read."""

    where: str
    text: str
    kind: Kind


@dataclass(frozen=True, kw_only=True)
class PodRule:
    """One rule of what a pod's service account may do."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    urls: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything collected.

    `objects` are those that the agent's user can list, with apiVersion and kind. `made` names those that the
    application was installed with, as (kind, name); `known` those that every attempt has beside it. `changed_at` is
    when the incident began, `installed_at` when the application's installation did.
    """

    namespaces: frozenset[str]
    objects: Sequence[Obj] = ()
    texts: Sequence[Text] = ()
    pod_rules: Sequence[PodRule] = ()
    made: frozenset[tuple[str, str]] = frozenset()
    known: frozenset[tuple[str, str]] = frozenset()
    installed_at: datetime | None = None
    changed_at: datetime | None = None
    allowed: frozenset[str] = frozenset()
    """Words that stand in the application's own published names (image references of a profile)."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """How long each part of the collection took."""

    def inside(self) -> Iterator[Obj]:
        """Objects in the application's namespaces."""
        return (obj for obj in self.objects if obj["metadata"].get("namespace") in self.namespaces)

    def nodes(self) -> Iterator[str]:
        """Names of the cluster's nodes, as far as they can be seen."""
        for obj in self.objects:
            if obj["kind"] == "Node":
                yield obj["metadata"]["name"]
            elif obj["kind"] == "Pod" and (name := obj.get("spec", {}).get("nodeName")):
                yield name

    @cached_property
    def words(self) -> Mapping[str, Sequence[Text]]:
        """Every different word of all objects and texts, and where it stands."""
        found: defaultdict[str, list[Text]] = defaultdict(list)
        for text in (*map(object_text, self.objects), *self.texts):
            for word in set(WORD.findall(text.text)):
                found[word].append(text)
        return found


def object_text(obj: Obj) -> Text:
    """An object as a text; a Secret decoded, the documentation of kinds left out."""
    body: Obj = obj if obj["kind"] not in SCHEMAS else {"metadata": obj["metadata"]}
    if obj["kind"] == "Secret":
        body = {**obj, "data": {key: _decoded(value) for key, value in (obj.get("data") or {}).items()}}
    return Text(where=named(obj), text=json.dumps(body, indent=0), kind=Kind.OBJECT)


def _decoded(value: str) -> str:
    """A Secret's value as text; empty where it is none (random bytes hold no words)."""
    try:
        return base64.b64decode(value).decode()
    except ValueError:
        return ""


def named(obj: Obj) -> str:
    """What people call an object."""
    meta = obj["metadata"]
    place = f" in {meta['namespace']}" if meta.get("namespace") else ""
    return f"{obj['kind']} {meta.get('name', '')}{place}"


@dataclass(frozen=True, order=True)
class Finding:
    """Something that only we would have left."""

    rule: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.where}: {self.what}"
