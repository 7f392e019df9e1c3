"""Whom a stretch of text speaks of as the one that suffers, and whom its pronouns stand for.

"rate cannot reach mongodb-rate" complains about mongodb-rate; rate is only where it shows. "... because its Service was
deleted" speaks of one of those named before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sregym.judge.mentions import Mention

_KIND = r"(?:(?:micro)?services?|deployments?|pods?|containers?|workloads?|processe?s?|backends?|clients?|apps?)"
_UNABLE = r"""(?:cannot|can't|can\s+(?:not|no\s+longer)|could\s+(?:not|no\s+longer)|couldn't
    |(?:is|are|was|were)\s+(?:not\s+able|unable)\s+to|(?:(?:is|are|was|were)\s+)?fail(?:s|ed|ing)?\s+to|does\s+not|doesn't|did\s+not|didn't|never)"""
_RELATES = r"(?:find|reach|connect|resolve|look\s*up|talk|contact|see|access|discover|dial|log\s*in|authenticate)"
_SUFFERS = re.compile(
    rf"""^[`'\s]*(?:{_KIND}\b\s*)?(?:\([^)]{{0,40}}\)\s*)?(?:(?:\w+ly|then|now|also|that|which|therefore)\s+){{0,2}}
        (?:{_UNABLE}\s+(?:even\s+|longer\s+)?{_RELATES}\b|(?:has\s+|have\s+)?(?:lost|loses|lose)\s+(?:its|the|all|their)\s+(?:connection|access|database)\b)""",
    re.IGNORECASE | re.VERBOSE,
)
_BETWEEN_LISTED = re.compile(
    r"^[\s,/&`]*(?:(?:and|or|as well as|the|services?|deployments?|pods?|config ?maps?)[\s,/&`]*)*$", re.I
)
_PRONOUN = re.compile(r"\b(?:its|it|their|they|whose|this|that|these|those)\b", re.IGNORECASE)


def suffers(text: str, mention: Mention) -> bool:
    """Whether the text says of this mention that it cannot get at something else."""
    return _SUFFERS.match(text[mention.end :]) is not None


def speaks_of_another(part: str) -> bool:
    """Whether a stretch that names nobody stands for somebody named before."""
    return _PRONOUN.search(part) is not None


def inherited(named: Sequence[frozenset[str]]) -> list[frozenset[str]]:
    """Whom each stretch is about: those it names, else those before it, else the first that are named."""
    owners: list[frozenset[str]] = []
    last = next((one for one in named if one), frozenset())
    for one in named:
        last = one or last
        owners.append(last)
    return owners


def listed_beside(text: str, one: Mention, named: Sequence[Mention], true: frozenset[str]) -> bool:
    """Whether a mention is an item of one enumeration with a true component ("geo, rate and search")."""
    items: list[list[Mention]] = []
    for m in named:
        between = text[items[-1][-1].end : m.start] if items else ""
        if items and between.strip(" `") and _BETWEEN_LISTED.match(between):
            items[-1].append(m)
        else:
            items.append([m])
    return any(one in group and any(m.name in true for m in group) for group in items)
