"""The undo stacks on disk: one folder a session, one file a change, so that they outlive the gateway process.

A change is written before it is made (`pending`) and again when it has been made (`done`).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

MOST_ENTRIES = 100
MOST_BYTES = 128 * 1024 * 1024
"""Of all sessions together; the oldest changes go first."""


class Change(BaseModel):
    """One command that changed something, and what there was before.

    `before` and `after` hold whole objects; an object that is in one of them only was created or deleted.
    """

    model_config = ConfigDict(frozen=True)
    command: str
    state: Literal["pending", "done"]
    before: list[dict[str, Any]]
    after: list[dict[str, Any]] = []
    named: list[dict[str, Any]] = []
    """Which objects it is about, those that were not there included."""
    warning: str = ""
    at: str = ""


class UndoStack:
    """The changes of one session, newest last."""

    def __init__(self, root: Path, session: str) -> None:
        self._root = root
        self._folder = root / hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._session = session

    def push(self, change: Change) -> Path:
        """Write a change down, synced to disk. Returns its file."""
        self._folder.mkdir(parents=True, exist_ok=True)
        name = self._folder / "session"
        if not name.exists():
            name.write_text(self._session, encoding="utf-8", errors="replace")
        files = self._files()
        number = int(files[-1].stem) + 1 if files else 1
        path = self._folder / f"{number:06d}.json"
        self.write(path, change.model_copy(update={"at": datetime.now(UTC).isoformat(timespec="seconds")}))
        self._forget_old()
        return path

    def write(self, path: Path, change: Change) -> None:
        """Write a change over its earlier form."""
        pending = path.with_suffix(".new")
        with pending.open("w", encoding="utf-8") as file:
            file.write(change.model_dump_json())
            file.flush()
            os.fsync(file.fileno())
        pending.rename(path)

    def top(self) -> tuple[Path, Change] | None:
        """The newest change."""
        files = self._files()
        return (files[-1], Change.model_validate_json(files[-1].read_bytes())) if files else None

    def drop(self, path: Path) -> None:
        """Take a change off."""
        path.unlink(missing_ok=True)

    def come_back(self, uids: Mapping[str, str]) -> None:
        """Objects that were deleted are there again under new uids: earlier changes are still about them."""
        renewed = {old: new for old, new in uids.items() if old and old != new}
        for path in self._files() if renewed else ():
            change = Change.model_validate_json(path.read_bytes())
            after = [_with_uid(obj, renewed) for obj in change.after]
            if after != change.after:
                self.write(path, change.model_copy(update={"after": after}))

    def depth(self) -> int:
        return len(self._files())

    def others(self) -> dict[str, int]:
        """Other sessions that have changes to undo, with their number."""
        found = {}
        for folder in self._root.glob("*/"):
            count = len(_entries(folder))
            if folder != self._folder and count and (folder / "session").exists():
                found[(folder / "session").read_text(encoding="utf-8")] = count
        return found

    def _files(self) -> list[Path]:
        return _entries(self._folder)

    def _forget_old(self) -> None:
        for path in self._files()[:-MOST_ENTRIES]:
            path.unlink()
        everything = sorted(
            (path for folder in self._root.glob("*/") for path in _entries(folder)),
            key=lambda path: path.stat().st_mtime,
        )
        total = sum(path.stat().st_size for path in everything)
        for path in everything[:-1]:
            if total <= MOST_BYTES:
                break
            total -= path.stat().st_size
            path.unlink()


def _with_uid(obj: dict[str, Any], renewed: Mapping[str, str]) -> dict[str, Any]:
    uid = obj["metadata"].get("uid")
    return {**obj, "metadata": {**obj["metadata"], "uid": renewed[uid]}} if uid in renewed else obj


def _entries(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if re.fullmatch(r"\d{6}\.json", path.name))
