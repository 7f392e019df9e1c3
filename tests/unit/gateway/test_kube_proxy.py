"""The kube proxy in front of a server that records what reaches it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from sregym.gateway.http1 import Exchange, Head
from sregym.gateway.identity import Identity, TokenGate
from sregym.gateway.serve import serving_kube
from sregym.gateway.upstream import ClusterAccess
from sregym.gateway.web import tcp_socket
from tests.support.servers import LOOPBACK, kubeconfig, raw_server

JSON = (b"content-type", b"application/json")


class ApiServer:
    """Plays the API server: records heads and bodies, answers, streams, switches protocols."""

    def __init__(self) -> None:
        self.heads: list[Head] = []
        self.bodies: list[bytes] = []
        self.watchers = 0
        self.go_on = anyio.Event()
        self.left = anyio.Event()

    async def handle(self, exchange: Exchange) -> None:
        self.heads.append(exchange.head)
        path = exchange.head.target.decode()
        if exchange.head.wants_upgrade:
            echo = Echo()
            try:
                await exchange.tunnel([(b"connection", b"Upgrade"), (b"upgrade", b"SPDY/3.1")], echo)
            finally:
                await echo.aclose()
                self.left.set()
            return
        if "watch=1" in path:
            await self._watch(exchange)
            return
        self.bodies.append(b"".join([piece async for piece in exchange.body()]))
        await exchange.respond_whole(200, [JSON, (b"x-served", b"yes")], b'{"kind":"PodList"}')

    async def _watch(self, exchange: Exchange) -> None:
        self.watchers += 1
        try:
            async with exchange.cancelled_by_hangup():
                await exchange.respond(200, [JSON], self._events())
        finally:
            self.watchers -= 1
            self.left.set()

    async def _events(self) -> AsyncIterator[bytes]:
        yield b'{"type":"ADDED"}\n'
        await self.go_on.wait()
        yield b'{"type":"MODIFIED"}\n'

    def header(self, name: str) -> str | None:
        value = self.heads[-1].get(name.encode())
        return value.decode() if value is not None else None


class Echo:
    """The far end of a tunnel that sends back what it gets, in capitals."""

    def __init__(self) -> None:
        self._send, self._receive = anyio.create_memory_object_stream[bytes](100)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            return await self._receive.receive()
        except anyio.EndOfStream:
            return b""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._send.send(buffer.upper())

    async def aclose(self) -> None:
        self._send.close()
        self._receive.close()


def nobody(name: str, /, **data: Any) -> None:
    assert name != "kube.crashed", data


@asynccontextmanager
async def proxied(api: ApiServer, folder: Path, **user: object) -> AsyncIterator[str]:
    """The proxy's address, without a token."""
    async with raw_server(api.handle) as server:
        access = ClusterAccess(kubeconfig=kubeconfig(folder, server, **(user or {"token": "ours"})))
        identity = Identity(user="oncall", groups=("oncall", "sre"))
        sockets = [tcp_socket(LOOPBACK, 0)]
        async with serving_kube(access, TokenGate("right"), identity, sockets, nobody) as port:
            yield f"http://{LOOPBACK}:{port}"


async def test_requests_go_on_as_the_agents_user(tmp_path: Path) -> None:
    api = ApiServer()
    async with proxied(api, tmp_path) as url, httpx.AsyncClient(base_url=url) as client:
        reply = await client.post(
            "/t/right/api/v1/namespaces/shop/pods?dryRun=All",
            headers={
                "Authorization": "Bearer stolen",
                "Impersonate-User": "system:admin",
                "Impersonate-Extra-scopes": "all",
                "X-Remote-User": "root",
                "X-Forwarded-For": "1.1.1.1",
                "Cookie": "a=b",
                "Connection": "keep-alive, x-secret",
                "X-Secret": "1",
                "User-Agent": "kubectl",
            },
            json={"kind": "Pod"},
        )
    assert (reply.status_code, reply.json(), reply.headers["x-served"]) == (200, {"kind": "PodList"}, "yes")
    assert api.heads[-1].target == b"/api/v1/namespaces/shop/pods?dryRun=All"
    assert api.bodies == [b'{"kind":"Pod"}']
    assert api.header("authorization") == "Bearer ours"
    assert (api.header("impersonate-user"), api.header("impersonate-group")) == ("oncall", "oncall, sre")
    assert api.header("user-agent") == "kubectl"
    for gone in ("x-remote-user", "x-forwarded-for", "cookie", "x-secret", "impersonate-extra-scopes"):
        assert api.header(gone) is None


@pytest.mark.parametrize("how", ["none", "wrong", "path"])
async def test_without_the_token_nothing_reaches_the_cluster(tmp_path: Path, how: str) -> None:
    api = ApiServer()
    headers = {"Authorization": "Bearer wrong"} if how == "wrong" else {}
    async with proxied(api, tmp_path) as url, httpx.AsyncClient(base_url=url, headers=headers) as client:
        reply = await client.get("/t/wrong/api" if how == "path" else "/api")
    assert (reply.status_code, reply.json()["kind"]) == (401, "Status")
    assert api.heads == []


@pytest.mark.parametrize("path", ["/api/v1/%2e%2e/x", "/api//v1", "/api/v1/namespaces/a%2fb/pods"])
async def test_paths_of_two_meanings_do_not_reach_the_cluster(tmp_path: Path, path: str) -> None:
    api = ApiServer()
    async with proxied(api, tmp_path) as url:
        reply = await raw_request(url, f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer right\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 400 ")
    assert api.heads == []


async def raw_request(url: str, text: str, enough: bytes = b'"code": 400}') -> bytes:
    host, _, port = url.removeprefix("http://").partition(":")
    async with await anyio.connect_tcp(host, int(port)) as stream:
        await stream.send(text.encode("latin-1"))
        got = b""
        with anyio.move_on_after(2):
            while enough not in got:
                got += await stream.receive()
        return got


@pytest.mark.parametrize(
    ("accept", "sent"),
    [
        ("application/vnd.kubernetes.protobuf,application/json", "application/json"),
        ("application/vnd.kubernetes.protobuf", None),
        ("application/cbor, application/yaml", None),
        ("application/json;as=Table;v=v1,application/json", "application/json;as=Table;v=v1"),
        ("*/*", "*/*"),
    ],
)  # fmt: skip
async def test_answers_are_json_or_refused(tmp_path: Path, accept: str, sent: str | None) -> None:
    api = ApiServer()
    async with proxied(api, tmp_path) as url, httpx.AsyncClient(base_url=url) as client:
        reply = await client.get("/t/right/api/v1/pods", headers={"Accept": accept})
    assert reply.status_code == (406 if sent is None else 200)
    if sent is not None:
        assert (api.header("accept") or "").startswith(sent)


async def test_openapi_may_be_binary(tmp_path: Path) -> None:
    api = ApiServer()
    async with proxied(api, tmp_path) as url, httpx.AsyncClient(base_url=url) as client:
        reply = await client.get("/t/right/openapi/v3", headers={"Accept": "application/vnd.kubernetes.protobuf"})
    assert reply.status_code == 200


async def test_a_watch_streams_and_ends_with_its_watcher(tmp_path: Path) -> None:
    api = ApiServer()
    async with proxied(api, tmp_path) as url, httpx.AsyncClient(base_url=url) as client:
        with anyio.fail_after(5):
            async with client.stream("GET", "/t/right/api/v1/pods?watch=1") as reply:
                events = reply.aiter_lines()
                assert await anext(events) == '{"type":"ADDED"}'
                api.go_on.set()
                assert await anext(events) == '{"type":"MODIFIED"}'
            api.go_on, api.left = anyio.Event(), anyio.Event()
            async with client.stream("GET", "/t/right/api/v1/pods?watch=1") as reply:
                assert await anext(reply.aiter_lines()) == '{"type":"ADDED"}'
                assert api.watchers == 1
            await api.left.wait()
            assert api.watchers == 0


async def test_an_upgraded_connection_carries_bytes_both_ways(tmp_path: Path) -> None:
    api = ApiServer()
    async with proxied(api, tmp_path) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        async with await anyio.connect_tcp(host, int(port)) as stream:
            await stream.send(
                b"POST /api/v1/namespaces/shop/pods/web/exec?command=id HTTP/1.1\r\nHost: x\r\n"
                b"Authorization: Bearer right\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
                b"Sec-WebSocket-Protocol: v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.c3RvbGVu\r\n"
                b"\r\nahead;"
            )
            got = b""
            with anyio.fail_after(5):
                while b"AHEAD;" not in got:
                    got += await stream.receive()
                await stream.send(b"more")
                while b"MORE" not in got:
                    got += await stream.receive()
        with anyio.fail_after(5):
            await api.left.wait()  # the far side ends with the near one
    assert got.startswith(b"HTTP/1.1 101 ")
    assert (api.header("connection"), api.header("upgrade")) == ("Upgrade", "SPDY/3.1")
    assert api.header("sec-websocket-protocol") == "v5.channel.k8s.io"


async def test_many_requests_share_a_connection(tmp_path: Path) -> None:
    api = ApiServer()
    async with proxied(api, tmp_path) as url, httpx.AsyncClient(base_url=url) as client:
        for _ in range(20):
            assert (await client.get("/t/right/api/v1/pods")).status_code == 200
            assert (await client.post("/t/right/api/v1/pods", content=b"x" * 100_000)).status_code == 200
    assert len(api.heads) == 40


async def test_a_cluster_that_is_away_is_no_crash(tmp_path: Path) -> None:
    access = ClusterAccess(kubeconfig=kubeconfig(tmp_path, f"http://{LOOPBACK}:9"))
    sockets = [tcp_socket(LOOPBACK, 0)]
    async with (
        serving_kube(access, TokenGate("right"), Identity(), sockets, nobody) as port,
        httpx.AsyncClient() as agent,
    ):
        reply = await agent.get(f"http://{LOOPBACK}:{port}/t/right/api")
    assert (reply.status_code, reply.json()["kind"]) == (502, "Status")


@pytest.mark.parametrize(
    "junk",
    [b"\x16\x03\x01\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"A" * 100_000, b"GET / HTTP/1.1\r\n\r\n"],
    ids=["tls", "half", "version", "endless", "no-host"],
)
async def test_what_is_no_http_is_refused_and_the_next_client_served(tmp_path: Path, junk: bytes) -> None:
    api = ApiServer()
    async with proxied(api, tmp_path) as url, httpx.AsyncClient(base_url=url) as client:
        reply = await raw_request(url, junk.decode("latin-1"), enough=b"\r\n\r\n")
        assert reply == b"" or any(code in reply for code in (b" 400 ", b" 401 ", b" 431 ", b" 505 "))
        assert (await client.get("/t/right/api")).status_code == 200
