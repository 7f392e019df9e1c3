"""`main.py doctor`: is this machine ready, and what to do where it is not."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from cyclopts import App, Parameter
from rich.markup import escape
from rich.table import Table

from sregym.cli.console import output
from sregym.cluster.providers.doctor import Finding, Status, Wanted, examine, passed
from sregym.errors import PrerequisiteError
from sregym.settings import Settings

doctor_app = App(name="doctor", help="Look at this machine and say what is missing. Changes nothing.")

_MARK = {Status.OK: "[green]ok[/]", Status.NOTE: "[yellow]note[/]", Status.FAILED: "[red]failed[/]"}


@doctor_app.default
async def doctor(*, json: Annotated[bool, Parameter(name="--json", help="Print one JSON object.")] = False) -> int:
    """Check Docker, host, memory, disk, ports, programs and keys. Exit status as for a missing prerequisite."""
    settings = Settings()
    findings = await examine(_wanted(settings))
    if json:
        output.print_json(data={"ready": passed(findings), "checks": [asdict(finding) for finding in findings]})
    else:
        output.print(_table(findings))
    return 0 if passed(findings) else PrerequisiteError.exit_code


def _wanted(settings: Settings) -> Wanted:
    models, ports = settings.models, settings.ports
    return Wanted(
        cache=settings.paths.cache,
        state=settings.paths.state,
        ports={"the submission API": ports.api, "MCP": ports.mcp, "the kube proxy": ports.kube_proxy},
        keys={
            "ANTHROPIC_API_KEY": models.anthropic_api_key is not None,
            "OPENAI_API_KEY": models.openai_api_key is not None,
            "GEMINI_API_KEY": models.gemini_api_key is not None,
        },
    )


def _table(findings: list[Finding]) -> Table:
    table = Table("check", "", "seen", "what to do", box=None)
    for one in findings:
        table.add_row(one.check, _MARK[one.status], escape(one.seen), escape(one.todo))
    return table
