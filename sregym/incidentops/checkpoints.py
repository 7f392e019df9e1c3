"""Writing a database's log back into its file, in a thread of its own.

A checkpoint syncs the disk twice, which takes ten milliseconds and more; on the event loop every session would wait for
it. A commit does not need it: it is in the log already, which survives a killed process.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing

EVERY = 250  # commits
ROUNDS = 3
"""Passes beside running commits; each writes back what was committed during the one before."""
LONGEST_LOG = 16_000
"""Pages (64 MB). A log begins anew only when all of it is in the file, which never comes true under steady load: past
this length one commit is followed by a pass of its own, over the little that the thread left."""


class Checkpointer:
    """Checkpoints the file of `db` once in `EVERY` commits. One thread at a time commits."""

    def __init__(self, path: str, db: sqlite3.Connection) -> None:
        self._path, self._db = path, db
        self._count = 0
        self._due = threading.Event()
        self.log_is_long = False
        self._ended = False
        self._thread: threading.Thread | None = None

    def committed(self) -> None:
        """Count a commit."""
        self._count += 1
        if self.log_is_long:
            self.log_is_long = False
            _write_back(self._db)
        if self._count % EVERY:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)
            self._thread.start()
        self._due.set()

    def close(self) -> None:
        """End the thread."""
        self._ended = True
        self._due.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        with closing(sqlite3.connect(self._path, isolation_level=None)) as db:
            while self._due.wait() and not self._ended:
                self._due.clear()
                pages = max([_write_back(db) for _ in range(ROUNDS)])
                self.log_is_long = pages > LONGEST_LOG


def _write_back(db: sqlite3.Connection) -> int:
    """One pass; the pages in the log."""
    try:
        _, pages, _ = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    except sqlite3.DatabaseError:
        return 0  # the log holds everything; the next pass, or whoever opens the file next, writes it back
    return int(pages)
