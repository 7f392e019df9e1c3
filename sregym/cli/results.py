"""`main.py results`: the table of a run again, and what the run still lacks. Needs no cluster."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sregym.cli.console import output
from sregym.cli.resume import RESUME_COMMAND
from sregym.cli.table import show
from sregym.results import RunFolder, RunResults, Status, load_run
from sregym.settings import Settings

ATTEMPTS = "--n-attempts"
NAMED = 5
"""Missing attempts that are named; the others are counted."""


def results_command() -> Callable[..., object]:
    """The command."""

    def results(
        run: Annotated[Path, Parameter(help="The run's folder, its results.csv, or its id.")],
        *,
        as_json: Annotated[bool, Parameter(name="--json", help="Print one JSON object instead of the table.")] = False,
    ) -> int:
        """Shows the table of a run again, and which of its attempts are missing."""
        found = load_run(RunFolder.find(run, Settings().paths.results).path)
        missing = missing_of(found)
        if as_json:
            attempts = [one.model_dump(mode="json") for one in found.attempts]
            names = ("agent", "problem", "attempt")
            lacks = [dict(zip(names, one, strict=True)) for one in missing]
            output.print_json(json.dumps({"run": str(found.path), "attempts": attempts, "missing": lacks}))
            return 0
        show(found, output)
        for line in _to_do(found, missing):
            output.print(line, markup=False, soft_wrap=True)
        return 0

    return results


def missing_of(run: RunResults) -> list[tuple[str, str, int]]:
    """The attempts (agent, problem, number) that a run was to make and has no record of."""
    if run.lock is None:
        return []
    there = {(one.agent.name, one.problem.id, one.attempt) for one in run.attempts}
    wanted = max([_asked(run.lock.command), *(number for _, _, number in there)])
    every = product(sorted(run.lock.agents), sorted(run.lock.problems), range(1, wanted + 1))
    return [one for one in every if one not in there]


def _asked(command: Sequence[str]) -> int:
    """How many attempts of each agent at each problem a command line asks for."""
    words = [part for word in command for part in word.split("=", 1)]
    value = next((value for name, value in pairwise(words) if name == ATTEMPTS), "1")
    return int(value) if value.isdecimal() else 1


def _to_do(run: RunResults, missing: Sequence[tuple[str, str, int]]) -> list[str]:
    lines = []
    if missing:
        named = ", ".join(f"{agent} at {problem} #{number}" for agent, problem, number in missing[:NAMED])
        more = f", and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        lines.append(f"missing, of {len(missing) + len(run.attempts)} attempts: {named}{more}")
    if void := sum(one.status in (Status.VOID, Status.UNSCORED) for one in run.attempts):
        lines.append(f"void or unscored, to be made again: {void}")
    if lines:
        lines.append(f"go on with: {RESUME_COMMAND} {shlex.quote(str(run.path))}")
    return lines
