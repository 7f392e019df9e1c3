"""Hotel Reservation on a real cluster: deployed, healthy, serving users, broken, removed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from apps.hotel_reservation import HotelReservation
from apps.images import CLUSTER_SIDE, HOST_SIDE, STEPS
from sregym.api import Context, LoadPhase
from sregym.cluster import waits
from sregym.cluster.client import KubeCluster
from sregym.cluster.journal import Journal
from sregym.cluster.nodes import DockerNodeShell
from sregym.cluster.objects import NAMESPACE, Ref, deployment, service
from sregym.cluster.providers.base import ClusterHandle
from sregym.cluster.providers.kind import KindProvider
from sregym.errors import WaitTimeout
from sregym.load import users
from sregym.load.running import Users
from sregym.progress import Recorded
from sregym.settings import Settings

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

WATCHED_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Site:
    """A cluster with the app healthy on it, and users in front of it."""

    app: HotelReservation
    cluster: KubeCluster
    context: Context
    traffic: Users
    journal: Journal


def handle_of(config: pytest.Config) -> ClusterHandle:
    """The cluster of `--kubeconfig`, which `cluster up` has made."""
    given = config.getoption("--kubeconfig")
    files = (
        [Path(given).with_suffix(".json")] if given else sorted((Settings().paths.state / "clusters").glob("*.json"))
    )
    if not files or not files[0].is_file():
        pytest.fail("no cluster for live tests: run `main.py cluster up` or give its --kubeconfig")
    return ClusterHandle.model_validate_json(files[0].read_text(encoding="utf-8"))


@pytest.fixture
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    handle = handle_of(request.config)
    paths = Settings().paths
    progress = Recorded()
    provider = KindProvider(
        cache=paths.cache, state=paths.state, progress=progress, recipes=CLUSTER_SIDE, extra_steps=STEPS
    )
    await provider.load(handle)
    image = (await provider.images(HOST_SIDE))["load-generator"].ref
    app = HotelReservation(helm=await provider.tool("helm"))
    shell = DockerNodeShell(handle.node_names)
    async with KubeCluster.connect(handle.kubeconfig, handle.context, node_shell=shell) as cluster:
        await app.remove(cluster)
        await app.deploy(cluster)
        journal = Journal.create(tmp_path, identity="live", attempt="hotel")
        async with users(handle, app, reader=cluster, image=image, seed=7, journal=journal) as traffic:
            context = Context(app=app, reader=cluster, shell=cluster, traffic=traffic)
            await context.until(app.healthy(), within=240)
            yield Site(app=app, cluster=cluster, context=context, traffic=traffic, journal=journal)
        assert journal.open_entries() == []
        await app.remove(cluster)
        assert await cluster.find(Ref(NAMESPACE, app.namespace)) is None


async def test_the_life_of_an_application(site: Site) -> None:
    """One deployment for all of it, since that is what takes the time."""
    await users_are_served_and_the_state_can_be_read(site)
    await a_burst_ends_by_itself(site)
    await users_notice_what_is_broken_and_what_is_repaired(site)
    await a_registry_that_forgot_is_unhealthy(site)


async def users_are_served_and_the_state_can_be_read(site: Site) -> None:
    await waits.elapse(WATCHED_S, why="a stretch of traffic is measured")
    seen = await site.traffic.window(WATCHED_S - 5)
    rate = seen.of().success_rate
    assert rate is not None
    assert rate >= 0.99
    assert seen.of().sent >= 100
    first = await site.app.fingerprint(site.cluster)
    assert first == await site.app.fingerprint(site.cluster)
    assert all(first["registry"].values())
    assert first["stores"]["mongodb-geo"]["logins"] == {"root": True, "admin": True}
    counts = {name: {c: rows["count"] for c, rows in one["rows"].items()} for name, one in first["stores"].items()}
    assert counts == {
        "mongodb-geo": {"geo": 80},
        "mongodb-rate": {"inventory": 27},
        "mongodb-profile": {"hotels": 80},
        "mongodb-recommendation": {"recommendation": 80},
        "mongodb-reservation": {"number": 80},
        "mongodb-user": {"user": 501},
    }


async def users_notice_what_is_broken_and_what_is_repaired(site: Site) -> None:
    entrance = service("frontend", site.app.namespace)
    kept = await site.cluster.get(entrance)
    await site.cluster.delete(entrance)
    await waits.poll(lambda: refused(site), what="users are refused", every=0.5, within=30)
    with pytest.raises(WaitTimeout, match="frontend"):
        await site.context.until(site.app.healthy(), within=3)
    meta = {"name": entrance.name, "namespace": entrance.namespace, "labels": kept["metadata"]["labels"]}
    ports = [{"name": "http", "port": 5000, "targetPort": 5000}]
    spec = {"selector": kept["spec"]["selector"], "ports": ports}
    await site.cluster.create({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec})
    await waits.poll(lambda: served(site), what="users are served", every=0.5, within=30)


async def a_burst_ends_by_itself(site: Site) -> None:
    await site.traffic.phase(LoadPhase(rate=60, seconds=4))
    await waits.elapse(8, why="the burst and some seconds after it")
    assert (await site.traffic.window(2)).rate < 25
    assert (await site.traffic.window(9)).rate > 20


async def a_registry_that_forgot_is_unhealthy(site: Site) -> None:
    await site.cluster.patch(
        deployment("consul", site.app.namespace),
        {"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2025-01-01"}}}}},
    )
    await waits.poll(lambda: forgotten(site), what="the registry has forgotten", every=1, within=90)


async def refused(site: Site) -> bool | None:
    seen = (await site.traffic.window(2)).of()
    return True if seen.sent and seen.failures.get("connect") == seen.sent else None


async def served(site: Site) -> bool | None:
    return True if (await site.traffic.window(2)).of().success_rate == 1 else None


async def forgotten(site: Site) -> bool | None:
    seen = await site.app.healthy().observe(site.context)
    return True if "srv-geo" in seen.reason else None
