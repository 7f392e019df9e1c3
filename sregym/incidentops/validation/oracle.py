"""The oracle as a script: plays the stated repair of a task against a running server and prints the score.

    python validation/oracle.py --url http://localhost:7860 --scenario bad-deploy-recovery --level hard --seed 7

Exit code 0 when the score is at least 0.95.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from sregym.incidentops.client import IncidentEnv
from sregym.incidentops.episode import StepResult
from sregym.incidentops.models import ToolCallAction
from sregym.incidentops.policies.oracle import Oracle
from sregym.incidentops.scenarios import build

PASSES = 0.95


def solve(url: str, *, scenario: str, level: str, seed: int) -> float:
    """Play the oracle over a socket; the score."""
    policy = Oracle(build(scenario, level, seed))
    with IncidentEnv(base_url=url).sync() as env:
        observation: Any = env.reset(scenario=scenario, level=level, seed=seed).observation
        briefing, last = observation.incident, None
        while not observation.done:
            call = policy.act(briefing=briefing, last=last)
            observation = env.step(ToolCallAction(tool_name=call.tool, arguments=dict(call.arguments))).observation
            last = cast(StepResult, SimpleNamespace(**observation.model_dump()))
    return float(observation.score["score"])


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://localhost:7860")
    parser.add_argument("--scenario", default="bad-deploy-recovery")
    parser.add_argument("--level", default="medium")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    score = solve(given.url, scenario=given.scenario, level=given.level, seed=given.seed)
    sys.stdout.write(f"{score:.4f}\n")
    return 0 if score >= PASSES else 1


if __name__ == "__main__":
    sys.exit(main())
