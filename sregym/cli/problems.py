"""`main.py problems`: what there is to run, what one is, where else it could strike, and a start for a new one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import App as Cyclopts
from cyclopts import Parameter
from jinja2 import Template
from rich.markup import escape
from rich.table import Column, Table

from sregym.api.problem import Problem
from sregym.catalogue import Catalogue, Entry
from sregym.cli.console import console, output
from sregym.cli.series import OfProfile
from sregym.errors import PrerequisiteError

DISCOVERED = Path(__file__).parents[2] / "problems"
_TEMPLATE = Path(__file__).with_name("new_problem.py.j2")


def problems_app(discover: Callable[[], Catalogue]) -> Cyclopts:
    """The command group. `discover` is called when a command runs, so that `--help` needs no content."""
    app = Cyclopts(name="problems", help="List and look at problems, find further targets, start a new one.")

    @app.command(name="list")
    def list_(
        *,
        suite: Annotated[str, Parameter(help="all, demo or smoke.")] = "all",
        as_json: Annotated[bool, Parameter(name="--json", help="Print a JSON list instead of the table.")] = False,
    ) -> int:
        """Lists the problems of a suite; and the files that could not be imported, which makes the exit code 3."""
        catalogue = discover()
        entries = catalogue.suite(suite)
        if as_json:
            output.print_json(json.dumps([_facts(one) for one in entries]))
        else:
            _print_list(entries, catalogue)
        for module, error in catalogue.broken.items():
            console.print(f"[red]not imported[/]: {module}: {escape(error)}")
        return 3 if catalogue.broken else 0

    @app.command
    def show(
        problem_id: Annotated[str, Parameter(help="Its id, as `problems list` has it.")],
        *,
        profile: OfProfile = "lite",
        spoil: Annotated[bool, Parameter(help="Show root causes, right repairs and cheats, too.")] = False,
    ) -> int:
        """Shows one problem. `--spoil` also shows root cause, repairs and cheats."""
        entry = discover().entry(problem_id)
        _print_entry(entry, entry.build(profile), spoil=spoil)
        return 0

    @app.command
    def targets(
        app_name: Annotated[str, Parameter(help="An app, as `problems show` names it.")] = "hotel-reservation",
        *,
        profile: OfProfile = "lite",
    ) -> int:
        """Lists every (fault, target) pair that the primitives offer on an app."""
        catalogue = discover()
        table = Table("primitive", "parameters", title=f"pairs on {app_name} ({profile})", title_justify="left")
        count = 0
        for problem in catalogue.targets(catalogue.app(app_name, profile)):
            table.add_row(type(problem).__name__, escape(", ".join(f"{k}={v}" for k, v in problem.params.items())))
            count += 1
        output.print(table)
        output.print(f"{count} pairs")
        return 0

    @app.command
    def new(name: str, *, folder: Path = Path("problems")) -> int:
        """Writes a file for a new primitive, with every part that the contract asks for, ready to be filled in.

        Parameters
        ----------
        name
            The primitive's class name, such as `StaleHostAlias`.
        folder
            Where problem files live.
        """
        _write_new(name, folder)
        return 0

    return app


def _write_new(name: str, folder: Path) -> None:
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]+", name):
        raise PrerequisiteError(f"{name!r} is no class name", cure="use CamelCase, such as StaleHostAlias")
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    path, problem_id = folder / f"{snake}.py", f"{snake}_hotel_reservation"
    if path.exists():
        raise PrerequisiteError(f"{path} exists already", cure="choose another name, or edit that file")
    if not folder.is_dir():
        raise PrerequisiteError(f"there is no folder {folder}", cure="make it, or leave --folder out")
    path.write_text(
        Template(_TEMPLATE.read_text("utf-8"), keep_trailing_newline=True).render(name=name, id=problem_id), "utf-8"
    )
    console.print(f"wrote {path}: a problem that works, to be changed", soft_wrap=True)
    if folder.resolve() == DISCOVERED:
        for words in (f"problems show {problem_id} --spoil", f"verify {problem_id}"):
            console.print(f"  python main.py {words}", soft_wrap=True)
    else:
        console.print(f"  it is not found there: problems are those in {DISCOVERED}", soft_wrap=True)


def _facts(entry: Entry) -> dict[str, object]:
    primitive = entry.primitive
    return {
        "id": entry.id,
        "primitive": primitive.__name__,
        "app": entry.variant.app.__name__,
        "fault_class": str(primitive.fault_class),
        "layer": str(primitive.layer),
        "provenance": str(entry.variant.provenance),
        "suites": sorted(entry.variant.suites),
        "revision": primitive.revision,
        "requires": sorted(primitive.requires),
        "description": entry.description,
    }


def _print_list(entries: tuple[Entry, ...], catalogue: Catalogue) -> None:
    table = Table(
        Column("problem", overflow="fold", no_wrap=True),
        Column("class", no_wrap=True),
        Column("layer", no_wrap=True),
        Column("provenance", no_wrap=True),
        "suites",
        title=f"{len(entries)} problems",
        title_justify="left",
        box=None,  # so that 100 columns hold it
        padding=(0, 1, 0, 0),
    )
    for one in entries:
        suites = ", ".join(sorted(one.variant.suites))
        primitive = one.primitive
        table.add_row(one.id, str(primitive.fault_class), str(primitive.layer), str(one.variant.provenance), suites)
    output.print(table)
    output.print(f"suites: {', '.join(catalogue.suites)}")


def _print_entry(entry: Entry, problem: Problem, *, spoil: bool) -> None:
    output.print(f"[bold]{entry.id}[/]  ({entry.primitive.__name__}, revision {entry.primitive.revision})")
    output.print(escape(entry.description))
    output.print(f"app: {problem.app.name} ({problem.app.profile})   file: {entry.file}")
    output.print(f"parameters: {escape(str(dict(problem.params)))}")
    output.print(f"needs: {', '.join(sorted(entry.primitive.requires)) or 'nothing special'}")
    if not spoil:
        output.print("[dim]--spoil shows root cause, repairs and cheats[/]")
        return
    for cause in problem.root_causes():
        where = ", ".join(str(ref) for ref in cause.components)
        output.print(f"\n[bold]{cause.role} {cause.rank}[/]: {escape(where)}")
        output.print(f"  {escape(cause.mechanism)}\n  {escape(cause.effect)}")
    for title, repairs in (("right repairs", problem.repairs()), ("cheats", problem.cheats())):
        output.print(f"\n[bold]{title}[/]")
        for repair in repairs:
            output.print(f"  {escape(repair.name)}" + (f": {escape(repair.why)}" if repair.why else ""))
