"""What `verify` and `audit` share: which problems, where, and one after the other on a cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeVar

from cyclopts import Parameter

from sregym.api.app import Profile
from sregym.catalogue import Catalogue, Entry
from sregym.cli.console import ConsoleProgress
from sregym.cluster.providers.base import ClusterSpec
from sregym.coordinator.lab import Content, Lab, open_lab, prepare
from sregym.errors import DirtyClusterError, PrerequisiteError
from sregym.events import Event, EventLog
from sregym.settings import Settings

Suite = Annotated[str | None, Parameter(help="A suite of problems instead: all, demo or smoke.")]
Every = Annotated[bool, Parameter(name="--all", help="All of them.")]
AsJson = Annotated[bool, Parameter(name="--json", help="Print JSON to standard output instead of a table.")]
OfProfile = Annotated[Profile, Parameter(help="lite: images built here; full: the real ones, from a registry.")]
ClusterName = Annotated[str, Parameter(help="Name of the kind cluster; it is made where there is none.")]
Workers = Annotated[int, Parameter(help="Its worker nodes.")]
Seed = Annotated[int, Parameter(help="Seed of the users' behaviour.")]

R = TypeVar("R")


def chosen(catalogue: Catalogue, ids: Sequence[str], *, suite: str | None, every: bool) -> list[Entry]:
    """Raises PrerequisiteError where nothing, or too much, is asked for."""
    given = (bool(ids), suite is not None, every).count(True)
    if given != 1:
        said = "ids, --suite and --all exclude each other" if given else "say which problems"
        raise PrerequisiteError(said, cure="give ids, or --suite NAME, or --all")
    if every:
        suite = "all"
    return list(catalogue.suite(suite)) if suite else [catalogue.entry(one) for one in dict.fromkeys(ids)]


async def one_after_the_other(
    entries: Sequence[Entry],
    look: Callable[[Lab, Entry, Path, EventLog], Awaitable[R]],
    given_up: Callable[[Entry, str], R],
    *,
    name: str,
    content: Content,
    settings: Settings,
    spec: ClusterSpec,
    profile: Profile,
    seed: int,
    listeners: Sequence[Callable[[Event], None]] = (),
) -> list[R]:
    """What `look` says of each problem.

    A world that cannot be put back costs a new cluster, and the problem after it starts on that.

    Args:
        look: Gets the folder of the whole series and its log.
        given_up: Makes the report of a problem that cost the cluster, and is told why.
        name: Begins the folder's name.
    """
    apps = list({one.variant.app: one.build(profile).app for one in entries}.values())
    site = await prepare(settings, content, apps, spec, ConsoleProgress())
    folder = settings.paths.results / f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    left, reports = list(entries), list[R]()
    with EventLog(folder / "events.jsonl", *listeners) as emit:
        while left:
            try:
                async with open_lab(site, settings, seed=seed, emit=emit) as lab:
                    while left:
                        reports.append(await look(lab, left[0], folder, emit))
                        del left[0]
            except DirtyClusterError as error:
                reports.append(given_up(left.pop(0), str(error)))
                site = await site.replaced()
    return reports
