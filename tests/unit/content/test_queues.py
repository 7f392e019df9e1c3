"""A queue that flows and one that is stuck, told apart by two readings of counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from oracles.queues import Counters, QueueFlows, QueueStuck
from sregym.api import HttpReply, Selection, State
from sregym.cluster.fake import FakeCluster
from sregym.cluster.objects import POD, Ref
from tests.unit.content.worlds import HOTEL, ScriptedTraffic, hotel, oracles

pytestmark = pytest.mark.usefixtures("fake_time")
SEARCH = Counters(workload="search", selector="io.kompose.service=search", port=9092)
RATE = Counters(workload="rate", selector="io.kompose.service=rate", port=9091)


@dataclass
class Pages:
    """What the pods' metrics say, reading after reading."""

    depths: Sequence[float]
    attempts_per_request: float
    requests: float = 32.0
    limit: int = 20
    capacity: int = 256
    seen: dict[int, int] = field(default_factory=lambda: {9091: 0, 9092: 0})

    def __call__(self, method: str, url: str, body: str | None) -> HttpReply:
        port = int(url.split(":")[2].split("/")[0])
        number, self.seen[port] = self.seen[port], self.seen[port] + 1
        if port == RATE.port:
            depth = self.depths[min(number, len(self.depths) - 1)]
            text = f"rate_queue_depth {depth}\nrate_backend_qps_limit {self.limit}\n"
            return HttpReply(status=200, body=text + f"rate_queue_capacity {self.capacity}\n")
        asked = 1000 + number * self.requests
        tried = 5000 + number * self.requests * self.attempts_per_request
        return HttpReply(status=200, body=f"search_requests_total {asked}\nsearch_rate_attempts_total {tried}\n")


async def served(cluster: FakeCluster) -> FakeCluster:
    await hotel(cluster)
    for number, one in enumerate(await cluster.list(_pods())):
        ref = Ref(POD, one["metadata"]["name"], HOTEL.namespace)
        cluster.set_status(ref, {**one.get("status", {}), "podIP": f"10.0.0.{number}"})
    return cluster


def _pods() -> Selection:
    return Selection(kind=POD, namespace=HOTEL.namespace)


@pytest.mark.parametrize(
    ("pages", "flows", "stuck"),
    [
        (Pages([0, 1], 1.0), State.HOLDS, State.NOT_YET),
        (Pages([240, 244], 2.8), State.NOT_YET, State.HOLDS),
        (Pages([240, 120], 2.8), State.NOT_YET, State.NOT_YET),
        (Pages([240, 240], 1.0), State.NOT_YET, State.NOT_YET),
        (Pages([0, 0], 2.8), State.NOT_YET, State.NOT_YET),
        (Pages([0, 0], 1.0, limit=0), State.NOT_YET, State.NOT_YET),
        (Pages([0, 0], 1.0, limit=1000), State.HOLDS, State.NOT_YET),
        (Pages([0, 0], 1.0, capacity=512), State.HOLDS, State.NOT_YET),
        (Pages([0, 0], 1.0, limit=1_000_000), State.NOT_YET, State.NOT_YET),
        (Pages([0, 0], 1.0, capacity=1_000_000), State.NOT_YET, State.NOT_YET),
        (Pages([0, 0], 1.0, requests=0), State.UNKNOWN, State.NOT_YET),
    ],
)
async def test_queues_are_told_apart(fake_cluster: FakeCluster, pages: Pages, flows: State, stuck: State) -> None:
    cluster = await served(fake_cluster)
    at = oracles(cluster, ScriptedTraffic())
    cluster.on_request = pages
    assert (await QueueFlows(caller=SEARCH, callee=RATE).observe(at)).state is flows
    pages.seen.update({9091: 0, 9092: 0})
    assert (await QueueStuck(caller=SEARCH, callee=RATE).observe(at)).state is stuck


async def test_counters_that_cannot_be_read_are_unknown(fake_cluster: FakeCluster) -> None:
    cluster = await served(fake_cluster)
    cluster.on_request = lambda method, url, body: HttpReply(status=0, error="refused")
    seen = await QueueFlows(caller=SEARCH, callee=RATE).observe(oracles(cluster, ScriptedTraffic()))
    assert seen.state is State.UNKNOWN
