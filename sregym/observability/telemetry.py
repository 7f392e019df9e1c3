"""The stack as an attempt sees it: what records the incident."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from sregym.cluster import waits
from sregym.cluster.contract import Cluster
from sregym.errors import ClusterError, Unavailable, WaitTimeout
from sregym.events import Emit, silent
from sregym.observability.asking import OF_SOURCES, SOURCES, query
from sregym.observability.emptying import Emptied, emptied, memory_of

SCRAPED_WITHIN_S = 30.0
"""Six scrape intervals."""
EVERY_S = 0.5


@dataclass(frozen=True, kw_only=True)
class Telemetry:
    """The stack of one cluster."""

    cluster: Cluster

    def emptied(self, *, emit: Emit = silent) -> AbstractAsyncContextManager[Emptied]:
        """See `emptying.emptied`."""
        return emptied(self.cluster, emit=emit)

    async def now(self) -> float:
        """Prometheus's own clock (Unix seconds): other machines' may differ. Raises ClusterError."""
        return (await query(self.cluster, "time()"))[0].value

    async def stores(self) -> Mapping[str, str]:
        """See `emptying.memory_of`."""
        return await memory_of(self.cluster)

    async def scraped_since(self, moment: float, *, within: float = SCRAPED_WITHIN_S) -> float:
        """Waits until every source has been scraped after `moment` of `now`; returns the oldest last scrape.

        A target that is down counts when the failed scrape is newer: that it is down is then on record. Raises
        Unavailable where Prometheus does not say so in time.
        """
        last = ["no answer"]

        async def scraped() -> float | None:
            try:
                samples = await query(self.cluster, f"min by (job) (timestamp(up{OF_SOURCES}))")
            except ClusterError as error:
                last[0] = str(error)
                return None
            found = {sample.labels["job"]: sample.value for sample in samples}
            missing = [job for job in SOURCES if found.get(job, 0.0) <= moment]
            last[0] = f"not scraped since: {', '.join(missing)}"
            return None if missing else min(found.values())

        try:
            return await waits.poll(scraped, what="a scrape", every=EVERY_S, within=within)
        except WaitTimeout as error:
            raise Unavailable(f"Prometheus has no newer scrape after {within:g} s ({last[0]})") from error
