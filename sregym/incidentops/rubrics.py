"""Reward and score as an RFC 004 rubric tree, every part readable by name.

    step.diagnostic, step.correct_fix, ...      what the reward of a step is made of
    score.outcome.resolution, .root_cause       the graded episode (0 until it has ended)
    score.process.efficiency, .diagnosis, .verified, .safety

The tree's own value is the reward of the step. Weights and figures live in `scoring`; a test holds that this tree
and `scoring.grade` give the same score. (OpenEnv's own containers return coroutines inside an event loop,
where this environment steps; so the sums are written out.)
"""

from __future__ import annotations

import math
from typing import Any

from openenv.core.rubrics import Rubric

from sregym.incidentops import scoring

STEP_PARTS = (
    "diagnostic",
    "correct_fix",
    "blind_action",
    "wrong_fix",
    "harmful_fix",
    "invalid",
    "terminal",
    "wrong_root_cause",
    "not_resolved",
    "out_of_steps",
)
OUTCOME_PARTS = ("resolution", "root_cause")
PROCESS_PARTS = ("efficiency", "diagnosis", "verified", "safety")


class Plain(Rubric):  # type: ignore[misc]  # OpenEnv ships no types
    """A rubric whose `forward` is no coroutine. OpenEnv finds that out anew at each of a step's thirteen calls."""

    def __call__(self, action: Any, observation: Any) -> float:
        """The value; hooks are called as ever when there are any."""
        if self._forward_pre_hooks or self._forward_hooks:
            return float(super().__call__(action, observation))
        self.last_score = value = float(self.forward(action, observation))
        return value


class StepPart(Plain):
    """One term of a step's reward."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.part = name

    def forward(self, action: Any, observation: Any) -> float:
        """The term, 0 when it does not occur."""
        return float(observation.metadata.get("reward_parts", {}).get(self.part, 0.0))


class StepReward(Plain):
    """The sum of a step's terms."""

    def __init__(self) -> None:
        super().__init__()
        for name in STEP_PARTS:
            setattr(self, name, StepPart(name))

    def forward(self, action: Any, observation: Any) -> float:
        """The reward of the step."""
        return round(math.fsum(part(action, observation) for part in self.children()), 6)


class ScorePart(Plain):
    """One measured part of the score."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.part = name

    def forward(self, action: Any, observation: Any) -> float:
        """The part, 0 while the episode runs."""
        return float((observation.score or {}).get(self.part, 0.0))


class Mean(Plain):
    """The mean of named parts."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        for name in names:
            setattr(self, name, ScorePart(name))

    def forward(self, action: Any, observation: Any) -> float:
        """Their mean."""
        values = [child(action, observation) for child in self.children()]
        return math.fsum(values) / len(values)


class EpisodeScore(Plain):
    """0.8 outcome + 0.2 process."""

    def __init__(self) -> None:
        super().__init__()
        self.outcome = Mean(OUTCOME_PARTS)
        self.process = Mean(PROCESS_PARTS)

    def forward(self, action: Any, observation: Any) -> float:
        """The score; parts are evaluated once, when the episode has ended."""
        if not observation.done:
            return 0.0
        outcome, process = self.outcome(action, observation), self.process(action, observation)
        return float(scoring.OUTCOME_WEIGHT * outcome + scoring.PROCESS_WEIGHT * process)


class IncidentRubric(Plain):
    """The whole tree; its value is the step's reward."""

    def __init__(self) -> None:
        super().__init__()
        self.step = StepReward()
        self.score = EpisodeScore()

    def forward(self, action: Any, observation: Any) -> float:
        """The reward of the step; the score is evaluated beside it."""
        self.score(action, observation)
        return float(self.step(action, observation))

    def reset(self) -> None:
        """Forget the last episode's values."""
        for rubric in self.rubrics():
            rubric.last_score = None
