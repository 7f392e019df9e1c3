"""`main.py verify`: the adversarial self-test of problems, as a table or JSON; non-zero on any wrong cell."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from statistics import median
from textwrap import shorten
from typing import Annotated

import anyio
from cyclopts import Parameter
from rich.markup import escape
from rich.table import Table

from sregym.api.app import Profile
from sregym.api.problem import Problem
from sregym.catalogue import Catalogue, Entry
from sregym.cli.console import ConsoleProgress, console, output
from sregym.cluster.providers.base import DEFAULT_NAME, DEFAULT_WORKERS, ClusterSpec
from sregym.coordinator.lab import Content, Lab, open_lab, prepare
from sregym.errors import DirtyClusterError, PrerequisiteError
from sregym.events import Event, EventLog
from sregym.judge import Judge, make_judge
from sregym.settings import Settings
from sregym.verify import CellKind, CellResult, Outcome, Report, verify
from sregym.verify.verifier import ALL_CELLS

WHY_CHARACTERS = 120
"""Of a reason in the table; all of it is in the JSON."""

WRONG_CELLS = 1
"""Exit code where a claim of a problem does not hold."""

_COLOUR = {Outcome.RIGHT: "green", Outcome.WRONG: "red", Outcome.UNKNOWN: "yellow"}


def verify_command(content: Callable[[], Content]) -> Callable[..., object]:
    """The command."""

    async def verify(
        *problem_ids: str,
        suite: str | None = None,
        every: Annotated[bool, Parameter(name="--all", negative="")] = False,
        cell: tuple[CellKind, ...] = (),
        hold: Annotated[bool, Parameter(negative="")] = False,
        as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
        judge_model: str = "offline",
        profile: Profile = "lite",
        cluster: str = DEFAULT_NAME,
        workers: int = DEFAULT_WORKERS,
        seed: int = 1,
    ) -> int:
        """Tests problems on a live cluster: healthy passes, the fault bites, right repairs pass, cheats fail.

        Parameters
        ----------
        problem_ids
            Which problems.
        suite
            A suite of problems instead.
        every
            All of them.
        cell
            Only these cells: diagnosis, healthy, inject, nothing, cheat, repair, restart, restored. May be repeated.
        hold
            Stay when the incident is on, until Ctrl-C, to look around (use with `--cell inject`).
        as_json
            Print JSON to standard output instead of a table.
        judge_model
            Who judges the diagnoses.
        """
        settings = Settings()
        entries = chosen(content().catalogue, problem_ids, suite=suite, every=every)
        judge = make_judge(settings.models, model=judge_model)
        spec = ClusterSpec(name=cluster, workers=workers)
        task = _Task(entries=entries, kinds=frozenset(cell) or ALL_CELLS, hold=hold, profile=profile, judge=judge)
        reports = await task.run(content(), settings, spec, seed=seed)
        if as_json:
            output.print_json(json.dumps([one.as_json() for one in reports]))
        else:
            show(reports)
        return 0 if all(one.right for one in reports) else WRONG_CELLS

    return verify


def chosen(catalogue: Catalogue, ids: Sequence[str], *, suite: str | None, every: bool) -> list[Entry]:
    """Raises PrerequisiteError where nothing, or too much, is asked for."""
    given = (bool(ids), suite is not None, every).count(True)
    if given != 1:
        said = "ids, --suite and --all exclude each other" if given else "say which problems"
        raise PrerequisiteError(said, cure="give ids, or --suite NAME, or --all")
    if every:
        suite = "all"
    return list(catalogue.suite(suite)) if suite else [catalogue.entry(one) for one in dict.fromkeys(ids)]


class _Task:
    """Verifying some problems, one after the other, on one cluster."""

    def __init__(
        self, *, entries: Sequence[Entry], kinds: frozenset[CellKind], hold: bool, profile: Profile, judge: Judge
    ) -> None:
        self._entries = list(entries)
        self._kinds = kinds
        self._hold = hold
        self._profile = profile
        self._judge = judge
        self._reports: list[Report] = []

    async def run(self, content: Content, settings: Settings, spec: ClusterSpec, *, seed: int) -> list[Report]:
        """A world that cannot be put back costs a new cluster, and the problem after it starts on that."""
        apps = list({one.variant.app: one.build(self._profile).app for one in self._entries}.values())
        site = await prepare(settings, content, apps, spec, ConsoleProgress())
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        with EventLog(settings.paths.results / f"verify-{stamp}" / "events.jsonl", _show_event) as emit:
            while self._entries:
                try:
                    async with open_lab(site, settings, seed=seed, emit=emit) as lab:
                        while self._entries:
                            await self._one(lab, emit)
                except DirtyClusterError as error:
                    entry = self._entries.pop(0)
                    self._reports.append(Report(problem_id=entry.id, profile=self._profile, error=str(error)))
                    site = await site.replaced()
        return self._reports

    async def _one(self, lab: Lab, emit: EventLog) -> None:
        entry = self._entries[0]
        console.print(f"[bold]{entry.id}[/]")
        report = await verify(
            lab,
            entry,
            profile=self._profile,
            judge=self._judge,
            emit=emit,
            kinds=self._kinds,
            hold=_until_interrupted(lab) if self._hold else None,
        )
        self._reports.append(report)
        del self._entries[0]
        own = report.seconds - report.hold_s
        console.print(f"  {own:.0f} s + {report.hold_s:.0f} s proof windows, {report.deployments} deployment(s)")


def _until_interrupted(lab: Lab) -> Callable[[Problem], Awaitable[None]]:
    async def wait(problem: Problem) -> None:
        console.print(f"[bold]the incident is on.[/] Look around: export KUBECONFIG={lab.site.handle.kubeconfig}")
        console.print(f"kubectl --namespace {problem.app.namespace} get pods     (Ctrl-C ends it and cleans up)")
        await anyio.sleep_forever()

    return wait


def _show_event(event: Event) -> None:
    if event.name == "verify.cell":
        colour = _COLOUR[Outcome(event.data["outcome"])]
        told = f"{event.data['cell']}: {event.data['name']}: {event.data['seen']} ({event.data['seconds']:.0f} s)"
        why = f" [dim]{escape(str(event.data['why'])[:160])}[/]" if event.data["why"] else ""
        console.print(f"  [{colour}]{event.data['outcome']}[/] {escape(told)}{why}")
    elif event.name in ("verify.deployment_ended", "verify.incident_lost"):
        console.print(f"  [yellow]{escape(event.name)}[/]: {escape(str(event.data['reason'])[:300])}")


def show(reports: Sequence[Report]) -> None:
    """The table of all cells, and what it took."""
    for report in reports:
        table = Table("cell", "name", "seen", "", "s", "hold s", title=report.problem_id, title_justify="left")
        table.add_column("why", ratio=1)
        for one in report.cells:
            table.add_row(*_row(one))
        output.print(table)
        if report.skipped:
            output.print(f"skipped: {escape(report.skipped)}")
        if report.error:
            output.print(f"[red]ended early[/]: {escape(report.error)}")
    _show_totals(reports)


def _row(cell: CellResult) -> tuple[str, ...]:
    colour = _COLOUR[cell.outcome]
    return (
        str(cell.kind),
        escape(cell.name),
        cell.seen if cell.outcome is Outcome.RIGHT else f"{cell.seen}, not {cell.expected}",
        f"[{colour}]{cell.outcome}[/]",
        f"{cell.seconds:.0f}",
        f"{cell.hold_s:.0f}",
        escape(shorten(cell.why, WHY_CHARACTERS, placeholder=" ...")),
    )


def _show_totals(reports: Sequence[Report]) -> None:
    table = Table("problem", "cells right", "seconds", "proof windows", "without them", "deployments")
    for one in reports:
        right = sum(cell.outcome is Outcome.RIGHT for cell in one.cells)
        state = "skipped" if one.skipped else f"{right} of {len(one.cells)}"
        colour = "green" if one.right else "red"
        own = one.seconds - one.hold_s
        table.add_row(
            escape(one.problem_id),
            f"[{colour}]{state}[/]",
            f"{one.seconds:.0f}",
            f"{one.hold_s:.0f}",
            f"{own:.0f}",
            str(one.deployments),
        )
    output.print(table)
    tested = [one.seconds - one.hold_s for one in reports if not one.skipped]
    if tested:
        output.print(f"median without proof windows: {median(tested):.0f} s")
