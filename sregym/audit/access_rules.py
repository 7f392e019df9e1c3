"""Rules about access: secrets that lie about, and what an ordinary pod may do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from sregym.audit.evidence import Evidence, Finding, Kind, PodRule
from sregym.audit.vocabulary import Vocabulary

SECRETS = {
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "a client certificate": re.compile(r"client-(key|certificate)(-data)?:\s*\S+"),
    "a kubeconfig's token": re.compile(r"^\s*token:\s*\S{16,}", re.MULTILINE),
    "a provider's key": re.compile(r"\b(sk-[A-Za-z0-9_-]{20,}|AIza[A-Za-z0-9_-]{30,}|xai-[A-Za-z0-9]{20,})"),
    "the container runtime's socket": re.compile(r"docker\.sock|containerd\.sock|crio\.sock"),
}
LOOKED_AT = (Kind.AGENT, Kind.POD)
HARMLESS = re.compile(r"selfsubject(access|rules)?reviews?")


@dataclass(frozen=True)
class Credentials:
    """A credential or a way to the container runtime, in the agent's container or in a pod."""

    name: ClassVar[str] = "credentials"

    def find(self, evidence: Evidence, words: Vocabulary) -> Iterator[Finding]:
        for text in evidence.texts:
            if text.kind in LOOKED_AT:
                for what, pattern in SECRETS.items():
                    if pattern.search(text.text):
                        yield Finding(self.name, text.where, what)


@dataclass(frozen=True)
class PodRights:
    """A pod's service account that may do more than ask what it may do."""

    name: ClassVar[str] = "pod-rights"

    def find(self, evidence: Evidence, words: Vocabulary) -> Iterator[Finding]:
        for rule in evidence.pod_rules:
            if rule.resources and not all(HARMLESS.fullmatch(one) for one in rule.resources):
                yield Finding(self.name, "a pod's service account", _told(rule))


def _told(rule: PodRule) -> str:
    return f"may {', '.join(rule.verbs)} {', '.join(rule.resources)} of {', '.join(g or 'core' for g in rule.groups)}"
