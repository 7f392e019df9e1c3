"""The agent's network and the gateway container, its only neighbour.

The network is internal and its bridge has no address on the host, so neither the host's services nor another network
can be reached from it. The gateway container forwards a few ports to UNIX sockets of the gateway, which are mounted
into it: it needs, and has, no second network. Names are answered by Docker's own resolver, which is given no server to
ask further.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from sregym import process
from sregym.agents.things import HostJournal, Names, owned
from sregym.cluster import waits
from sregym.errors import AgentError, CommandError, WaitTimeout
from sregym.gateway.server import Gateway

GATEWAY = "gateway"
"""The gateway container's name for the agent."""
SOCKETS = "/run/relay"
READY_WITHIN_S = 20.0
NO_OTHER_DNS = (
    *("--dns", "127.0.0.1", "--dns-search", "."),
    *("--dns-opt", "timeout:1", "--dns-opt", "attempts:1", "--dns-opt", "ndots:0"),
)
"""Docker's resolver asks further inside the container's own network namespace, where nothing answers; a program that
looks a foreign name up is told so after a second."""
NO_IPV6 = ("--sysctl", "net.ipv6.conf.all.disable_ipv6=1", "--sysctl", "net.ipv6.conf.default.disable_ipv6=1")
NO_RIGHTS = ("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only", "--ulimit", "core=0")


@asynccontextmanager
async def isolated_network(journal: HostJournal, names: Names) -> AsyncIterator[str]:
    """A network with nothing on it and no way out."""
    command = ["docker", "network", "create", "--internal", "-o", "com.docker.network.bridge.inhibit_ipv4=true"]
    async with owned(journal, "network", names.network):
        await docker([*command, names.network], what="the agent's network cannot be made")
        yield names.network


@asynccontextmanager
async def gateway_container(journal: HostJournal, names: Names, gateway: Gateway, image: str) -> AsyncIterator[None]:
    """The gateway container, running and listening."""
    create = [
        *("docker", "create", "--name", names.gateway, "--hostname", GATEWAY),
        *("--network", names.network, "--network-alias", GATEWAY, *NO_OTHER_DNS, *NO_IPV6, *NO_RIGHTS),
        *("--user", "65534:65534", "--pids-limit", "128", "--memory", "128m", "--memory-swap", "128m"),
        *("--volume", f"{gateway.sockets.folder}:{SOCKETS}:ro", "--env", f"RELAY_CONFIG={_relay_config(gateway)}"),
        *("--log-opt", "max-size=5m", image),
    ]
    async with owned(journal, "container", names.gateway):
        await docker(create, what="the gateway container cannot be made")
        await docker(["docker", "start", names.gateway], what="the gateway container cannot be started")
        await _listening(names.gateway)
        yield


def _relay_config(gateway: Gateway) -> str:
    listeners = [
        {
            "name": door.name,
            "listen": f":{door.port}",
            "upstream": f"unix://{SOCKETS}/{gateway.sockets.of(door).name}",
            "token": gateway.token,
        }
        for door in gateway.doors
    ]
    return json.dumps({"listeners": listeners})


async def _listening(container: str) -> None:
    async def look() -> bool | None:
        said = await process.run(["docker", "logs", container], check=False)
        return True if '"ready"' in said.stdout else None

    try:
        await waits.poll(look, what="gateway container", every=0.05, within=READY_WITHIN_S)
    except WaitTimeout as error:
        said = await process.run(["docker", "logs", container], check=False)
        raise AgentError(f"the gateway container does not listen; it said\n{said.stderr or said.stdout}") from error


async def docker(command: Sequence[str], *, what: str, within: float = 60.0) -> str:
    """Run a docker command; returns what it said. Raises AgentError with `what` and Docker's words."""
    try:
        done = await process.run(command, within=within)
    except CommandError as error:
        said = "\n".join(error.stderr.strip().splitlines()[-process.LAST_LINES :])
        raise AgentError(f"{what}: {said or error}") from error
    return done.stdout.strip()
