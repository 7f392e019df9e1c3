"""Reads the root cause that an agent claims, and compares it with the causes of the incident.

The form that always works is `service: mechanism`, several joined by `;`. A plain sentence is read too, when
it names one service and one mechanism for its cause. Anything that cannot be read as that is refused with an
explanation and costs a step; it never ends the episode, and whether it can be read depends on the text alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from sregym.incidentops.errors import ToolError
from sregym.incidentops.mechanisms import MECHANISMS
from sregym.incidentops.world.instance import Cause
from sregym.incidentops.world.topology import company

MAX_CLAIMS = 3
COMPONENT_ONLY = 0.4  # worth of the right component with a wrong mechanism
NOBODY = "none"
_WORD = re.compile(r"[a-z0-9]+")
_CAUSAL = re.compile(r"\b(?:caused by|due to|because of|because|owing to|root cause (?:is|was)|result of)\b")
_NEGATIONS = frozenset({"not", "no", "without", "never", "isn", "wasn"})
_LABELLED = re.compile(r"^\s*([A-Za-z]+)\s*[:=]\s*(.+)$", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """One claimed cause."""

    component: str
    mechanism: str


@cache
def _phrases() -> tuple[tuple[tuple[str, ...], str], ...]:
    """(words, mechanism), longest first, so that a longer phrase wins over one inside it."""
    found = []
    for mechanism, synonyms in MECHANISMS.items():
        for phrase in (mechanism.replace("_", " "), *synonyms):
            found.append((tuple(_WORD.findall(phrase)), mechanism))
    return tuple(sorted(found, key=lambda item: (-len(item[0]), item[0])))


def mechanisms_in(text: str) -> list[str]:
    """The mechanisms that a text names, in order, each once; negated ones do not count."""
    words = _WORD.findall(text.lower())
    taken = [False] * len(words)
    found: list[tuple[int, str]] = []
    for phrase, mechanism in _phrases():
        size = len(phrase)
        for start in range(len(words) - size + 1):
            if tuple(words[start : start + size]) != phrase or any(taken[start : start + size]):
                continue
            taken[start : start + size] = [True] * size
            if not _NEGATIONS.intersection(words[max(0, start - 3) : start]):
                found.append((start, mechanism))
    return list(dict.fromkeys(mechanism for _, mechanism in sorted(found)))


def services_in(text: str) -> list[str]:
    """The services that a text names, in order, each once."""
    names = set(company().names)
    return list(dict.fromkeys(word for word in _WORD.findall(text.lower()) if word in names))


def parse(text: str) -> list[Claim]:
    """Read the claims out of a root cause text.

    Raises:
        ToolError: it does not name one service and one mechanism per cause.
    """
    if text.lstrip().startswith(("{", "[")):
        claims = _from_json(text)
    else:
        pieces = [piece for piece in re.split(r"[;\n]", text) if piece.strip()]
        claims = [_from_piece(piece) for piece in pieces]
    if not claims:
        raise ToolError(_help("root_cause is empty"))
    if len(claims) > MAX_CLAIMS:
        raise ToolError(_help(f"root_cause names {len(claims)} causes, at most {MAX_CLAIMS} are read"))
    return list(dict.fromkeys(claims))


def _from_json(text: str) -> list[Claim]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ToolError(_help("root_cause looks like JSON but cannot be read")) from error
    items = data if isinstance(data, list) else [data]
    claims = []
    for item in items:
        if not isinstance(item, dict) or not {"component", "mechanism"} <= set(item):
            raise ToolError(_help("each cause in JSON needs `component` and `mechanism`"))
        claims.append(_claim(str(item["component"]).strip().lower(), str(item["mechanism"])))
    return claims


def _from_piece(piece: str) -> Claim:
    labelled = _LABELLED.match(piece)
    if labelled is not None and labelled.group(1).lower() in (*company().names, NOBODY):
        return _claim(labelled.group(1).lower(), labelled.group(2))
    cause = piece
    for match in _CAUSAL.finditer(piece.lower()):
        cause = piece[match.end() :]
    named = services_in(cause) or services_in(piece)
    if len(named) != 1:
        what = "no known service" if not named else f"several services ({', '.join(named)})"
        raise ToolError(_help(f"root_cause names {what}"))
    mechanisms = mechanisms_in(cause) or mechanisms_in(piece)
    return _one(named[0], mechanisms)


def _claim(component: str, mechanism_text: str) -> Claim:
    if component not in (*company().names, NOBODY):
        raise ToolError(_help(f"root_cause names the unknown service {component[:40]!r}"))
    return _one(component, mechanisms_in(mechanism_text))


def _one(component: str, mechanisms: Sequence[str]) -> Claim:
    if len(mechanisms) != 1:
        what = "no known mechanism" if not mechanisms else f"several mechanisms ({', '.join(mechanisms)})"
        raise ToolError(_help(f"root_cause names {what}"))
    return Claim(component=component, mechanism=mechanisms[0])


def _help(problem: str) -> str:
    return (
        f"{problem}. Write `service: mechanism`, several causes joined by `;`. "
        f"Services: {', '.join(company().names)}. Mechanisms: {', '.join(MECHANISMS)}."
    )


def match(claims: Sequence[Claim], causes: Sequence[Cause]) -> float:
    """How right the claims are, 0..1: the sum over causes of the best claim, over the larger count.

    A right component with a wrong mechanism is worth `COMPONENT_ONLY`; claims too many lower the result.
    """
    left = list(claims)
    total = 0.0
    for cause in sorted(causes, key=lambda c: -max((_worth(claim, c) for claim in claims), default=0.0)):
        best = max(left, key=lambda claim: _worth(claim, cause), default=None)
        if best is not None and _worth(best, cause) > 0.0:
            total += _worth(best, cause)
            left.remove(best)
    return total / max(len(causes), len(claims))


def _worth(claim: Claim, cause: Cause) -> float:
    right_component = claim.component in (cause.component, *cause.also_components)
    if claim.component == NOBODY and cause.when is None:
        right_component = True
    if not right_component:
        return 0.0
    return 1.0 if claim.mechanism in (cause.mechanism, *cause.accepted) else COMPONENT_ONLY
