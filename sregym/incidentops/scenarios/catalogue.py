"""All scenario files, and the tasks that the splits are made of.

A task is (scenario, level, seed). Seeds of the splits do not overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml
from pydantic import ValidationError

from sregym.incidentops.errors import ScenarioError, UnknownTaskError
from sregym.incidentops.scenarios.schema import Scenario
from sregym.incidentops.world.instance import LEVELS, Level

REVISION = "1"
"""Of world, scenarios and scoring together: raised by every change that can change a score or an observation."""
SPLIT_SEEDS = {"train": range(1000, 1100), "validation": range(500, 510), "test": range(0, 50)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One task of a split."""

    id: str
    index: int
    scenario: str
    level: Level
    seed: int


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """The scenarios by id, in a fixed order: the six of the seed first, then the others by name."""

    scenarios: dict[str, Scenario]

    @property
    def ids(self) -> list[str]:
        """Scenario ids in order."""
        return list(self.scenarios)

    def scenario(self, name: str) -> Scenario:
        """A scenario by id.

        Raises:
            UnknownTaskError: no such scenario.
        """
        if name not in self.scenarios:
            raise UnknownTaskError(f"no scenario {name!r}; known: {', '.join(self.scenarios)}")
        return self.scenarios[name]

    def level(self, name: str) -> Level:
        """A level by name.

        Raises:
            UnknownTaskError: no such level.
        """
        for level in LEVELS:
            if level == name:
                return level
        raise UnknownTaskError(f"no level {name!r}; known: {', '.join(LEVELS)}")


FIRST = (
    "single-service-down",
    "bad-deploy-recovery",
    "cascading-failure",
    "config-drift-with-false-logs",
    "false-alarm",
    "resource-leak",
)


@cache
def catalogue() -> Catalogue:
    """Every scenario file of the package.

    Raises:
        ScenarioError: a file does not follow the schema, or its id is not its name.
    """
    found: dict[str, Scenario] = {}
    for path in sorted(Path(__file__).parent.glob("*.yaml")):
        try:
            scenario = Scenario.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
        except ValidationError as error:
            raise ScenarioError(f"{path.name}: {error}") from error
        if scenario.id != path.stem:
            raise ScenarioError(f"{path.name}: its id is {scenario.id!r}")
        found[scenario.id] = scenario
    order = [name for name in FIRST if name in found] + [name for name in found if name not in FIRST]
    return Catalogue(scenarios={name: found[name] for name in order})


def splits() -> list[str]:
    """The names of the splits."""
    return list(SPLIT_SEEDS)


def num_tasks(split: str) -> int:
    """How many tasks a split has.

    Raises:
        UnknownTaskError: no such split.
    """
    return len(catalogue().ids) * len(LEVELS) * len(_seeds(split))


def task_at(split: str, index: int) -> Task:
    """The task at a position. Consecutive tasks differ in scenario first, then level, then seed.

    Raises:
        UnknownTaskError: no such split.
        IndexError: outside the split.
    """
    ids = catalogue().ids
    if not 0 <= index < num_tasks(split):
        raise IndexError(f"split {split} has {num_tasks(split)} tasks; got index {index}")
    rest, which = divmod(index, len(ids))
    number, level = divmod(rest, len(LEVELS))
    seed = _seeds(split)[number]
    return Task(
        id=f"{ids[which]}/{LEVELS[level]}/{seed}", index=index, scenario=ids[which], level=LEVELS[level], seed=seed
    )


def _seeds(split: str) -> range:
    if split not in SPLIT_SEEDS:
        raise UnknownTaskError(f"no split {split!r}; known: {', '.join(SPLIT_SEEDS)}")
    return SPLIT_SEEDS[split]
