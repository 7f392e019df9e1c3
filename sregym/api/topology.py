"""An application as data: services, how they find and call each other, and what users do with it.

Read from `apps/<name>/topology.yaml`; validated when loaded; pure. Problems ask it where a fault could strike and
whom it would hurt; the generic chart renders it; the load generator takes its operations from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, ignored_types=(cached_property,))


class Via(StrEnum):
    """How an edge finds its target: cluster DNS and Service, a registry's entries, or a pod address."""

    SERVICE = "service"
    REGISTRY = "registry"
    POD_IP = "pod-ip"


class When(StrEnum):
    """When an edge is used: for every request that needs it, only at the caller's start, or on cache misses."""

    REQUEST = "request"
    START = "start"
    CACHE_MISS = "cache-miss"


class Edge(_Frozen):
    """One dependency. `pooled` connections hide a Service fault until the caller reconnects; `fresh` ones do not."""

    caller: str
    callee: str
    via: Via = Via.SERVICE
    connect: Literal["pooled", "fresh"] = "pooled"
    when: frozenset[When] = frozenset({When.REQUEST})
    config_key: str | None = None
    """The caller's configuration key that holds the callee's address, where there is one."""


class Port(_Frozen):
    name: str
    port: int
    target_port: int | str
    protocol: Literal["TCP", "UDP"] = "TCP"


class ExtraService(_Frozen):
    """A further Service in front of the same pods."""

    name: str
    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    ports: tuple[Port, ...]


class Resources(_Frozen):
    requests: Mapping[str, str] = Field(default_factory=dict)
    limits: Mapping[str, str] = Field(default_factory=dict)


class Volume(_Frozen):
    """One mount: of a claim of its own, or of (one key of) a ConfigMap."""

    name: str
    mount: str
    claim: str | None = None
    size: str = "1Gi"
    configmap: str | None = None
    sub_path: str | None = None
    read_only: bool = False


class ServiceSpec(_Frozen):
    """One workload and its Service. `image` is a key of the topology's `images`, per profile."""

    name: str
    role: Literal["frontend", "api", "datastore", "cache", "registry", "tracing", "queue", "gateway"]
    container: str
    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = Field(default_factory=dict)
    ports: tuple[Port, ...] = ()
    """Ports of the Service; container ports that no Service shows stand in `container_ports`."""
    container_ports: Mapping[str, int] = Field(default_factory=dict)
    also: tuple[ExtraService, ...] = ()
    replicas: int = 1
    strategy: Literal["RollingUpdate", "Recreate"] = "RollingUpdate"
    labels: Mapping[str, str] = Field(default_factory=dict)
    volumes: tuple[Volume, ...] = ()
    resources: Resources = Field(default_factory=Resources)
    hostname: str | None = None
    readiness: Mapping[str, Any] | None = None
    registers_as: str | None = None
    """The name under which it registers with the registry."""
    working_set_mib: Mapping[str, float] = Field(default_factory=dict)
    """Measured working set under the default load, by profile."""

    @property
    def selector(self) -> str:
        """The label selector of its pods, as the API takes it."""
        return ",".join(f"{key}={value}" for key, value in sorted(self.labels.items()))


class Operation(_Frozen):
    """One thing that users do. `needs` are all services that must work for it, at request time or at their start."""

    name: str
    method: Literal["GET", "POST"] = "GET"
    path: str
    weight: float = Field(gt=0)
    needs: frozenset[str]
    body_check: str
    """Name of the validation that the load generator applies to the answer's body."""
    vars: tuple[Mapping[str, Any], ...] = ()
    """Random values that `query`, `path` and `body` may name as `{name}`, in the load generator's own terms."""
    query: Mapping[str, str] = Field(default_factory=dict)
    body: str | None = None
    headers: Mapping[str, str] = Field(default_factory=dict)
    expect: Mapping[str, Any] = Field(default_factory=dict)
    """What a right answer is: `status` and checks of its JSON body (`body_check` in the generator's terms)."""


class Topology(_Frozen):
    """The whole application. Raises ValidationError (a ValueError) where names do not fit together."""

    name: str
    namespace: str
    description: str
    entry: str
    """The Service that users call."""
    entry_port: int
    rate: float = Field(gt=0)
    """Default load in requests a second, all operations together."""
    images: Mapping[str, Mapping[str, str]]
    """Image key -> profile -> image reference."""
    services: tuple[ServiceSpec, ...]
    edges: tuple[Edge, ...]
    operations: tuple[Operation, ...]
    configmaps: Mapping[str, Mapping[str, str]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_fit(self) -> Topology:
        known = {one.name for one in self.services}
        named = {self.entry} | {n for e in self.edges for n in (e.caller, e.callee)}
        named |= {n for op in self.operations for n in op.needs}
        if unknown := named - known:
            raise ValueError(f"{self.name}: names services that it does not define: {sorted(unknown)}")
        if missing := {s.image for s in self.services} - set(self.images):
            raise ValueError(f"{self.name}: images without an entry: {sorted(missing)}")
        return self

    @cached_property
    def by_name(self) -> Mapping[str, ServiceSpec]:
        return {one.name: one for one in self.services}

    def service(self, name: str) -> ServiceSpec:
        """The service. Raises KeyError."""
        return self.by_name[name]

    def callers_of(self, name: str, *, when: When | None = None) -> tuple[str, ...]:
        """Direct callers of a service, in the order of the file."""
        edges = (e for e in self.edges if e.callee == name and (when is None or when in e.when))
        return tuple(dict.fromkeys(e.caller for e in edges))

    def operations_of(self, *names: str) -> tuple[str, ...]:
        """Operations that need at least one of the services: the ones that users would see failing."""
        return tuple(op.name for op in self.operations if op.needs & set(names))

    def images_of(self, profile: str) -> Iterable[str]:
        """The image references that a profile needs, each once."""
        return dict.fromkeys(self.images[one.image][profile] for one in self.services)
