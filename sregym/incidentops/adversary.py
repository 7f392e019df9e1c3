"""Looks for policies that score without diagnosis: fixed sequences of calls that ignore what the tools answer.

A sequence may read (to be no blind action and to pass time), change, and close with a guessed root cause; it never uses
an answer, only the incident's id. Its worth is the mean score over the same tasks as everybody's. Three searches:
every sequence of at most two calls before the close, a beam search over longer ones, and random sequences.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sregym.incidentops import rootcause
from sregym.incidentops.episode import Episode
from sregym.incidentops.mechanisms import MECHANISMS
from sregym.incidentops.scenarios import build, catalogue
from sregym.incidentops.world.instance import LEVELS, Call, Instance
from sregym.incidentops.world.topology import company


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A sequence, the root cause it claims, and its mean score."""

    calls: tuple[Call, ...]
    claim: str
    mean: float
    episodes: int

    def text(self) -> str:
        """For a report."""
        steps = [f"{call.tool}({', '.join(str(value) for value in call.arguments.values())})" for call in self.calls]
        return f"{self.mean:.3f} {' '.join(steps)} -> {self.claim}"


def tasks(seeds: Sequence[int]) -> list[Instance]:
    """Every scenario and level with these seeds."""
    return [build(scenario, level, seed) for scenario in catalogue().ids for level in LEVELS for seed in seeds]


def claims() -> list[str]:
    """Every single root cause."""
    return [f"{name}: {mechanism}" for name in company().names for mechanism in MECHANISMS]


def alphabet() -> list[Call]:
    """Calls that need no answer: every reading, restarts, roll-backs, and every setting put to its healthy value."""
    calls = [Call(tool="get_alerts")]
    for name, service in company().services.items():
        for tool in ("run_healthcheck", "restart_service", "rollback_deploy"):
            calls.append(Call(tool=tool, arguments={"service": name}))
        for setting in service.config:
            arguments = {"service": name, "key": setting.key, "value": setting.value}
            calls.append(Call(tool="patch_config", arguments=arguments))
    return calls


class Arena:
    """The tasks with their history played once, and the claim that is best when nothing is known.

    The root cause enters the score as a term of its own, so the best claim is the same after every sequence.
    """

    def __init__(self, instances: Sequence[Instance]) -> None:
        self.instances = list(instances)
        self._worlds = [Episode(instance).world for instance in self.instances]
        parsed = {text: rootcause.parse(text) for text in claims()}
        right = {text: [rootcause.match(claim, i.causes) for i in self.instances] for text, claim in parsed.items()}
        self.claim = max(right, key=lambda text: math.fsum(right[text]))
        self._right = right[self.claim]

    def score(self, number: int, calls: Sequence[Call]) -> float:
        """The score of one task after a sequence and the claim."""
        instance = self.instances[number]
        episode = Episode(instance, world=self._worlds[number].fork())
        for call in calls:
            if not episode.done:
                episode.step(call.tool, call.arguments)
        if episode.score is not None:  # out of steps
            return episode.score.score
        return episode.graded_now(self._right[number]).score

    def worth(self, calls: Sequence[Call], *, only: Sequence[int] | None = None) -> Found:
        """The mean score of a sequence over all tasks, or over some."""
        numbers = range(len(self.instances)) if only is None else only
        total = math.fsum(self.score(number, calls) for number in numbers)
        return Found(calls=tuple(calls), claim=self.claim, mean=total / len(numbers), episodes=len(numbers))


def exhaustive(arena: Arena, *, length: int = 2, letters: Sequence[Call] | None = None) -> Iterator[Found]:
    """Every sequence of at most `length` calls before the close (length 0 closes at once)."""
    letters = alphabet() if letters is None else letters
    layer: list[tuple[Call, ...]] = [()]
    yield arena.worth(())
    for _ in range(length):
        layer = [(*calls, call) for calls in layer for call in letters]
        for calls in layer:
            yield arena.worth(calls)


def beam(arena: Arena, *, width: int, length: int) -> Iterator[Found]:
    """Beam search: the best of each length are extended by every call; yields the best of every length."""
    front: list[Found] = [arena.worth(())]
    letters = alphabet()
    for _ in range(length):
        found = [arena.worth((*kept.calls, call)) for kept in front for call in letters]
        front = sorted(found, key=lambda item: -item.mean)[:width]
        yield front[0]


def random_sequences(
    arena: Arena, *, count: int, seed: int, longest: int = 24, screen: int = 2, keep: int = 200
) -> Iterator[Found]:
    """Random sequences, screened on `screen` random tasks; the best `keep` are then played on all."""
    rng = random.Random(seed)
    letters = alphabet()
    screened: list[tuple[float, int, tuple[Call, ...]]] = []
    for number in range(count):
        calls = tuple(rng.choice(letters) for _ in range(rng.randint(0, longest)))
        found = arena.worth(calls, only=rng.sample(range(len(arena.instances)), screen))
        heapq.heappush(screened, (found.mean, number, calls))
        if len(screened) > keep:
            heapq.heappop(screened)
    for _, _, calls in sorted(screened, key=lambda item: -item[0]):
        yield arena.worth(calls)
