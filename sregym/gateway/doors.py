"""The doors of the gateway: all that an agent can knock at, on the ports that agents of this field expect.

One more door is one more line here and its application in `sregym.gateway.serve`; sockets, the gateway container's
ports, the agent's environment and the addresses of outside agents follow.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Door:
    """A part of the gateway with a socket of its own."""

    name: str
    port: int
    """At the gateway container."""
    variable: str = ""
    """The environment variable that holds its address for agents; none where they are told otherwise."""


API = Door(name="api", port=8000)
KUBE = Door(name="kube", port=16443)
MODEL = Door(name="model", port=8080)
MCP = Door(name="mcp", port=9954, variable="MCP_SERVER_URL")
METRICS = Door(name="metrics", port=9090, variable="PROMETHEUS_URL")
TRACES = Door(name="traces", port=16686, variable="JAEGER_URL")
INTERNET = Door(name="internet", port=3128)
"""Only where the agent may reach more than the gateway; variables say so (`HTTPS_PROXY`)."""
LOGS = Door(name="logs", port=3100, variable="LOKI_URL")

DOORS = (API, KUBE, MODEL, METRICS, TRACES, LOGS, MCP, INTERNET)
