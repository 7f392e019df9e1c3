"""The OpenEnv environment: wraps one `Episode` at a time and writes it to the store."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from anyio import Lock
from anyio.lowlevel import checkpoint
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata

from sregym.incidentops.episode import Episode, StepResult
from sregym.incidentops.errors import EpisodeError, UnknownTaskError
from sregym.incidentops.models import IncidentObservation, IncidentState, ToolCallAction
from sregym.incidentops.rubrics import IncidentRubric
from sregym.incidentops.scenarios import Task, build, catalogue, num_tasks, splits, task_at
from sregym.incidentops.store import Store
from sregym.incidentops.world.instance import LEVELS
from sregym.incidentops.world.simulation import World

NAME = "incidentops_env"
VERSION = "1.0.0"
TICKS_AT_ONCE = 4  # of an episode's past, half a millisecond
ABOUT = "On-call incidents in a simulated company: diagnose, repair, verify, resolve. Deterministic by seed."


class IncidentEnvironment(Environment[ToolCallAction, IncidentObservation, IncidentState]):  # type: ignore[misc]
    """See the module. Without a store nothing is written down.

    `reset` takes `scenario` (or `task`) and `level`, or `split` and `index`; without them the seed picks.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, store: Store | None = None, *, ephemeral: bool = False, turn: Lock | None = None) -> None:
        super().__init__(rubric=IncidentRubric())
        self._turn = turn or Lock()  # shared by environments of one event loop: who holds it may reset
        self._store = store
        self._ephemeral = ephemeral  # a store in memory forgets each episode when the next begins
        self._episode: Episode | None = None
        self._episode_id: str | None = None
        self._key: str | None = None  # the id under which the store knows the episode

    # --- OpenEnv ---------------------------------------------------------------------------------------------

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        scenario: str | None = None,
        task: str | None = None,
        level: str | None = None,
        split: str | None = None,
        index: int | None = None,
        **_: Any,
    ) -> IncidentObservation:
        """Start an episode.

        Raises:
            UnknownTaskError: no such scenario, level or split.
            IndexError: outside the split.
            EpisodeError: a value of the wrong type.
        """
        chosen = choose(seed=seed, scenario=scenario or task, level=level, split=split, index=index)
        _check_id(episode_id)
        return self._begin(Episode(build(chosen.scenario, chosen.level, chosen.seed)), episode_id)

    def _begin(self, episode: Episode, episode_id: str | None) -> IncidentObservation:
        self._release()
        self._reset_rubric()
        self._episode = episode
        self._episode_id = episode_id or str(uuid.uuid4())
        if self._store is not None:
            self._key = self._store.begin(self._episode_id, self._episode)
        return self._first()

    def resume(self, episode_id: str) -> None:
        """Go on with an unfinished episode of the store.

        Raises:
            EpisodeError: no such episode.
        """
        if self._store is None:
            raise EpisodeError("this server keeps no episodes")
        self._episode = self._store.load(episode_id)
        self._episode_id = self._key = episode_id

    def step(self, action: ToolCallAction, timeout_s: float | None = None, **_: Any) -> IncidentObservation:
        """Carry out one call. No call takes long: `timeout_s` is accepted and not needed.

        Raises:
            EpisodeError: before reset, or after the end.
        """
        if self._episode is None:
            raise EpisodeError("no episode yet; reset first")
        result = self._episode.step(action.tool_name, action.arguments)
        if self._store is not None and self._key is not None:
            self._store.record(self._key, self._episode, arguments=action.arguments, result=result)
        observation = self._observe(result)
        observation.reward = self._apply_rubric(action, observation)
        return observation

    async def reset_async(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        scenario: str | None = None,
        task: str | None = None,
        level: str | None = None,
        split: str | None = None,
        index: int | None = None,
        **_: Any,
    ) -> IncidentObservation:
        """`reset` on the event loop, in small pieces, and one reset after the other.

        Between two pieces everybody's steps go on. Resets that took their pieces in turns would all come to the longest
        one, writing the episode down, at the same time.
        """
        chosen = choose(seed=seed, scenario=scenario or task, level=level, split=split, index=index)
        _check_id(episode_id)
        async with self._turn:
            await checkpoint()
            instance = build(chosen.scenario, chosen.level, chosen.seed)
            world = World(instance)
            while world.tick_now < 0:
                if world.tick_now % TICKS_AT_ONCE == 0:
                    await checkpoint()
                world.tick()
            await checkpoint()
            return self._begin(Episode(instance, world=world), episode_id)

    async def step_async(
        self, action: ToolCallAction, timeout_s: float | None = None, **kw: Any
    ) -> IncidentObservation:
        """`step` on the event loop: it takes half a millisecond, a thread would cost more than it frees."""
        return self.step(action, timeout_s=timeout_s)

    @property
    def state(self) -> IncidentState:
        """Where the episode stands."""
        episode = self._episode
        if episode is None:
            return IncidentState(episode_id=None, step_count=0)
        known = episode.instance if episode.done else None
        return IncidentState(
            episode_id=self._episode_id,
            step_count=episode.ledger.steps,
            status="finished" if episode.done else "open",
            incident_id=episode.instance.incident_id,
            clock=episode.world.time_of(episode.world.tick_now),
            reward_sum=episode.reward_sum,
            score=None if episode.score is None else episode.score.as_dict(),
            scenario=known.scenario if known else None,
            level=known.level if known else None,
            seed=known.seed if known else None,
        )

    def get_metadata(self) -> EnvironmentMetadata:
        """Name, description, version."""
        return EnvironmentMetadata(name=NAME, description=ABOUT, version=VERSION)

    def close(self) -> None:
        """Let go of the episode; what is in the store stays."""
        self._release()

    def _release(self) -> None:
        if self._store is not None and self._key is not None:
            if self._ephemeral:
                self._store.forget(self._key)
            self._store.release(self._key)
        self._episode = self._key = None

    # --- observations ------------------------------------------------------------------------------------------

    @property
    def episode_id(self) -> str | None:
        """The id of the running episode."""
        return self._episode_id

    @property
    def briefing(self) -> dict[str, Any] | None:
        """The page of the running episode."""
        return None if self._episode is None else self._episode.briefing()

    def _first(self) -> IncidentObservation:
        assert self._episode is not None  # set by reset
        instance = self._episode.instance
        return IncidentObservation(
            incident=self._episode.briefing(), clock=self._episode.world.time_of(0), steps_left=instance.max_steps
        )

    def _observe(self, result: StepResult) -> IncidentObservation:
        assert self._episode is not None  # set by reset
        return IncidentObservation(
            tool=result.tool,
            ok=result.ok,
            result=result.result,
            error=result.error,
            clock=result.clock,
            step=result.step,
            steps_left=result.steps_left,
            done=result.done,
            score=None if result.score is None else result.score.as_dict(),
            metadata={"reward_parts": result.parts, "reward_sum": self._episode.reward_sum},
        )

    # --- Task API ------------------------------------------------------------------------------------------------

    def list_splits(self) -> list[dict[str, str]]:
        """The splits."""
        return [{"name": name, "type": name} for name in splits()]

    def num_tasks(self, split: str) -> int:
        """How many tasks a split has; IndexError (a 400 to the caller) for an unknown split."""
        return int(self._or_index_error(num_tasks, split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """One task."""
        return asdict(self._or_index_error(task_at, split, index))

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """All tasks of a split."""
        return [self.get_task(split, index) for index in range(self.num_tasks(split))]

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Tasks by slice bounds."""
        return [self.get_task(split, index) for index in range(*slice(start, stop).indices(self.num_tasks(split)))]

    @staticmethod
    def _or_index_error(call: Any, *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except UnknownTaskError as error:
            raise IndexError(str(error)) from error


def choose(*, seed: object, scenario: object, level: object, split: object, index: object) -> Task:
    """The task that reset arguments name. What is not given follows from the seed (0 when that is not given).

    Raises:
        EpisodeError: a value of the wrong type.
        UnknownTaskError: no such scenario, level or split.
    """
    for name, value, kind in (
        ("seed", seed, int),
        ("scenario", scenario, str),
        ("level", level, str),
        ("split", split, str),
        ("index", index, int),
    ):
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise EpisodeError(f"{name} must be {kind.__name__}, not {type(value).__name__}")
    if isinstance(split, str) or isinstance(index, int):
        return task_at(str(split or "train"), int(str(index or 0)))
    number = seed if isinstance(seed, int) else 0
    if not 0 <= number < 2**63:
        raise EpisodeError("seed must lie in 0..2^63-1")
    ids = catalogue().ids
    name = scenario if isinstance(scenario, str) else ids[number % len(ids)]
    hardness = level if isinstance(level, str) else LEVELS[number // len(ids) % len(LEVELS)]
    checked = catalogue().level(hardness)
    catalogue().scenario(name)
    return Task(id=f"{name}/{checked}/{number}", index=0, scenario=name, level=checked, seed=number)


def _check_id(episode_id: object) -> None:
    if episode_id is not None and (not isinstance(episode_id, str) or len(episode_id) > 255):
        raise EpisodeError("episode_id must be a string of at most 255 characters")


def arguments_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The reset arguments in a request body."""
    return {key: body[key] for key in ("seed", "scenario", "task", "level", "split", "index") if key in body}
