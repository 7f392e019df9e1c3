"""Runs a model on the six first incidents and prints the lines of an OpenEnv submission.

    HF_TOKEN=... MODEL_NAME=mistralai/Mistral-7B-Instruct-v0.2 ENV_SERVER_URL=http://localhost:7860 python3 inference.py

Standard output holds nothing but [START], [STEP] and [END] lines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

if __name__ == "__main__":  # started from the package folder, or from anywhere by path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from sregym.incidentops.client import IncidentEnv
from sregym.incidentops.runner import Ended, LiteLlmModel, Model, play
from sregym.incidentops.scenarios.catalogue import FIRST
from sregym.incidentops.settings import RunnerSettings

ENV_NAME = "incidentops_env"
SEED = 7


def run(
    *,
    settings: RunnerSettings,
    model: Model,
    say: Callable[[str], None],
    tasks: Sequence[str] = FIRST,
    level: str = "medium",
    seed: int = SEED,
) -> list[Ended]:
    """Play the tasks one after another over one socket."""
    ended = []
    with IncidentEnv(base_url=settings.env_server_url).sync() as env:
        for task in tasks:
            reset = {"scenario": task, "level": level, "seed": seed}
            ended.append(play(env, model, reset=reset, task=task, env=ENV_NAME, say=say))
    return ended


def main() -> int:
    """Exit code 0 when every episode was played to its end, whatever its score."""
    settings = RunnerSettings()

    def say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    run(settings=settings, model=LiteLlmModel(settings), say=say)
    return 0


if __name__ == "__main__":
    sys.exit(main())
