"""Requests from a node: what is sent, how names are resolved, and which answer is no answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest

from sregym.cluster.contract import ExecResult, HttpReply
from sregym.cluster.fake import FakeCluster
from sregym.cluster.objects import ENDPOINTSLICE, POD, SERVICE, Kind, Obj, Ref
from sregym.cluster.requesting import Request, from_node, through_api_server
from sregym.cluster.transport import Transport
from sregym.errors import DefinitionError, Unavailable


def answered(body: str = "ok", *, code: int = 0, status: int = 200, error: str = "") -> ExecResult:
    facts = {"http_code": status, "time_total": 0.01, "errormsg": error or None}
    headers = json.dumps({"Content-Type": ["text/plain"], "X-A": ["1", "2"]})
    return ExecResult(code=code, stdout=body, stderr=f"\x1e{headers}\x1e{json.dumps(facts)}")


@dataclass
class Nodes:
    """A node shell that answers what it is told to."""

    answers: dict[str, ExecResult | Exception]
    ran: list[tuple[str, Sequence[str], str]] = field(default_factory=list)
    own_kernel: bool = False

    @property
    def nodes(self) -> Sequence[str]:
        return list(self.answers)

    async def run(self, node: str, argv: Sequence[str], *, stdin: str = "", within: float = 30.0) -> ExecResult:
        self.ran.append((node, argv, stdin))
        answer = self.answers[node]
        if isinstance(answer, Exception):
            raise answer
        return answer


def request(url: str, *, body: str | None = None, method: str = "GET") -> Request:
    return Request(url=url, method=method, headers={}, body=body, within=3)


def make(kind: Kind, name: str, **body: object) -> Obj:
    meta = {"name": name, "namespace": "shop", "labels": body.pop("labels", {})}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, **body}


@pytest.fixture
async def shop(fake_cluster: FakeCluster) -> FakeCluster:
    fake_cluster.controllers = False
    await fake_cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    await fake_cluster.create(make(SERVICE, "web", spec={"clusterIP": "10.96.0.7"}))
    await fake_cluster.create(make(SERVICE, "headless", spec={"clusterIP": "None"}))
    await fake_cluster.create(make(SERVICE, "alias", spec={"externalName": "web.shop.svc.cluster.local"}))
    endpoints = [
        {"addresses": ["10.244.0.4"], "conditions": {"ready": False}},
        {"addresses": ["10.244.0.5"], "conditions": {"ready": True}},
    ]
    labels = {"kubernetes.io/service-name": "headless"}
    await fake_cluster.create(make(ENDPOINTSLICE, "headless-1", endpoints=endpoints, labels=labels))
    await fake_cluster.create(make(POD, "db-0", spec={}))
    fake_cluster.set_status(Ref(POD, "db-0", "shop"), {"podIP": "10.244.0.9"})
    return fake_cluster


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("web.shop", "10.96.0.7"),
        ("web.shop.svc.cluster.local", "10.96.0.7"),
        ("alias.shop", "10.96.0.7"),
        ("headless.shop.svc", "10.244.0.5"),
        ("db-0.headless.shop", "10.244.0.9"),
        ("10.1.2.3", "10.1.2.3"),
    ],
)
async def test_names_are_resolved_as_cluster_dns_would(shop: FakeCluster, host: str, address: str) -> None:
    nodes = Nodes({"w": answered()})
    await from_node(shop, nodes, request(f"http://{host}:8080/path"))
    [(_, argv, _)] = nodes.ran
    assert argv[argv.index("--resolve") + 1] == f"{host}:8080:{address}"
    assert argv[-1] == f"http://{host}:8080/path"


async def test_an_answer_is_taken_apart(shop: FakeCluster) -> None:
    reply = await from_node(shop, Nodes({"w": answered("hello", status=503)}), request("http://web.shop/"))
    assert (reply.status, reply.body, reply.error) == (503, "hello", "")
    assert reply.headers == {"content-type": "text/plain", "x-a": "1, 2"}


async def test_no_answer_is_status_0(shop: FakeCluster) -> None:
    refused = answered("", code=7, status=0, error="Failed to connect")
    reply = await from_node(shop, Nodes({"w": refused}), request("http://web.shop/"))
    assert (reply.status, reply.error) == (0, "Failed to connect")


async def test_an_answer_that_broke_off_is_no_answer(shop: FakeCluster) -> None:
    broken = answered("hal", code=18, status=200, error="transfer closed")
    reply = await from_node(shop, Nodes({"w": broken}), request("http://web.shop/"))
    assert (reply.status, reply.body, reply.error) == (0, "hal", "transfer closed")


async def test_an_unknown_name_needs_no_node(shop: FakeCluster) -> None:
    nodes = Nodes({})
    reply = await from_node(shop, nodes, request("http://nobody.shop/"))
    assert reply.status == 0
    assert "no such name" in reply.error


async def test_workers_are_asked_before_the_control_plane(shop: FakeCluster) -> None:
    nodes = Nodes({"a-control-plane": answered(), "b-worker": answered()})
    await from_node(shop, nodes, request("http://web.shop/"))
    assert [node for node, _, _ in nodes.ran] == ["b-worker"]


async def test_another_node_is_tried(shop: FakeCluster) -> None:
    nodes = Nodes({"w1": Unavailable("stopped"), "w2": answered()})
    assert (await from_node(shop, nodes, request("http://web.shop/"))).status == 200


@pytest.mark.parametrize("code", [2, 3, 126, 127])
async def test_a_curl_that_does_not_run_is_a_failed_look(shop: FakeCluster, code: int) -> None:
    nodes = Nodes({"w": ExecResult(code=code, stdout="", stderr="curl: not found")})
    with pytest.raises(Unavailable, match="no node could send"):
        await from_node(shop, nodes, request("http://web.shop/"))


async def test_a_body_goes_by_standard_input(shop: FakeCluster) -> None:
    nodes = Nodes({"w": answered()})
    await from_node(shop, nodes, request("http://web.shop/", body='{"a": 1}', method="POST"))
    [(_, argv, stdin)] = nodes.ran
    assert stdin == '{"a": 1}'
    assert "@-" in argv
    assert '{"a": 1}' not in argv


@pytest.mark.parametrize("url", ["http://web/", "not a url", "http://a.b.c.d.e/"])
async def test_names_that_depend_on_who_asks_are_refused(shop: FakeCluster, url: str) -> None:
    with pytest.raises(DefinitionError):
        await from_node(shop, Nodes({"w": answered()}), request(url))


@dataclass
class Proxy:
    """An API server's proxy that notes what it is asked for."""

    answer: tuple[int, str] = (200, "ok")
    asked: list[str] = field(default_factory=list)

    async def proxied(self, method: str, path: str, **_: object) -> tuple[int, str]:
        self.asked.append(f"{method} {path}")
        return self.answer


async def proxied(shop: FakeCluster, url: str, proxy: Proxy | None = None) -> tuple[HttpReply, list[str]]:
    proxy = proxy or Proxy()
    reply = await through_api_server(shop, cast(Transport, proxy), request(url))
    return reply, proxy.asked


@pytest.mark.parametrize(
    ("host", "called"),
    [
        ("web.shop", "services/web"),
        ("web.shop.svc.cluster.local", "services/web"),
        ("10.96.0.7", "services/web"),
        ("db-0.db.shop", "pods/db-0"),
        ("10.244.1.5", "pods/db-0"),
    ],
)
async def test_the_api_server_calls_what_a_host_is_by_its_name(shop: FakeCluster, host: str, called: str) -> None:
    shop.put(Ref(POD, "db-0", "shop"), make(POD, "db-0", status={"podIP": "10.244.1.5"}))
    shop.put(Ref(POD, "a-job", "shop"), make(POD, "a-job", status={"podIP": "10.244.1.5", "phase": "Succeeded"}))
    reply, asked = await proxied(shop, f"http://{host}:9090/metrics?x=1")
    assert (reply.status, reply.body) == (200, "ok")
    assert asked == [f"GET /api/v1/namespaces/shop/{called}:9090/proxy/metrics?x=1"]


async def test_an_address_of_nobody_is_no_answer(shop: FakeCluster) -> None:
    reply, asked = await proxied(shop, "http://10.244.9.9:80/")
    assert reply.status == 0
    assert "no such name" in reply.error
    assert asked == []


async def test_what_the_api_server_could_not_reach_is_no_answer_of_the_service(shop: FakeCluster) -> None:
    status = {"kind": "Status", "message": "no endpoints available for service web"}
    reply, _ = await proxied(shop, "http://web.shop/", Proxy(answer=(503, json.dumps(status))))
    assert (reply.status, reply.error) == (0, "no endpoints available for service web")
