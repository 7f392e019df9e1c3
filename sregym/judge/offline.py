"""The judge that needs no model: deterministic, from the structured root causes.

It is the default where no judge model is configured, and what tests and `verify` use. It reads English with rules
(text, mentions, causes, families), so it is stricter than a reader: scores of it are labelled and never stand on a
leaderboard. Nothing that a submission says can change the rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from sregym.api.root_cause import Concept, Role, RootCause
from sregym.judge.checklist import CHECKLIST, DEFAULT_TAU
from sregym.judge.contract import Answer, Fingerprint, JudgeInput, Judgement, judged
from sregym.judge.reading import LONGEST_DIAGNOSIS, Reading

RULES_VERSION = "3"
"""Bump when the rules of reading change: scores before and after are not comparable."""

_EMPTY_HANDED = re.compile(
    r"\W*(?:unknown|n/?a|none|nothing|null|todo|tbd|no idea|not sure|unsure|i (?:do not|don'?t) know|undetermined)?\W*",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class OfflineJudge:
    """Satisfies `Judge`. `grade` never fails and takes milliseconds."""

    tau: Fraction = DEFAULT_TAU
    name: str = "offline"

    def fingerprint(self) -> Fingerprint:
        return Fingerprint(
            judge="offline", model="", checklist=CHECKLIST.digest(), prompt="", rules=RULES_VERSION, tau=str(self.tau)
        )

    async def grade(self, question: JudgeInput) -> Judgement:
        return judged(answer_all(question), fingerprint=self.fingerprint(), tau=self.tau)


def answer_all(question: JudgeInput) -> list[Answer]:
    """The nine answers, each with its reason."""
    if _EMPTY_HANDED.fullmatch(question.submission[:LONGEST_DIAGNOSIS]):
        return [Answer(question=q.id, yes=False, reason="nothing is said") for q in CHECKLIST.questions]
    reader = _Answers(Reading(question))
    return [
        Answer(question=q.id, yes=not (missed := _QUESTIONS[q.id](reader)).no, reason=missed.reason)
        for q in CHECKLIST.questions
    ]


@dataclass(frozen=True, kw_only=True)
class _Said:
    no: bool
    reason: str


def _yes(reason: str) -> _Said:
    return _Said(no=False, reason=reason)


def _no(reason: str) -> _Said:
    return _Said(no=True, reason=reason)


@dataclass(frozen=True)
class _Answers:
    """One method a question; each is asked of the whole set of root causes."""

    read: Reading

    def object(self) -> _Said:
        if missing := [name for cause in self.read.causes for name in self.read.names_all(cause)]:
            return _no(f"does not name {', '.join(missing)}")
        return _yes(f"names {', '.join(str(ref) for cause in self.read.causes for ref in cause.components)}")

    def place(self) -> _Said:
        said = []
        for cause in self.read.causes:
            word = self.read.kind_said(cause) or ("the defect itself" if self._explains(cause) else "")
            if not word:
                return _no(f"does not say what {cause.components[0].name} is, nor what of it is wrong")
            said.append(word)
        missing = self.object()
        return _no(missing.reason) if missing.no else _yes(f"says where: {', '.join(said)}")

    def blame(self) -> _Said:
        if self.read.list_of:
            return _no(self.read.list_of)
        if self.read.innocents:
            return _no(f"blames {', '.join(self.read.innocents)}")
        if free := [c for c in self.read.causes if not self._blames(c)]:
            return _no(f"does not say that {free[0].components[0].name} is the cause")
        return _yes(f"blames {', '.join(sorted(self.read.blamed & self.read.true_names))}")

    def mechanism(self) -> _Said:
        return self._mechanism_of(self.read.question.root_causes)

    def _mechanism_of(self, causes: Iterable[RootCause]) -> _Said:
        if self.read.list_of:
            return _no(self.read.list_of)
        if self.read.hedged:
            return _no(f"only one of several guesses, beside {', '.join(self.read.rivals)}")
        if self.read.instead:
            return _no(f"calls something else the cause: {', '.join(self.read.instead)}")
        words: list[str] = []
        for cause in causes:
            if lacking := self._lacks(cause, cause.mechanism_concepts):
                return _no(lacking)
            if cause.role is not Role.TRIGGER and not self._blames(cause):
                return _no(f"says it, but does not blame {cause.components[0].name}")
            words += self._words(cause, cause.mechanism_concepts)
        return _yes(f"says {_quoted(words)}")

    def detail(self) -> _Said:
        words: list[str] = []
        for cause in self.read.causes:
            if lacking := self._lacks(cause, cause.value_concepts):
                return _no(lacking)
            words += self._words(cause, cause.value_concepts)
        return _yes(f"says {_quoted(words)}")

    def commitment(self) -> _Said:
        if (mechanism := self._mechanism_of(self.read.causes)).no:
            return _no(f"no true explanation to commit to ({mechanism.reason})")
        if self.read.rivals:
            return _no(f"also offers {', '.join(self.read.rivals)} as the cause")
        return _yes("offers no other explanation")

    def effect(self) -> _Said:
        words: list[str] = []
        for cause in self.read.causes:
            for concept in cause.effect_concepts:
                if (found := self.read.find(concept, frozenset())) is None:
                    return _no(f"does not say {concept.name!r}")
                words.append(found.words)
        return _yes(f"says {_quoted(words)}")

    def complete(self) -> _Said:
        if self.read.list_of:
            return _no(self.read.list_of)
        for cause in self.read.question.root_causes:
            if not self._explains(cause):
                return _no(f"leaves out the {cause.role} in {cause.components[0].name}")
        missing = self.object()
        return _no(missing.reason) if missing.no else _yes(f"covers all {len(self.read.question.root_causes)}")

    def precise(self) -> _Said:
        if self.read.length > LONGEST_DIAGNOSIS:
            return _no(f"{self.read.length} characters: a pile of observations, not a diagnosis")
        if self.read.list_of:
            return _no(self.read.list_of)
        if self.read.innocents or self.read.rivals:
            return _no(f"also holds {', '.join((*self.read.innocents, *self.read.rivals))} to be a cause")
        if self.object().no and self.mechanism().no:
            return _no("says nothing of the objects at fault")
        return _yes("names no cause that does not exist")

    def _names_of(self, cause: RootCause) -> frozenset[str]:
        return frozenset(ref.name for ref in cause.components)

    def _blames(self, cause: RootCause) -> bool:
        return bool(self.read.blamed & self._names_of(cause))

    def _explains(self, cause: RootCause) -> bool:
        blamed = cause.role is Role.TRIGGER or self._blames(cause)
        return blamed and not self.read.instead and not self._lacks(cause, cause.mechanism_concepts)

    def _lacks(self, cause: RootCause, concepts: Iterable[Concept]) -> str:
        """What of the concepts is not said of the cause's components; empty where all are."""
        for concept in concepts:
            found = self.read.find(concept, self._names_of(cause), asserted=True)
            if found is None:
                return f"does not say {concept.name!r}"
            if not found.owned and cause.role is not Role.TRIGGER:
                return f"says {found.words!r}, but not of {cause.components[0].name}"
        return ""

    def _words(self, cause: RootCause, concepts: Iterable[Concept]) -> list[str]:
        found = (self.read.find(concept, self._names_of(cause)) for concept in concepts)
        return [one.words for one in found if one]


def _quoted(words: Iterable[str]) -> str:
    return ", ".join(f'"{one}"' for one in dict.fromkeys(words))


_QUESTIONS: dict[str, Callable[[_Answers], _Said]] = {
    name: getattr(_Answers, name) for name in (one.id for one in CHECKLIST.questions)
}
