"""Agents: what one is (data), and the isolated container in which it runs.

Belongs here: descriptions of agents, their images, the networks and containers of an attempt, the hand-over and the
withdrawal. Must not be here: what an agent can reach (sregym.gateway), stages and clocks (sregym.coordinator), and
anything about a concrete problem. `workstation/` holds programs that run inside the container; they import nothing of
ours.
"""
