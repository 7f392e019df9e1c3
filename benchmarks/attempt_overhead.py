"""How long an attempt takes without its agent, and how much memory the cluster with the application needs.

    python -m benchmarks.attempt_overhead [--attempts 10] [--problem ID ... | --suite smoke] [--agent reference ...]
    python -m benchmarks.attempt_overhead --of results/RUN

Runs attempts on hotel-reservation and prints one JSON object: `median_overhead_s` (without agent, healthy phase and
proof windows), `hold_s` and `healthy_s` (medians), `phases_s` (median of each phase), `memory_mib` (of the nodes, under
load), `attempts`, `end_to_end` (passed of graded, by agent). With `--of` it tells the same of a run that is there,
except for its memory.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sregym.errors import PrerequisiteError
from sregym.results import AttemptRecord, RunFolder, Status, load_run
from sregym.results.record import Grade
from sregym.settings import Paths

ROOT = Path(__file__).resolve().parent.parent
PROBLEMS = ("k8s_target_port-misconfig_hotel_reservation", "scale_pod_zero_hotel_reservation")
AGENTS = ("nop", "reference")
SAMPLE_EVERY_S = 5.0


@dataclass
class MemoryMeter:
    """Samples the memory of the cluster's node containers while runs go on."""

    cluster: str
    samples: list[float] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self._stop.wait(SAMPLE_EVERY_S):
            if (used := node_memory_mib(self.cluster)) is not None:
                self.samples.append(used)

    def stop(self) -> None:
        self._stop.set()


def node_memory_mib(cluster: str) -> float | None:
    """Memory of all node containers in MiB (anonymous and other memory that cannot be dropped); None if unknown."""
    label = f"label=io.x-k8s.kind.cluster={cluster}"
    names = _words("docker", "ps", "--filter", label, "--format", "{{.Names}}")
    if not names:
        return None
    return round(sum(_working_set(name) for name in names) / 2**20, 1)


def _working_set(container: str) -> int:
    """Usage without the inactive file cache, as the kubelet computes a working set (cAdvisor)."""
    v1 = "cat /sys/fs/cgroup/memory/memory.usage_in_bytes; grep ^total_inactive_file /sys/fs/cgroup/memory/memory.stat"
    v2 = "cat /sys/fs/cgroup/memory.current; grep ^inactive_file /sys/fs/cgroup/memory.stat"
    script = f"if [ -e /sys/fs/cgroup/memory ]; then {v1}; else {v2}; fi"
    usage, _, inactive = _words("docker", "exec", container, "sh", "-c", script)
    return int(usage) - int(inactive)


def _words(*argv: str) -> Sequence[str]:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()


def run(choice: Sequence[str], results: Path, cluster: str) -> Sequence[AttemptRecord]:
    """Runs what was chosen, in the words of the command line. Raises SystemExit where the run fails, which said why."""
    command = [sys.executable, str(ROOT / "main.py"), *choice, "--judge-model", "offline", "--healthy-phase", "10"]
    done = subprocess.run(
        ["env", f"SREGYM_RESULTS_DIR={results}", *command, f"--cluster={cluster}"], check=False, stdout=2
    )
    if done.returncode:
        raise SystemExit(done.returncode)
    newest = max(results.iterdir(), key=lambda folder: folder.stat().st_mtime)
    return load_run(newest).attempts


def chosen(options: argparse.Namespace) -> list[str]:
    """The run's own arguments: a suite once, or problems so often that there are enough attempts."""
    agents = options.agent or AGENTS
    words = [word for one in agents for word in ("--agent", one)]
    if options.suite:
        return [*words, "--suite", options.suite]
    problems = options.problem or PROBLEMS
    each = -(-options.attempts // (len(agents) * len(problems)))
    return [*words, *(word for one in problems for word in ("--problem", one)), f"--n-attempts={each}"]


def summary(records: Sequence[AttemptRecord], memory: Sequence[float]) -> dict[str, object]:
    """The JSON object. Only graded attempts count."""
    graded = [one.times for one in records if one.status is Status.GRADED]
    names = sorted({name for times in graded for name in times.phases_s})
    return {
        "median_overhead_s": _median(times.overhead_s for times in graded if times.overhead_s is not None),
        "hold_s": _median(times.hold_s for times in graded),
        "healthy_s": _median(times.healthy_s for times in graded),
        "phases_s": {name: _median(times.phases_s.get(name, 0.0) for times in graded) for name in names},
        "memory_mib": _median(memory),
        "attempts": len(graded),
        "not_graded": len(records) - len(graded),
        "end_to_end": {name: _passed(records, name) for name in sorted({one.agent.name for one in records})},
    }


def _passed(records: Sequence[AttemptRecord], agent: str) -> str:
    graded = [one for one in records if one.agent.name == agent and one.status is Status.GRADED]
    return f"{sum(one.end_to_end is Grade.PASSED for one in graded)}/{len(graded)}"


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return round(statistics.median(found), 2) if found else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, default=10, help="at least so many attempts (%(default)s unless set)")
    parser.add_argument(
        "--problem", action="append", default=[], help=f"may be repeated ({', '.join(PROBLEMS)} unless set)"
    )
    parser.add_argument("--suite", help="once through a suite instead")
    parser.add_argument(
        "--agent", action="append", default=[], help=f"may be repeated ({', '.join(AGENTS)} unless set)"
    )
    parser.add_argument("--results", type=Path, help="keep the run's results in this folder")
    parser.add_argument("--cluster", default="kind", help="name of the kind cluster (%(default)s unless set)")
    parser.add_argument("--of", type=Path, help="of a run that is there: its folder, results.csv or id")
    options = parser.parse_args()
    if options.of:
        try:
            found = RunFolder.find(options.of, Paths().results)
            return show(load_run(found.path).attempts, ())
        except PrerequisiteError as error:
            sys.stderr.write(f"{error}\n")
            return PrerequisiteError.exit_code
    meter = MemoryMeter(cluster=options.cluster)
    thread = threading.Thread(target=meter.run, daemon=True)
    thread.start()
    with tempfile.TemporaryDirectory(prefix="overhead-") as scratch:
        records = run(chosen(options), options.results or Path(scratch), options.cluster)
    meter.stop()
    thread.join(timeout=SAMPLE_EVERY_S * 2)
    return show(records, meter.samples)


def show(records: Sequence[AttemptRecord], memory: Sequence[float]) -> int:
    sys.stdout.write(json.dumps(summary(records, memory)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
