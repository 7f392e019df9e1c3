"""What an agent is, as data: `agent.yaml`.

    name: mine
    description: One line for people.
    image: registry.example/mine:1        # or: dockerfile: Dockerfile (its folder is the build context)
    command: [python3, /app/run.py]
    environment: {LEVEL: "2"}             # added to what every agent gets (docs/agents.md)
    needs_model: true

Built-in agents live in `sregym/agents/baselines/<name>/`; anyone's own is given by its path.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sregym.agents.spec_errors import lines_of
from sregym.errors import DefinitionError, PrerequisiteError

BASELINES = Path(__file__).parent / "baselines"
FILE = "agent.yaml"
WORKSTATION = "workstation"
"""The image of the built-in agents, by its name in agent.yaml; as build argument BASE of anyone's own Dockerfile."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?")


class Limits(BaseModel):
    """What the container may use."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    memory: str = Field(default="2g", pattern=r"^[0-9]+[kmg]$")
    cpus: float = Field(default=1.0, gt=0)
    pids: int = Field(default=512, gt=0)
    scratch: str = Field(default="512m", pattern=r"^[0-9]+[kmg]$")
    """Size of /tmp and of the home folder, each in memory."""
    logs: str = Field(default="256m", pattern=r"^[0-9]+[kmg]$")
    """Size of what it may leave in AGENT_LOGS_DIR, in memory, too."""


class AgentSpec(BaseModel):
    """One agent."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    description: str
    version: str = "1"
    image: str | None = None
    dockerfile: Path | None = None
    """Relative to agent.yaml; absolute once loaded."""
    command: tuple[str, ...] = ()
    """Empty: the image's own."""
    environment: dict[str, str] = Field(default_factory=dict)
    needs_model: bool = False
    model_aliases: tuple[str, ...] = ()
    """Further names of models that its client asks for (a "fast model"); all are answered by the configured one."""
    reads_payload: bool = False
    """Gets the repair and the right diagnosis on its standard input. Only for proving that problems are solvable."""
    outside: bool = False
    """Not in our container: it is invited to the gateway on loopback, and nothing is built or started."""
    leaderboard: bool = True
    """Whether its results may stand beside others'."""
    user: str = Field(default="1000:1000", pattern=r"^[1-9][0-9]*:[0-9]+$")
    """Numeric user and group; never root."""
    limits: Limits = Field(default_factory=Limits)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        sources = [self.image is not None, self.dockerfile is not None, self.outside]
        if sum(sources) != 1:
            raise ValueError("give exactly one of `image`, `dockerfile` and `outside: true`")
        if self.outside and (self.command or self.reads_payload):
            raise ValueError("an agent outside our container has no command and gets no payload")
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name {self.name!r}: lower-case letters, digits, - and _ only")
        if self.reads_payload and self.leaderboard:
            raise ValueError("an agent that gets the answer can never be on the leaderboard")
        return self


def agent_names() -> list[str]:
    """Names of the built-in agents."""
    return sorted(path.parent.name for path in BASELINES.glob(f"*/{FILE}"))


def load_agent(name_or_path: str) -> AgentSpec:
    """A built-in agent by name, or anyone's own by the path of its agent.yaml (or the folder of it).

    Raises:
        PrerequisiteError: There is no such agent or file.
        DefinitionError: The file is no valid description.
    """
    if name_or_path in agent_names():
        return _read(BASELINES / name_or_path / FILE)
    path = Path(name_or_path)
    if path.is_dir():
        path = path / FILE
    if not path.is_file():
        known = ", ".join(agent_names())
        raise PrerequisiteError(
            f"there is no agent {name_or_path!r}",
            cure=f"use one of {known}, or give the path of an agent.yaml of your own",
        )
    return _read(path)


def _read(path: Path) -> AgentSpec:
    try:
        spec = AgentSpec.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        known = (*AgentSpec.model_fields, *(f"limits.{name}" for name in Limits.model_fields))
        lines = "".join(f"\n  {line}" for line in lines_of(error, known))
        raise DefinitionError(f"{path} describes no agent:{lines}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DefinitionError(f"{path} is no YAML: {error}") from error
    if spec.dockerfile is None:
        return spec
    dockerfile = (path.parent / spec.dockerfile).resolve()
    if not dockerfile.is_file():
        raise DefinitionError(f"{path}: there is no file {dockerfile}")
    return spec.model_copy(update={"dockerfile": dockerfile})
