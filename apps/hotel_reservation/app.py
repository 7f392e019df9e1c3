"""Hotel Reservation: its health and what of its state the Kubernetes API does not show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.charted import ChartedApp
from apps.hotel_reservation import stores
from apps.hotel_reservation.registry import PeersRegistered, registrations
from sregym.api import AllOf, Check
from sregym.cluster.contract import Cluster


@dataclass(frozen=True, kw_only=True)
class HotelReservation(ChartedApp):
    """A hotel booking site of eight services, six document stores, three caches and a registry."""

    @property
    def folder(self) -> Path:
        return Path(__file__).parent

    def healthy(self) -> Check:
        return AllOf(super().healthy(), PeersRegistered(self.topology.services))

    async def fingerprint(self, cluster: Cluster) -> Mapping[str, Any]:
        services = self.topology.services
        known = await registrations(cluster, cluster, namespace=self.namespace, services=services)
        return {
            "registry": {name: bool(registration.live) for name, registration in known.items()},
            "stores": await stores.contents(cluster, namespace=self.namespace, profile=self.profile),
        }
