"""What a policy is, and how one plays an episode in process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from sregym.incidentops.episode import Episode, StepResult
from sregym.incidentops.scoring import Score
from sregym.incidentops.world.instance import Call, Instance


class Policy(Protocol):
    """Chooses the next call from the briefing and what was seen so far."""

    name: str

    def act(self, *, briefing: dict[str, Any], last: StepResult | None) -> Call:
        """The next call; `last` is None for the first."""
        ...


MakePolicy = Callable[[Instance], Policy]


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """A finished episode."""

    policy: str
    instance: Instance
    calls: tuple[Call, ...]
    results: tuple[StepResult, ...]
    score: Score
    reward_sum: float


def play(episode: Episode, policy: Policy) -> Played:
    """Let a policy play an episode to its end."""
    briefing = episode.briefing()
    calls: list[Call] = []
    results: list[StepResult] = []
    last: StepResult | None = None
    while not episode.done:
        call = policy.act(briefing=briefing, last=last)
        last = episode.step(call.tool, call.arguments)
        calls.append(call)
        results.append(last)
    assert episode.score is not None  # `done` means it
    return Played(
        policy=policy.name,
        instance=episode.instance,
        calls=tuple(calls),
        results=tuple(results),
        score=episode.score,
        reward_sum=episode.reward_sum,
    )
