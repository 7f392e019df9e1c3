"""Episodes in SQLite: what the world, the ledger and the actions of each are, row by row.

One file per server (write-ahead log, one transaction a step) or a database in memory for training loops. Every
row carries its episode's number. A step is on disk before its observation is returned, so a killed server loses no
finished episode and an unfinished one goes on where it stood. Readable by any SQLite tool; times are ticks.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sregym.incidentops.checkpoints import Checkpointer
from sregym.incidentops.episode import Episode, StepResult
from sregym.incidentops.errors import EpisodeError, StoreError
from sregym.incidentops.rows import EpisodeWriter, Written
from sregym.incidentops.scenarios import build
from sregym.incidentops.scenarios.catalogue import REVISION
from sregym.incidentops.scoring import Ledger, Score
from sregym.incidentops.world.simulation import World
from sregym.incidentops.world.state import Alert, Change, LogLine, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA_VERSION = 1
MEMORY = ":memory:"

SCHEMA = Path(__file__).with_suffix(".sql")
KEEP = 10_000  # finished episodes
PRUNE_EVERY = 100  # episodes
TABLES = ("dependencies", "services", "config", "deploys", "logs", "metrics", "alerts", "changes", "actions")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """One line of the list of episodes."""

    id: str
    scenario: str
    level: str
    seed: int
    status: str
    steps: int
    reward_sum: float
    score: dict[str, float] | None


class Store:
    """A database of episodes. Safe to use from several threads (one transaction at a time).

    Raises:
        StoreError: the file belongs to something else or to another schema version.
    """

    def __init__(self, path: str = MEMORY, *, keep: int = KEEP) -> None:
        self.path, self._keep = path, keep
        self._lock = threading.RLock()
        self._written: dict[str, Written] = {}
        try:
            self._db = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, timeout=10.0, cached_statements=512
            )
            self._checkpoints = None if path == MEMORY else Checkpointer(path, self._db)
            self._open()
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{path}: {error}") from error

    def _open(self) -> None:
        if self.path != MEMORY:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA wal_autocheckpoint=64000")  # 256 MB: only when the checkpointer does not come by
        self._db.execute("PRAGMA synchronous=NORMAL")  # safe against a killed process; see docs for power loss
        tables = {row[0] for row in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            with self._transaction():
                for statement in SCHEMA.read_text(encoding="utf-8").split(";\n"):
                    self._db.execute(statement)
                self._db.execute("INSERT INTO meta VALUES ('schema_version', ?)", (str(SCHEMA_VERSION),))
                self._db.execute("INSERT INTO meta VALUES ('revision', ?)", (REVISION,))
            return
        if "meta" not in tables:
            raise StoreError(f"{self.path} is a database of something else")
        found = self._db.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
        if found is None or found[0] != str(SCHEMA_VERSION):
            version = found[0] if found else "none"
            raise StoreError(f"{self.path} has schema version {version}, this program writes {SCHEMA_VERSION}")

    def _same_revision(self) -> bool:
        row = self._db.execute("SELECT value FROM meta WHERE key = 'revision'").fetchone()
        return row is not None and row[0] == REVISION

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
            if self._checkpoints is not None:
                self._checkpoints.committed()

    def close(self) -> None:
        """Close the database; a file is left compact (the log is written back)."""
        if self._checkpoints is not None:
            self._checkpoints.close()
        with self._lock:
            if self.path != MEMORY:
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._db.close()

    # --- writing -------------------------------------------------------------------------------------------

    def begin(self, wanted_id: str, episode: Episode) -> str:
        """Write a fresh episode and return the id it is kept under.

        That is the wanted id, unless an episode with it has finished (it is never overwritten) or runs in another
        session: then `wanted~2` and so on. An abandoned unfinished one is replaced.
        """
        written = Written()
        with self._transaction():
            episode_id = self._free_id(wanted_id)
            self._delete(episode_id)
            self._written[episode_id] = written
            written.number = self._db.execute("SELECT coalesce(max(number), 0) + 1 FROM episodes").fetchone()[0]
            if written.number % PRUNE_EVERY == 0:
                self._prune()
            EpisodeWriter(self._db, written).first(episode_id, episode)
        return episode_id

    def _free_id(self, wanted: str) -> str:
        candidate, n = wanted, 1
        while candidate in self._written or self._status(candidate) == "finished":
            n += 1
            candidate = f"{wanted}~{n}"
        return candidate

    def _status(self, episode_id: str) -> str | None:
        row = self._db.execute("SELECT status FROM episodes WHERE id = ?", (episode_id,)).fetchone()
        return None if row is None else str(row[0])

    def _prune(self) -> None:
        old = self._db.execute(
            "SELECT id FROM episodes WHERE status = 'finished' ORDER BY number DESC LIMIT -1 OFFSET ?", (self._keep,)
        ).fetchall()
        for (episode_id,) in old:
            if episode_id not in self._written:
                self._delete(episode_id)

    def release(self, episode_id: str) -> None:
        """The session that ran an episode is over; its rows stay."""
        with self._lock:
            self._written.pop(episode_id, None)

    def record(self, episode_id: str, episode: Episode, *, arguments: object, result: StepResult) -> None:
        """Write one step: the action, and what it and the minute that passed changed."""
        written = self._written.get(episode_id)
        if written is None:
            raise EpisodeError(f"episode {episode_id} was never begun in this store")
        with self._transaction():
            EpisodeWriter(self._db, written).step(episode_id, episode, arguments=arguments, result=result)

    def forget(self, episode_id: str) -> None:
        """Remove an episode (training loops in memory do it after each)."""
        with self._transaction():
            self._delete(episode_id)

    def _delete(self, episode_id: str) -> None:
        self._written.pop(episode_id, None)
        row = self._db.execute("SELECT number FROM episodes WHERE id = ?", (episode_id,)).fetchone()
        if row is None:
            return
        for table in TABLES:
            self._db.execute(f"DELETE FROM {table} WHERE episode = ?", row)
        self._db.execute("DELETE FROM episodes WHERE id = ?", (episode_id,))

    # --- reading -------------------------------------------------------------------------------------------

    def episodes(self) -> list[Stored]:
        """Every episode, by id."""
        with self._lock:
            rows = self._db.execute(
                "SELECT id, scenario, level, seed, status, steps, reward_sum, score FROM episodes ORDER BY id"
            ).fetchall()
        return [
            Stored(
                id=row[0], scenario=row[1], level=row[2], seed=row[3], status=row[4], steps=row[5], reward_sum=row[6],
                score=None if row[7] is None else json.loads(row[7]),
            )
            for row in rows
        ]  # fmt: skip

    def actions(self, episode_id: str) -> list[tuple[str, Any]]:
        """The calls of an episode in order, as (tool, arguments)."""
        with self._lock:
            rows = self._db.execute(
                "SELECT tool, arguments FROM actions JOIN episodes ON number = episode WHERE id = ? ORDER BY step",
                (episode_id,),
            ).fetchall()
        return [(tool, json.loads(arguments)) for tool, arguments in rows]

    def load(self, episode_id: str) -> Episode:
        """An episode as it stood after its last step.

        Raises:
            EpisodeError: no such episode, or of another revision of the world.
        """
        with self._lock:
            row = self._db.execute("SELECT * FROM episodes WHERE id = ?", (episode_id,)).fetchone()
            if row is None:
                raise EpisodeError(f"no episode {episode_id!r}")
            if not self._same_revision():
                raise EpisodeError(f"{self.path} was written by another revision of the world than {REVISION}")
            world = World(build(row[1], row[2], row[3]))
            world.tick_now = row[6]
            world.levels, world.last_error, world.alerts.streaks, ledger = json.loads(row[8])
            self._load_services(row[11], world)
            self._load_history(row[11], world)
            self._written[episode_id] = Written(
                logs=len(world.logs), metrics=len(world.metrics), changes=len(world.changes), number=row[11]
            )
        episode = Episode(world.instance, world=world, ledger=Ledger(**ledger))
        episode.reward_sum = row[9]
        episode.score = None if row[10] is None else Score(**json.loads(row[10]))
        return episode

    def _rows(self, query: str, number: int) -> list[tuple[Any, ...]]:
        return self._db.execute(query, (number,)).fetchall()

    def _load_services(self, number: int, world: World) -> None:
        for row in self._rows("SELECT * FROM services WHERE episode = ?", number):
            state = world.services[row[1]]
            state.version, state.restarting, state.crashed, state.restarts = row[2], row[3], bool(row[4]), row[5]
            state.rolled_back, state.broken = set(filter(None, row[6].split(","))), set(filter(None, row[7].split(",")))
        for row in self._rows("SELECT service, key, stored, running FROM config WHERE episode = ?", number):
            state = world.services[row[0]]
            state.stored[row[1]], state.running[row[1]] = json.loads(row[2]), json.loads(row[3])

    def _load_history(self, number: int, world: World) -> None:
        logs = "SELECT tick, second, service, level, text, clue FROM logs WHERE episode = ? ORDER BY n"
        world.logs = [LogLine(*row) for row in self._rows(logs, number)]
        by_tick: dict[int, dict[str, Sample]] = {}
        for row in self._rows("SELECT * FROM metrics WHERE episode = ? ORDER BY tick", number):
            by_tick.setdefault(row[1], {})[row[2]] = Sample(*row[3:])
        world.metrics = [{name: samples[name] for name in world.names} for samples in by_tick.values()]
        alerts = "SELECT service, rule, severity, state, since, until, text FROM alerts WHERE episode = ? ORDER BY n"
        world.alerts.alerts = [
            Alert(service=r[0], rule=r[1], severity=r[2], state=r[3], since=r[4], until=r[5], text=r[6])
            for r in self._rows(alerts, number)
        ]
        changes = "SELECT tick, service, text FROM changes WHERE episode = ? ORDER BY n"
        world.changes = [Change(tick=r[0], service=r[1], text=r[2]) for r in self._rows(changes, number)]
