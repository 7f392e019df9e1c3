"""Where the traffic of a kind cluster ends: rules in the nodes' packet filters.

Written once for each node and again whenever images are loaded, since a node that was restarted has lost them.
"""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from sregym import process

SERVICE_RANGE = "10.96.0.0/16"
POD_RANGE = "10.244.0.0/16"
CHAIN = "PODS-OUT"
CLOSED_PORT = 1


async def fence(nodes: Sequence[str]) -> None:
    """Refuse what is addressed to nobody, and drop what pods send beyond the cluster. Idempotent.

    Addresses in the Services' range that kube-proxy has left alone are served by nobody (the Service was deleted, or
    has no such port): without a refusal the connection leaves the node by the default route, and whatever is out there
    may hang, or answer in the Service's place.

    Pods reach pods, Services and nodes, and ask the nodes' name servers. An agent can run code in pods, so what they
    reach it reaches, too; and that must not be the host, the internet or a cloud's metadata.
    """
    addresses = [await _address_of(node) for node in nodes]
    script = "; ".join([*_unserved(), *_outwards(addresses)])
    async with anyio.create_task_group() as tasks:
        for node in nodes:
            tasks.start_soon(process.run, ["docker", "exec", node, "sh", "-ec", script])


def _unserved() -> list[str]:
    """Behind kube-proxy's own rules, and to a port of the node on which nobody listens: that refuses at once.

    A rule in `filter` would not do, because a network plugin's rules come first there, and accept what pods send.
    """
    closed = f"-d {SERVICE_RANGE} -j REDIRECT --to-ports {CLOSED_PORT}"
    return [
        _once(chain, f"-p {protocol} {closed}", table="nat", how="-A")
        for chain in ("PREROUTING", "OUTPUT")
        for protocol in ("tcp", "udp")
    ]


def _outwards(nodes: Sequence[str]) -> list[str]:
    """In the table `mangle`, because a network plugin's rules come first in `filter`, and accept."""
    add = f"iptables -w -t mangle -A {CHAIN}"
    inside = [f"{add} -d {one} -j RETURN" for one in (POD_RANGE, SERVICE_RANGE, *nodes)]
    servers = "$(sed -n 's/^nameserver \\([0-9.]*\\)$/\\1/p' /etc/resolv.conf)"
    return [
        f"iptables -w -t mangle -N {CHAIN} 2>/dev/null || iptables -w -t mangle -F {CHAIN}",
        *inside,
        f"for s in {servers}; do for p in udp tcp; do {add} -d $s -p $p --dport 53 -j RETURN; done; done",
        f"{add} -j DROP",
        _once("FORWARD", f"-s {POD_RANGE} -m conntrack --ctstate NEW -j {CHAIN}", table="mangle"),
    ]


def _once(chain: str, rule: str, *, table: str, how: str = "-I") -> str:
    command = f"iptables -w -t {table}"
    return f"{command} -C {chain} {rule} 2>/dev/null || {command} {how} {chain} {rule}"


async def _address_of(node: str) -> str:
    template = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    return (await process.run(["docker", "inspect", "--format", template, node])).stdout.strip()
