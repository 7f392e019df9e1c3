"""The contract of a mitigation oracle: reads the state before the fault, and judges the state that the agent left."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from sregym.api.app import OracleContext
from sregym.api.grading import Verdict

Baseline = Mapping[str, Any]
"""What an oracle noted before the fault (JSON)."""


class Exercise(ABC):
    """A deed that shows whether a repair lasts: delete a pod, restart a caller, write a canary, replay a burst.

    Runs only when the agent's access is withdrawn and noise has ended. What it changes goes through `ctx.editor`.
    """

    @abstractmethod
    async def run(self, ctx: OracleContext) -> None:
        """Does it and waits for its own end; what follows is judged by the oracle's checks, not by this."""


class Oracle(ABC):
    """Judges a mitigation. Frozen; receives the baseline, keeps no state."""

    exercises: Sequence[Exercise] = ()

    async def baseline(self, ctx: OracleContext) -> Baseline:
        """Notes what must be known of the healthy system. Called once, before the fault."""
        return {}

    @abstractmethod
    async def glance(self, ctx: OracleContext, baseline: Baseline) -> Verdict:
        """The state right now, without waiting and without exercises: is the incident on? Seconds, not minutes."""

    @abstractmethod
    async def check(self, ctx: OracleContext, baseline: Baseline) -> Verdict:
        """The full judgement: passive checks, exercises, passive checks again. Waits for roll-outs in motion, fails
        early on what cannot heal. UNSCORED where something could not be looked at; never raises ClusterError."""
