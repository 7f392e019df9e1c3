"""IncidentOps: a deterministic on-call simulator for training and quick comparison of agents.

It stands alone: nothing of Kubernetes, nothing of the other `sregym` packages. The core (world, scenarios, tools,
scoring, episodes, policies) needs only pydantic and PyYAML; `models`, `rubrics`, `server` and `client` need the
`incidentops` extra (OpenEnv).
"""
