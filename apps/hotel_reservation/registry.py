"""What the app's registry knows: which services are registered, and whether anybody is at the address."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apps.health import is_ready
from sregym.api import Check, Look, Observation, Selection, ServiceSpec, dig
from sregym.cluster.contract import Reader, Shell
from sregym.cluster.objects import POD, matches
from sregym.errors import Unavailable

REGISTRY = "consul"
PORT = 8500


@dataclass(frozen=True, kw_only=True)
class Registration:
    """The entries of one name: those of pods that are ready now, and the others (pods that are gone)."""

    live: int = 0
    dead: int = 0


async def registrations(
    reader: Reader, shell: Shell, *, namespace: str, services: Sequence[ServiceSpec]
) -> Mapping[str, Registration]:
    """Every registered name of the services. Raises ClusterError where the registry gives no answer."""
    reply = await shell.request(f"http://{REGISTRY}.{namespace}:{PORT}/v1/agent/services")
    if reply.status != 200:
        raise Unavailable(f"{REGISTRY} gives no list of services: {reply.error or f'status {reply.status}'}")
    addresses: defaultdict[str, list[str]] = defaultdict(list)
    for entry in json.loads(reply.body).values():
        addresses[entry["Service"]].append(entry["Address"])
    ready = await _ready_addresses(reader, namespace, services)
    return {
        spec.registers_as: Registration(
            live=len(here := [a for a in addresses[spec.registers_as] if a in ready[spec.name]]),
            dead=len(addresses[spec.registers_as]) - len(here),
        )
        for spec in services
        if spec.registers_as
    }


async def _ready_addresses(reader: Reader, namespace: str, services: Sequence[ServiceSpec]) -> dict[str, set[str]]:
    pods = [pod for pod in await reader.list(Selection(kind=POD, namespace=namespace)) if is_ready(pod)]
    return {
        spec.name: {dig(pod, "status", "podIP", default="") for pod in pods if matches(spec.labels, pod)}
        for spec in services
    }


@dataclass(frozen=True)
class PeersRegistered(Check):
    """Every service that registers is in the registry, with the address of a pod that is ready."""

    services: tuple[ServiceSpec, ...]

    @property
    def title(self) -> str:
        return "every peer is registered"

    def watches(self, namespace: str) -> Sequence[Selection]:
        return [Selection(kind=POD, namespace=namespace)]

    async def look(self, at: Look) -> Observation:
        seen = await registrations(at.reader, at.shell, namespace=at.namespace, services=self.services)
        if missing := [name for name, registration in seen.items() if not registration.live]:
            return self.not_yet(f"not registered with a live address: {', '.join(missing)}", names=missing)
        return self.holding()
