"""Speed of IncidentOps, as JSON: steps a second in process, and the latency of a step over sockets.

    python -m benchmarks.incidentops --sessions 16

`steps_per_s` counts whole episodes (reset included) written to SQLite in memory. Socket latency is measured against a
server in another process with a file database: `ws_step_p99_ms` with 16 sessions that think for 20 ms before each
step (up to 800 steps a second), `ws_flat_out` with sessions that do not think at all. CPU seconds are given beside
wall time, since other work on the machine changes mostly the latter.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from sregym.incidentops.scenarios import build, catalogue  # noqa: E402 - the repository is not installed
from sregym.incidentops.server.tools import TOOLS  # noqa: E402
from sregym.incidentops.store import Store  # noqa: E402
from sregym.incidentops.training import IncidentOps  # noqa: E402
from sregym.incidentops.world.topology import company  # noqa: E402

STEPS = 16  # a typical episode


def calls(seed: int) -> list[tuple[str, dict[str, Any]]]:
    """An episode as a model plays it: mostly reading, a change or two."""
    rng = random.Random(seed)
    reading = [
        name for name, tool in TOOLS.items() if not tool.changes and name not in ("resolve_incident", "get_alerts")
    ]
    made: list[tuple[str, dict[str, Any]]] = [("get_alerts", {})]
    for number in range(STEPS - 1):
        tool = "restart_service" if number == STEPS // 2 else rng.choice(reading)
        made.append((tool, {"service": rng.choice(company().names)}))
    return made


def in_process(episodes: int, store: Store | None) -> dict[str, float]:
    """Steps a second of one process."""
    env = IncidentOps(store=store)
    catalogue()
    build.cache_clear()
    scripts = [calls(seed) for seed in range(episodes)]
    started, cpu = time.perf_counter(), time.process_time()
    for seed, script in enumerate(scripts):
        env.reset(seed=10_000 + seed)
        for tool, arguments in script:
            env.step(tool, arguments)
    wall, used = time.perf_counter() - started, time.process_time() - cpu
    steps = episodes * STEPS
    return {"steps": steps, "per_s": round(steps / wall, 1), "per_cpu_s": round(steps / used, 1)}


def cpu_seconds(pid: int) -> float:
    """Processor time that another process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def server(db: str) -> Iterator[tuple[str, int]]:
    """A server of our own: its address and process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "server.app"],
        cwd=ROOT / "sregym" / "incidentops",
        env={**os.environ, "INCIDENTOPS_DB": db, "INCIDENTOPS_HOST": "127.0.0.1", "INCIDENTOPS_PORT": str(port)},
    )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline and process.poll() is None:
            try:
                urllib.request.urlopen(f"{url}/health", timeout=2).close()
                break
            except OSError:
                time.sleep(0.2)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(timeout=30)


async def one_session(url: str, seeds: range, pace: float) -> list[float]:
    """Latencies of the steps of one session, in ms."""
    latencies = []
    async with connect(url.replace("http", "ws") + "/ws", open_timeout=120, ping_timeout=None) as ws:
        for seed in seeds:
            await ws.send(json.dumps({"type": "reset", "data": {"seed": seed}}))
            await ws.recv()
            for tool, arguments in calls(seed):
                message = json.dumps({"type": "step", "data": {"tool_name": tool, "arguments": arguments}})
                if pace:
                    await asyncio.sleep(pace)
                sent = time.perf_counter()
                await ws.send(message)
                await ws.recv()
                latencies.append(1000 * (time.perf_counter() - sent))
    return latencies


async def sessions(url: str, count: int, episodes: int, pace: float) -> dict[str, float]:
    """All sessions at once."""
    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        running = [
            group.create_task(one_session(url, range(1000 * n, 1000 * n + episodes), pace)) for n in range(count)
        ]
    wall = time.perf_counter() - started
    ordered = sorted(value for task in running for value in task.result())

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)], 2)

    return {
        "steps": len(ordered),
        "steps_per_s": round(len(ordered) / wall, 1),
        "p50_ms": at(0.5),
        "p99_ms": at(0.99),
        "max_ms": round(ordered[-1], 2),
    }


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=400, help="episodes played in process (%(default)s unless set)")
    parser.add_argument(
        "--sessions", type=int, default=16, help="parallel sessions over sockets (%(default)s unless set)"
    )
    parser.add_argument(
        "--episodes-per-session", type=int, default=15, help="episodes of each (%(default)s unless set)"
    )
    parser.add_argument(
        "--pace-ms", type=float, default=20.0, help="pause before a step in the paced run (%(default)s unless set)"
    )
    given = parser.parse_args()
    memory, bare = in_process(given.episodes, Store()), in_process(given.episodes, None)
    with tempfile.TemporaryDirectory() as folder, server(str(Path(folder) / "bench.sqlite3")) as (url, pid):
        before = cpu_seconds(pid)
        flat_out = asyncio.run(sessions(url, given.sessions, given.episodes_per_session, 0.0))
        server_cpu = 1000 * (cpu_seconds(pid) - before) / flat_out["steps"]
        paced = asyncio.run(sessions(url, given.sessions, given.episodes_per_session, given.pace_ms / 1000))
    result = {
        "steps_per_s": memory["per_s"],
        "steps_per_cpu_s": memory["per_cpu_s"],
        "ws_step_p99_ms": paced["p99_ms"],
        "ws_server_cpu_ms_per_step": round(server_cpu, 3),
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "cpus": os.cpu_count(),
        "in_process_sqlite_memory": memory,
        "in_process_no_store": bare,
        "sessions": given.sessions,
        "ws_flat_out": flat_out,
        f"ws_paced_{given.pace_ms:g}ms": paced,
    }
    json.dump(result, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
