"""The agent's way to the internet: what it may reach, and what it never does."""

import ipaddress
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from sregym.errors import PrerequisiteError
from sregym.gateway.internet import proxy as proxying
from sregym.gateway.internet.access import (
    Endpoint,
    InternetAccess,
    NotAllowed,
    is_public,
    judge_addresses,
    judge_target,
)
from sregym.gateway.internet.proxy import serving_internet
from sregym.gateway.upstream import ClusterAccess, Upstream
from sregym.gateway.web import tcp_socket
from tests.support.servers import LOOPBACK, asgi_server, kubeconfig

OPEN = InternetAccess(open=True)
FEW = InternetAccess(endpoints=(Endpoint.of("https://api.example.com/v1"), Endpoint.of("http://10.1.2.3:8000")))
NODE = "93.184.216.77"


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("https://API.example.com./v1", "api.example.com", 443),
        ("http://10.0.0.5:8000", "10.0.0.5", 8000),
        ("https://[2606:4700::1111]:8443/x?y", "2606:4700::1111", 8443),
    ],
)
def test_endpoints_are_read_from_urls(url: str, host: str, port: int) -> None:
    assert Endpoint.of(url) == Endpoint(host=host, port=port)


@pytest.mark.parametrize(
    "url",
    ["", "api.example.com", "ftp://a", "https://", "https://a:0x1", "https://a:99999", "https://*.example.com",
     "https://a b"],
)  # fmt: skip
def test_what_is_no_endpoint_is_said_so(url: str) -> None:
    with pytest.raises(PrerequisiteError, match="no endpoint"):
        Endpoint.of(url)


@pytest.mark.parametrize(
    "url", ["http://localhost:11434", "http://127.0.0.1", "https://[::1]:8443", "http://LOCALHOST."]
)
def test_an_endpoint_inside_the_agents_own_container_is_refused(url: str) -> None:
    with pytest.raises(PrerequisiteError, match="own container"):
        Endpoint.of(url)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.1", "172.18.0.2", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
     "255.255.255.255", "::1", "::", "fe80::1", "fd00:ec2::254", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
     "64:ff9b::a00:1", "2002:a00:1::", "2001:0:a00:1::", "ff02::1", "192.0.2.1", "198.18.0.1"],
)  # fmt: skip
def test_addresses_that_are_nobodys_on_the_internet(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))
    with pytest.raises(NotAllowed):
        judge_addresses([address])


@pytest.mark.parametrize("address", ["93.184.216.34", "1.1.1.1", "2606:4700:4700::1111", "::ffff:1.1.1.1"])
def test_public_addresses(address: str) -> None:
    assert judge_addresses([address, "10.0.0.1"]) == [address]


def test_this_machines_own_public_address_is_not_public(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sregym.gateway.internet.access.is_own", lambda address: str(address) == "93.184.216.34")
    with pytest.raises(NotAllowed):
        judge_addresses(["93.184.216.34"])


def test_the_clusters_addresses_are_not_reached() -> None:
    with pytest.raises(NotAllowed):
        judge_addresses([NODE], denied=[ipaddress.ip_address(NODE)])


@pytest.mark.parametrize(
    ("access", "host", "port", "written_down"),
    [
        (FEW, "api.example.com", 443, False),
        (FEW, "API.Example.com.", 443, False),
        (FEW, "10.1.2.3", 8000, True),
        (OPEN, "anything.example", 8443, False),
        (OPEN, "10.1.2.3", 80, False),
    ],
)
def test_targets_that_may_be_asked_for(access: InternetAccess, host: str, port: int, written_down: bool) -> None:
    assert judge_target(access, host, port) is written_down


@pytest.mark.parametrize(
    ("access", "host", "port"),
    [
        (FEW, "api.example.com", 80),
        (FEW, "evil.api.example.com", 443),
        (FEW, "api.example.com.evil", 443),
        (FEW, "10.1.2.3", 8001),
        (FEW, "0x0a010203", 8000),
        (InternetAccess(), "api.example.com", 443),
        (OPEN, "mail.example.com", 25),
    ],
)
def test_targets_that_may_not(access: InternetAccess, host: str, port: int) -> None:
    with pytest.raises(NotAllowed):
        judge_target(access, host, port)


@dataclass
class Events:
    seen: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self, name: str, /, **data: Any) -> None:
        self.seen.append((name, str(data.get("target"))))


@dataclass
class Rig:
    port: int
    events: Events
    target: int
    """Port of an HTTP server on loopback that says what it was asked."""

    async def say(self, text: str) -> bytes:
        async with await anyio.connect_tcp(LOOPBACK, self.port) as stream:
            await stream.send(text.encode())
            await stream.send_eof()
            said = b""
            with anyio.fail_after(10):
                async for data in stream:
                    said += data
        return said


@asynccontextmanager
async def rig(folder: Path, *endpoints: str, open_: bool = False, nodes: int = 200) -> AsyncIterator[Rig]:
    async def list_nodes(_: Request) -> Response:
        items = [{"status": {"addresses": [{"type": "ExternalIP", "address": NODE}]}}]
        return JSONResponse({"items": items}, status_code=nodes)

    async def echo(request: Request) -> Response:
        names = sorted(set(request.headers) - {"host", "connection"})
        return PlainTextResponse(f"{request.method} {request.url.path} {request.headers['host']} {names}")

    app = Starlette(routes=[Route("/api/v1/nodes", list_nodes), Route("/{rest:path}", echo, methods=["GET", "POST"])])
    events = Events()
    async with asgi_server(app) as base, Upstream(ClusterAccess(kubeconfig=kubeconfig(folder, base))) as upstream:
        target = int(base.rpartition(":")[2])
        allowed = tuple(Endpoint(host=host, port=target) for host in endpoints)
        access = InternetAccess(open=open_, endpoints=allowed)
        listening = tcp_socket(LOOPBACK, 0)
        async with serving_internet(access, [listening], upstream=upstream, emit=events):
            yield Rig(port=listening.getsockname()[1], events=events, target=target)


async def test_a_tunnel_to_an_address_that_was_written_down(tmp_path: Path) -> None:
    async with rig(tmp_path, LOOPBACK) as it:
        said = await it.say(
            f"CONNECT 127.0.0.1:{it.target} HTTP/1.1\r\nHost: x\r\n\r\nGET /inside HTTP/1.0\r\nhost: t\r\n\r\n"
        )
    assert said.startswith(b"HTTP/1.1 200 Connected\r\n\r\nHTTP/1.1 200 OK")
    assert b"GET /inside t" in said
    assert it.events.seen == [("internet.reached", f"127.0.0.1:{it.target}")]


async def test_plain_http_through_the_proxy_loses_what_was_for_the_proxy(tmp_path: Path) -> None:
    async with rig(tmp_path, LOOPBACK) as it:
        said = await it.say(
            f"POST http://127.0.0.1:{it.target}/a?b HTTP/1.1\r\nHost: evil\r\nProxy-Authorization: Basic eA==\r\n"
            "Proxy-Connection: keep-alive\r\nAccept: */*\r\nContent-Length: 2\r\n\r\nhi"
        )
    assert f"POST /a 127.0.0.1:{it.target} ['accept', 'content-length']".encode() in said


@pytest.mark.parametrize(
    "request_line",
    ["CONNECT 169.254.169.254:80", "CONNECT 127.0.0.1:22", "CONNECT 10.96.0.1:443", "CONNECT [::1]:443",
     "CONNECT localhost:1", "GET http://169.254.169.254/latest/meta-data/", "CONNECT 127.1:80", "CONNECT 2130706433:80",
     "CONNECT [::ffff:127.0.0.1]:80", "CONNECT [fe80::1%25eth0]:80", f"CONNECT {NODE}:6443"],
)  # fmt: skip
@pytest.mark.parametrize("open_", [False, True])
async def test_private_places_are_never_reached(tmp_path: Path, request_line: str, open_: bool) -> None:
    async with rig(tmp_path, open_=open_) as it:
        said = await it.say(f"{request_line} HTTP/1.1\r\nHost: x\r\n\r\n")
    assert said.startswith((b"HTTP/1.1 403", b"HTTP/1.1 502"))
    assert [name for name, _ in it.events.seen] == ["internet.refused"]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("CONNECT nowhere HTTP/1.1\r\nHost: x\r\n\r\n", 403),
        ("CONNECT a:0 HTTP/1.1\r\nHost: x\r\n\r\n", 403),
        ("CONNECT a:99999 HTTP/1.1\r\nHost: x\r\n\r\n", 403),
        ("CONNECT a:-1 HTTP/1.1\r\nHost: x\r\n\r\n", 403),
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 403),
        ("GET https://a/ HTTP/1.1\r\nHost: x\r\n\r\n", 403),
        ("GET file:///etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", 403),
        ("GET http://[bad HTTP/1.1\r\nHost: x\r\n\r\n", 403),
        ("GET http:// HTTP/1.1\r\nHost: x\r\n\r\n", 403),
        ("\x00\x01\x02\r\n\r\n", 400),
        ("CONNECT a:1 HTTP/1.1\r\n" + "x: " + "y" * 70_000 + "\r\n\r\n", 400),
    ],
)
async def test_what_is_no_proxy_request_is_refused(tmp_path: Path, text: str, status: int) -> None:
    async with rig(tmp_path, open_=True) as it:
        said = await it.say(text)
        assert said.startswith(f"HTTP/1.1 {status}".encode())
        assert await it.say("") == b""


async def test_a_name_is_judged_by_the_address_that_is_then_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups: list[str] = []
    dialled: list[list[str]] = []

    async def names(host: str, port: int | None, **more: Any) -> Any:
        lookups.append(str(host))
        found = {"mixed.example": ["10.0.0.1", "93.184.216.34"], "inside.example": ["10.0.0.1"]}
        return [(2, 1, 6, "", (address, port)) for address in found.get(str(host), [LOOPBACK])]

    async def dial(addresses: list[str], port: int) -> Any:
        dialled.append(addresses)
        return await anyio.connect_tcp(LOOPBACK, it.target)

    async with rig(tmp_path, open_=True) as it:
        monkeypatch.setattr(anyio, "getaddrinfo", names)
        monkeypatch.setattr(proxying, "_dial", dial)
        good = await it.say("CONNECT mixed.example:443 HTTP/1.1\r\nHost: x\r\n\r\nGET /x HTTP/1.0\r\n\r\n")
        bad = await it.say("CONNECT inside.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert good.startswith(b"HTTP/1.1 200")
    assert bad.startswith(b"HTTP/1.1 403")
    assert dialled == [["93.184.216.34"]]
    assert lookups.count("mixed.example") == 1


async def test_without_the_clusters_addresses_nothing_is_reached(tmp_path: Path) -> None:
    async with rig(tmp_path, open_=True, nodes=403) as it:
        said = await it.say("CONNECT 93.184.216.34:443 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 502")
    assert b"cluster" in said


def test_it_is_written_into_the_gateways_config_and_back() -> None:
    from pydantic import TypeAdapter

    adapter = TypeAdapter(InternetAccess)
    assert adapter.validate_python(json.loads(adapter.dump_json(FEW))) == FEW
    assert (FEW.mode, OPEN.mode, FEW.named()) == ("filtered", "open", ("api.example.com:443", "10.1.2.3:8000"))
