"""Checks of resources: a container has room between what it uses and what it may use."""

from __future__ import annotations

from dataclasses import dataclass

from oracles.wiring import running_pod
from sregym.api import Check, Look, Observation

_READ = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.current; grep ^inactive_file /sys/fs/cgroup/memory.stat"


@dataclass(frozen=True, kw_only=True)
class MemoryHeadroom(Check):
    """The working set stays under that share of the memory limit (cgroup v2); no limit is room enough.

    Working set = used memory without inactive page cache, as the kubelet counts it.
    """

    workload: str
    selector: str
    container: str
    share: float = 0.8

    @property
    def title(self) -> str:
        return f"memory headroom: {self.workload}"

    async def look(self, at: Look) -> Observation:
        ref = await running_pod(at, self.selector)
        if ref is None:
            return self.not_yet(f"{self.workload} has no running pod")
        said = await at.shell.exec(ref, ("sh", "-c", _READ), container=self.container)
        words = said.stdout.split()
        if said.code != 0 or len(words) < 4:
            return self.unknown(f"the container's memory could not be read: {said.stderr.strip() or said.stdout}")
        limit, current, inactive = words[0], int(words[1]), int(words[3])
        used = max(0, current - inactive)
        if limit == "max":
            return self.holding(working_set=used, limit=None)
        if used > self.share * int(limit):
            return self.not_yet(
                f"uses {used / 2**20:.0f} MiB of {int(limit) / 2**20:.0f} MiB", working_set=used, limit=int(limit)
            )
        return self.holding(working_set=used, limit=int(limit))
