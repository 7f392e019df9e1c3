"""The wire types: OpenEnv's Action, Observation and State for this environment."""

from __future__ import annotations

from typing import Any, Literal

from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field


class ToolCallAction(Action):  # type: ignore[misc]  # OpenEnv is not followed by mypy
    """One tool call. Whether tool and arguments exist is answered by the episode, with a useful error."""

    type: Literal["call_tool"] = "call_tool"
    tool_name: str = Field(max_length=64, description="one of the ten tools")
    arguments: dict[str, Any] = Field(default_factory=dict, description="arguments of the tool, see its JSON schema")


class IncidentObservation(Observation):  # type: ignore[misc]
    """What the agent sees after a call. `metadata` holds what the reward is made of; it is for trainers."""

    incident: dict[str, Any] | None = Field(default=None, description="the briefing; only after reset")
    tool: str | None = Field(default=None, description="the tool that was called")
    ok: bool = Field(default=True, description="whether the call was carried out")
    result: dict[str, Any] = Field(default_factory=dict, description="what the tool returned")
    error: str | None = Field(default=None, description="why the call was refused, and what would be accepted")
    clock: str = Field(default="", description="simulated time")
    step: int = Field(default=0, ge=0, description="calls so far")
    steps_left: int = Field(default=0, ge=0, description="calls left")
    score: dict[str, float] | None = Field(default=None, description="the graded episode; only when it has ended")


class IncidentState(State):  # type: ignore[misc]
    """Where the episode stands. The task is named only when the episode has ended: its name gives it away."""

    status: Literal["none", "open", "finished"] = "none"
    incident_id: str | None = None
    clock: str = ""
    reward_sum: float = 0.0
    score: dict[str, float] | None = None
    scenario: str | None = None
    level: str | None = None
    seed: int | None = None
