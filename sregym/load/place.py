"""Where the users stand: beside the cluster, with a route to its Services through one of its nodes.

The route leads through the control-plane node, which no problem and no agent touches, so that a broken worker hurts
users only as far as it hurts the application.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from sregym import process
from sregym.cluster.contract import Reader, Selection
from sregym.cluster.objects import POD, Kind, Ref, dig
from sregym.cluster.providers.base import ClusterHandle
from sregym.errors import ClusterError, PrerequisiteError

SERVICE_CIDR = Kind("networking.k8s.io/v1", "ServiceCIDR", "servicecidrs", namespaced=False)
RANGE_FLAG = "--service-cluster-ip-range="


@dataclass(frozen=True, kw_only=True)
class Place:
    """A Docker network, and the node (address on it) through which the Services' network is reached."""

    network: str
    via: str
    services: str


async def place_beside(handle: ClusterHandle, reader: Reader) -> Place:
    """Where the generator's container goes.

    Raises:
        PrerequisiteError: The nodes are not containers of this machine's Docker.
        ClusterError: The network of the Services cannot be found out.
    """
    if handle.docker_network is None:
        raise PrerequisiteError(
            f"users reach the application from beside the cluster, and the nodes of `{handle.name}` are not "
            "containers on this machine",
            cure="use a cluster of the provider `kind`, or name this one with --kubeconfig",
        )
    node = next(node.name for node in handle.nodes if node.control_plane)
    return Place(
        network=handle.docker_network,
        via=await _address_on(handle.docker_network, node),
        services=await service_network(reader),
    )


async def _address_on(network: str, container: str) -> str:
    template = f'{{{{(index .NetworkSettings.Networks "{network}").IPAddress}}}}'
    done = await process.run(["docker", "inspect", "--format", template, container])
    return done.stdout.strip()


async def service_network(reader: Reader) -> str:
    """The IPv4 network of ClusterIPs (CIDR): the API server's own object, or its argument in older versions."""
    found = await reader.find(Ref(SERVICE_CIDR, "kubernetes"))
    ranges: Sequence[str] = dig(found, "spec", "cidrs", default=[]) or await _from_api_server(reader)
    for cidr in ranges:
        if ipaddress.ip_network(cidr).version == 4:
            return cidr
    raise ClusterError("the network of ClusterIPs cannot be found out")


async def _from_api_server(reader: Reader) -> list[str]:
    selection = Selection(kind=POD, namespace="kube-system", labels="component=kube-apiserver")
    for pod in await reader.list(selection):
        for argument in dig(pod, "spec", "containers", 0, "command", default=[]):
            if argument.startswith(RANGE_FLAG):
                return str(argument.removeprefix(RANGE_FLAG)).split(",")
    return []


def container_command(place: Place, *, name: str, image: str) -> list[str]:
    """`docker run` for the generator: spec and commands on stdin, records on stdout; it ends when stdin does.

    Not `--rm`: the caller removes it, and two removals at once are an error of Docker's.
    """
    limits = ["--memory=256m", "--pids-limit=512", "--read-only", "--ulimit=nofile=16384:16384"]
    rights = ["--cap-drop=ALL", "--cap-add=NET_ADMIN", "--security-opt=no-new-privileges"]
    route = 'ip route add "$1" via "$2" && exec load'
    where = ["run", "--interactive", f"--name={name}", f"--network={place.network}"]
    return ["docker", *where, *rights, *limits, "--entrypoint=sh", image, "-c", route, "sh", place.services, place.via]
