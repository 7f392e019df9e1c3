"""Agents without a model, which anchor every table: oracle, rules, restart, random.

A policy sees what an agent sees (briefing and observations); only the oracle is given the instance (`random` takes
the names of settings from it, so that its patches are well formed).
"""

from sregym.incidentops.policies.base import MakePolicy, Played, Policy, play
from sregym.incidentops.policies.oracle import Oracle
from sregym.incidentops.policies.rules import Rules
from sregym.incidentops.policies.simple import RandomCalls, RestartEverything

POLICIES: dict[str, MakePolicy] = {
    "oracle": Oracle,
    "rules": Rules,
    "restart": RestartEverything,
    "random": RandomCalls,
}

__all__ = ["POLICIES", "MakePolicy", "Oracle", "Played", "Policy", "RandomCalls", "RestartEverything", "Rules", "play"]
