"""The node's network: addresses, routes, packet filter (read only), sockets, and connection tracking."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sregym.gateway.node.contract import Node, Operation, Refused, Said, said_by

LOOKS: dict[str, tuple[str, ...]] = {
    "addresses": ("ip", "address", "show"),
    "routes": ("ip", "route", "show", "table", "all"),
    "rules": ("ip", "rule", "show"),
    "links": ("ip", "-statistics", "link", "show"),
    "neighbours": ("ip", "neighbour", "show"),
    "sockets": ("ss", "--numeric", "--tcp", "--udp", "--all"),
    "socket-summary": ("ss", "--summary"),
    "filter": ("iptables", "-w", "5", "-t", "filter", "-L", "-n", "-v"),
    "nat": ("iptables", "-w", "5", "-t", "nat", "-L", "-n", "-v"),
    "mangle": ("iptables", "-w", "5", "-t", "mangle", "-L", "-n", "-v"),
    "ipsets": ("ipset", "list"),
    "qdisc": ("tc", "-statistics", "qdisc", "show"),
}
What = Literal[
    "addresses",
    "routes",
    "rules",
    "links",
    "neighbours",
    "sockets",
    "socket-summary",
    "filter",
    "nat",
    "mangle",
    "ipsets",
    "qdisc",
]
MOST_ENTRIES = 400
Port = Annotated[int, Field(ge=1, le=65535)]
Address = IPv4Address | IPv6Address


class Network(Operation):
    """Look at the network: addresses, routes, links with counters, sockets, packet filter (iptables), qdiscs."""

    op: Literal["network"] = "network"
    what: What

    async def run(self, node: Node) -> Said:
        return await node.said(*LOOKS[self.what])


class Conntrack(Operation):
    """Connection tracking: count entries (with the limit), list them, or delete those that match.

    `delete` needs at least one of source, destination, source_port, destination_port.
    """

    op: Literal["conntrack"] = "conntrack"
    action: Literal["count", "list", "delete"]
    protocol: Literal["tcp", "udp", "icmp", "sctp"] | None = None
    source: Address | None = None
    destination: Address | None = None
    source_port: Port | None = None
    destination_port: Port | None = None
    state: (
        Literal["SYN_SENT", "SYN_RECV", "ESTABLISHED", "FIN_WAIT", "CLOSE_WAIT", "LAST_ACK", "TIME_WAIT", "CLOSE"]
        | None
    ) = None
    limit: int = Field(default=100, ge=1, le=MOST_ENTRIES)
    changes: ClassVar[bool] = True

    async def run(self, node: Node) -> Said:
        if self.action == "count":
            return await _count(node)
        if (self.source_port or self.destination_port or self.state) and self.protocol is None:
            raise Refused("ports and states need a protocol (tcp, udp)")
        if self.action == "delete":
            return await self._delete(node)
        done = await node.run("conntrack", "-L", *self._filter())
        rows = done.stdout.splitlines()
        told = f"{len(rows)} entries" + (f", the first {self.limit} of them:" if len(rows) > self.limit else ":")
        if done.code != 0 and not rows:
            return said_by(done)
        return Said(text="\n".join((told, *rows[: self.limit])))

    async def _delete(self, node: Node) -> Said:
        if not any((self.source, self.destination, self.source_port, self.destination_port)):
            raise Refused("say which entries: by source, destination, source_port or destination_port")
        done = await node.run("conntrack", "-D", *self._filter())
        # conntrack(8) ends with 1 where nothing matched.
        return Said(
            text=f"{len(done.stdout.splitlines())} entries deleted\n{done.stdout}".strip(), ok=done.code in (0, 1)
        )

    def _filter(self) -> list[str]:
        pairs = {
            "--proto": self.protocol,
            "--src": self.source,
            "--dst": self.destination,
            "--sport": self.source_port,
            "--dport": self.destination_port,
            "--state": self.state,
        }
        flags = [word for flag, value in pairs.items() if value is not None for word in (flag, str(value))]
        v6 = any(isinstance(one, IPv6Address) for one in (self.source, self.destination))
        return [*flags, *(("--family", "ipv6") if v6 else ())]


async def _count(node: Node) -> Said:
    count = await node.run("conntrack", "-C")
    most = await node.run("sysctl", "-n", "net.netfilter.nf_conntrack_max")
    if count.code != 0:
        return said_by(count)
    return Said(text=f"{count.stdout.strip()} entries, at most {most.stdout.strip() or 'unknown'}")
