"""`main.py verify`: the adversarial self-test of problems, as a table or JSON; non-zero on any wrong cell."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median
from textwrap import shorten

import anyio
from rich.markup import escape
from rich.table import Table

from sregym.api.problem import Problem
from sregym.catalogue import Entry
from sregym.cli.console import console, output
from sregym.cli.series import (
    AsJson,
    ClusterName,
    Every,
    OfProfile,
    Seed,
    Suite,
    Workers,
    chosen,
    one_after_the_other,
)
from sregym.cluster.providers.base import DEFAULT_NAME, DEFAULT_WORKERS, ClusterSpec
from sregym.coordinator.lab import Content, Lab
from sregym.events import Event, EventLog
from sregym.judge import make_judge
from sregym.settings import Settings
from sregym.verify import CellKind, CellResult, Outcome, Report
from sregym.verify import verify as verify_problem
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
        suite: Suite = None,
        every: Every = False,
        cell: tuple[CellKind, ...] = (),
        hold: bool = False,
        as_json: AsJson = False,
        judge_model: str = "offline",
        profile: OfProfile = "lite",
        cluster: ClusterName = DEFAULT_NAME,
        workers: Workers = DEFAULT_WORKERS,
        seed: Seed = 1,
    ) -> int:
        """Tests problems on a live cluster: healthy passes, the fault bites, right repairs pass, cheats fail.

        Parameters
        ----------
        problem_ids
            Which problems.
        cell
            Only these cells. May be repeated.
        hold
            Stay when the incident is on, until Ctrl-C, to look around (use with `--cell inject`).
        judge_model
            Who judges the diagnoses: offline, or a model as in `main.py --judge-model`.
        """
        settings = Settings()
        entries = chosen(content().catalogue, problem_ids, suite=suite, every=every)
        judge = make_judge(settings.models, model=judge_model)
        kinds = frozenset(cell) or ALL_CELLS

        async def look(lab: Lab, entry: Entry, _: Path, emit: EventLog) -> Report:
            console.print(f"[bold]{entry.id}[/]")
            wait = _until_interrupted(lab) if hold else None
            report = await verify_problem(lab, entry, profile=profile, judge=judge, emit=emit, kinds=kinds, hold=wait)
            own = report.seconds - report.hold_s
            console.print(f"  {own:.0f} s + {report.hold_s:.0f} s proof windows, {report.deployments} deployment(s)")
            return report

        reports = await one_after_the_other(
            entries,
            look,
            lambda entry, error: Report(problem_id=entry.id, profile=profile, error=error),
            name="verify",
            content=content(),
            settings=settings,
            spec=ClusterSpec(name=cluster, workers=workers),
            profile=profile,
            seed=seed,
            listeners=[_show_event],
        )
        if as_json:
            output.print_json(json.dumps([one.as_json() for one in reports]))
        else:
            show(reports)
        return 0 if all(one.right for one in reports) else WRONG_CELLS

    return verify


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
