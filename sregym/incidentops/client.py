"""The typed client: OpenEnv's EnvClient for this environment (sync and async)."""

from __future__ import annotations

from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient

from sregym.incidentops.models import IncidentObservation, IncidentState, ToolCallAction


class IncidentEnv(EnvClient[ToolCallAction, IncidentObservation, IncidentState]):  # type: ignore[misc]
    """One session with a server.

    with IncidentEnv(base_url="http://localhost:7860").sync() as env:
        env.reset(scenario="bad-deploy-recovery", level="hard", seed=7)
        env.step(ToolCallAction(tool_name="get_alerts"))
    """

    def _step_payload(self, action: ToolCallAction) -> dict[str, Any]:
        return {"tool_name": action.tool_name, "arguments": action.arguments}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult:
        observation = IncidentObservation.model_validate(
            {**payload.get("observation", {}), "reward": payload.get("reward"), "done": payload.get("done", False)}
        )
        return StepResult(
            observation=observation,
            reward=payload.get("reward"),
            done=bool(payload.get("done", False)),
            metadata=payload.get("metadata"),
        )

    def _parse_state(self, payload: dict[str, Any]) -> IncidentState:
        state: IncidentState = IncidentState.model_validate(payload)
        return state
