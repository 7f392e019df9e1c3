"""What the relay counted comes into the attempt's record as it is."""

from types import SimpleNamespace
from typing import Any, cast

from sregym.agents.runtime import RunningAgent
from sregym.coordinator.run import MeteredAgent
from sregym.gateway.models import ModelUsage
from sregym.results import Usage


def test_every_count_is_recorded() -> None:
    used = ModelUsage(
        calls=5,
        failed=1,
        prompt_tokens=100,
        completion_tokens=20,
        unmetered=2,
        cached_tokens=40,
        reasoning_tokens=7,
        cost_usd=0.5,
        budget_spent=True,
    )
    agent: Any = SimpleNamespace(start=None, wait_finished=None, withdraw=None, container=None, usage=lambda: used)
    assert MeteredAgent(cast(RunningAgent, agent)).usage() == Usage(
        calls=5,
        failed=1,
        tokens_in=100,
        tokens_out=20,
        unmetered=2,
        cached_tokens=40,
        reasoning_tokens=7,
        cost_usd=0.5,
        budget_spent=True,
    )
