"""Two floors: random calls, and restart-everything."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from sregym.incidentops.episode import StepResult
from sregym.incidentops.mechanisms import MECHANISMS
from sregym.incidentops.server.tools import TOOLS
from sregym.incidentops.world.instance import Call, Instance
from sregym.incidentops.world.topology import company


class RandomCalls:
    """Uniform over tools, services, keys of that service and plausible values; resolves with a random cause."""

    def __init__(self, instance: Instance, *, seed: int = 0) -> None:
        self.name = "random"
        self._keys = {name: sorted(settings) for name, settings in instance.settings.items()}
        self._rng = random.Random(f"random/{seed}/{instance.scenario}/{instance.level}/{instance.seed}")

    def act(self, *, briefing: dict[str, Any], last: StepResult | None) -> Call:
        """Any tool."""
        rng = self._rng
        tool = rng.choice(list(TOOLS))
        service = rng.choice(company().names)
        if tool == "get_alerts":
            return Call(tool=tool)
        if tool == "resolve_incident":
            cause = f"{service}: {rng.choice(list(MECHANISMS))}"
            arguments = {"incident_id": str(briefing["incident_id"]), "root_cause": cause, "resolution": "done"}
            return Call(tool=tool, arguments={**arguments})
        if tool == "patch_config":
            value = rng.choice(["true", "false", "1", "10", "50", "100", "500", "5000"])
            return Call(
                tool=tool, arguments={"service": service, "key": rng.choice(self._keys[service]), "value": value}
            )
        if tool == "search_logs":
            return Call(
                tool=tool, arguments={"service": service, "query": rng.choice(["", "error", "warn", "timeout"])}
            )
        return Call(tool=tool, arguments={"service": service})


class RestartEverything:
    """Looks at each service once (so that no action is blind), restarts them all, claims a memory leak."""

    name = "restart"

    def __init__(self, instance: Instance) -> None:
        names = company().names
        self._plan = deque(
            [Call(tool="run_healthcheck", arguments={"service": name}) for name in names]
            + [Call(tool="restart_service", arguments={"service": name}) for name in names]
            + [Call(tool="run_healthcheck", arguments={"service": name}) for name in names]
        )

    def act(self, *, briefing: dict[str, Any], last: StepResult | None) -> Call:
        """The plan, then the paged service as the culprit."""
        if self._plan:
            return self._plan.popleft()
        paged = next((name for name in company().names if f" on {name}:" in str(briefing["page"])), "api")
        return Call(
            tool="resolve_incident",
            arguments={
                "incident_id": str(briefing["incident_id"]),
                "root_cause": f"{paged}: memory leak",
                "resolution": "Restarted every service.",
            },
        )
