"""For training loops: a plain `reset`/`step` environment in process.

It needs neither a server nor OpenEnv. `seed` alone picks a task; `scenario` and `level` narrow it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sregym.incidentops.episode import Episode, StepResult
from sregym.incidentops.errors import EpisodeError
from sregym.incidentops.scenarios import build, catalogue
from sregym.incidentops.store import Store
from sregym.incidentops.trajectory import seen
from sregym.incidentops.world.instance import LEVELS


class Step(NamedTuple):
    """What `IncidentOps.step` returns, in Gymnasium's order of meaning."""

    observation: dict[str, Any]
    reward: float
    done: bool
    info: dict[str, Any]


class IncidentOps:
    """The plain API: `reset(...) -> briefing`, `step(tool, arguments) -> Step`."""

    def __init__(self, *, store: Store | None = None) -> None:
        self._store = store
        self._key: str | None = None
        self.episode: Episode | None = None

    def reset(self, *, seed: int = 0, scenario: str | None = None, level: str | None = None) -> dict[str, Any]:
        """Start an episode and return its briefing."""
        ids = catalogue().ids
        chosen = scenario or ids[seed % len(ids)]
        hardness = level or LEVELS[seed // len(ids) % len(LEVELS)]
        self.episode = Episode(build(chosen, hardness, seed))
        if self._store is not None:
            if self._key is not None:
                self._store.forget(self._key)  # a loop keeps one episode, not millions
            self._key = self._store.begin("training", self.episode)
        return self.episode.briefing()

    def step(self, tool: str, arguments: dict[str, Any] | None = None) -> Step:
        """One call.

        Raises:
            EpisodeError: before reset, or after the end.
        """
        if self.episode is None:
            raise EpisodeError("no episode yet; reset first")
        result = self.episode.step(tool, arguments or {})
        if self._store is not None and self._key is not None:
            self._store.record(self._key, self.episode, arguments=arguments or {}, result=result)
        return Step(seen(result), result.reward, result.done, _info(result))


def _info(result: StepResult) -> dict[str, Any]:
    score = None if result.score is None else result.score.as_dict()
    return {"reward_parts": result.parts, "score": score, "step": result.step}
