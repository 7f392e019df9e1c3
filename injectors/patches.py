"""Small typed patches: what a fault changes in an object, as a value that can be read in a table and compared.

Each function returns a `Change` with its patch type. Strategic merge is used where lists have merge keys (containers
by name, Service ports by port), so that a patch names one entry and leaves its neighbours alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sregym.api import PatchType


@dataclass(frozen=True)
class Change:
    """The body of a PATCH and its content type."""

    body: Any
    kind: PatchType = PatchType.STRATEGIC


def target_port(*, of_port: int, to: int | str) -> Change:
    """A Service port forwards to another port of the pods."""
    return Change({"spec": {"ports": [{"port": of_port, "targetPort": to}]}})


def replicas(count: int) -> Change:
    """How many pods a workload wants."""
    return Change({"spec": {"replicas": count}}, PatchType.MERGE)


def node_selector(labels: Mapping[str, str]) -> Change:
    """Which nodes the pods of a workload may run on."""
    return pod_spec(nodeSelector=dict(labels))


def memory_limit(container: str, quantity: str) -> Change:
    """A container's memory limit; a request above it would be refused, so the request follows."""
    memory = {"memory": quantity}
    return pod_container(container, resources={"limits": memory, "requests": memory})


def readiness_probe(container: str, probe: Mapping[str, Any]) -> Change:
    """How a container's readiness is asked for."""
    return pod_container(container, readinessProbe=dict(probe))


def pod_container(container: str, **fields: Any) -> Change:
    """Fields of one container of a pod template."""
    return pod_spec(containers=[{"name": container, **fields}])


def pod_spec(**fields: Any) -> Change:
    """Fields of a pod template's spec."""
    return Change({"spec": {"template": {"spec": fields}}})
