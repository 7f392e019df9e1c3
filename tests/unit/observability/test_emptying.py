"""Emptying the stack, and the questions asked of it."""

from __future__ import annotations

import anyio
import pytest

from sregym.cluster.contract import Selection
from sregym.cluster.objects import POD, ref_of, uid_of
from sregym.errors import Unavailable
from sregym.observability import NAMESPACE, Telemetry, emptied, install
from tests.unit.observability.observed import ObservedCluster


async def uids(cluster: ObservedCluster) -> dict[str, str]:
    pods = await cluster.list(Selection(kind=POD, namespace=NAMESPACE))
    return {pod["metadata"]["labels"]["app.kubernetes.io/name"]: uid_of(pod) for pod in pods}


async def test_stores_are_new_afterwards_and_collectors_are_not(fake_time: None) -> None:
    cluster = ObservedCluster()
    await install(cluster, "lite")
    before = await uids(cluster)
    async with emptied(cluster) as done:
        await done()
    after = await uids(cluster)
    assert {name for name in before if before[name] != after[name]} == {"prometheus", "jaeger", "victoria-logs"}


async def test_memory_that_was_lost_is_another(fake_time: None) -> None:
    cluster = ObservedCluster()
    await install(cluster, "lite")
    telemetry = Telemetry(cluster=cluster)
    before = await telemetry.stores()
    assert before == await telemetry.stores()
    assert set(before) == {"prometheus", "jaeger", "victoria-logs"}
    pod = next(
        p for p in await cluster.list(Selection(kind=POD, namespace=NAMESPACE)) if "jaeger" in str(p["metadata"])
    )
    cluster.set_status(ref_of(pod, POD), {"containerStatuses": [{"name": "jaeger", "restartCount": 1}]})
    after = await telemetry.stores()
    assert {name for name in before if before[name] != after[name]} == {"jaeger"}


async def test_the_body_goes_on_meanwhile(fake_time: None) -> None:
    cluster = ObservedCluster()
    await install(cluster, "lite")
    cluster.prometheus.up["kubelet"] = 0
    async with emptied(cluster) as done:
        with anyio.move_on_after(5) as waiting:
            await done()
        assert waiting.cancelled_caught  # a kubelet does not answer yet
        cluster.prometheus.up["kubelet"] = 1
        await done()


async def test_a_prometheus_that_stays_away_is_told_to_who_waits(fake_time: None) -> None:
    cluster = ObservedCluster()
    await install(cluster, "lite")
    cluster.prometheus.down = True
    async with emptied(cluster) as done:
        with pytest.raises(Unavailable, match=r"not back after 90 s: .*no endpoints"):
            await done()


async def test_a_cluster_without_the_stack_is_told_so(fake_time: None) -> None:
    async with emptied(ObservedCluster()) as done:
        with pytest.raises(Unavailable, match="no store runs"):
            await done()


async def test_leaving_early_ends_the_wait(fake_time: None) -> None:
    cluster = ObservedCluster()
    await install(cluster, "lite")
    cluster.prometheus.down = True
    with pytest.raises(RuntimeError, match="the app did not come up"):
        async with emptied(cluster):
            raise RuntimeError("the app did not come up")


async def test_a_scrape_counts_only_after_the_moment(fake_time: None) -> None:
    cluster = ObservedCluster()
    telemetry = Telemetry(cluster=cluster)
    moment = await telemetry.now()
    with pytest.raises(Unavailable, match="not scraped since: kubelet"):
        await telemetry.scraped_since(moment)
    cluster.prometheus.advance_s = 1.0
    assert await telemetry.scraped_since(moment) > moment


async def test_a_source_that_nobody_scrapes_is_missing(fake_time: None) -> None:
    cluster = ObservedCluster()
    cluster.prometheus.advance_s = 1.0
    del cluster.prometheus.scraped["cadvisor"]
    with pytest.raises(Unavailable, match="not scraped since: cadvisor"):
        await Telemetry(cluster=cluster).scraped_since(0.0)


async def test_no_answer_is_not_a_scrape(fake_time: None) -> None:
    cluster = ObservedCluster()
    cluster.prometheus.down = True
    with pytest.raises(Unavailable, match="no endpoints"):
        await Telemetry(cluster=cluster).scraped_since(0.0)
