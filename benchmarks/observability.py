"""What the observability stack costs: memory and CPU by component, and what building its images took.

    python -m benchmarks.observability [--cluster NAME] [--seconds 60] [--runs 3]

Looks at a cluster on which an attempt, or `main.py verify`, has put the stack; best while an application is under load.
Prints one JSON object: `memory_mib` (working sets, the largest of the samples, by workload), `memory_mib_total`,
`cpu_cores` (over the window, by workload), `cpu_cores_total`, `applications_mib` (all namespaces that are not the
cluster's own), `nodes_mib` (anonymous memory and kernel's of the node containers), `series`, `samples_per_s`,
`build_s` (by step, as last built on this machine).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from sregym import process
from sregym.cluster import waits
from sregym.cluster.contract import Cluster
from sregym.cluster.providers.base import ClusterHandle
from sregym.cluster.providers.steps import Builder
from sregym.coordinator.lab import connect
from sregym.observability import NAMESPACE, recipes, steps
from sregym.observability.asking import query
from sregym.progress import Silent
from sregym.settings import Settings

MIB = 1 << 20
SYSTEM = ("kube-system", "local-path-storage", NAMESPACE)
WORKLOAD = "container"
"""Each container of the stack is called as its workload is."""


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", default="kind", help="name of a kind cluster of ours (%(default)s unless set)")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of one window (%(default)s unless set)")
    parser.add_argument("--runs", type=int, default=3, help="windows (%(default)s unless set)")
    arguments = parser.parse_args()
    if not _handle_file(arguments.cluster).is_file():
        parser.error(
            f"there is no cluster {arguments.cluster}: run `main.py cluster up`, or name another with --cluster"
        )
    found = anyio.run(measure, arguments.cluster, arguments.seconds, arguments.runs)
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


def _handle_file(name: str) -> Path:
    return Settings().paths.state / "clusters" / f"{name}.json"


async def measure(name: str, seconds: float, runs: int) -> dict[str, Any]:
    """Samples the cluster at the end of each window; memory is the largest sample, CPU the last window's."""
    paths = Settings().paths
    handle = ClusterHandle.model_validate_json(_handle_file(name).read_text(encoding="utf-8"))
    samples: list[dict[str, Any]] = []
    async with connect(handle.kubeconfig, handle.context, handle.node_names) as cluster:
        for _ in range(runs):
            await waits.elapse(seconds, why="a window")
            samples.append(await _look(cluster, seconds) | {"nodes_mib": await _nodes_mib(handle.node_names)})
    memory = {key: max(one["memory"].get(key, 0.0) for one in samples) for key in samples[-1]["memory"]}
    cpu = samples[-1]["cpu"]
    builder = Builder(cache=paths.cache, progress=Silent())
    names = [step.name for step in steps()] + [recipe.step_name for recipe in recipes()]
    return {
        "cluster": name,
        "memory_mib": {key: round(value, 1) for key, value in sorted(memory.items())},
        "memory_mib_total": round(max(sum(one["memory"].values()) for one in samples), 1),
        "cpu_cores": {key: round(value, 4) for key, value in sorted(cpu.items())},
        "cpu_cores_total": round(sum(cpu.values()), 3),
        "applications_mib": round(max(one["applications_mib"] for one in samples), 1),
        "nodes_mib": round(max(one["nodes_mib"] for one in samples), 1),
        "series": samples[-1]["series"],
        "samples_per_s": round(samples[-1]["samples_per_s"], 1),
        "build_s": {step: builder.expected_seconds(step) for step in names},
    }


async def _look(cluster: Cluster, seconds: float) -> dict[str, Any]:
    here = f'{{namespace="{NAMESPACE}",container!=""}}'
    others = f'{{namespace!~"{"|".join(SYSTEM)}",container!=""}}'
    memory = await query(cluster, f"sum by (container) (container_memory_working_set_bytes{here})")
    cpu = await query(cluster, f"sum by (container) (rate(container_cpu_usage_seconds_total{here}[{seconds:.0f}s]))")
    return {
        "memory": {sample.labels[WORKLOAD]: sample.value / MIB for sample in memory},
        "cpu": {sample.labels[WORKLOAD]: sample.value for sample in cpu},
        "applications_mib": await _one(cluster, f"sum(container_memory_working_set_bytes{others}) or vector(0)") / MIB,
        "series": int(await _one(cluster, "prometheus_tsdb_head_series")),
        "samples_per_s": await _one(cluster, "rate(prometheus_tsdb_head_samples_appended_total[1m])", summed=True),
    }


async def _one(cluster: Cluster, promql: str, *, summed: bool = False) -> float:
    found = await query(cluster, f"sum({promql})" if summed else promql)
    return found[0].value if found else 0.0


async def _nodes_mib(nodes: Sequence[str]) -> float:
    """What Docker counts for the nodes, without the page cache that it can drop."""
    done = await process.run(["docker", "stats", "--no-stream", "--format", "{{.MemUsage}}", *nodes])
    return sum(_mib(line.split("/")[0].strip()) for line in done.stdout.splitlines())


def _mib(text: str) -> float:
    for unit, factor in (("GiB", 1024.0), ("MiB", 1.0), ("KiB", 1 / 1024)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    return float(text.removesuffix("B")) / MIB


if __name__ == "__main__":
    main()
