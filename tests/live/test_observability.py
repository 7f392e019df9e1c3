"""The stack on a real cluster: what it shows of an application that serves users, and that emptying it is complete."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest

from apps.images import HOST_SIDE, STEPS, recipes_for
from sregym import process
from sregym.catalogue import Catalogue
from sregym.cluster import waits
from sregym.cluster.contract import Selection
from sregym.cluster.objects import DEPLOYMENT, NODE, POD, Ref
from sregym.cluster.providers.base import ClusterSpec
from sregym.coordinator.clock import PhaseClock
from sregym.coordinator.lab import Content, Lab, open_lab, prepare
from sregym.coordinator.putback import equalise, put_back
from sregym.coordinator.run import equipped
from sregym.coordinator.world import World, running_app
from sregym.events import EventLog
from sregym.observability import NAMESPACE, objects
from sregym.observability.asking import ask, query
from sregym.observability.stack import CONFIG
from sregym.progress import Silent
from sregym.settings import Settings
from tests.live.command import CLUSTER

pytestmark = [pytest.mark.live, pytest.mark.acceptance, pytest.mark.timeout(1200)]

PROBLEM = "scale_pod_zero_hotel_reservation"
SERVICES = {"frontend", "search", "geo", "rate", "profile", "recommendation", "reservation", "user"}
SEEN_WITHIN_S = 60.0
RULE_CASES = Path(__file__).parents[1] / "unit" / "observability" / "rules_test.yml"


@dataclass(frozen=True, kw_only=True)
class Bench:
    """An open lab with the application under load, and the stack emptied before."""

    lab: Lab
    world: World


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    settings = Settings()
    content = Content(
        catalogue=Catalogue.discover("problems"), app_images=recipes_for, host_images=HOST_SIDE, steps=STEPS
    )
    problem = content.catalogue.build(PROBLEM, "lite")
    site = await prepare(settings, content, [problem.app], ClusterSpec(name=CLUSTER), Silent())
    problem = equipped(problem, site.tools)
    with EventLog(tmp_path / "events.jsonl") as emit:
        async with open_lab(site, settings, seed=1, emit=emit) as lab:
            journal = lab.journal("observed", namespaces=[problem.app.namespace], problem=PROBLEM)
            try:
                assert lab.bench.witness is not None
                async with (
                    lab.bench.witness.emptied(emit=emit) as emptied,
                    running_app(lab.bench, problem, journal, clock=PhaseClock(), emit=emit) as world,
                ):
                    await emptied()
                    yield Bench(lab=lab, world=world)
            finally:
                await put_back(lab.cluster, journal, lab.base, [problem.app.namespace], emit=emit)


async def services_with(bench: Bench, promql: str, label: str = "service") -> set[str]:
    return {sample.labels[label] for sample in await query(bench.lab.cluster, promql) if sample.value > 0}


async def logged_by(bench: Bench) -> set[str]:
    """Containers of the application that have a line in the log store."""
    rows = await ask(
        bench.lab.cluster,
        "logs",
        9428,
        "select/logsql/field_values",
        query=f'kubernetes.pod_namespace:="{bench.world.app.namespace}"',
        field="kubernetes.container_name",
    )
    return {row["value"] for row in rows["values"]}


async def traced(bench: Bench) -> set[str]:
    answer = await ask(bench.lab.cluster, "jaeger", 16686, "api/services")
    return set(answer["data"] or ())


async def until(what: str, probe: Any) -> None:
    await waits.poll(probe, what=what, every=2.0, within=SEEN_WITHIN_S)


async def test_an_incident_can_be_seen_and_is_forgotten(bench: Bench) -> None:
    cluster, namespace, witness = bench.lab.cluster, bench.world.app.namespace, bench.lab.bench.witness
    assert witness is not None

    async def all_seen() -> bool | None:
        requests = await services_with(bench, f'rate(requests_total{{namespace="{namespace}"}}[30s])')
        return True if requests >= SERVICES and await traced(bench) >= SERVICES else None

    await until("requests and traces of every service", all_seen)
    nodes = {node["metadata"]["name"] for node in await cluster.list(Selection(kind=NODE))}
    pods = {pod["metadata"]["name"] for pod in await cluster.list(Selection(kind=POD, namespace=namespace))}
    of_app = f'{{namespace="{namespace}"}}'
    of_app_logged = f'kubernetes.pod_namespace:="{namespace}"'
    assert await services_with(bench, f"container_memory_working_set_bytes{of_app}", "pod") >= pods
    assert await services_with(bench, f"kube_pod_info{of_app}", "pod") >= pods
    assert await services_with(bench, "node_memory_MemAvailable_bytes", "node") == nodes
    assert await services_with(bench, f"kube_deployment_status_replicas_available{of_app}", "deployment") >= SERVICES
    containers = {spec.container for spec in bench.world.app.topology.services}
    assert await logged_by(bench) >= {c for c in containers if "reserv-frontend" in c or "reserv-search" in c}
    assert await query(cluster, "up == 0") == []
    dependencies = await ask(
        cluster, "jaeger", 16686, "api/dependencies", endTs=str(int(await witness.now() * 1000)), lookback="600000"
    )
    assert {(row["parent"], row["child"]) for row in dependencies["data"]} >= {
        ("frontend", "search"),
        ("search", "geo"),
    }
    metrics = await ask(cluster, "prometheus", 9090, "api/v1/label/__name__/values")
    assert not [name for name in metrics["data"] if "sregym" in name or "twin" in name]

    await bench.world.app.remove(cluster)  # as an attempt does before it has the stack emptied
    before = await witness.now()
    async with witness.emptied(emit=bench.world.faults.emit) as emptied:
        await emptied()

    async def oldest() -> float | None:
        """None until the subquery's steps reach into what has been scraped since."""
        rows = await query(cluster, "min(min_over_time(timestamp(up)[6h:5s]))")
        return rows[0].value if rows else None

    assert await waits.poll(oldest, what="the first sample", every=1.0, within=SEEN_WITHIN_S) > before
    assert await witness.scraped_since(before) > before
    old_lines = await cluster.request(
        f"http://logs.{NAMESPACE}:9428/select/logsql/query?limit=1&start=0&query={quote(of_app_logged)}"
    )
    assert old_lines.status == 200
    assert old_lines.body.strip() == ""
    traces = await ask(
        cluster, "jaeger", 16686, "api/traces", service="frontend", end=str(int(before * 1e6)), lookback="1h"
    )
    assert not traces["data"]


async def test_the_application_serves_while_the_stack_is_gone(bench: Bench) -> None:
    cluster = bench.lab.cluster
    for name in ("jaeger", "victoria-logs", "prometheus"):
        await cluster.patch(Ref(DEPLOYMENT, name, NAMESPACE), {"spec": {"replicas": 0}})
    await waits.elapse(20.0, why="requests without the stack")
    window = await bench.world.faults.traffic.window(15.0)
    requests = window.of(*window.operations)
    assert requests.sent > 0
    assert requests.ok == requests.sent, requests
    found = [str(one) for one in await equalise(cluster, bench.lab.base)]
    assert all(any(name in one for one in found) for name in ("jaeger", "victoria-logs", "prometheus")), found


async def test_rules_are_what_promtool_says_they_are(tmp_path: Path) -> None:
    await process.run(["apt-get", "download", "prometheus"], cwd=tmp_path)
    (package,) = [Path(one) async for one in anyio.Path(tmp_path).glob("prometheus_*.deb")]
    await process.run(["dpkg-deb", "--extract", package, tmp_path / "package"])
    promtool = tmp_path / "package" / "usr" / "bin" / "promtool"
    rules = sorted((CONFIG / "prometheus-rules").glob("*.yml"))
    for path in (*rules, RULE_CASES):
        shutil.copy(path, tmp_path)
    await process.run([promtool, "check", "rules", *rules])
    await process.run([promtool, "test", "rules", RULE_CASES.name], cwd=tmp_path)
    (config,) = (obj for obj in objects("lite") if obj["metadata"]["name"] == "prometheus-config")
    written = tmp_path / "prometheus.yml"
    written.write_text(config["data"]["prometheus.yml"], encoding="utf-8")
    await process.run([promtool, "check", "config", "--syntax-only", written])
