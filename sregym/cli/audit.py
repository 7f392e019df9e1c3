"""`main.py audit`: looks at each problem's incident with an agent's eyes; non-zero where it gives itself away."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
from rich.markup import escape
from rich.table import Table

from sregym.api.app import Profile
from sregym.audit import AuditReport
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
from sregym.coordinator.auditing import LeakAudit
from sregym.coordinator.lab import Content, Lab
from sregym.coordinator.run import equipped, lacking_capabilities
from sregym.events import EventLog
from sregym.settings import Settings

FOUND = 1
"""Exit code where something was found or could not be looked at."""


def audit_command(content: Callable[[], Content]) -> Callable[..., object]:
    """The command."""

    async def audit(
        *problem_ids: str,
        suite: Suite = None,
        every: Every = False,
        as_json: AsJson = False,
        profile: OfProfile = "lite",
        cluster: ClusterName = DEFAULT_NAME,
        workers: Workers = DEFAULT_WORKERS,
        seed: Seed = 1,
    ) -> int:
        """Audits problems on a live cluster: is there anything in the incident that only we would have left?

        Parameters
        ----------
        problem_ids
            Which problems.
        """
        settings = Settings()

        async def look(lab: Lab, entry: Entry, folder: Path, emit: EventLog) -> AuditReport:
            report = await _one(lab, entry, settings, folder / entry.id, emit, profile)
            _tell(report)
            return report

        reports = await one_after_the_other(
            chosen(content().catalogue, problem_ids, suite=suite, every=every),
            look,
            lambda entry, error: AuditReport(problem_id=entry.id, error=error),
            name="audit",
            content=content(),
            settings=settings,
            spec=ClusterSpec(name=cluster, workers=workers),
            profile=profile,
            seed=seed,
        )
        if as_json:
            output.print_json(json.dumps([one.as_json() for one in reports]))
        else:
            show(reports)
        return 0 if all(one.clean for one in reports) else FOUND

    return audit


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
