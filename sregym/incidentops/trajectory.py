"""Trajectories for training and review: JSON lines of our own, and ATIF (Agent Trajectory Interchange Format).

One JSON object an episode; a replay of its calls must give the same observations, which `replay` checks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sregym.incidentops.episode import Episode, StepResult
from sregym.incidentops.errors import EpisodeError, UnknownTaskError
from sregym.incidentops.policies.base import Played
from sregym.incidentops.scenarios import build
from sregym.incidentops.scenarios.catalogue import REVISION
from sregym.incidentops.server.tools import TOOLS

FORMAT = "incidentops-trajectory/1"
ATIF = "ATIF-v1.7"


def seen(result: StepResult) -> dict[str, Any]:
    """What the agent saw, without rewards."""
    shown: dict[str, Any] = {"ok": result.ok, "result": result.result} if result.ok else {"ok": False}
    if result.error is not None:
        shown["error"] = result.error
    return shown | {"clock": result.clock, "steps_left": result.steps_left}


def record(played: Played) -> dict[str, Any]:
    """One finished episode as JSON."""
    instance = played.instance
    steps = [
        {
            "step": result.step,
            "tool": call.tool,
            "arguments": call.arguments,
            "observation": seen(result),
            "reward": result.reward,
            "reward_parts": result.parts,
            "done": result.done,
        }
        for call, result in zip(played.calls, played.results, strict=True)
    ]
    return {
        "format": FORMAT,
        "revision": REVISION,
        "scenario": instance.scenario,
        "level": instance.level,
        "seed": instance.seed,
        "policy": played.policy,
        "briefing": Episode(instance).briefing(),
        "steps": steps,
        "score": played.score.as_dict(),
        "reward_sum": played.reward_sum,
        "digest": digest(steps),
    }


def digest(steps: list[dict[str, Any]]) -> str:
    """SHA-256 over observations and rewards: equal digests mean byte-identical episodes."""
    kept = [{key: step[key] for key in ("observation", "reward", "done")} for step in steps]
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def atif(played: Played) -> dict[str, Any]:
    """One finished episode as an ATIF trajectory: a user step with the briefing, then one agent step a call."""
    instance = played.instance
    steps: list[dict[str, Any]] = [
        {"step_id": 1, "source": "user", "message": json.dumps(Episode(instance).briefing(), ensure_ascii=False)}
    ]
    for call, result in zip(played.calls, played.results, strict=True):
        call_id = f"call_{result.step}"
        text = json.dumps(seen(result), ensure_ascii=False)
        steps.append(
            {
                "step_id": result.step + 1,
                "source": "agent",
                "message": "",
                "tool_calls": [{"tool_call_id": call_id, "function_name": call.tool, "arguments": call.arguments}],
                "observation": {"results": [{"source_call_id": call_id, "content": text}]},
                "extra": {"reward": result.reward, "done": result.done},
            }
        )
    return {
        "schema_version": ATIF,
        "session_id": f"{instance.scenario}/{instance.level}/{instance.seed}",
        "agent": {
            "name": f"incidentops-{played.policy}",
            "version": "1.0.0",
            "tool_definitions": [
                {
                    "type": "function",
                    "function": {"name": t.name, "description": t.description, "parameters": t.schema()},
                }
                for t in TOOLS.values()
            ],
        },
        "steps": steps,
        "final_metrics": {"total_steps": len(steps)},
        "extra": {"score": played.score.as_dict(), "reward_sum": played.reward_sum},
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Replayed:
    """A recorded episode played again."""

    name: str
    recorded: str
    replayed: str

    @property
    def same(self) -> bool:
        """Whether every observation and reward came out byte-identical."""
        return self.recorded == self.replayed


def replay(line: Mapping[str, Any]) -> tuple[Replayed, list[StepResult]]:
    """Play a recorded episode's calls again.

    Raises:
        EpisodeError: the line is no trajectory of this format, or names no known task.
    """
    if (form := line.get("format")) != FORMAT:
        raise EpisodeError(f"not a trajectory: its format is {form!r}, not {FORMAT!r}")
    try:
        episode = Episode(build(line["scenario"], line["level"], int(line["seed"])))
        if line["revision"] != REVISION:
            raise EpisodeError(f"recorded with revision {line['revision']} of the world, this is {REVISION}")
        results = [episode.step(step["tool"], step["arguments"]) for step in line["steps"]]
        name = f"{line['scenario']}/{line['level']}/{line['seed']}/{line['policy']}"
        recorded = str(line["digest"])
    except KeyError as error:
        raise EpisodeError(f"not a trajectory: it lacks {error}") from error
    except (TypeError, ValueError, UnknownTaskError) as error:
        raise EpisodeError(f"not a trajectory: {error}") from error
    steps = [{"observation": seen(r), "reward": r.reward, "done": r.done} for r in results]
    return Replayed(name=name, recorded=recorded, replayed=digest(steps)), results


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The trajectories of a JSON lines file.

    Raises:
        EpisodeError: a line is no JSON object.
        OSError: the file cannot be read.
    """
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            if number == 1 and line.startswith(b"["):
                raise EpisodeError("it is one JSON array, as ATIF is, not JSON lines")
            try:
                data = json.loads(line)
            except ValueError as error:
                raise EpisodeError(f"line {number} is no JSON: {error}") from error
            if not isinstance(data, dict):
                raise EpisodeError(f"line {number} is no JSON object")
            yield data


def write_line(data: Mapping[str, Any]) -> str:
    """One line of a JSON lines file."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
