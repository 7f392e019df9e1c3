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


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A sequence with the episodes that it has led to, so that it can be extended without playing it again."""

    calls: tuple[Call, ...]
    episodes: tuple[Episode, ...]


class Arena:
    """The tasks with their history played once, and the claim that is best when nothing is known.

    The root cause enters the score as a term of its own, so the best claim is the same after every sequence.
    """

    def __init__(self, instances: Sequence[Instance]) -> None:
        self.start = Line(calls=(), episodes=tuple(Episode(instance) for instance in instances))
        parsed = {text: rootcause.parse(text) for text in claims()}
        right = {text: [rootcause.match(claim, i.causes) for i in instances] for text, claim in parsed.items()}
        self.claim = max(right, key=lambda text: math.fsum(right[text]))
        self._right = right[self.claim]

    def extend(self, line: Line, call: Call) -> Line:
        """One call more, in every task."""
        episodes = tuple(_after(episode, (call,)) for episode in line.episodes)
        return Line(calls=(*line.calls, call), episodes=episodes)

    def found(self, line: Line) -> Found:
        """What a sequence is worth with the best claim."""
        total = math.fsum(map(_score, line.episodes, self._right))
        return Found(calls=line.calls, claim=self.claim, mean=total / len(line.episodes), episodes=len(line.episodes))

    def worth(self, calls: Sequence[Call]) -> Found:
        """The mean score of a sequence over all tasks."""
        episodes = tuple(_after(episode, calls) for episode in self.start.episodes)
        return self.found(Line(calls=tuple(calls), episodes=episodes))

    def sample(self, calls: Sequence[Call], numbers: Sequence[int]) -> float:
        """The mean score over some tasks."""
        scores = [_score(_after(self.start.episodes[n], calls), self._right[n]) for n in numbers]
        return math.fsum(scores) / len(scores)


def _after(episode: Episode, calls: Sequence[Call]) -> Episode:
    played = episode.fork()
    for call in calls:
        if not played.done:
            played.step(call.tool, call.arguments)
    return played


def _score(episode: Episode, right: float) -> float:
    if episode.score is not None:  # out of steps
        return episode.score.score
    return episode.graded_now(right).score


def exhaustive(arena: Arena, *, length: int = 2, letters: Sequence[Call] | None = None) -> Iterator[Found]:
    """Every sequence of at most `length` calls before the close (length 0 closes at once), depth first."""
    chosen = alphabet() if letters is None else letters

    def below(line: Line) -> Iterator[Found]:
        yield arena.found(line)
        if len(line.calls) < length:
            for call in chosen:
                yield from below(arena.extend(line, call))

    yield from below(arena.start)


def beam(arena: Arena, *, width: int, length: int) -> Iterator[Found]:
    """Beam search: the best of each length are extended by every call; yields the best of every length."""
    front = [arena.start]
    for _ in range(length):
        ranked: list[tuple[float, int, Line]] = []
        serial = 0
        for line in front:
            for call in alphabet():
                longer = arena.extend(line, call)
                serial += 1
                heapq.heappush(ranked, (arena.found(longer).mean, serial, longer))
                if len(ranked) > width:
                    heapq.heappop(ranked)
        front = [line for _, _, line in sorted(ranked, key=lambda item: -item[0])]
        yield arena.found(front[0])


def random_sequences(
    arena: Arena, *, count: int, seed: int, longest: int = 24, screen: int = 2, keep: int = 200
) -> Iterator[Found]:
    """Random sequences, screened on `screen` random tasks; the best `keep` are then played on all."""
    rng = random.Random(seed)
    letters = alphabet()
    screened: list[tuple[float, int, tuple[Call, ...]]] = []
    for number in range(count):
        calls = tuple(rng.choice(letters) for _ in range(rng.randint(0, longest)))
        mean = arena.sample(calls, rng.sample(range(len(arena.start.episodes)), screen))
        heapq.heappush(screened, (mean, number, calls))
        if len(screened) > keep:
            heapq.heappop(screened)
    for _, _, calls in sorted(screened, key=lambda item: -item[0]):
        yield arena.worth(calls)
