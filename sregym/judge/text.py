"""Cuts a diagnosis into sentences and clauses, and takes out what it denies.

The offline judge reads with this. It knows English function words, no application and no problem. Everything is
bounded, since the text comes from an agent and may be anything.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

READ_LIMIT = 20_000
"""Characters of a submission that are read; nobody's diagnosis is longer."""
SENTENCE_LIMIT = 600
"""Longer runs without a full stop are cut: bounds the time of every regular expression."""

_INVISIBLE = re.compile(r"[\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\x00-\x08\x0b-\x1f]")
_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": " ", "”": " ", '"': " ", "*": " ", "#": " ", "|": ";", "•": "\n"})
_WRAPPED_LINE = re.compile(
    r"""(?<=:)[ \t]*\n\s*(?:[-+\d.)]+\ )?                         # a label and what it introduces
       |(?<![.!?;:\n])[ \t]*\n(?=[a-z(])                          # goes on in lower case
       |(?<=[^\n]{60})(?<![.!?;:\n])[ \t]*\n(?=[^\s\-+>\d])       # a full line without a stop
    """,
    re.VERBOSE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+(?=\S)|\n+")
_BULLET = re.compile(r"^\s*(?:[-+>]|\d+[.)])\s+")
_CLAUSE_END = re.compile(
    r",(?!\d)|;|\s[-–—]{1,2}\s|\bbut\b|\bwhile\b|\bwhereas\b|\balthough\b|\bhowever\b", re.IGNORECASE
)

_BLAME = r"(?:root |real |actual |underlying )?(?:cause|culprit|problem|issue|fault|reason|defect)"
_BE = r"(?:is|are|was|were|be|been|being)"
_DENIED_AHEAD = re.compile(
    rf"""\b(?:not|isn't|aren't|wasn't|weren't|neither|nor)\s+
            (?:the\b|because\b|due\s+to\b|caused\s+by\b|related\s+to\b|an?\s+{_BLAME}\s+(?:with|of|in)\b)
       |(?<!be )(?<!is )(?<!are )(?<!was )(?<!were )(?<!been )\b(?:ruled\s+out|ruling\s+out|excluded|excluding)\b
       |\b(?:no|without(?:\s+any)?)\s+(?:evidence|signs?|indication|trace|hint)\s+(?:of|for|that)\b
       |\b(?:nothing\s+(?:is\s+)?wrong|no\s+{_BLAME}s?)\s+(?:with|in|on|of)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_DENIED_BEHIND = re.compile(
    rf"""\b(?:{_BE}|isn't|aren't|wasn't|weren't)\s+(?:\w+\s+)?
            (?:ruled\s+out|excluded|exonerated|innocent|unrelated|irrelevant|an?\s+red\s+herring)\b
       |\b(?:{_BE}\s+not|isn't|aren't|wasn't|weren't|cannot\s+be|can't\s+be)\s+
            (?:(?:the|a|an|our)\s+{_BLAME}\b|to\s+blame\b|at\s+fault\b|responsible\b|involved\b|related\b|relevant\b)""",
    re.IGNORECASE | re.VERBOSE,
)
_NEGATED = re.compile(
    r"""(?:\b(?:is|are|was|were|has|have|had)(?:\s+not|n't)|\bnever)
        (?:\s+(?:actually|really|yet))?(?:\s+(?:been|being))?(?:\s+\w+(?:ed|en|wn|ut|et))?(?:\s+(?:to|from|at|by))?\s*$""",
    re.IGNORECASE | re.VERBOSE,
)
_NEGATION_REACH = 80
_AHEAD_ENDS = re.compile(
    r";|:\s|\s[-–—]{1,2}\s|\bbut\b|\bhowever\b|\binstead\b|\bso\b|\b(?:root|real|actual) cause\b", re.I
)
_LIST_ITEM_WORDS = 4


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """One sentence with what it denies blanked out. `raw` keeps the denied text, for counting what was considered."""

    text: str
    raw: str


def normalise(submission: str) -> str:
    """The submission's first READ_LIMIT characters with one form of quotes and nothing invisible."""
    text = unicodedata.normalize("NFKC", submission[:READ_LIMIT])
    return _WRAPPED_LINE.sub(" ", _INVISIBLE.sub("", text.replace("\r", "\n")).translate(_QUOTES))


def sentences(normalised: str) -> tuple[Sentence, ...]:
    """The sentences of a normalised text, in order."""
    found = []
    for piece in _SENTENCE_END.split(normalised):
        for raw in _bounded(" ".join(_BULLET.sub("", piece).split())):
            if any(c.isalnum() for c in raw):
                found.append(Sentence(text=without_denied(raw), raw=raw))
    return tuple(found)


def _bounded(sentence: str) -> Iterator[str]:
    while len(sentence) > SENTENCE_LIMIT:
        cut = sentence.rfind(" ", 1, SENTENCE_LIMIT)
        cut = cut if cut > 0 else SENTENCE_LIMIT
        yield sentence[:cut]
        sentence = sentence[cut:].strip()
    yield sentence


def clause_spans(sentence: str) -> list[tuple[int, int]]:
    """Where the clauses of a sentence begin and end."""
    edges = [0, *(m.end() for m in _CLAUSE_END.finditer(sentence)), len(sentence)]
    return [(a, b) for a, b in pairwise(edges) if b > a]


def negated_before(text: str, position: int) -> bool:
    """Whether the words right before a position say that what follows is not so ("has not been scaled to ...")."""
    return _NEGATED.search(text[max(0, position - _NEGATION_REACH) : position]) is not None


def without_denied(sentence: str) -> str:
    """The sentence with every stretch blanked that it says not to be the cause; positions stay as they are.

    Only denials of blame count ("not the Service", "was ruled out"): a plain negative ("no container listens") is
    what many defects consist of.
    """
    spans = [(m.start(), _end_of_denial(sentence, m)) for m in _DENIED_AHEAD.finditer(sentence)]
    spans += [(_start_of_denial(sentence, m.start()), m.end()) for m in _DENIED_BEHIND.finditer(sentence)]
    for start, end in spans:
        sentence = sentence[:start] + " " * (end - start) + sentence[end:]
    return sentence


def _end_of_denial(sentence: str, cue: re.Match[str]) -> int:
    """`ruled out A, B and C` reaches over commas; `not the A, ...` ends at the first."""
    ends = _AHEAD_ENDS.search(sentence, cue.end())
    end = ends.start() if ends else len(sentence)
    if cue.group().lower().startswith(("ruled", "ruling", "excluded", "excluding")):
        return end
    comma = sentence.find(",", cue.end(), end)
    return comma if comma >= 0 else end


def _start_of_denial(sentence: str, cue: int) -> int:
    """Back to the clause's start, and over the short items of a list before it (`A, B and C were ruled out`)."""
    starts = [a for a, _ in clause_spans(sentence) if a <= cue]
    start = starts.pop()
    while starts and len(sentence[starts[-1] : start].split()) <= _LIST_ITEM_WORDS:
        start = starts.pop()
    return start
