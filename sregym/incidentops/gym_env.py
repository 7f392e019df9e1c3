"""Gymnasium's form of the environment. Needs the package `gymnasium`, no server."""

from __future__ import annotations

import json
from typing import Any, ClassVar, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces

from sregym.incidentops.server.tools import MAX_TEXT, TOOLS
from sregym.incidentops.training import IncidentOps
from sregym.incidentops.world.topology import company

SEED_BOUND = 2**31
MAX_OBSERVATION = 40_000
PRINTABLE = "".join(chr(code) for code in range(32, 127)) + "\n"


class IncidentOpsGym(gymnasium.Env[dict[str, Any], dict[str, Any]]):  # type: ignore[misc]  # not followed by mypy
    """Gymnasium: the action is a dict of tool, service and texts; the observation is JSON text and counters.

    Texts that a tool does not take are ignored, so every sample of the action space is a call.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}

    def __init__(
        self, *, scenario: str | None = None, level: str | None = None, render_mode: str | None = None
    ) -> None:
        self._env = IncidentOps()
        self._scenario, self._level = scenario, level
        self.render_mode = render_mode
        self.tools, self.services = list(TOOLS), company().names
        short = spaces.Text(min_length=0, max_length=200, charset=PRINTABLE)
        self.action_space = spaces.Dict(
            {
                "tool": spaces.Discrete(len(self.tools)),
                "service": spaces.Discrete(len(self.services)),
                "query": short,
                "key": short,
                "value": short,
                "root_cause": spaces.Text(min_length=0, max_length=MAX_TEXT, charset=PRINTABLE),
                "resolution": spaces.Text(min_length=0, max_length=MAX_TEXT, charset=PRINTABLE),
            }
        )
        self.observation_space = spaces.Dict(
            {
                "text": spaces.Text(min_length=0, max_length=MAX_OBSERVATION, charset=PRINTABLE),
                "steps_left": spaces.Discrete(256),
                "ok": spaces.Discrete(2),
            }
        )
        self._text = ""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode; without a seed the next one is drawn from the generator of the last."""
        super().reset(seed=seed)
        number = int(self.np_random.integers(SEED_BOUND)) if seed is None else seed
        chosen = {"scenario": self._scenario, "level": self._level} | (options or {})
        briefing = self._env.reset(seed=number, scenario=chosen["scenario"], level=chosen["level"])
        left = int(briefing["max_steps"])
        return self._observe(briefing, ok=True, left=left), {"incident_id": briefing["incident_id"], "seed": number}

    def step(self, action: dict[str, Any]) -> tuple[dict[str, Any], SupportsFloat, bool, bool, dict[str, Any]]:
        """One call. `terminated`: the incident was closed; `truncated`: the steps ran out."""
        tool = TOOLS[self.tools[int(action["tool"])]]
        step = self._env.step(tool.name, self._arguments(tool.parameters, action))
        closed = step.done and tool.name == "resolve_incident" and bool(step.observation["ok"])
        observation = self._observe(
            step.observation, ok=bool(step.observation["ok"]), left=int(step.observation["steps_left"])
        )
        return observation, step.reward, closed, step.done and not closed, step.info

    def render(self) -> str | None:
        """The last observation as text."""
        return self._text if self.render_mode == "ansi" else None

    def _arguments(self, wanted: dict[str, Any], action: dict[str, Any]) -> dict[str, Any]:
        texts = ("query", "key", "value", "root_cause", "resolution")
        given: dict[str, Any] = {key: action[key] for key in texts if key in action}
        given["service"] = self.services[int(action["service"])]
        if self._env.episode is not None:
            given["incident_id"] = self._env.episode.instance.incident_id
        return {key: given[key] for key in wanted if key in given}

    def _observe(self, data: dict[str, Any], *, ok: bool, left: int) -> dict[str, Any]:
        self._text = json.dumps(data)[:MAX_OBSERVATION]
        return {"text": self._text, "steps_left": np.int64(left), "ok": np.int64(ok)}
