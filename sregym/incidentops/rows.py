"""What of an episode goes to disk: rows of the store's tables, and which of them are new since the last step.

Everything that is written for a step is gathered first, then written with one statement a table: a statement costs more
than the rows that it carries.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sregym.incidentops.episode import Episode, StepResult
from sregym.incidentops.errors import EpisodeError
from sregym.incidentops.scoring import Score
from sregym.incidentops.world.simulation import World
from sregym.incidentops.world.topology import Value

Row = tuple[Any, ...]

_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False).encode
MOST_PARAMETERS = 900
"""Of one statement; SQLite before 3.32 takes 999."""
LONGEST_ARGUMENTS = 20_000


@dataclass(slots=True)
class Written:
    """How much of an episode is on disk already."""

    logs: int = 0
    metrics: int = 0
    changes: int = 0
    number: int = 0
    brief: tuple[Row, ...] = ()  # what of the services may change without a call
    rows: dict[str, list[Row]] = field(default_factory=dict)  # small tables, as last written


class EpisodeWriter:
    """Writes one episode's rows into an open transaction."""

    def __init__(self, db: sqlite3.Connection, written: Written) -> None:
        self._db, self._written = db, written

    def first(self, episode_id: str, episode: Episode) -> None:
        """Everything of a fresh episode."""
        world, number = episode.world, self._written.number
        self._insert(
            "dependencies",
            [
                (number, caller, callee, share)
                for caller, service in world.company.services.items()
                for callee, share in service.calls.items()
            ],
        )
        self._insert(
            "deploys",
            [
                (
                    number, name, n, d.version, d.previous, d.author, d.tick, d.summary, dump(d.diff), dump(d.config),
                )
                for name, state in world.services.items()
                for n, d in enumerate(state.deploys)
            ],
        )  # fmt: skip
        self._services(world, changed=world.names)
        self._progress(episode)
        self._insert("episodes", [self._episode(episode_id, episode)])

    def step(self, episode_id: str, episode: Episode, *, arguments: object, result: StepResult) -> None:
        """One action, and what it and the minute that passed changed."""
        row = (
            self._written.number, result.step, result.tool, _dump_any(arguments), dump(result.result), result.error,
            result.reward, dump(result.parts), int(result.done),
        )  # fmt: skip
        self._insert("actions", [row])
        self._services(episode.world, changed=_changed(result))
        self._progress(episode)
        done = self._db.execute(_UPDATE, (*_standing(episode), episode_id, self._written.number))
        if done.rowcount != 1:
            raise EpisodeError(f"episode {episode_id} is no longer in this store")

    def _insert(self, table: str, rows: Sequence[Row]) -> None:
        if not rows:
            return
        columns = len(rows[0])
        most = MOST_PARAMETERS // columns
        for start in range(0, len(rows), most):
            page = rows[start : start + most]
            values = [value for row in page for value in row]
            self._db.execute(_statement(table, columns, len(page)), values)

    def _insert_changed(self, name: str, rows: list[Row], *, table: str = "") -> None:
        """Write the rows of a small table that differ from what was written last."""
        before = self._written.rows.get(name, [])
        known = len(before)
        new = [row for n, row in enumerate(rows) if n >= known or before[n] != row]
        if new:
            self._written.rows[name] = rows
            self._insert(table or name, new)

    def _services(self, world: World, *, changed: Iterable[str]) -> None:
        number = self._written.number
        brief = tuple([(s.version, s.restarting, s.crashed, s.restarts) for s in world.services.values()])
        if not changed and brief == self._written.brief:
            return
        self._written.brief = brief
        rows: list[Row] = [
            (
                number, s.name, s.version, s.restarting, int(s.crashed), s.restarts,
                ",".join(sorted(s.rolled_back)), ",".join(sorted(s.broken)),
            )
            for s in world.services.values()
        ]  # fmt: skip
        self._insert_changed("services", rows)
        for name in changed:
            state, declared = world.services[name], world.instance.declared[name]
            config: list[Row] = [
                (number, name, key, _value(value), _value(state.running[key]), _value(declared[key]))
                for key, value in state.stored.items()
            ]
            self._insert_changed(f"config of {name}", config, table="config")

    def _progress(self, episode: Episode) -> None:
        world, written, number = episode.world, self._written, self._written.number
        self._insert("logs", [(number, n, *world.logs[n]) for n in range(written.logs, len(world.logs))])
        first = world.tick_now - len(world.metrics) + 1
        self._insert(
            "metrics",
            [
                (number, first + n, name, *sample)
                for n in range(written.metrics, len(world.metrics))
                for name, sample in world.metrics[n].items()
            ],
        )
        alerts: list[Row] = [
            (number, n, a.service, a.rule, a.severity, a.state, a.since, a.until, a.text)
            for n, a in enumerate(world.alerts.alerts)
        ]
        self._insert_changed("alerts", alerts)
        fresh = enumerate(world.changes[written.changes :], start=written.changes)
        self._insert("changes", [(number, n, c.tick, c.service, c.text) for n, c in fresh])
        written.logs, written.metrics, written.changes = len(world.logs), len(world.metrics), len(world.changes)

    def _episode(self, episode_id: str, episode: Episode) -> Row:
        instance = episode.instance
        task = (episode_id, instance.scenario, instance.level, instance.seed, instance.incident_id)
        return (*task, *_standing(episode), self._written.number)


_UPDATE = (
    "UPDATE episodes SET status = ?, tick = ?, steps = ?, dynamics = ?, reward_sum = ?, score = ? "
    "WHERE id = ? AND number = ?"
)


def _standing(episode: Episode) -> Row:
    """What of an episode's own row a step changes."""
    world = episode.world
    return (
        "finished" if episode.done else "open", world.tick_now, episode.ledger.steps,
        dump([world.levels, world.last_error, world.alerts.streaks, episode.ledger.as_dict()]),
        episode.reward_sum, None if episode.score is None else dump(_raw(episode.score)),
    )  # fmt: skip


@cache
def _statement(table: str, columns: int, rows: int) -> str:
    row = "(" + ",".join("?" * columns) + ")"
    return f"INSERT OR REPLACE INTO {table} VALUES {','.join([row] * rows)}"


def _changed(result: StepResult) -> list[str]:
    """Services whose settings a step may have changed."""
    if result.ok and result.tool in ("patch_config", "rollback_deploy", "restart_service"):
        return [str(result.result["service"])]
    return []


def _value(value: Value) -> str:
    """A setting's value as JSON; strings with nothing to escape by hand, which is most of them."""
    if isinstance(value, str) and '"' not in value and "\\" not in value and value.isprintable():
        return f'"{value}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else dump(value)


def dump(value: Any) -> str:
    """Compact JSON."""
    return _ENCODE(value)


def _dump_any(value: object) -> str:
    """Arguments as they came; what is no JSON, or too long to keep, is kept as a short description."""
    try:
        text = dump(value)
        text.encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        return dump(f"<{type(value).__name__}>")
    return text if len(text) <= LONGEST_ARGUMENTS else dump(f"<{len(text)} characters>")


def _raw(score: Score) -> dict[str, float]:
    return {name: getattr(score, name) for name in score.__slots__}
