"""Checks of how a caller reaches its dependency: by the address that it really uses, through a Service, to the
dependency's own pods.

This is what tells a repair from a bypass without demanding one name or one port: a new Service with a matching
configuration passes, a pinned pod address, a borrowed neighbour or a stand-in behind the name does not.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from oracles.workloads import EndpointsOwned
from sregym.api import Check, Edge, ExecResult, Look, Observation, Ref, Selection, ServiceSpec, Topology, configmap, dig
from sregym.cluster.objects import POD
from sregym.errors import DefinitionError

CONFIG_FILE = "config.json"
"""Relative to the working directory of the caller's container."""
NAME_SERVER = configmap("coredns", "kube-system")


@dataclass(frozen=True, kw_only=True)
class Wired(Check):
    """The address under `key` in the caller's running configuration leads to the callee's own ready pods."""

    caller: str
    selector: str
    container: str
    key: str
    callee: str

    @property
    def title(self) -> str:
        return f"{self.caller} reaches {self.callee}"

    async def look(self, at: Look) -> Observation:
        ref = await running_pod(at, self.selector)
        if ref is None:
            return self.not_yet(f"{self.caller} has no running pod")
        said = await at.shell.exec(ref, ("cat", CONFIG_FILE), container=self.container)
        address = _address(said, self.key)
        if not address:
            return self.not_yet(f"{self.caller} has no {self.key} in its running configuration")
        host = address.rsplit(":", maxsplit=1)[0]
        if _is_literal(host):
            return self.not_yet(f"{self.caller} is pinned to the address {host}", address=address)
        labels = host.split(".")
        if len(labels) > 1 and labels[1] != at.namespace:
            return self.not_yet(f"{self.caller} uses {host}, outside the application's namespace", address=address)
        owned = await EndpointsOwned(labels[0], self.callee).look(at)
        return owned if not owned.holds else await self._means_the_service(at, ref, host, labels[0])

    async def _means_the_service(self, at: Look, ref: Ref, host: str, service: str) -> Observation:
        """Neither the caller's own table of hosts nor the cluster's name server says something else of the name."""
        said = await at.shell.exec(ref, ("cat", "/etc/hosts"), container=self.container)
        if said.code != 0:
            return self.unknown(f"the hosts that {self.caller} knows cannot be read: {said.stderr.strip()}")
        pinned = [
            line for line in said.stdout.splitlines() if {host, service} & set(line.partition("#")[0].split()[1:])
        ]
        if pinned:
            return self.not_yet(f"{self.caller} knows {host} from its own table of hosts: {pinned[0].strip()}")
        names = await at.reader.find(NAME_SERVER)
        if names is not None and re.search(rf"\b{re.escape(service)}\b", str(names.get("data", ""))):
            return self.not_yet(f"the cluster's name server has a rule of its own for {service}")
        return self.holding(address=host)


def wired(topology: Topology, *, caller: str, callee: str) -> Wired:
    """The check for one edge of the topology. Raises DefinitionError where the edge has no configuration key."""
    edge = edge_between(topology, caller=caller, callee=callee)
    if edge.config_key is None:
        raise DefinitionError(f"{caller} finds {callee} without a configuration key")
    spec: ServiceSpec = topology.service(caller)
    return Wired(caller=caller, selector=spec.selector, container=spec.container, key=edge.config_key, callee=callee)


def all_wired(topology: Topology, *, callers: Iterable[str], callee: str) -> tuple[Wired, ...]:
    """The checks for all callers of one dependency. Raises DefinitionError as `wired` does."""
    return tuple(wired(topology, caller=caller, callee=callee) for caller in callers)


def edge_between(topology: Topology, *, caller: str, callee: str) -> Edge:
    """Raises DefinitionError where there is none."""
    for edge in topology.edges:
        if edge.caller == caller and edge.callee == callee:
            return edge
    raise DefinitionError(f"{topology.name}: {caller} does not call {callee}")


async def running_pod(at: Look, selector: str) -> Ref | None:
    """A pod of the selection whose containers all run and that is not being deleted."""
    for one in await at.reader.list(Selection(kind=POD, namespace=at.namespace, labels=selector)):
        statuses = dig(one, "status", "containerStatuses", default=[])
        running = statuses and all(dig(status, "state", "running") is not None for status in statuses)
        if running and not dig(one, "metadata", "deletionTimestamp"):
            return Ref(POD, one["metadata"]["name"], at.namespace)
    return None


def _address(said: ExecResult, key: str) -> str:
    try:
        return str(json.loads(said.stdout).get(key, "")) if said.code == 0 else ""
    except (ValueError, AttributeError):
        return ""


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
