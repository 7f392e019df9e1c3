"""One reading of a diagnosis: what it names, what it blames, which explanations it offers.

Made once per submission; the offline judge's answers are looked up in it. Knows the truth only to tell the true
components and explanations from others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sregym.api.root_cause import Concept, Role, RootCause
from sregym.judge.causes import Part, parts_of
from sregym.judge.contract import JudgeInput
from sregym.judge.families import asserted_in, families_in
from sregym.judge.mentions import Mention, Names, kind_words, only_as_another_kind
from sregym.judge.roles import inherited, listed_beside, speaks_of_another, suffers
from sregym.judge.text import Sentence, clause_spans, negated_before, normalise, sentences

LONGEST_DIAGNOSIS = 6_000
"""Characters; what is longer is no statement of a cause but everything that was seen."""
INNOCENTS_OF_A_LIST = 3
"""Blaming so many innocent components makes a text a list."""
SUSPECTS_OF_A_LIST = 6
"""Naming more than so many, and more than half of the application, without calling them healthy does so too."""
RIVALS_IN_BLAME = 2
RIVALS_IN_SENTENCE = 3
RIVALS_IN_TEXT = 6
"""So many untrue explanations offered as the cause, in one sentence, or in all, make a text a list."""

_HEDGE = re.compile(
    r"\b(?:either|possibly|perhaps|maybe|might|could be|could also|may be|one of|or|likely candidates?|and/or)\b",
    re.IGNORECASE,
)
_WELL = re.compile(r"\b(?:healthy|fine|normal\w*|running|ready|unaffected|ok|no \w+|not|without)\b", re.IGNORECASE)
_COLLECTIVE = r"\b(?:all|every|each|both|\d+|two|three|four|five|six|seven|eight|nine|ten)\b[^.;]{0,40}?"


@dataclass(frozen=True, kw_only=True)
class Found:
    """Where a concept was found: the words, and whether the sentence is about the wanted component."""

    words: str
    owned: bool


@dataclass(frozen=True)
class Reading:
    """See the module. All lookups are cheap and deterministic."""

    question: JudgeInput

    @cached_property
    def length(self) -> int:
        return len(self.question.submission.strip())

    @cached_property
    def sentences(self) -> tuple[Sentence, ...]:
        return sentences(normalise(self.question.submission))

    @cached_property
    def causes(self) -> tuple[RootCause, ...]:
        """The root causes that localization asks for: all but triggers, which have no place to repair."""
        asked = tuple(one for one in self.question.root_causes if one.role is not Role.TRIGGER)
        return asked or self.question.root_causes

    @cached_property
    def true_names(self) -> frozenset[str]:
        return frozenset(ref.name for one in self.question.root_causes for ref in one.components)

    @cached_property
    def victims(self) -> frozenset[str]:
        return frozenset(name for one in self.question.root_causes for name in one.victims)

    @cached_property
    def mentions(self) -> tuple[tuple[Mention, ...], ...]:
        """Mentions by sentence; a true name that stands for an object of another kind is renamed."""
        names = Names([*self.question.components, *self.true_names, *self.victims])
        return tuple(tuple(self._meant(s.text, names.find(s.text))) for s in self.sentences)

    def _meant(self, text: str, found: Sequence[Mention]) -> Iterator[Mention]:
        kinds: dict[str, set[str]] = {}
        for ref in (ref for one in self.question.root_causes for ref in one.components):
            kinds.setdefault(ref.name, set()).add(ref.kind.name)
        says_service = kind_words("Service").search(blanked(text, found))
        for one in found:
            only_service = kinds.get(one.name) == {"Service"} and not says_service
            other = only_service and only_as_another_kind("Service", text, one)
            yield replace(one, name=f"the workload {one.name}") if other else one

    @cached_property
    def about(self) -> tuple[frozenset[str], ...]:
        """What each sentence is about: whom it names, else whom the one before it was about, else the next one's."""
        named = [frozenset(m.name for m in found) for found in self.mentions]
        return tuple(inherited(named))

    @cached_property
    def _clauses(self) -> tuple[tuple[tuple[int, int, frozenset[str]], ...], ...]:
        """Clauses by sentence: start, end, and whom they are about."""
        flat: list[tuple[int, int, int]] = []
        for index, sentence in enumerate(self.sentences):
            flat += [(index, a, b) for a, b in clause_spans(sentence.text)]
        named = [frozenset(m.name for m in self.mentions[i] if a <= m.start < b) for i, a, b in flat]
        owners = inherited(named)
        return tuple(
            tuple((a, b, who) for (i, a, b), who in zip(flat, owners, strict=True) if i == index)
            for index in range(len(self.sentences))
        )

    def find(self, concept: Concept, wanted: frozenset[str], *, asserted: bool = False) -> Found | None:
        """The first place where a concept is said of one of the wanted components; else the first place at all.

        Where it must be `asserted`, "has not been scaled to 0" does not say "scaled to 0".
        """
        first: Found | None = None
        for index in range(len(self.sentences)):
            for size in (1, 2):
                window = range(index, min(index + size, len(self.sentences)))
                text = " ".join(plain(self.sentences[i].text) for i in window)
                if match := _search(concept, text, asserted=asserted):
                    owned = any(self.about[i] & wanted for i in window)
                    found = Found(words=" ".join(match.group().split())[:80], owned=owned)
                    if owned:
                        return found
                    first = first or found
        return first

    @cached_property
    def _parts(self) -> list[Part]:
        return parts_of(self.sentences)

    @cached_property
    def blaming(self) -> list[Part]:
        """The parts that count as blame: what the writer calls the cause, else whatever nothing else explains."""
        sources = [one for one in self._parts if one.source]
        explicit = [one for one in sources if one.explicit]
        return explicit if any(self._named_in(one) for one in explicit) else sources

    def _named_in(self, part: Part) -> list[Mention]:
        """Whom a part speaks of, without those that only suffer. One that names nobody speaks of those before it."""
        text, found = self.sentences[part.sentence].text, self.mentions[part.sentence]
        named = [m for m in found if part.start <= m.start < part.end]
        if not named and part.source and speaks_of_another(part.text):
            before = [m for m in found if m.start < part.start]
            named = [m for m in before if m.name in self.true_names] or before[:1]
        return [m for m in named if m.name in self.true_names or not suffers(text, m)]

    @cached_property
    def blamed(self) -> frozenset[str]:
        """The components that the text holds to be the cause."""
        named = frozenset(m.name for part in self.blaming for m in self._named_in(part))
        if any(part.explicit for part in self.blaming) and named:
            return named
        named |= self._owners_of_mechanism
        if not named:
            first = next((m.name for found in self.mentions for m in found), None)
            named = frozenset({first} if first else ())
        return named

    @cached_property
    def _owners_of_mechanism(self) -> frozenset[str]:
        """Whom the plain statements of the true mechanism are about, in sentences with no causal structure.

        Sentences that say all of it count before those that say some of it.
        """
        structured = {part.sentence for part in self._parts}
        plainly = [i for i in range(len(self.sentences)) if i not in structured]
        some: set[str] = set()
        every: set[str] = set()
        for cause in self.question.root_causes:
            for index in plainly:
                owners = [self._owners_in(index, concept) for concept in cause.mechanism_concepts]
                some |= frozenset().union(*owners)
                every |= frozenset().union(*owners) if all(owners) else frozenset()
        return frozenset(every or some)

    def _owners_in(self, index: int, concept: Concept) -> frozenset[str]:
        """Whom a sentence says a concept of: the true components among them, where there are any."""
        match = _search(concept, plain(self.sentences[index].text))
        if match is None:
            return frozenset()
        here = [who for a, b, who in self._clauses[index] if a < match.end() and match.start() < b]
        true = [who & self.true_names for who in here if who & self.true_names]
        return frozenset().union(*(true or here))

    @cached_property
    def innocents(self) -> tuple[str, ...]:
        """Components that are blamed although they are not at fault.

        In a part that blames a true component the others are its surroundings, unless they are listed beside it.
        Victims named in a chain of reasons are steps of it, unless the writer calls them the cause outright.
        """
        found: dict[str, None] = {}
        right = bool(self.blamed & self.true_names)
        for part in self.blaming:
            named = self._named_in(part)
            text = self.sentences[part.sentence].text
            alone = not any(m.name in self.true_names for m in named)
            for m in named:
                excused = m.name in self.victims and right and not part.explicit
                beside = alone or listed_beside(text, m, named, self.true_names)
                if m.name not in self.true_names and beside and not excused:
                    found[m.name] = None
        if not right:
            found |= dict.fromkeys(sorted(self.blamed))
        return tuple(found)

    @cached_property
    def _true_families(self) -> frozenset[str]:
        texts = [t for one in self.question.root_causes for t in (one.mechanism, one.effect)]
        texts += [p for one in self.question.root_causes for c in one.effect_concepts for p in c.any_of]
        texts += [ref.kind.name for one in self.question.root_causes for ref in one.components]
        return families_in(texts)

    @cached_property
    def _true_words(self) -> tuple[re.Pattern[str], ...]:
        concepts = (c for o in self.question.root_causes for c in (*o.mechanism_concepts, *o.value_concepts))
        return tuple(re.compile(phrase, re.IGNORECASE) for c in concepts for phrase in c.any_of)

    def _rivals_in(self, text: str) -> frozenset[str]:
        return asserted_in(_clauses_of(plain(text)), unless=self._true_words) - self._true_families

    @cached_property
    def rivals(self) -> tuple[str, ...]:
        """Untrue explanations that are offered as the cause."""
        return tuple(sorted(frozenset().union(*(self._rivals_in(text) for text in self._blaming_texts))))

    @cached_property
    def _blaming_texts(self) -> list[str]:
        """The parts that blame; where there is no causal structure at all, the sentences that state the mechanism."""
        concepts = [c for one in self.question.root_causes for c in one.mechanism_concepts]
        stating = (s.text for s in self.sentences if any(_search(c, plain(s.text)) for c in concepts))
        return [part.text for part in self.blaming] or list(stating)

    @cached_property
    def instead(self) -> tuple[str, ...]:
        """Untrue explanations that the writer offers as the cause, where no part that does so says what is true."""
        concepts = [c for one in self.question.root_causes for c in one.mechanism_concepts]
        said = any(_search(c, plain(part.text), asserted=True) for c in concepts for part in self.blaming)
        return () if said else self.rivals

    @cached_property
    def hedged(self) -> bool:
        """Whether the true explanation is only one of several alternatives."""
        return bool(self.rivals) and any(_HEDGE.search(text) for text in self._blaming_texts)

    @cached_property
    def list_of(self) -> str:
        """What makes the text a list that would fit any incident; empty where it is none."""
        if len(others := self._owners_of_mechanism - self.true_names) >= INNOCENTS_OF_A_LIST:
            return f"it says the same of {', '.join(sorted(others)[:4])}"
        if len(self._suspects) > max(SUSPECTS_OF_A_LIST, len(self.question.components) // 2):
            return f"it names {len(self._suspects)} components that are not at fault"
        if len(self.innocents) >= INNOCENTS_OF_A_LIST:
            return f"it blames {len(self.innocents)} components that are not at fault"
        if len(self.rivals) >= RIVALS_IN_BLAME:
            return f"it offers {len(self.rivals)} untrue explanations: {', '.join(self.rivals)}"
        by_sentence = [self._rivals_in(s.text) for s in self.sentences]
        if any(len(one) >= RIVALS_IN_SENTENCE for one in by_sentence):
            return "it lists kinds of defects"
        if len(frozenset().union(*by_sentence)) >= RIVALS_IN_TEXT:
            return "it speaks of most kinds of defects"
        return ""

    @cached_property
    def _suspects(self) -> frozenset[str]:
        """Components that are named and neither at fault, nor victims, nor said to be well."""
        named = (
            m.name
            for sentence, found in zip(self.sentences, self.mentions, strict=True)
            if not _WELL.search(sentence.text)
            for m in found
        )
        return frozenset(named) - self.true_names - self.victims

    def names_all(self, cause: RootCause) -> list[str]:
        """The components of a cause that are not named; a collective ("all eight deployments") names three or more."""
        said = {m.name for found in self.mentions for m in found}
        missing = [str(ref) for ref in cause.components if ref.name not in said]
        kinds = {ref.kind.name for ref in cause.components}
        if missing and len(cause.components) > 2 and len(missing) < len(cause.components):
            words = "|".join(kind_words(kind).pattern for kind in sorted(kinds))
            if any(re.search(_COLLECTIVE + rf"(?:{words})", s.text, re.IGNORECASE) for s in self.sentences):
                return []
        return missing

    def kind_said(self, cause: RootCause) -> str:
        """The word for the kind of one of the cause's components, said beside its name; empty where it is not."""
        names = frozenset(ref.name for ref in cause.components)
        for sentence, found in zip(self.sentences, self.mentions, strict=True):
            if any(m.name in names for m in found):
                around = blanked(sentence.text, found)
                for kind in sorted({ref.kind.name for ref in cause.components}):
                    if match := kind_words(kind).search(around):
                        return match.group()
        return ""


def plain(text: str) -> str:
    """A sentence as concepts see it: no backticks, single blanks; single quotes only inside words."""
    return " ".join(re.sub(r"`|(?<!\w)'|'(?!\w)", " ", text).split())


def blanked(text: str, mentions: Iterable[Mention]) -> str:
    """The text without the names, so that a name such as `user-service` does not say its own kind."""
    for one in mentions:
        text = text[: one.start] + " " * (one.end - one.start) + text[one.end :]
    return text


def _search(concept: Concept, text: str, *, asserted: bool = False) -> re.Match[str] | None:
    said = (m for phrase in concept.any_of for m in re.finditer(phrase, text, re.IGNORECASE))
    return next((m for m in said if not (asserted and negated_before(text, m.start()))), None)


def _clauses_of(text: str) -> list[str]:
    return [text[a:b] for a, b in clause_spans(text)]
