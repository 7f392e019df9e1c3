"""The rules: each looks through the evidence and names what it finds. A rule never looks at a cluster itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from sregym.audit.access_rules import Credentials, PodRights
from sregym.audit.evidence import Evidence, Finding
from sregym.audit.object_rules import (
    HealthyValue,
    LoneHelper,
    MadeAnew,
    OnlyHistory,
    ReleaseRecord,
    StandsOut,
)
from sregym.audit.vocabulary import Vocabulary
from sregym.audit.word_rules import FaultWords, OwnNames, ProblemNames

MOST_PER_RULE = 20


class Rule(Protocol):
    """One kind of leak."""

    @property
    def name(self) -> str: ...

    def find(self, evidence: Evidence, words: Vocabulary) -> Iterator[Finding]: ...


RULES: Sequence[Rule] = (
    OwnNames(),
    ProblemNames(),
    FaultWords(),
    HealthyValue(),
    ReleaseRecord(),
    LoneHelper(),
    MadeAnew(),
    StandsOut(),
    OnlyHistory(),
    Credentials(),
    PodRights(),
)


def examine(evidence: Evidence, words: Vocabulary, rules: Sequence[Rule] = RULES) -> list[Finding]:
    """All findings, sorted; of each rule only the first ones, since more of the same adds nothing."""
    found: list[Finding] = []
    for rule in rules:
        found += sorted(set(rule.find(evidence, words)))[:MOST_PER_RULE]
    return found
