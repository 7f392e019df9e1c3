"""Questions to the stack's Services, through the API server's Service proxy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sregym.cluster.contract import Cluster
from sregym.errors import Unavailable
from sregym.observability.stack import service_path

SOURCES = ("kubelet", "cadvisor", "node-exporter", "kube-state-metrics")
"""Jobs of Prometheus that must answer: the applications' own may be what is broken."""
OF_SOURCES = f'{{job=~"{"|".join(SOURCES)}"}}'


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One series of an instant query: its labels and its value."""

    labels: dict[str, str]
    value: float


async def query(cluster: Cluster, promql: str) -> Sequence[Sample]:
    """An instant query of Prometheus now. Raises ClusterError where it does not answer."""
    data = _data(await ask(cluster, "prometheus", 9090, "api/v1/query", query=promql))
    if data["resultType"] == "scalar":
        return [Sample(labels={}, value=float(data["result"][1]))]
    return [Sample(labels=row["metric"], value=float(row["value"][1])) for row in data["result"]]


async def ask(cluster: Cluster, service: str, port: int, path: str, /, **parameters: str) -> Any:
    """The JSON that a Service of the stack answers a GET with. Raises ClusterError."""
    return await cluster.raw("GET", service_path(service, port, path), query=parameters)


def _data(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict) or answer.get("status") != "success":
        raise Unavailable(f"Prometheus answered {str(answer)[:300]}")
    data: dict[str, Any] = answer["data"]
    return data
