"""The two numbers of an episode: `score` in [0, 1], and the shaping `reward` of every step.

score = 0.8 * outcome + 0.2 * process
  outcome = (resolution + root_cause) / 2
  process = (efficiency + diagnosis + verified + safety) / 4
Every part lies in [0, 1]; docs/incidentops.md says them in words. Nothing here looks at anything but the ledger
of the episode and two facts about the world at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

OUTCOME_WEIGHT = 0.8
PROCESS_WEIGHT = 0.2

# Rewards of one step (the figures of the benchmark's table; penalties that it leaves open are ours).
DIAGNOSTIC = 0.05
FIX = 0.28
BLIND = -0.30
WRONG_FIX = -0.15
HARMFUL_FIX = -0.25
INVALID = -0.02
TERMINAL = 0.95  # times the score
WRONG_ROOT_CAUSE = -0.25  # times what is missing of the root cause
NOT_RESOLVED = -0.25  # times what is missing of the resolution
OUT_OF_STEPS = -0.25
REWARD_RANGE = (-0.60, 1.00)

EARLY = 0.5  # resolution when the cause is gone but the company is not healthy yet
CLUES_WANTED = 2
UNNEEDED_COST = 0.5


@dataclass(slots=True)
class Ledger:
    """What the score needs to know about an episode so far. Plain data: it is stored as JSON."""

    steps: int = 0
    clues: list[str] = field(default_factory=list)  # "cause/tool"; "-/get_alerts"; "cause/verified"
    read: list[str] = field(default_factory=list)  # services that were looked at
    fixed: list[bool] = field(default_factory=list)  # per cause, ever
    clues_at_fix: list[int] = field(default_factory=list)  # per cause, -1 before
    verified: list[bool] = field(default_factory=list)  # per cause, since the last change
    changes: int = 0
    blind: int = 0
    unneeded: int = 0
    resolved: bool = False

    def clue_count(self, cause: int) -> int:
        """Pieces of evidence of a cause that were read."""
        prefix = f"{cause}/"
        return sum(clue.startswith(prefix) and not clue.endswith("/verified") for clue in self.clues)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the lists are the ledger's own."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """The world when the episode ended."""

    gone: tuple[bool, ...]  # per cause: its condition no longer holds
    nothing_to_repair: bool
    healthy_now: bool
    healthy_later: bool  # and stays so when the company runs on


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """The graded episode, every part readable."""

    score: float
    outcome: float
    resolution: float
    root_cause: float
    process: float
    efficiency: float
    diagnosis: float
    verified: float
    safety: float

    def as_dict(self) -> dict[str, float]:
        """Rounded to six places, for observations and files."""
        return {name: round(getattr(self, name), 6) for name in self.__slots__}


def resolution(*, ledger: Ledger, end: End) -> float:
    """1 when the cause is gone, everybody is healthy and stays so; see the module for the partial cases."""
    if not ledger.resolved:
        return 0.0
    if end.nothing_to_repair:
        if ledger.changes:
            return 0.0
        return 1.0 if end.healthy_now else EARLY
    if all(end.gone) and end.healthy_later:
        return 1.0 if end.healthy_now else EARLY
    return 0.5 * sum(end.gone) / len(end.gone) if len(end.gone) > 1 else 0.0


def efficiency(*, ledger: Ledger, par: int, limit: int) -> float:
    """1 up to par, then linear down to 0 at the step limit."""
    return max(0.0, min(1.0, 1.0 - (ledger.steps - par) / (limit - par)))


def diagnosis(*, ledger: Ledger, end: End) -> float:
    """Share of causes whose evidence was read before they were acted on; 0 after a blind change."""
    if ledger.blind:
        return 0.0
    wanted = 0
    for cause in range(len(end.gone)):
        seen = ledger.clues_at_fix[cause] if ledger.clues_at_fix[cause] >= 0 else ledger.clue_count(cause)
        wanted += seen >= CLUES_WANTED
    return wanted / len(end.gone)


def grade(*, ledger: Ledger, end: End, root_cause: float, par: int, limit: int) -> Score:
    """Put the parts together."""
    resolved = resolution(ledger=ledger, end=end)
    parts = {
        # Quick and careful count only as far as something was achieved.
        "efficiency": resolved * efficiency(ledger=ledger, par=par, limit=limit),
        "diagnosis": diagnosis(ledger=ledger, end=end),
        "verified": sum(ledger.verified) / len(ledger.verified),
        "safety": resolved * max(0.0, 1.0 - UNNEEDED_COST * ledger.unneeded),
    }
    outcome = (resolved + root_cause) / 2
    process = sum(parts.values()) / len(parts)
    return Score(
        score=OUTCOME_WEIGHT * outcome + PROCESS_WEIGHT * process,
        outcome=outcome,
        resolution=resolved,
        root_cause=root_cause,
        process=process,
        **parts,
    )
