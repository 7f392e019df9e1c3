"""The ground truth of a diagnosis, in a form that both judges can use.

`mechanism` and `effect` are sentences with live values for the LLM judge and for people. `concepts` say the same to
the deterministic offline judge: what a right diagnosis must mention, each with the words that count as mentioning it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from sregym.cluster.objects import Ref
from sregym.errors import DefinitionError


class Role(StrEnum):
    """CAUSE: the defect. CONSTRAINT: what makes a trigger fatal. TRIGGER: the transient event that tipped it over."""

    CAUSE = "cause"
    CONSTRAINT = "constraint"
    TRIGGER = "trigger"


@dataclass(frozen=True)
class Concept:
    """One thing that a right diagnosis mentions, and the phrases (regular expressions, any case) that mention it."""

    name: str
    any_of: tuple[str, ...]

    def __init__(self, name: str, *any_of: str) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "any_of", any_of)
        if not any_of:
            raise DefinitionError(f"concept {name!r} has no phrases")
        for phrase in any_of:
            try:
                re.compile(phrase)
            except re.error as error:
                raise DefinitionError(f"concept {name!r}: {phrase!r} is not a regular expression: {error}") from error


@dataclass(frozen=True, kw_only=True)
class RootCause:
    """One root cause. Several in one problem are ranked by user impact (1 = worst)."""

    components: tuple[Ref, ...]
    """The objects that are wrong: where the repair goes, not where the pain is."""
    mechanism: str
    """What is wrong with them, with live values: one or two sentences."""
    effect: str
    """How that leads to what users see."""
    mechanism_concepts: tuple[Concept, ...]
    """What is wrong: all of them are needed for the question about the mechanism."""
    value_concepts: tuple[Concept, ...]
    """The concrete setting, value, key or name that is wrong or missing."""
    effect_concepts: tuple[Concept, ...]
    """The consequence: how it fails, and who notices."""
    victims: tuple[str, ...] = ()
    """Components that suffer without being at fault; blaming them alone is wrong."""
    role: Role = Role.CAUSE
    rank: int = 1

    def __post_init__(self) -> None:
        if not self.components or not (self.mechanism_concepts and self.value_concepts and self.effect_concepts):
            raise DefinitionError("a root cause names components, and concepts for mechanism, value and effect")
