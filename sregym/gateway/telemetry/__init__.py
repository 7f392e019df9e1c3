"""Metrics, traces and logs for agents: read-only, through the API server's Service proxy with our own credentials.

Belongs here: what reads the observability stack on an agent's behalf. Must not be here: the stack itself, or anything
that writes to it. A backend that is down is told with its reason and never ends anything.
"""
