"""Plays episodes in this process, in a second process, and over parallel sockets, and compares every byte.

    python -m benchmarks.incidentops_determinism --episodes 1000 --sessions 8

All scenarios, levels and policies without a model, random seeds. Prints JSON; exit code 1 when anything differs.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sregym.incidentops.episode import Episode
from sregym.incidentops.policies import POLICIES, play
from sregym.incidentops.scenarios import build, catalogue
from sregym.incidentops.world.instance import LEVELS, Call

Job = tuple[str, str, int, str]


def jobs(count: int, seed: int) -> list[Job]:
    """Which episodes: every scenario, level and policy in turn, with random seeds."""
    rng = random.Random(seed)
    names, policies = catalogue().ids, list(POLICIES)
    return [
        (names[n % len(names)], rng.choice(LEVELS), rng.randrange(10**9), policies[n // len(names) % len(policies)])
        for n in range(count)
    ]


def seen(observation: dict[str, Any], reward: float, done: bool) -> bytes:
    """The bytes of an observation that must be equal."""
    kept = {key: observation[key] for key in ("tool", "ok", "result", "error", "clock", "step", "steps_left")}
    return json.dumps([kept, observation["score"], reward, done], sort_keys=True).encode()


def play_here(job: Job) -> tuple[str, list[Call]]:
    """The digest of an episode in this process, and its calls."""
    scenario, level, seed, policy = job
    instance = build(scenario, level, seed)
    played = play(Episode(instance), POLICIES[policy](instance))
    digest = hashlib.sha256()
    for r in played.results:
        observation: dict[str, Any] = {
            "tool": r.tool, "ok": r.ok, "result": r.result, "error": r.error, "clock": r.clock, "step": r.step,
            "steps_left": r.steps_left, "score": None if r.score is None else r.score.as_dict(),
        }  # fmt: skip
        digest.update(seen(observation, r.reward, r.done))
    return digest.hexdigest(), list(played.calls)


async def play_there(url: str, work: list[tuple[Job, list[Call]]]) -> list[str]:
    """The digests of the same calls over one socket."""
    digests = []
    async with connect(url.replace("http", "ws") + "/ws", open_timeout=120, ping_timeout=None) as socket:
        for (scenario, level, seed, _), calls in work:
            data = {"scenario": scenario, "level": level, "seed": seed}
            await socket.send(json.dumps({"type": "reset", "data": data}))
            await socket.recv()
            digest = hashlib.sha256()
            for call in calls:
                step = {"tool_name": call.tool, "arguments": call.arguments}
                await socket.send(json.dumps({"type": "step", "data": step}))
                answer = json.loads(await socket.recv())["data"]
                digest.update(seen(answer["observation"], answer["reward"], answer["done"]))
            digests.append(digest.hexdigest())
    return digests


async def parallel(url: str, work: list[tuple[Job, list[Call]]], sessions: int) -> list[str]:
    """Deal the episodes to sessions that run at once; digests in the order of the work."""
    shares = [work[n::sessions] for n in range(sessions)]
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(play_there(url, share)) for share in shares]
    digests: list[str] = [""] * len(work)
    for n, task in enumerate(running):
        digests[n::sessions] = task.result()
    return digests


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=1000, help="episodes to compare (%(default)s unless set)")
    parser.add_argument(
        "--sessions", type=int, default=8, help="parallel sessions over sockets (%(default)s unless set)"
    )
    parser.add_argument("--seed", type=int, default=1, help="which episodes are drawn (%(default)s unless set)")
    parser.add_argument("--url", default="", help="a running server; without it the sockets are left out")
    parser.add_argument("--print-digests", action="store_true", help="only print the digests (the second process)")
    given = parser.parse_args()
    chosen = jobs(given.episodes, given.seed)
    played = [play_here(job) for job in chosen]
    here = [digest for digest, _ in played]
    if given.print_digests:
        json.dump(here, sys.stdout)
        return 0
    command = [
        sys.executable,
        __file__,
        "--episodes",
        str(given.episodes),
        "--seed",
        str(given.seed),
        "--print-digests",
    ]
    environment = {**os.environ, "PYTHONHASHSEED": "4242"}
    second = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    result: dict[str, Any] = {
        "episodes": len(here),
        "steps": sum(len(calls) for _, calls in played),
        "different_in_second_process": sum(a != b for a, b in zip(here, json.loads(second.stdout), strict=True)),
    }
    if given.url:
        work = [(job, calls) for job, (_, calls) in zip(chosen, played, strict=True)]
        there = asyncio.run(parallel(given.url, work, given.sessions))
        result |= {
            "sessions": given.sessions,
            "different_over_sockets": sum(a != b for a, b in zip(here, there, strict=True)),
        }
    json.dump(result, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 1 if any(value for key, value in result.items() if key.startswith("different")) else 0


if __name__ == "__main__":
    sys.exit(main())
