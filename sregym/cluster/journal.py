"""The write-ahead undo journal: what to do to take everything back, on disk before anything is done.

One file of JSON lines per attempt, in the state directory, keyed by the cluster's identity; never in the cluster.
Every line is synced to disk before `append` returns, and so is the directory when the file is made. A line that was
cut short by a kill is dropped when the file is opened again: its deed had not begun. Entries:

- `change`: a change of an object, with the object before it (null: there was none)
- `compensation`: a named action for an effect outside the Kubernetes API
- `host`: something of ours on this machine (a container, a network, a process)
- `note`: for the record; nothing to undo

Marks refer to an entry by its id: `done` (the call returned; with the object after it), `void` (the server refused
it: nothing happened), `undone`. What is neither void nor undone is open.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from sregym.cluster.contract import Compensation
from sregym.cluster.leftovers import HostThing
from sregym.cluster.objects import Kind, Obj, Ref
from sregym.errors import RecoveryError

SCHEMA_VERSION = 1
SUFFIX = ".jsonl"

Mark = Literal["done", "void", "undone"]
Checkpoint = Callable[[str], None]


def _nothing(point: str) -> None:
    """A checkpoint at which nothing happens."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """The journal's first line. `facts` are the caller's (run folder, kubeconfig, ...), for `main.py recover`."""

    attempt: str
    cluster: str
    identity: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry with its marks. `seq` is its line; `undone_seq` the line of its `undone` mark."""

    id: str
    seq: int
    section: str
    verb: str
    ref: Ref | None = None
    before: Obj | None = None
    after: Obj | None = None
    compensation: Compensation | None = None
    host: HostThing | None = None
    done: bool = False
    closed: bool = False
    undone_seq: int | None = None

    @property
    def is_change(self) -> bool:
        return self.verb in ("create", "patch", "delete")

    def within(self, section: str) -> bool:
        """Whether it was written in a section or in one inside it."""
        return section == "" or self.section == section or self.section.startswith(section + "/")

    def __str__(self) -> str:
        if self.compensation is not None:
            return f"{self.compensation.action} {json.dumps(self.compensation.arguments, default=str)}"
        return str(self.host) if self.host is not None else f"{self.verb} {self.ref}"


class Journal:
    """One attempt's journal. Not shared between processes: whoever holds the cluster's lease holds its journals."""

    def __init__(self, path: Path, header: Header, *, checkpoint: Checkpoint = _nothing) -> None:
        self.path = path
        self.header = header
        self._checkpoint = checkpoint
        self._entries: dict[str, Entry] = {}
        self._lines = 1

    @classmethod
    def create(
        cls,
        state_dir: Path,
        *,
        identity: str,
        attempt: str,
        cluster: str = "",
        facts: Mapping[str, Any] | None = None,
        checkpoint: Checkpoint = _nothing,
    ) -> Journal:
        """Begins a journal. Raises RecoveryError where this attempt has one already."""
        folder = folder_of(state_dir, identity)
        folder.mkdir(parents=True, exist_ok=True)
        header = Header(attempt=attempt, cluster=cluster, identity=identity, facts=facts or {})
        journal = cls(folder / f"{attempt}{SUFFIX}", header, checkpoint=checkpoint)
        if journal.path.exists():
            raise RecoveryError(f"attempt {attempt} has a journal already: {journal.path}")
        journal._write({"v": SCHEMA_VERSION, **asdict(header)}, flags=os.O_CREAT | os.O_EXCL)
        for place in (folder, folder.parent):
            _sync_folder(place)
        return journal

    @classmethod
    def open(cls, path: Path, *, checkpoint: Checkpoint = _nothing) -> Journal:
        """Opens a journal that another process may have left, dropping a last line that was cut short.

        Raises RecoveryError where a line before the last cannot be read.
        """
        lines = _whole_lines(path)
        if not lines:
            raise RecoveryError(f"the journal {path} is empty: it was being created when its process ended")
        head = lines[0]
        if head.get("v") != SCHEMA_VERSION:
            raise RecoveryError(f"the journal {path} has schema {head.get('v')}, this program reads {SCHEMA_VERSION}")
        header = Header(**{key: head[key] for key in ("attempt", "cluster", "identity", "facts")})
        journal = cls(path, header, checkpoint=checkpoint)
        for line in lines[1:]:
            journal._replay(line)
        return journal

    # --- writing

    def change(self, verb: str, ref: Ref, *, before: Obj | None, section: str) -> str:
        """Records a change about to be made. Returns the entry's id."""
        return self._entry(verb, section, ref=_row_of(ref), before=_without_history(before))

    def compensation(self, action: Compensation, *, section: str) -> str:
        """Records how to take back an effect outside the API, about to be caused."""
        bound = _row_of(action.bound_to) if action.bound_to else None
        body = {
            "action": action.action,
            "arguments": dict(action.arguments),
            "bound_to": bound,
            "uid": action.uid,
            "subject": action.subject,
        }
        return self._entry("compensation", section, compensation=body)

    def note_host(self, kind: str, name: str, *, section: str = "", **details: Any) -> str:
        """Records something about to be made on this machine (see `HostThing` for kinds and details)."""
        thing = HostThing.of(kind, name, **details)
        return self._entry("host", section, host=thing.row())

    def note(self, text: str, *, section: str = "") -> None:
        """Writes something down that needs no undo."""
        self._write({"note": text, "section": section, "at": _now()})
        self._lines += 1

    def mark(self, entry: str, mark: Mark, *, after: Obj | None = None) -> None:
        """Marks an entry; `after` is the object that the call returned."""
        line: dict[str, Any] = {"mark": mark, "id": entry, "at": _now()}
        if after is not None:
            line["after"] = _without_history(after)
        self._checkpoint(f"journal:{mark}")
        self._write(line)
        self._replay(line)

    def close(self) -> None:
        """Ends the journal: everything is undone, or the world that it speaks of is gone. Removes the file."""
        self._checkpoint("journal:close")
        self.path.unlink(missing_ok=True)
        _sync_folder(self.path.parent)

    # --- reading

    @property
    def entries(self) -> list[Entry]:
        """All entries, oldest first."""
        return list(self._entries.values())

    def open_entries(self, section: str = "") -> list[Entry]:
        """What is still to be undone, oldest first."""
        return [entry for entry in self._entries.values() if not entry.closed and entry.within(section)]

    # --- inside

    def _entry(self, verb: str, section: str, **body: Any) -> str:
        entry = uuid.uuid4().hex
        line = {"entry": verb, "id": entry, "section": section, "at": _now(), **body}
        self._checkpoint(f"journal:{verb}")
        self._write(line)
        self._replay(line)
        return entry

    def _write(self, line: Mapping[str, Any], *, flags: int = 0) -> None:
        """Appends one line and waits for the disk."""
        data = json.dumps(line, ensure_ascii=False, default=str).encode() + b"\n"
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | flags, 0o600)
        try:
            half = len(data) // 2
            _write_all(handle, data[:half])
            self._checkpoint("journal:half-a-line")
            _write_all(handle, data[half:])
            os.fsync(handle)
        finally:
            os.close(handle)

    def _replay(self, line: Mapping[str, Any]) -> None:
        seq = self._lines
        self._lines += 1
        if "entry" in line:
            self._entries[line["id"]] = _entry_of(line, seq)
        elif "mark" in line:
            old = self._entries[line["id"]]
            self._entries[old.id] = replace(
                old,
                done=old.done or line["mark"] == "done",
                after=line.get("after", old.after),
                closed=old.closed or line["mark"] in ("undone", "void"),
                undone_seq=seq if line["mark"] == "undone" else old.undone_seq,
            )


def folder_of(state_dir: Path, identity: str) -> Path:
    """Where a cluster's journals are."""
    return state_dir / "journals" / identity


def clusters_with_journals(state_dir: Path) -> list[str]:
    """Identities of the clusters that have journals which are not closed. Opens none: their runs may be alive."""
    root = state_dir / "journals"
    return sorted({path.parent.name for path in root.glob(f"*/*{SUFFIX}")})


def journals_of(state_dir: Path, identity: str) -> list[str]:
    """Names of the attempts that have a journal on a cluster. Opens none."""
    return sorted(path.stem for path in folder_of(state_dir, identity).glob(f"*{SUFFIX}"))


def open_journals(state_dir: Path, identity: str | None = None) -> list[Journal]:
    """The journals that are not closed, oldest first; of one cluster, or of all. For the holder of their leases.

    A file that holds no whole first line was cut while it was being made: nothing was done yet, so it is removed.
    """
    root = state_dir / "journals"
    found = sorted(root.glob(f"{identity or '*'}/*{SUFFIX}"), key=lambda path: (path.stat().st_mtime, path.name))
    journals = []
    for path in found:
        if b"\n" not in path.read_bytes():
            path.unlink()
            continue
        journals.append(Journal.open(path))
    return journals


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    if end < len(data):
        os.truncate(path, end)
    lines = []
    for number, text in enumerate(data[:end].splitlines(), 1):
        try:
            lines.append(json.loads(text))
        except ValueError as error:
            raise RecoveryError(f"the journal {path} cannot be read: line {number}: {error}") from error
    return lines


def _entry_of(line: Mapping[str, Any], seq: int) -> Entry:
    compensation = host = None
    if (row := line.get("compensation")) is not None:
        bound = _ref_of_row(row["bound_to"]) if row["bound_to"] else None
        compensation = Compensation(
            action=row["action"],
            arguments=row["arguments"],
            bound_to=bound,
            uid=row["uid"],
            subject=row.get("subject"),
        )
    if (row := line.get("host")) is not None:
        host = HostThing(**row)
    ref = _ref_of_row(line["ref"]) if line.get("ref") else None
    return Entry(
        id=line["id"],
        seq=seq,
        section=line["section"],
        verb=line["entry"],
        ref=ref,
        before=line.get("before"),
        compensation=compensation,
        host=host,
    )


def _without_history(obj: Obj | None) -> Obj | None:
    """Who set which field is half of an object's size, and is never written back."""
    if obj is None or "managedFields" not in obj["metadata"]:
        return obj
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "managedFields"}}


def _row_of(ref: Ref) -> dict[str, Any]:
    return asdict(ref)


def _ref_of_row(row: Mapping[str, Any]) -> Ref:
    return Ref(Kind(**row["kind"]), row["name"], row["namespace"])


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
