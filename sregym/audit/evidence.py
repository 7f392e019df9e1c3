"""What an agent can reach, collected: objects, texts, rights. Plain data, so that a rule can be tested by planting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from sregym.cluster.objects import Obj


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


@dataclass(frozen=True, order=True)
class Finding:
    """Something that only we would have left."""

    rule: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.where}: {self.what}"
