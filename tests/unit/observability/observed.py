"""A cluster in memory with the stack in it, and a Prometheus that answers as the test says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sregym.cluster.fake import FakeCluster
from sregym.cluster.objects import DAEMONSET, Kind, Ref
from sregym.errors import Unavailable
from sregym.observability import NAMESPACE
from sregym.observability.asking import SOURCES
from sregym.observability.stack import service_path

API_SERVICE = Kind("apiregistration.k8s.io/v1", "APIService", "apiservices", namespaced=False)
QUERY = service_path("prometheus", 9090, "api/v1/query")


@dataclass
class Prometheus:
    """Answers what is asked of it: each job's last scrape and whether its targets are up."""

    clock: float = 1000.0
    scraped: dict[str, float] = field(default_factory=lambda: dict.fromkeys(SOURCES, 990.0))
    up: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SOURCES, 1))
    down: bool = False
    asked: list[str] = field(default_factory=list)
    advance_s: float = 0.0
    """How far scrapes and the clock go on with each question."""

    def answer(self, promql: str) -> Any:
        self.asked.append(promql)
        if self.down:
            raise Unavailable("no endpoints available for service prometheus")
        self.clock += self.advance_s
        if self.advance_s:
            self.scraped = dict.fromkeys(self.scraped, self.clock)
        if promql == "time()":
            return {"resultType": "scalar", "result": [self.clock, str(self.clock)]}
        values: Mapping[str, float] = self.scraped if "timestamp(" in promql else self.up
        rows = [{"metric": {"job": job}, "value": [self.clock, str(value)]} for job, value in values.items()]
        return {"resultType": "vector", "result": rows}


@dataclass(kw_only=True)
class ObservedCluster(FakeCluster):
    """Knows Prometheus's instant queries; DaemonSets are rolled out as soon as they are there."""

    prometheus: Prometheus = field(default_factory=Prometheus)
    extra_kinds: list[Kind] = field(default_factory=lambda: [API_SERVICE])

    async def raw(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        if path != QUERY:
            return await super().raw(method, path, query=query, body=body, headers=headers)
        return {"status": "success", "data": self.prometheus.answer((query or {})["query"])}

    async def apply(self, manifests: Sequence[dict[str, Any]], *, namespace: str | None = None) -> None:
        await super().apply(manifests, namespace=namespace)
        for obj in manifests:
            if obj["kind"] == DAEMONSET.name:
                rolled_out = {"numberAvailable": 1, "updatedNumberScheduled": 1, "desiredNumberScheduled": 1}
                self.set_status(Ref(DAEMONSET, obj["metadata"]["name"], NAMESPACE), rolled_out)
