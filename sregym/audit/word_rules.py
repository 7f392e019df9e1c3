"""Rules about words: our names, names of problems, and the language of faults, wherever an agent can read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from sregym.audit.evidence import Evidence, Finding, Kind
from sregym.audit.vocabulary import Vocabulary, begins, is_natural, normal

INTERFACE = ("SREGYM_ARTIFACT_ID",)
"""Names that agents of this field are written for; they say which benchmark runs, not what is broken."""
LONGEST_SHOWN = 160


@dataclass(frozen=True)
class OwnNames:
    """Our name, our packages' names, or this machine's folders, user and host."""

    name: ClassVar[str] = "own-names"

    def find(self, evidence: Evidence, words: Vocabulary) -> Iterator[Finding]:
        nodes = {normal(one) for one in evidence.nodes()}
        people = tuple(f"_{one}_" for one in words.people if one not in nodes)

        def bad(word: str) -> str | None:
            low, padded = word.lower(), f"_{normal(word)}_"
            own = next((one for one in words.own if one in low), None)
            folder = next((one for one in words.folders if f"/{one}/" in f"/{low}/"), None)
            return own or folder or next((one for one in people if one in padded), None)

        for where, word, line, _ in _hits(evidence, bad):
            if word not in INTERFACE and word not in evidence.allowed:
                yield Finding(self.name, where, _shown(word, line))


@dataclass(frozen=True)
class ProblemNames:
    """A problem's id, or the name of its class, in any style."""

    name: ClassVar[str] = "problem-names"

    def find(self, evidence: Evidence, words: Vocabulary) -> Iterator[Finding]:
        joined = tuple(f"_{one}_" for one in words.problems)

        def bad(word: str) -> str | None:
            padded = f"_{normal(word)}_"
            return next((one for one in joined if one in padded), None)

        for where, word, line, _ in _hits(evidence, bad):
            yield Finding(self.name, where, _shown(word, line))


@dataclass(frozen=True)
class FaultWords:
    """A word that nobody would use about a system that broke by itself."""

    name: ClassVar[str] = "fault-words"

    def find(self, evidence: Evidence, words: Vocabulary) -> Iterator[Finding]:
        def bad(word: str) -> str | None:
            return begins(normal(word), words.stems)

        for where, word, line, stem in _hits(evidence, bad, platform=False):
            if word not in evidence.allowed and not is_natural(line, stem):
                yield Finding(self.name, where, _shown(word, line))


def _hits(
    evidence: Evidence, bad: Callable[[str], str | None], *, platform: bool = True
) -> Iterator[tuple[str, str, str, str]]:
    """(where, word, its line, what is bad about it). Every different word is judged once, whatever holds it."""
    for word, texts in evidence.words.items():
        if (why := bad(word)) is None:
            continue
        for text in texts:
            if platform or text.kind is not Kind.PLATFORM:
                for line in _lines_with(text.text, word):
                    yield text.where, word, line, why


def _lines_with(text: str, word: str) -> Iterator[str]:
    """Lines that hold the word, the first few."""
    start, count = text.find(word), 0
    while start >= 0 and count < 3:
        begin = text.rfind("\n", 0, start) + 1
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[max(begin, start - 200) : min(end, start + 200)]
        start, count = text.find(word, end), count + 1


def _shown(word: str, line: str) -> str:
    short = " ".join(line.split())
    if len(short) > LONGEST_SHOWN:
        at = max(0, short.find(word) - LONGEST_SHOWN // 3)
        short = short[at : at + LONGEST_SHOWN]
    return f"{word}: {short}" if word != short else word
