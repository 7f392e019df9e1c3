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
from itertools import count

import anyio

from sregym import process
from sregym.agents.things import HostJournal, Names, owned
from sregym.cluster import waits
from sregym.errors import AgentError, CommandError, WaitTimeout
from sregym.events import Emit, silent
from sregym.gateway.doors import INTERNET
from sregym.gateway.server import Gateway

GATEWAY = "gateway"
"""The gateway container's name for the agent."""
SOCKETS = "/run/relay"
HELD = "/run/desk"
READY_WITHIN_S = 20.0
RESTART_AFTER_S = 0.2
MOST_DEATHS = 10
"""A gateway container that ends more often than this in one attempt will not get better."""
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
async def gateway_container(
    journal: HostJournal, names: Names, gateway: Gateway, image: str, *, emit: Emit = silent
) -> AsyncIterator[None]:
    """The gateway container, running and listening; started again when it dies.

    It also mounts the agent's volume, which lives in memory and only as long as a running container has it mounted.
    Raises AgentError where it cannot be made, or does not stay up.
    """
    create = [
        *("docker", "create", "--name", names.gateway, "--hostname", GATEWAY),
        *("--network", names.network, "--network-alias", GATEWAY, *NO_OTHER_DNS, *NO_IPV6, *NO_RIGHTS),
        *("--user", "65534:65534", "--pids-limit", "128", "--memory", "128m", "--memory-swap", "128m"),
        *("--volume", f"{gateway.sockets.folder}:{SOCKETS}:ro", "--env", f"RELAY_CONFIG={_relay_config(gateway)}"),
        *("--volume", f"{names.volume}:{HELD}:ro", "--log-opt", "max-size=5m", image),
    ]
    async with owned(journal, "container", names.gateway), anyio.create_task_group() as tasks:
        await docker(create, what="the gateway container cannot be made")
        await docker(["docker", "start", names.gateway], what="the gateway container cannot be started")
        await _listening(names.gateway)
        tasks.start_soon(_keep_running, names.gateway, create, emit)
        yield
        tasks.cancel_scope.cancel()


async def _keep_running(name: str, create: Sequence[str], emit: Emit) -> None:
    """Starts the gateway container again whenever it ends; makes it anew where it was removed.

    Docker's own restart policy does not do this: it leaves alone what `docker kill` ended.
    """
    for deaths in count(1):
        await process.run(["docker", "wait", name], check=False)
        if deaths > MOST_DEATHS:
            raise AgentError(f"the gateway container does not stay up; it ended {deaths} times")
        emit("gateway.container_died", deaths=deaths)
        start = ["docker", "start", name]
        if not (await process.run(start, check=False)).ok:
            await process.run(["docker", "rm", "--force", name], check=False)
            await docker(create, what="the gateway container cannot be made again")
            await docker(start, what="the gateway container cannot be started again")
        await waits.elapse(RESTART_AFTER_S, why="before the gateway container is watched again", emit=emit)


def _relay_config(gateway: Gateway) -> str:
    listeners = [
        {
            "name": door.name,
            "listen": f":{door.port}",
            "upstream": f"unix://{SOCKETS}/{gateway.sockets.of(door).name}",
            **({"raw": True} if door is INTERNET else {"token": gateway.token}),
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
