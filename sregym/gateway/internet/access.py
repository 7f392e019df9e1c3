"""What an agent may reach beyond the gateway: nothing, a few endpoints, or the public internet.

Private addresses are never among it (hosts, nodes, containers, cloud metadata), but for those that the operator wrote
down as addresses. A name is looked up once, its addresses are judged, and the connection goes to one of those.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from sregym.errors import PrerequisiteError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_PORTS = {"http": 80, "https": 443}
_LOCALHOST = "localhost"
_MAIL = 25
"""Not even with open access: nobody debugs a cluster by sending mail."""
_CARRIERS = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")))
"""IPv6 networks whose addresses hold an IPv4 address (NAT64, 6to4, Teredo)."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A host and port that is allowed. `host` is a name or an address, in lower case."""

    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Endpoint:
        """From a URL, of which only scheme, host and port matter. Raises PrerequisiteError."""
        cure = "give a URL such as https://api.example.com or http://10.0.0.5:8000"
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        except (ValueError, KeyError) as error:
            raise PrerequisiteError(f"{url!r} is no endpoint", cure=cure) from error
        if not host or any(ch.isspace() or ch in "*?%" for ch in host):
            raise PrerequisiteError(f"{url!r} is no endpoint: it names no single host", cure=cure)
        literal = address_of(host)
        if plain_host(host) == _LOCALHOST or (literal is not None and literal.is_loopback):
            raise PrerequisiteError(
                f"{url!r} would be the agent's own container", cure="give another address of the machine that is meant"
            )
        return cls(host=plain_host(host), port=port)

    @property
    def is_literal(self) -> bool:
        """Whether the operator wrote down the address itself."""
        return address_of(self.host) is not None


@dataclass(frozen=True, kw_only=True)
class InternetAccess:
    """Of one run. `open`: all of the public internet; otherwise only `endpoints`."""

    open: bool = False
    endpoints: tuple[Endpoint, ...] = ()

    @property
    def mode(self) -> Literal["filtered", "open"]:
        """The word of the command line and of results."""
        return "open" if self.open else "filtered"

    @property
    def leads_somewhere(self) -> bool:
        return self.open or bool(self.endpoints)

    def named(self) -> tuple[str, ...]:
        """The endpoints as text."""
        return tuple(f"{one.host}:{one.port}" for one in self.endpoints)


class NotAllowed(Exception):
    """A target that an agent may not reach; the text is for the agent."""


def judge_target(access: InternetAccess, host: str, port: int) -> bool:
    """Whether the addresses of a target that may be asked for need no judging: the operator wrote them down.

    Raises NotAllowed.
    """
    host = plain_host(host)
    for endpoint in access.endpoints:
        if (endpoint.host, endpoint.port) == (host, port):
            return endpoint.is_literal
    if not access.open:
        raise NotAllowed(f"{host}:{port} is not among the endpoints of this session")
    if port == _MAIL:
        raise NotAllowed("mail is not sent from here")
    return False


def judge_addresses(found: Iterable[str], *, denied: Sequence[Address] = ()) -> list[str]:
    """The public ones of a name's addresses. Raises NotAllowed where there are none."""
    public = [text for text in found if (one := address_of(text)) and is_public(one) and one not in denied]
    if not public:
        raise NotAllowed("it has no public address")
    return public


def is_public(address: Address) -> bool:
    """Whether an address is of the public internet, and not one of this machine's own."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return is_public(address.ipv4_mapped)
        if any(address in network for network in _CARRIERS):
            return False
    return address.is_global and not address.is_multicast and not is_own(address)


def is_own(address: Address) -> bool:
    """Whether an address is of this machine: only those can be bound."""
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True


def address_of(text: str) -> Address | None:
    """The address that a text is, in the usual notation; None where it is a name."""
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def plain_host(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()
