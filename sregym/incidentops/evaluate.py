"""Plays policies over scenarios, levels and seeds, and makes the table with intervals.

The interval is the 95 % normal interval of the mean over episodes (seeds are drawn, scenarios are fixed).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sregym.incidentops.episode import Episode
from sregym.incidentops.policies import POLICIES, play
from sregym.incidentops.scenarios import build, catalogue
from sregym.incidentops.world.instance import LEVELS

Z = 1.96


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One policy on one group of episodes."""

    policy: str
    group: str
    episodes: int
    score: float
    half_width: float
    lowest: float
    solved: float  # share with score >= 0.95
    reward_sum: float
    steps: float


def evaluate(*, policies: Sequence[str], seeds: Iterable[int], scenarios: Sequence[str] | None = None) -> list[Row]:
    """Play and summarise: a row per policy and scenario x level, and one row over all."""
    chosen = list(seeds)
    rows = []
    for policy in policies:
        everything: list[tuple[float, float, int]] = []
        for scenario in scenarios or catalogue().ids:
            for level in LEVELS:
                group = [_episode(policy, scenario, level, seed) for seed in chosen]
                rows.append(_row(policy, f"{scenario}/{level}", group))
                everything += group
        rows.append(_row(policy, "all", everything))
    return rows


def _episode(policy: str, scenario: str, level: str, seed: int) -> tuple[float, float, int]:
    instance = build(scenario, level, seed)
    played = play(Episode(instance), POLICIES[policy](instance))
    return played.score.score, played.reward_sum, len(played.calls)


def _row(policy: str, group: str, episodes: Sequence[tuple[float, float, int]]) -> Row:
    count = len(episodes)
    scores = [score for score, _, _ in episodes]
    mean = math.fsum(scores) / count
    spread = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / max(1, count - 1))
    return Row(
        policy=policy,
        group=group,
        episodes=count,
        score=round(mean, 4),
        half_width=round(Z * spread / math.sqrt(count), 4),
        lowest=round(min(scores), 4),
        solved=round(sum(score >= 0.95 for score in scores) / count, 4),
        reward_sum=round(math.fsum(reward for _, reward, _ in episodes) / count, 4),
        steps=round(sum(steps for _, _, steps in episodes) / count, 2),
    )
