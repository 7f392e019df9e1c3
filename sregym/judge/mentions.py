"""Finds the components that a text names.

Names of services are often everyday words (`rate`, `search`, `user`), and one name often belongs to objects of several
kinds (Service and Deployment `mongodb-rate`). So a mention knows where it stands and which kind was said beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

WORKLOAD = r"deployments?|deploy|workloads?|pods?|containers?|replica ?sets?|stateful ?sets?|daemon ?sets?|pod template"
KIND_WORDS = {
    "Deployment": rf"{WORKLOAD}|(?:micro)?services?|database|server|process|application|app",
    "StatefulSet": rf"{WORKLOAD}|(?:micro)?services?|database|server|process",
    "DaemonSet": rf"{WORKLOAD}|agent|process",
    "Pod": WORKLOAD,
    "Service": r"services?|svc|cluster ?ip|target ?port|endpoints?|service port",
    "ConfigMap": r"config ?maps?|cm|configuration|config",
    "Secret": r"secrets?|credentials?",
    "Node": r"nodes?|workers?|machines?|hosts?|kubelet",
    "PersistentVolumeClaim": r"pvcs?|(?:volume )?claims?|persistent ?volume ?claims?|volumes?",
    "PersistentVolume": r"pvs?|persistent ?volumes?|volumes?",
    "NetworkPolicy": r"network ?polic(?:y|ies)|netpol|firewall",
    "ResourceQuota": r"(?:resource ?)?quotas?",
    "Role": r"(?:cluster)?roles?|rbac|permissions?",
    "ClusterRole": r"(?:cluster)?roles?|rbac|permissions?",
    "CronJob": r"cron ?jobs?|jobs?",
}
"""What people call an object of a kind; a kind that is not here is called by its own name."""

_OTHER_THAN_SERVICE = rf"{WORKLOAD}|database|server|instance|process"
_NAMING = rf"{WORKLOAD}|(?:micro)?services?|svc|server|app|application|component|backend|config ?map|cm|secret|node"
_EVERYDAY_BEFORE = re.compile(
    r"(?:^|\W)(?:the|an?|this|that|each|every|any|per|error|success|failure|failing|failed|request|requests|arrival|high|"
    r"low|database|db|mongo|mongodb|hotel|hotels|admin|end|sql|login|of|for|all|new|same)\s$",
    re.IGNORECASE,
)
_POD_SUFFIX = r"(?:-[0-9a-f]{5,10}(?:-[a-z0-9]{5})?|-\d{1,3})?"


def kind_words(kind: str) -> re.Pattern[str]:
    """Matches what people call an object of this kind."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ?", kind)
    return re.compile(rf"\b(?:{KIND_WORDS.get(kind, spaced + 's?')})\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Mention:
    """One place in a sentence where a component is named."""

    name: str
    start: int
    end: int


@dataclass(frozen=True)
class Names:
    """The component names to look for."""

    names: frozenset[str]

    def __init__(self, names: Iterable[str]) -> None:
        object.__setattr__(self, "names", frozenset(names))

    def find(self, text: str) -> list[Mention]:
        """All mentions in a text, in order."""
        pattern = _pattern(self.names)
        found = []
        for m in pattern.finditer(text) if pattern else ():
            name = self._named(m.group("name"))
            if name is not None and _is_meant(name, text, m):
                found.append(Mention(name=name, start=m.start(), end=m.end()))
        return found

    def _named(self, said: str) -> str | None:
        plain = re.sub(r"[\s_]", "-", said.lower())
        if plain in self.names:
            return plain
        stem = re.sub(r"(?:'s)?-config-?map$", "", plain)
        return next((n for n in (f"{stem}-config", f"{stem}-configmap", f"{stem}-cm") if n in self.names), None)


def _is_meant(name: str, text: str, m: re.Match[str]) -> bool:
    """Whether an everyday word stands for the component of that name. Compound names always do."""
    if not name.isalpha():
        return True
    before, after = text[: m.start()], text[m.end() :]
    if before.endswith("`") or before.endswith("/") or re.match(r"`|'s\b", after):
        return True
    if re.match(rf"\s(?:{_NAMING})\b", after, re.IGNORECASE) or re.search(
        rf"\b(?:{_NAMING})\s$", before, re.IGNORECASE
    ):
        return True
    return not _EVERYDAY_BEFORE.search(re.sub(r"[`']", "", before))


@lru_cache(maxsize=256)
def _pattern(names: frozenset[str]) -> re.Pattern[str] | None:
    if not names:
        return None
    forms = []
    for name in sorted(names, key=lambda n: (-len(n), n)):
        forms.append("[-_ ]".join(re.escape(part) for part in name.split("-")))
        stem = re.sub(r"-(?:config|configmap|cm)$", "", name)
        if stem != name:
            forms.insert(0, rf"{re.escape(stem)}(?:'s)?[- ]config ?map")
    return re.compile(rf"(?<![\w-])(?P<name>{'|'.join(forms)}){_POD_SUFFIX}(?![\w-])", re.IGNORECASE)


def only_as_another_kind(kind: str, text: str, mention: Mention) -> bool:
    """Whether a Service is named here as something else ("pod mongodb-rate"): a shared name is no shared defect."""
    if kind != "Service":
        return False
    beside_before = re.search(rf"\b({_OTHER_THAN_SERVICE})[ /:`]+$", text[: mention.start], re.IGNORECASE)
    beside_after = re.match(rf"`?\s+({_OTHER_THAN_SERVICE})\b", text[mention.end :], re.IGNORECASE)
    return bool(beside_before or beside_after)
