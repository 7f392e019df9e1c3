"""Finds out which part of a text is offered as the cause, and which as its effect.

"E because C", "C, so E", "root cause: C": connectives cut a sentence into parts and say which part explains which.
A part that nothing else explains is a *source*: what the writer holds to be the beginning of the story.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sregym.judge.text import Sentence

_LABEL = r"(?:root |underlying |real |actual |primary |true )?(?:causes?|culprit|defect|fault)"
_RIGHT_EXPLAINS = rf"""
    \bbecause(?:\s+of)?\b|\bdue\s+to\b|\bcaused\s+by\b|\b(?:as\s+a\s+)?(?:result|consequence)s?\s+of\b|\bowing\s+to\b
   |\bon\s+account\s+of\b|\bsince\b|\bstem(?:s|ming)\s+from\b|\bcom(?:es|ing)\s+from\b|\bresult(?:s|ing)\s+from\b
   |\btriggered\s+by\b|\battributable\s+to\b|\b(?:is\s+)?explained\s+by\b|\bafter\b(?!\s+\w+\s+(?:seconds?|minutes?)\b)
   |\b{_LABEL}(?:\s+(?:of|behind|for)\b[^.:]{{0,120}}?)?\s*(?::|\s(?:is|was|are|were|lies\s+(?:in|with)|sits\s+in)\b)(?:\s+that\b)?
   |\b(?:problem|issue|reason)\s+(?:is|was|lies)\b(?:\s+(?:that|with|in)\b)?|\bwhy:\s"""
_LEFT_EXPLAINS = r"""
    \bso(?:\s+that)?\b(?!\s+(?:far|many|much|called))|\btherefore\b|\bthus\b|\bhence\b|\bconsequently\b|\bas\s+a\s+result\b(?!\s+of)
   |\bas\s+a\s+consequence\b(?!\s+of)|\b(?:which|this|that|it)\s+(?:then\s+)?(?:makes|means|causes|caused|leads|breaks|broke|leaves|left|prevents|results|keeps)\b
   |\bcausing\b|\bleading\s+to\b|\bleads?\s+to\b|\bled\s+to\b|\bleaving\b|\bmaking\b|\bbreaking\b|\bresult(?:ing|s|ed)?\s+in\b
   |(?<!root\s)\bcauses\b(?!\s+(?:is|are|was|were)\b)(?!:)|\bbreaks\b|\bbroke\b|\bmakes\b|\bprevent(?:s|ing)\b|\b(?:brings|takes|knocks)\s+down\b|->|→|=>
   |\bis\s+the\s+(?:root\s+)?cause\s+of\b|\bis\s+(?:why|what)\b"""
_CONNECTIVE = re.compile(rf"(?P<left>{_LEFT_EXPLAINS})|(?P<right>{_RIGHT_EXPLAINS})", re.IGNORECASE | re.VERBOSE)
_EXPLICIT = re.compile(
    rf"\b(?:root[ -]cause|culprit|at fault|to blame|fault lies|{_LABEL}\s*(?::|\s(?:is|was|are|were)\b))", re.IGNORECASE
)
_NAMED_AS_CAUSE = re.compile(r"\b(?:is|was|are|were)\s+(?:the|a|our)\s*$", re.IGNORECASE)
"""`X is the | culprit: ...`: what stands before the label is itself the cause."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A stretch of a sentence. `source`: nothing in the text explains it. `explicit`: the writer calls it the cause."""

    sentence: int
    start: int
    end: int
    text: str
    source: bool
    explicit: bool


def parts_of(sentences: Sequence[Sentence]) -> list[Part]:
    """All parts of all sentences that have a causal structure, in order; a sentence without one gives none."""
    found: list[Part] = []
    for index, sentence in enumerate(sentences):
        explicit = _EXPLICIT.search(sentence.text) is not None
        cut = _cut(sentence.text)
        if len(cut) == 1 and not explicit:
            continue
        if cut and not cut[0].text.strip(" ,") and cut[0].explains_next and index:
            found += _whole(index - 1, sentences[index - 1], explicit)
        found += [
            Part(
                sentence=index,
                start=one.start,
                end=one.end,
                text=one.text,
                source=not one.explained,
                explicit=explicit and not one.explained,
            )
            for one in cut
            if one.text.strip(" ,.;:")
        ]
    return found


def _whole(index: int, sentence: Sentence, explicit: bool) -> list[Part]:
    """The sentence before a "Therefore ...": where it has no structure of its own, all of it is the cause."""
    if len(_cut(sentence.text)) > 1:
        return []
    return [Part(sentence=index, start=0, end=len(sentence.text), text=sentence.text, source=True, explicit=explicit)]


@dataclass(kw_only=True)
class _Stretch:
    start: int
    end: int
    text: str
    explained: bool = False
    explains_next: bool = False


def _cut(text: str) -> list[_Stretch]:
    """The stretches between connectives, each marked with whether a neighbour explains it."""
    cuts = list(_CONNECTIVE.finditer(text))
    starts = [0, *(m.end() for m in cuts)]
    ends = [*(m.start() for m in cuts), len(text)]
    stretches = [_Stretch(start=a, end=b, text=text[a:b]) for a, b in zip(starts, ends, strict=True)]
    for m, left, right in zip(cuts, stretches, stretches[1:], strict=False):
        if m.group("left"):
            right.explained, left.explains_next = True, True
        elif not _NAMED_AS_CAUSE.search(left.text):
            left.explained = True
    if len(stretches) > 1 and not stretches[0].text.strip() and cuts[0].group("right"):
        _split_leading_reason(stretches)
    return stretches


def _split_leading_reason(stretches: list[_Stretch]) -> None:
    """ "Because C, E": the comma is the connective."""
    reason = stretches[1]
    comma = reason.text.find(", ")
    if comma < 0 or _EXPLICIT.search(reason.text[:comma]):
        return
    rest = _Stretch(start=reason.start + comma + 1, end=reason.end, text=reason.text[comma + 1 :], explained=True)
    reason.end, reason.text = rest.start, reason.text[:comma]
    stretches.insert(2, rest)
