"""`main.py incidentops`: serve the simulator, let a policy or a model play, make the table, replay a recording."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import anyio.to_thread
from cyclopts import App as Cyclopts
from cyclopts import Parameter
from cyclopts.validators import Number
from rich.table import Table

from sregym.cli.console import console, output
from sregym.errors import PrerequisiteError
from sregym.incidentops import trajectory
from sregym.incidentops.episode import Episode
from sregym.incidentops.errors import IncidentOpsError, StoreError, UnknownTaskError
from sregym.incidentops.evaluate import Row, evaluate
from sregym.incidentops.policies import POLICIES, play
from sregym.incidentops.scenarios import build, catalogue
from sregym.incidentops.scenarios.catalogue import FIRST
from sregym.incidentops.world.instance import LEVELS, Level

PolicyName = Literal["oracle", "rules", "restart", "random"]
Format = Literal["jsonl", "atif"]

incidentops_app = Cyclopts(name="incidentops", help="The deterministic simulator: serve, run, eval, replay.")


@contextmanager
def _with_its_extra() -> Iterator[None]:
    """Raises PrerequisiteError where the simulator's libraries are not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise PrerequisiteError(
            f"{error.name} is not installed here: the simulator's server has libraries of its own",
            cure="call it with: scripts/uv run --extra incidentops main.py incidentops ...",
        ) from error


@incidentops_app.command
async def serve(*, host: str | None = None, port: int | None = None, db: str | None = None) -> None:
    """Serve OpenEnv, MCP and the page to play. Defaults come from INCIDENTOPS_HOST, _PORT and _DB.

    Parameters
    ----------
    host
        Address to listen on.
    port
        Port, 7860 unless set.
    db
        SQLite file for episodes, or `:memory:`.
    """
    with _with_its_extra():
        from sregym.incidentops.server.app import collect_seldom, serving
        from sregym.incidentops.settings import ServerSettings

    given = {key: value for key, value in {"host": host, "port": port, "db": db}.items() if value is not None}
    settings = ServerSettings().model_copy(update=given)
    console.print(
        f"IncidentOps on http://{settings.host}:{settings.port} (page: /play), episodes in {settings.database()}"
    )
    try:
        server = serving(settings)
    except StoreError as error:
        raise PrerequisiteError(str(error), cure="name another file with --db") from error
    collect_seldom()
    await server.serve()


@incidentops_app.command
async def run(
    *,
    policy: PolicyName | None = None,
    scenario: str | None = None,
    level: Level = "medium",
    seed: Annotated[int, Parameter(validator=Number(gte=0))] = 7,
    out: Path | None = None,
    format: Format | None = None,
) -> None:
    """Play incidents and print their lines: with a policy in process, or with the model of MODEL_NAME over a server.

    Parameters
    ----------
    policy
        A policy without a model. Without it the model named by MODEL_NAME plays at ENV_SERVER_URL.
    scenario
        One scenario; without it the six first.
    level
        Difficulty.
    seed
        Which instance.
    out
        File for the trajectories of a policy.
    format
        Form of that file: JSON lines (unless set), or ATIF (one JSON array).
    """
    if policy is None and (out is not None or format is not None):
        raise PrerequisiteError(
            "--out and --format are about the trajectories of a policy, and none is given",
            cure="add --policy oracle, rules, restart or random, or leave them out",
        )
    if format is not None and out is None:
        raise PrerequisiteError("--format is given, and no file is to be written", cure="name one with --out")
    tasks = _known([scenario] if scenario else list(FIRST))
    if policy is None:
        await anyio.to_thread.run_sync(partial(_run_model, tasks, level=level, seed=seed), abandon_on_cancel=True)
    else:
        _run_policy(policy, tasks, level=level, seed=seed, out=out, format=format or "jsonl")


def _known(scenarios: list[str]) -> list[str]:
    try:
        return [catalogue().scenario(name).id for name in scenarios]
    except UnknownTaskError as error:
        raise PrerequisiteError(str(error), cure="name one of these") from error


def _run_policy(
    policy: PolicyName, tasks: list[str], *, level: Level, seed: int, out: Path | None, format: Format
) -> None:
    with _with_its_extra():
        from sregym.incidentops import transcript
        from sregym.incidentops.runner import SUCCESS

    written: list[dict[str, object]] = []
    for task in tasks:
        instance = build(task, level, seed)
        played = play(Episode(instance), POLICIES[policy](instance))
        _say(transcript.start(task=task, env="incidentops_env", model=policy))
        for call, result in zip(played.calls, played.results, strict=True):
            _say(
                transcript.step(
                    number=result.step,
                    tool=call.tool,
                    arguments=call.arguments,
                    reward=result.reward,
                    done=result.done,
                    error=result.error,
                )
            )
        _say(transcript.end(success=played.score.score >= SUCCESS, rewards=[r.reward for r in played.results]))
        written.append(trajectory.record(played) if format == "jsonl" else trajectory.atif(played))
    if out is not None:
        lines = "".join(trajectory.write_line(item) + "\n" for item in written)
        out.write_text(lines if format == "jsonl" else json.dumps(written, indent=1), encoding="utf-8")


def _run_model(tasks: list[str], *, level: Level, seed: int) -> None:
    with _with_its_extra():
        from sregym.incidentops import inference
        from sregym.incidentops.runner import LiteLlmModel
        from sregym.incidentops.settings import RunnerSettings

    settings = RunnerSettings()
    inference.run(settings=settings, model=LiteLlmModel(settings), say=_say, tasks=tasks, level=level, seed=seed)


@incidentops_app.command(name="eval")
async def evaluate_policies(
    *,
    policies: list[PolicyName] | None = None,
    seeds: Annotated[int, Parameter(validator=Number(gte=1))] = 50,
    first_seed: int = 0,
    scenario: list[str] | None = None,
    details: bool = False,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """Play policies over scenarios x levels x seeds and print the table with 95 % intervals.

    Parameters
    ----------
    policies
        Which ones; all four unless given.
    seeds
        How many seeds of each scenario and level.
    first_seed
        The first of them.
    scenario
        Only these.
    details
        A row for every scenario and level.
    as_json
        Rows as JSON.
    """
    chosen = [str(name) for name in policies or POLICIES]
    only = None if scenario is None else _known(scenario)
    work = partial(evaluate, policies=chosen, seeds=range(first_seed, first_seed + seeds), scenarios=only)
    rows = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    shown = [row for row in rows if details or row.group == "all"]
    if as_json:
        output.print_json(json.dumps([dataclasses.asdict(row) for row in shown]))
    else:
        output.print(_table(shown, scenarios=len(scenario or catalogue().ids), seeds=seeds))


def _table(rows: list[Row], *, scenarios: int, seeds: int) -> Table:
    title = f"IncidentOps: {scenarios} scenarios x {len(LEVELS)} levels x {seeds} seeds"
    table = Table(title=title)
    for column in ("policy", "group", "episodes", "score", "±95%", "lowest", "solved", "reward sum", "steps"):
        table.add_column(column, justify="left" if column in ("policy", "group") else "right")
    for row in rows:
        table.add_row(
            row.policy,
            row.group,
            str(row.episodes),
            f"{row.score:.3f}",
            f"{row.half_width:.3f}",
            f"{row.lowest:.3f}",
            f"{100 * row.solved:.1f}%",
            f"{row.reward_sum:.2f}",
            f"{row.steps:.1f}",
        )
    return table


@incidentops_app.command
def replay(file: Path) -> int:
    """Play a file of recorded trajectories again; exit code 1 when one comes out differently.

    Parameters
    ----------
    file
        JSON lines written by `run --out`.
    """
    different = count = 0
    cure = f"give a file that `run --policy NAME --out {file}` has written, without --format atif"
    try:
        for line in trajectory.read(file):
            replayed, _ = trajectory.replay(line)
            count += 1
            different += not replayed.same
            output.print(f"{'same     ' if replayed.same else 'DIFFERENT'} {replayed.name} {replayed.replayed[:16]}")
    except IncidentOpsError as error:
        raise PrerequisiteError(f"{file} cannot be replayed after {count} trajectories: {error}", cure=cure) from error
    except OSError as error:
        raise PrerequisiteError(f"{file} cannot be read: {error.strerror}", cure=cure) from error
    if not count:
        raise PrerequisiteError(f"{file} is empty: there is nothing to replay", cure=cure)
    output.print(f"{count} trajectories, {different} different")
    return 1 if different else 0


def _say(line: str) -> None:
    print(line, flush=True)
