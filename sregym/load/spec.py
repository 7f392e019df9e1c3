"""What the load generator is told: an application's operations, a target address, phases. Plain JSON, one line each.

Every request goes over a fresh connection, arrivals are a Poisson process whose times and values depend on the seed
alone, and a request that is late is counted as late: the loop is open.
"""

from __future__ import annotations

import json
from typing import Any

from sregym.api.topology import Operation, Topology
from sregym.cluster.traffic import LoadPhase

TIMEOUT_S = 5.0
"""After which a user gives up; a failed request."""
LATE_MS = 100.0
"""A request that starts later than this after it was due counts as late."""
WINDOW_S = 1.0
MAX_IN_FLIGHT = 4000
RECORDED_UP_TO = 200.0
"""Requests a second up to which every single request is recorded; above it, figures come from one-second summaries."""
NOWHERE = "127.0.0.1:9"
"""Where requests go while the entry Service has no address: refused at once, as users would be."""


def spec_line(topology: Topology, *, target: str, seed: int, base: LoadPhase) -> str:
    """The generator's first line."""
    return json.dumps(
        {
            "target": target,
            "host": f"{topology.entry}:{topology.entry_port}",
            "seed": seed,
            "arrival": "exponential",
            "timeout_s": TIMEOUT_S,
            "late_ms": LATE_MS,
            "max_in_flight": MAX_IN_FLIGHT,
            "window_s": WINDOW_S,
            "records": base.rate <= RECORDED_UP_TO,
            "phases": [phase_row(base, name="base")],
            "operations": [_operation(one) for one in topology.operations],
        }
    )


def phase_lines(phase: LoadPhase, *, name: str, base: LoadPhase) -> list[str]:
    """Commands that switch to a phase, and back to the base phase after its seconds."""
    rows = [phase_row(phase, name=name)]
    if phase.seconds is not None:
        rows.append(phase_row(base, name="base"))
    recorded = max(phase.rate, base.rate) <= RECORDED_UP_TO
    return [
        json.dumps({"command": "records", "on": recorded}),
        json.dumps({"command": "phases", "phases": rows}),
    ]


def target_line(target: str) -> str:
    return json.dumps({"command": "target", "target": target})


def phase_row(phase: LoadPhase, *, name: str) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "rate": phase.rate, "duration_s": phase.seconds}
    if phase.operations is not None:
        row["weights"] = dict(phase.operations)
    return row


def _operation(operation: Operation) -> dict[str, Any]:
    given = operation.model_dump(mode="json", exclude={"needs", "body_check"})
    return {key: value for key, value in given.items() if value not in (None, {}, [], ())}
