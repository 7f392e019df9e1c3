"""The oracle: reads each cause's evidence, makes the stated repair, waits for health, resolves.

It is told the instance. It shows that every instance can be solved with full marks by what an agent may do.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from sregym.incidentops.episode import StepResult
from sregym.incidentops.scoring import CLUES_WANTED
from sregym.incidentops.world.instance import Call, Instance

LAST_CALLS = 1  # kept for resolve_incident


class Oracle:
    """See the module."""

    name = "oracle"

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        plan = [Call(tool="get_alerts")]
        for cause in instance.causes:
            plan += cause.evidence[:CLUES_WANTED]
        for cause in instance.causes:
            plan += cause.repair
        self._plan = deque(plan)
        self._unverified = [cause.component for cause in instance.causes]
        self._broad = list({name: None for cause in instance.causes for name in (cause.component, "api")})

    def act(self, *, briefing: dict[str, Any], last: StepResult | None) -> Call:
        """Evidence, repair, health of each component and of the edge, resolve."""
        if self._plan:
            return self._plan.popleft()
        if last is not None and last.tool == "run_healthcheck" and last.result.get("status") == "healthy":
            name = str(last.result["service"])
            clear = not last.result["unhealthy_dependencies"]
            if clear and name in self._broad:
                self._broad.remove(name)
        if self._broad and (last is None or last.steps_left > LAST_CALLS):
            return Call(tool="run_healthcheck", arguments={"service": self._broad[0]})
        causes = "; ".join(f"{cause.component}: {cause.mechanism}" for cause in self._instance.causes)
        return Call(
            tool="resolve_incident",
            arguments={
                "incident_id": str(briefing["incident_id"]),
                "root_cause": causes,
                "resolution": "Repaired the cause and checked that the services are healthy.",
            },
        )
