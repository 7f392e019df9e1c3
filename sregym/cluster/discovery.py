"""What kinds an API server serves, from its aggregated discovery (Kubernetes 1.27 or newer): two requests."""

from __future__ import annotations

from typing import Any

from sregym.cluster.objects import Kind
from sregym.cluster.transport import Transport
from sregym.errors import ClusterError

_ACCEPT = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" for version in ("v2", "v2beta1")
)


async def listable_kinds(transport: Transport) -> list[Kind]:
    """Every kind that can be listed, in the version that its group prefers, in the server's order.

    Groups of aggregated APIs whose server does not answer are left out, as the API server leaves them out.
    """
    kinds: list[Kind] = []
    for root in ("/api", "/apis"):
        answer = await transport.call("GET", root, headers={"Accept": _ACCEPT})
        if answer.get("kind") != "APIGroupDiscoveryList":
            raise ClusterError("the cluster has no aggregated discovery: Kubernetes 1.27 or newer is needed")
        for group in answer["items"]:
            kinds += _of_group(group)
    return kinds


def _of_group(group: dict[str, Any]) -> list[Kind]:
    name = group["metadata"].get("name", "")
    kinds: dict[str, Kind] = {}
    for version in group.get("versions", ()):
        api_version = f"{name}/{version['version']}" if name else version["version"]
        for resource in version.get("resources", ()):
            if "list" not in resource.get("verbs", ()) or resource["resource"] in kinds:
                continue
            kinds[resource["resource"]] = Kind(
                api_version,
                resource["responseKind"]["kind"],
                resource["resource"],
                namespaced=resource["scope"] == "Namespaced",
            )
    return list(kinds.values())
