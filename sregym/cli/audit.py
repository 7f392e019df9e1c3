"""`main.py audit`: looks at each problem's incident with an agent's eyes; non-zero where it gives itself away."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import anyio
from cyclopts import Parameter
from rich.markup import escape
from rich.table import Table

from sregym.api.app import Profile
from sregym.audit import AuditReport
from sregym.catalogue import Entry
from sregym.cli.console import ConsoleProgress, console, output
from sregym.cli.verify import chosen
from sregym.cluster.providers.base import DEFAULT_NAME, DEFAULT_WORKERS, ClusterSpec
from sregym.coordinator.auditing import LeakAudit
from sregym.coordinator.lab import Content, Lab, Site, open_lab, prepare
from sregym.coordinator.run import equipped, lacking_capabilities
from sregym.errors import DirtyClusterError
from sregym.events import EventLog
from sregym.settings import Settings

FOUND = 1
"""Exit code where something was found or could not be looked at."""


def audit_command(content: Callable[[], Content]) -> Callable[..., object]:
    """The command."""

    async def audit(
        *problem_ids: str,
        suite: str | None = None,
        every: Annotated[bool, Parameter(name="--all", negative="")] = False,
        as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
        profile: Profile = "lite",
        cluster: str = DEFAULT_NAME,
        workers: int = DEFAULT_WORKERS,
        seed: int = 1,
    ) -> int:
        """Audits problems on a live cluster: is there anything in the incident that only we would have left?

        Parameters
        ----------
        problem_ids
            Which problems.
        suite
            A suite of problems instead.
        every
            All of them.
        as_json
            Print JSON to standard output instead of a table.
        """
        settings = Settings()
        entries = chosen(content().catalogue, problem_ids, suite=suite, every=every)
        spec = ClusterSpec(name=cluster, workers=workers)
        reports = await _audit(content(), settings, entries, spec, profile=profile, seed=seed)
        if as_json:
            output.print_json(json.dumps([one.as_json() for one in reports]))
        else:
            show(reports)
        return 0 if all(one.clean for one in reports) else FOUND

    return audit


async def _audit(
    content: Content, settings: Settings, entries: Sequence[Entry], spec: ClusterSpec, *, profile: Profile, seed: int
) -> list[AuditReport]:
    """A world that cannot be put back costs a new cluster, and the problem after it starts on that."""
    apps = list({one.variant.app: one.build(profile).app for one in entries}.values())
    site: Site = await prepare(settings, content, apps, spec, ConsoleProgress())
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    folder = settings.paths.results / f"audit-{stamp}"
    left, reports = list(entries), list[AuditReport]()
    with EventLog(folder / "events.jsonl") as emit:
        while left:
            try:
                async with open_lab(site, settings, seed=seed, emit=emit) as lab:
                    while left:
                        reports.append(await _one(lab, left[0], settings, folder / left[0].id, emit, profile))
                        del left[0]
                        _tell(reports[-1])
            except DirtyClusterError as error:
                reports.append(AuditReport(problem_id=left.pop(0).id, error=str(error)))
                site = await site.replaced()
    return reports


async def _one(
    lab: Lab, entry: Entry, settings: Settings, folder: Path, emit: EventLog, profile: Profile
) -> AuditReport:
    console.print(f"[bold]{entry.id}[/]")
    problem = equipped(entry.build(profile), lab.site.tools)
    if lacking := await lacking_capabilities(lab, problem):
        return AuditReport(problem_id=entry.id, skipped=lacking)
    await anyio.Path(folder).mkdir(parents=True, exist_ok=True)
    return await LeakAudit.of(lab, settings).audit(entry, problem, settings, folder, emit)


def _tell(report: AuditReport) -> None:
    state = "skipped" if report.skipped else "clean" if report.clean else f"{len(report.findings)} findings"
    console.print(f"  {state}, {report.seconds:.0f} s")
    if report.error:
        console.print(f"  [red]{escape(report.error)}[/]")


def show(reports: Sequence[AuditReport]) -> None:
    """Findings first, then one line for each problem."""
    for report in reports:
        if report.findings:
            found = Table("rule", "where", title=report.problem_id, title_justify="left")
            found.add_column("what", ratio=1)
            for finding in report.findings:
                found.add_row(finding.rule, escape(finding.where), escape(finding.what))
            output.print(found)
    table = Table("problem", "findings", "objects", "texts", "characters", "look s", "seconds")
    for one in reports:
        colour = "green" if one.clean else "red"
        state = "skipped" if one.skipped else "error" if one.error else str(len(one.findings))
        look = max(one.parts_s.values(), default=0.0)
        numbers = (one.objects, one.texts, one.characters, f"{look:.1f}", f"{one.seconds:.0f}")
        table.add_row(escape(one.problem_id), f"[{colour}]{state}[/]", *map(str, numbers))
    output.print(table)
    for one in reports:
        if one.skipped or one.error:
            output.print(f"{escape(one.problem_id)}: {escape(one.skipped or one.error)}")
