"""Runs attempts: brings up the world, breaks it, hands it to an agent, grades what the agent left, cleans up.

Knows contracts, never a concrete problem, app or agent. `world` holds the nested contexts that `verify` uses too,
`attempt` one graded attempt, `run` many of them, `recovery` what a killed process left behind.
"""
