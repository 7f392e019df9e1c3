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
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROBLEM = "k8s_target_port-misconfig_hotel_reservation"
NODE_LABEL = "io.x-k8s.kind.cluster"


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

    def kill(self) -> None:
        """SIGKILL: nothing in the process can react."""
        self.child.kill()
        self.child.wait(timeout=30)

    def wait(self, within: float = 900.0) -> int:
        return self.child.wait(timeout=within)


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
class Host:
    """What there is on this machine that an attempt could leave behind."""

    containers: frozenset[str]
    networks: frozenset[str]
    processes: frozenset[str] = field(default_factory=frozenset)


def host() -> Host:
    """Containers that are no nodes, Docker networks, and gateway processes."""
    return Host(
        containers=frozenset(_docker("ps", "--all", "--format", "{{.Names}}")) - _nodes(),
        networks=frozenset(_docker("network", "ls", "--format", "{{.Name}}")),
        processes=frozenset(_gateways()),
    )


def _nodes() -> frozenset[str]:
    return frozenset(_docker("ps", "--all", "--filter", f"label={NODE_LABEL}", "--format", "{{.Names}}"))


def _docker(*argv: str) -> Sequence[str]:
    return subprocess.run(["docker", *argv], check=True, capture_output=True, text=True).stdout.split()


def _gateways() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"sregym.gateway.serve" in words:
            yield path.parent.name
