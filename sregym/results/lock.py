"""`run.lock.json`: everything that a run's scores depend on, written before its first attempt."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, Self

import anyio
from pydantic import Field

from sregym import process
from sregym.errors import CommandError, PrerequisiteError
from sregym.results.record import ExactFraction, Record

COMPARED = (
    "profile",
    "noise",
    "judge",
    "tau",
    "model",
    "reasoning_effort",
    "internet_access",
    "agent_endpoints",
    "budget",
    "seeds",
    "timeouts_s",
    "agents",
    "problems",
)
"""What the attempts of one run have in common."""
OF_THE_MODEL = ("model", "reasoning_effort", "budget")
"""Of them, what concerns agents with a model."""


class CodeVersion(Record):
    """Which state of this program ran. `revision` is empty where it does not run from a git checkout."""

    revision: str = ""
    dirty: bool | None = None


class Machine(Record):
    """What it ran on."""

    system: str
    architecture: str
    cpus: int
    memory_mib: int | None


class ClusterFacts(Record):
    """The cluster. Image digests by the name that the cluster knows them by."""

    provider: str = ""
    kubernetes: str = ""
    kind: str = ""
    node_image: str = ""
    node_image_digest: str = ""
    control_planes: int | None = None
    workers: int | None = None
    capabilities: Mapping[str, bool] = Field(default_factory=dict)


class RunLock(Record):
    """See the module. Runs that differ in judge, tau, profile or noise are not compared without saying so."""

    schema_version: Literal[1] = 1
    run_id: str
    created_at: datetime
    command: tuple[str, ...] = ()
    code: CodeVersion
    python: str
    packages: Mapping[str, str]
    machine: Machine
    profile: str
    noise: bool = False
    cluster: ClusterFacts = ClusterFacts()
    app_images: Mapping[str, str] = Field(default_factory=dict)
    """Image reference -> digest."""
    judge: Mapping[str, str]
    """Fingerprint of the judge."""
    tau: ExactFraction
    agents: Mapping[str, str] = Field(default_factory=dict)
    """Agent -> version or image digest."""
    model: str | None = None
    reasoning_effort: str | None = None
    internet_access: str = "filtered"
    agent_endpoints: tuple[str, ...] = ()
    budget: Mapping[str, float] = Field(default_factory=dict)
    """Of each attempt: `cost_usd` and `tokens`, where they are limited."""
    problems: Mapping[str, int] = Field(default_factory=dict)
    """Problem id -> revision."""
    seeds: Mapping[str, int] = Field(default_factory=dict)
    timeouts_s: Mapping[str, float] = Field(default_factory=dict)

    def contradictions(self, other: RunLock) -> list[str]:
        """Why attempts under `other` cannot stand beside those under this lock: `name: here, there` for each reason.

        Only what scores depend on by the user's choice. Agents and problems that one of them lacks contradict nothing,
        nor do models where one of them has none, nor what an older version did not record.
        """
        told = []
        for name in COMPARED:
            if name not in self.model_fields_set & other.model_fields_set:
                continue
            if name in OF_THE_MODEL and None in (self.model, other.model):
                continue
            mine, theirs = getattr(self, name), getattr(other, name)
            if name in ("agents", "problems"):
                shared = mine.keys() & theirs.keys()
                mine, theirs = ({key: found[key] for key in shared} for found in (mine, theirs))
            if mine != theirs:
                told.append(f"{name}: {_told(mine)}, now {_told(theirs)}")
        return told

    def on(self, cluster: ClusterFacts, app_images: Mapping[str, str]) -> RunLock:
        """This lock with the cluster that attempts are made on from here."""
        return self.model_copy(update={"cluster": cluster, "app_images": {**self.app_images, **app_images}})

    def extended(self, other: RunLock) -> RunLock:
        """This lock with what `other` has more of (agents, problems, a model): a run that was given more to do."""
        added: dict[str, object] = {
            "agents": {**other.agents, **self.agents},
            "problems": {**other.problems, **self.problems},
        }
        if self.model is None or "reasoning_effort" not in self.model_fields_set:
            added |= {name: getattr(other, name) for name in OF_THE_MODEL}
        return self.model_copy(update=added)

    @classmethod
    async def collect(cls, *, run_id: str, repo: Path, profile: str, judge: Mapping[str, str], **facts: Any) -> Self:
        """The lock of a run that starts now; what this machine can tell is filled in, the rest comes in `facts`."""
        return cls(
            run_id=run_id,
            created_at=datetime.now(UTC),
            code=await code_version(repo),
            python=platform.python_version(),
            packages=_packages(),
            machine=_machine(),
            profile=profile,
            judge=judge,
            tau=judge["tau"],  # type: ignore[arg-type]  # text, validated into a fraction
            command=facts.pop("command", (Path(sys.argv[0]).name, *sys.argv[1:])),
            **facts,
        )


def _told(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {value[key]}" for key in sorted(value)) or "none"
    return str(value)


async def code_version(repo: Path) -> CodeVersion:
    """The git revision of a folder, and whether tracked files differ from it."""
    try:
        head = await process.run(["git", "rev-parse", "HEAD"], cwd=repo, within=10)
        changes = await process.run(["git", "status", "--porcelain", "--untracked-files=no"], cwd=repo, within=30)
    except (CommandError, PrerequisiteError):
        return CodeVersion()
    return CodeVersion(revision=head.stdout.strip(), dirty=bool(changes.stdout.strip()))


def _packages() -> dict[str, str]:
    found = {dist.name: dist.version for dist in metadata.distributions() if dist.name}
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def _machine() -> Machine:
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    except (ValueError, OSError):
        memory = None
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        architecture=platform.machine(),
        cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_mib=memory,
    )


async def cpu_pressure(path: Path = Path("/proc/pressure/cpu")) -> dict[str, float]:
    """The host's CPU pressure now (percent over 10, 60, 300 s); empty where the kernel does not tell."""
    try:
        text = await anyio.Path(path).read_text()
    except OSError:
        return {}
    some = next((line for line in text.splitlines() if line.startswith("some ")), "")
    pairs = (field.split("=", 1) for field in some.split()[1:])
    return {name: float(value) for name, value in pairs if name.startswith("avg")}
