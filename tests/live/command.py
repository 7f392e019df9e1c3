"""Runs `main.py` as a user would, in a process of its own, and follows what it writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sregym.cluster.journal import Journal, open_journals
from sregym.cluster.leftovers import HostThing
from sregym.cluster.providers.base import DEFAULT_NAME
from sregym.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PROBLEM = "k8s_target_port-misconfig_hotel_reservation"
CLUSTER = os.environ.get("SREGYM_TEST_CLUSTER", DEFAULT_NAME)
"""The kind cluster that live tests run on; several test processes can share a machine with one each."""
ON_CLUSTER = ("--cluster", CLUSTER)


@dataclass
class Command:
    """`main.py` under way. `results` is where it writes its runs."""

    child: subprocess.Popen[str]
    results: Path
    log: Path

    def events(self) -> list[dict[str, object]]:
        """Everything that attempts and the run have said so far."""
        lines = [line for path in sorted(self.results.rglob("*.jsonl")) for line in _lines(path)]
        return [json.loads(line) for line in lines]

    def until_event(self, name: str, *, count: int = 1, within: float = 300.0) -> None:
        """Waits until an event was written `count` times. Fails where the command ends before."""
        deadline = time.monotonic() + within
        while sum(event["event"] == name for event in self.events()) < count:
            assert self.child.poll() is None, f"main.py ended before {name}:\n{self.log.read_text()[-3000:]}"
            assert time.monotonic() < deadline, f"no {name} within {within:g} s:\n{self.log.read_text()[-3000:]}"
            time.sleep(0.02)

    def gateways(self) -> list[int]:
        """Process ids of its gateways."""
        return [pid for pid in map(int, _gateways()) if _parent_of(pid) == self.child.pid]

    def kill(self) -> None:
        """SIGKILL: nothing in the process can react."""
        self.child.kill()
        self.child.wait(timeout=30)

    def wait(self, within: float = 900.0) -> int:
        return self.child.wait(timeout=within)


def journals() -> list[Journal]:
    """Open journals of the cluster that these tests use."""
    return [one for one in open_journals(Settings().paths.state) if one.header.cluster == CLUSTER]


def _lines(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    yield from (line for line in text.splitlines(keepends=True) if line.endswith("\n"))


@contextmanager
def main(*argv: str, folder: Path, stdin: int | None = None) -> Iterator[Command]:
    """Starts `main.py ARGV`; stops it at the end in the clean way if it still runs."""
    results, log = folder / "results", folder / "main.log"
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "SREGYM_RESULTS_DIR": str(results), "COLUMNS": "100"}
    with log.open("w", encoding="utf-8") as out:
        child = subprocess.Popen(
            [sys.executable, str(ROOT / "main.py"), *argv],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield Command(child=child, results=results, log=log)
        finally:
            if child.poll() is None:
                child.send_signal(signal.SIGINT)
                try:
                    child.wait(timeout=240)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()


def call(*argv: str, folder: Path, within: float = 900.0) -> tuple[int, str]:
    """Runs `main.py ARGV` to its end: exit code and everything it said."""
    with main(*argv, folder=folder) as command:
        code = command.wait(within)
    return code, command.log.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Traces:
    """What an attempt has noted that it makes on this machine, so that it can be looked for afterwards.

    Only that: other runs may be at work on the same machine.
    """

    things: tuple[HostThing, ...]

    @classmethod
    def of(cls, journals: Sequence[Journal]) -> Traces:
        return cls(things=tuple(one.host for journal in journals for one in journal.entries if one.host is not None))

    def left(self) -> list[str]:
        """Those that are still there."""
        return [str(thing) for thing in self.things if _is_there(thing)]


def _is_there(thing: HostThing) -> bool:
    if thing.kind == "folder":
        return Path(thing.name).exists()
    if thing.kind == "process":
        return any(str(thing.pid) == pid for pid in _gateways())
    argv = ["docker", thing.kind, "inspect", "--format", "{{.Name}}", thing.name]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 0 or "no such" in done.stderr.lower() or "not found" in done.stderr.lower(), done.stderr
    return done.returncode == 0


def _parent_of(pid: int) -> int:
    """See proc(5): the second field after the command's name, which may hold anything."""
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


def _gateways() -> Iterator[str]:
    """Process ids of gateways."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"sregym.gateway.serve" in words:
            yield path.parent.name
