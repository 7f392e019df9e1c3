"""Checks of resources: a container has room between what it uses and what it may use."""

from __future__ import annotations

from dataclasses import dataclass

from oracles.wiring import running_pod
from sregym.api import Check, Look, Observation

_READ = """cd /sys/fs/cgroup
if [ -f memory.max ]
then cat memory.max memory.current; grep '^inactive_file ' memory.stat
else cd memory; cat memory.limit_in_bytes memory.usage_in_bytes; grep '^total_inactive_file ' memory.stat
fi"""
"""Limit, usage and inactive page cache, from version 2 or version 1 of the kernel's control groups."""

UNLIMITED = 2**60
"""Version 1 says "no limit" with a number near 2**63."""


@dataclass(frozen=True, kw_only=True)
class MemoryHeadroom(Check):
    """The working set stays under that share of the memory limit; no limit is room enough.

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
        limit = UNLIMITED if words[0] == "max" else int(words[0])
        current, inactive = int(words[1]), int(words[3])
        used = max(0, current - inactive)
        if limit >= UNLIMITED:
            return self.holding(working_set=used, limit=None)
        if used > self.share * limit:
            return self.not_yet(
                f"uses {used / 2**20:.0f} MiB of {limit / 2**20:.0f} MiB", working_set=used, limit=limit
            )
        return self.holding(working_set=used, limit=limit)
