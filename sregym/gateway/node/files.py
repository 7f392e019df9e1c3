"""Disk space of a node: how much is free, what takes it, and making room under a few folders that hold only scratch.

Paths are never given to a program that follows links: files are found by walking down from a folder of ours without
following any link or leaving its file system, and removed by the walk itself.
"""

from __future__ import annotations

import posixpath
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from sregym.gateway.node.contract import Node, Operation, Refused, Said, said_by, table

MOUNTS = ("/", "/var", "/run", "/tmp")
READABLE = (
    "/tmp",
    "/var/tmp",
    "/var/cache",
    "/var/log",
    "/var/spool",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/local-path-provisioner",
    "/srv",
)
"""Folders whose sizes and large files can be seen. No contents."""
REMOVABLE = ("/tmp", "/var/tmp", "/var/cache", "/var/log", "/var/spool", "/srv")
KEPT = ("/var/log/journal", "/var/log/pods", "/var/log/containers")
"""Read by the node's own programs: nothing is removed there. (Logs of pods can be emptied.)"""
EMPTIABLE = (*REMOVABLE, "/var/log/pods")
MOST_ROWS = 60
Path = Annotated[str, StringConstraints(pattern=r"^/[^\x00-\x1f\x7f]*$", max_length=1024)]


class DiskFree(Operation):
    """How much space (or how many inodes) the node's file systems have."""

    op: Literal["disk-free"] = "disk-free"
    inodes: bool = False

    async def run(self, node: Node) -> Said:
        fields = "target,itotal,iused,iavail,ipcent" if self.inodes else "target,fstype,size,used,avail,pcent"
        return said_by(await node.run("df", "-h", f"--output={fields}", *MOUNTS))


class DiskUsage(Operation):
    """Sizes of folders below a place, largest first."""

    op: Literal["disk-usage"] = "disk-usage"
    place: Path
    depth: int = Field(default=1, ge=0, le=4)

    async def run(self, node: Node) -> Said:
        place = inside(self.place, READABLE)
        done = await node.run("du", "-x", "-k", f"--max-depth={self.depth}", "--", place)
        rows = [line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line]
        rows.sort(key=lambda row: -int(row[0]))
        shown = [f"{int(size):>12}  {path}" for size, path in rows[:MOST_ROWS]]
        return Said(text=table(f"{'KiB':>12}  folder", shown), ok=bool(rows))


class FindFiles(Operation):
    """Large files below a place, largest first."""

    op: Literal["find-files"] = "find-files"
    place: Path
    larger_than_mib: int = Field(default=10, ge=1, le=1_000_000)

    async def run(self, node: Node) -> Said:
        place = inside(self.place, READABLE)
        wanted = ("-type", "f", "-size", f"+{self.larger_than_mib * 1024}k", "-printf", r"%s\t%TY-%Tm-%TdT%.8TT\t%p\n")
        done = await node.run("find", "-P", place, "-xdev", *wanted)
        rows = [line.split("\t", 2) for line in done.stdout.splitlines() if line.count("\t") == 2]
        rows.sort(key=lambda row: -int(row[0]))
        shown = [f"{int(size) // 1024:>12}  {changed}  {path}" for size, changed, path in rows[:MOST_ROWS]]
        return Said(text=table(f"{'KiB':>12}  {'changed (UTC)':19}  file", shown))


class RemoveFile(Operation):
    """Remove one file under /tmp, /var/tmp, /var/cache, /var/log, /var/spool or /srv. It cannot be brought back."""

    op: Literal["remove-file"] = "remove-file"
    path: Path
    changes: ClassVar[bool] = True

    async def run(self, node: Node) -> Said:
        path = inside(self.path, REMOVABLE, but=KEPT)
        return await _on_file(node, path, REMOVABLE, "removed", "-delete")


class EmptyFile(Operation):
    """Cut a log or scratch file to length 0, where its writer still holds it open. Contents are lost."""

    op: Literal["empty-file"] = "empty-file"
    path: Path
    changes: ClassVar[bool] = True

    async def run(self, node: Node) -> Said:
        kept = tuple(place for place in KEPT if place not in EMPTIABLE)
        path = inside(self.path, EMPTIABLE, but=kept)
        return await _on_file(node, path, EMPTIABLE, "emptied", "-exec", "truncate", "--size=0", "--", "{}", ";")


async def _on_file(node: Node, path: str, places: tuple[str, ...], done_word: str, *action: str) -> Said:
    place = next((one for one in places if path.startswith(one + "/")), None)
    if place is None:
        raise Refused(f"{path} is a folder; name one file")
    argv = ("find", "-P", place, "-xdev", "-type", "f", "-path", _literally(path), "-printf", r"%s bytes\n", *action)
    done = await node.run(*argv)
    if done.code != 0 or not done.stdout.strip():
        why = done.stderr.strip() or f"{path} is no regular file below {place} (links are not followed)"
        return Said(text=why, ok=False)
    return Said(text=f"{path}: {done_word}, {done.stdout.strip()}")


def inside(path: str, places: tuple[str, ...], *, but: tuple[str, ...] = ()) -> str:
    """The path in normal form. Raises Refused where it is not one of the places or below one."""
    normal = posixpath.normpath("/" + path.lstrip("/"))
    if any(_below(normal, place) for place in but) or not any(_below(normal, place) for place in places):
        besides = f" (not {', '.join(but)})" if but else ""
        raise Refused(f"{normal} is out of reach here; these folders are not: {', '.join(places)}{besides}")
    return normal


def _below(path: str, place: str) -> bool:
    return path == place or path.startswith(place + "/")


def _literally(path: str) -> str:
    """A pattern of find(1) that matches only this path."""
    return "".join(f"\\{ch}" if ch in "*?[]\\" else ch for ch in path)
