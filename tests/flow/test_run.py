"""A run of several attempts: a spoilt world costs a new cluster, not the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from sregym.cli.run import exit_code
from sregym.cluster.journal import Journal, open_journals
from sregym.coordinator.lab import Site
from sregym.coordinator.run import MAX_REPLACEMENTS, Plan, Runner, Task
from sregym.errors import DirtyClusterError, PrerequisiteError, RecoveryError
from sregym.events import EventLog
from sregym.judge import OfflineJudge
from sregym.results import RunFolder, Status
from sregym.settings import Paths, Settings


@dataclass(frozen=True)
class Handle:
    identity: str


@dataclass(frozen=True)
class ToySite:
    """A site that counts how often its cluster was replaced."""

    generation: int = 0
    docker_stopped: bool = False

    @property
    def handle(self) -> Handle:
        return Handle(identity=f"cluster-{self.generation}")

    async def replaced(self) -> ToySite:
        if self.docker_stopped:
            raise PrerequisiteError("no Docker daemon answers", cure="start it")
        return replace(self, generation=self.generation + 1)


@dataclass(kw_only=True)
class ToyRunner(Runner):
    """Attempts fail as scripted; each attempt on a spoilt cluster leaves its journal open."""

    spoils: int = 0
    generations: list[int] = None  # type: ignore[assignment]  # set below, per instance

    def __post_init__(self) -> None:
        self.generations = []

    async def _work(self, site: Site, tasks: Sequence[Task], emit: EventLog) -> list[Task]:
        toy = cast(ToySite, site)
        self.generations.append(toy.generation)
        if toy.generation < self.spoils:
            Journal.create(self.settings.paths.state, identity=toy.handle.identity, attempt="one")
            raise DirtyClusterError("it differs")
        return []


def runner(tmp_path: Path, spoils: int) -> ToyRunner:
    settings = Settings(paths=Paths(cache=tmp_path / "c", state=tmp_path / "s", results=tmp_path / "r"))
    plan = Plan(
        entries=[cast(Any, Named("toy"))],
        agents=[cast(Any, Named("nop"))],
        attempts=1,
        profile="lite",
        judge=OfflineJudge(),
        session_limit_s=60,
        healthy_s=0,
    )
    return ToyRunner(plan=plan, settings=settings, folder=RunFolder.create(settings.paths.results), spoils=spoils)


@dataclass(frozen=True)
class Named:
    id: str

    @property
    def name(self) -> str:
        return self.id


async def test_a_spoilt_cluster_is_replaced_and_its_journals_are_closed(tmp_path: Path) -> None:
    made = runner(tmp_path, spoils=1)
    await made.run(cast(Site, ToySite()))
    assert made.generations == [0, 1]
    assert open_journals(made.settings.paths.state) == []


async def test_a_run_is_given_up_when_new_clusters_do_not_help(tmp_path: Path) -> None:
    made = runner(tmp_path, spoils=99)
    with pytest.raises(RecoveryError):
        await made.run(cast(Site, ToySite()))
    assert len(made.generations) == MAX_REPLACEMENTS + 1


async def test_docker_that_stopped_ends_the_run_and_leaves_the_journal_to_recover(tmp_path: Path) -> None:
    made = runner(tmp_path, spoils=1)
    with pytest.raises(RecoveryError) as caught:
        await made.run(cast(Site, ToySite(docker_stopped=True)))
    for said in ("it differs", "no Docker daemon answers", "start it", "main.py recover"):
        assert said in str(caught.value)
    assert len(open_journals(made.settings.paths.state)) == 1


@pytest.mark.parametrize(
    ("ended", "code"),
    [([], 0), (["graded", "skipped"], 0), (["graded", "unscored"], 8), (["unscored", "void"], 5)],
)
def test_the_exit_code_says_whether_everything_was_graded(ended: list[str], code: int) -> None:
    assert exit_code(map(Status, ended)) == code


def test_a_resumed_run_makes_only_what_is_missing(tmp_path: Path) -> None:
    plan = replace(runner(tmp_path, spoils=0).plan, attempts=3, done=frozenset({("nop", "toy", 2)}))
    assert [task.attempt for task in plan.tasks()] == [1, 3]
