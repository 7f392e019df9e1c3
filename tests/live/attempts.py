"""Whole attempts of agents that are a shell script, through `main.py` as a user starts it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from sregym.cluster.leftovers import HostThing
from sregym.results import AttemptRecord, load_run
from tests.live.command import ON_CLUSTER, PROBLEM, Command, Traces, journals, main
from tests.live.world import world_differences

OPTIONS = (*ON_CLUSTER, "--judge-model", "offline", "--healthy-phase", "0", "--agent-timeout", "40")


def agent(folder: Path, name: str, script: str, **more: Any) -> str:
    """Writes the description of an agent that runs a script; returns its path."""
    path = folder / name / "agent.yaml"
    path.parent.mkdir(parents=True)
    spec = {"name": name, "description": "x", "image": "workstation", "command": ["bash", "-c", script], **more}
    path.write_text(json.dumps(spec), encoding="utf-8")
    return str(path)


@dataclass(frozen=True)
class Ended:
    """A run that has ended, and all that it noted to have made on this machine while it went on."""

    code: int
    said: str
    folder: Path
    traces: Traces

    @property
    def records(self) -> dict[str, AttemptRecord]:
        return {one.agent.name: one for one in load_run(self.folder).attempts}

    def left_nothing(self) -> None:
        assert journals() == []
        assert self.traces.left() == []
        assert anyio.run(world_differences) == []


def run(folder: Path, *agents: str, meanwhile: Callable[[Command], None] | None = None) -> Ended:
    arguments = [word for one in agents for word in ("--agent", one)]
    things: dict[HostThing, None] = {}
    with main("--problem", PROBLEM, *arguments, *OPTIONS, folder=folder) as command:
        if meanwhile:
            meanwhile(command)
        while command.child.poll() is None:
            things |= dict.fromkeys(Traces.of(journals()).things)
            time.sleep(0.5)
    (found,) = (folder / "results").iterdir()
    return Ended(command.wait(), command.log.read_text(encoding="utf-8"), found, Traces(things=tuple(things)))
