"""The kube proxy hides through every door: paths, lists, pages, watches, single objects, changes."""

import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from sregym.gateway.hiding import Hidden
from sregym.gateway.http1 import Exchange, Head
from sregym.gateway.identity import Identity, TokenGate
from sregym.gateway.serve import serving_kube
from sregym.gateway.upstream import ClusterAccess
from sregym.gateway.web import tcp_socket
from tests.support.servers import LOOPBACK, kubeconfig, raw_server

JSON = (b"content-type", b"application/json")
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


def pod(name: str, namespace: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}}


def volume(namespace: str) -> dict[str, Any]:
    return {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {"claimRef": {"namespace": namespace}}}


class Api:
    """Answers by path and query; `events` are a watch's."""

    def __init__(self, answers: dict[str, Any], events: list[Any] | None = None) -> None:
        self.answers = answers
        self.events = events or []
        self.heads: list[Head] = []
        self.go_on = anyio.Event()

    async def handle(self, exchange: Exchange) -> None:
        self.heads.append(exchange.head)
        async for _ in exchange.body():
            pass
        target = exchange.head.target.decode()
        if "watch" in target:
            await exchange.respond(200, [JSON, (b"transfer-encoding", b"chunked")], self._stream())
            return
        method = exchange.head.method.decode()
        answer = self.answers.get(f"{method} {target}", self.answers.get(target))
        status = answer.pop("_status", 200) if answer is not None else 404
        body = json.dumps(answer or {"kind": "Status"}).encode()
        if b"gzip" in (exchange.head.get(b"accept-encoding") or b""):
            await exchange.respond_whole(status, [JSON, (b"Content-Encoding", b"gzip")], gzip.compress(body))
        else:
            await exchange.respond_whole(status, [JSON], body)

    async def _stream(self) -> AsyncIterator[bytes]:
        for event in self.events:
            yield json.dumps(event).encode() + b"\n"
        await self.go_on.wait()

    @property
    def asked(self) -> list[str]:
        return [f"{head.method.decode()} {head.target.decode()}" for head in self.heads]


def never(name: str, /, **data: Any) -> None:
    assert name != "kube.crashed", data


@asynccontextmanager
async def client_of(api: Api, folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    hidden = Hidden(namespaces=frozenset({"vault"}), images=frozenset({"vault-image"}))
    async with raw_server(api.handle) as server:
        access = ClusterAccess(kubeconfig=kubeconfig(folder, server))
        sockets = [tcp_socket(LOOPBACK, 0)]
        async with (
            serving_kube(access, TokenGate("t"), Identity(), sockets, never, hidden) as port,
            httpx.AsyncClient(base_url=f"http://{LOOPBACK}:{port}/t/t") as client,
        ):
            yield client


async def test_a_hidden_path_never_reaches_the_cluster(tmp_path: Path) -> None:
    api = Api({})
    async with client_of(api, tmp_path) as client:
        for method in ("GET", "POST", "PATCH", "DELETE"):
            reply = await client.request(method, "/api/v1/namespaces/va%75lt/pods/x")
            assert (reply.status_code, reply.json()["reason"]) == (404, "NotFound")
            assert "vault" in reply.json()["message"]
    assert api.heads == []


async def test_a_list_is_judged_whatever_encoding_was_asked_for(tmp_path: Path) -> None:
    pods = {"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": [pod("a", "shop"), pod("b", "vault")]}
    api = Api({"/api/v1/pods": pods})
    async with client_of(api, tmp_path) as client:
        for wanted in ("gzip, br", "identity"):
            reply = await client.get("/api/v1/pods", headers={"Accept-Encoding": wanted})
            assert reply.json() == {**pods, "items": [pod("a", "shop")]}
            assert int(reply.headers["content-length"]) == len(reply.content)
            assert "content-encoding" not in reply.headers


async def test_a_list_comes_in_the_encoding_that_was_asked_for(tmp_path: Path) -> None:
    pods = {"kind": "PodList", "items": [pod("a", "shop")] * 5000}
    api = Api({"/api/v1/namespaces/shop/pods": pods})
    async with client_of(api, tmp_path) as client:
        for wanted, got in (("gzip", "gzip"), ("identity", None), ("br", None)):
            reply = await client.get("/api/v1/namespaces/shop/pods", headers={"Accept-Encoding": wanted})
            assert (reply.json(), reply.headers.get("content-encoding")) == (pods, got)
    assert {head.get(b"accept-encoding") for head in api.heads} == {b"gzip"}


async def test_what_holds_nothing_hidden_goes_on_byte_for_byte(tmp_path: Path) -> None:
    pods = {"kind": "PodList", "metadata": {"remainingItemCount": 4}, "items": [pod("a", "shop")]}
    async with client_of(Api({"/api/v1/pods": pods}), tmp_path) as client:
        reply = await client.get("/api/v1/pods")
    assert reply.content == json.dumps(pods).encode()


async def test_the_token_for_the_next_page_names_nothing_hidden(tmp_path: Path) -> None:
    def page(token: str, *items: dict[str, Any]) -> dict[str, Any]:
        return {"kind": "PodList", "metadata": {"continue": token}, "items": list(items)}

    path = "/api/v1/pods?limit=2"
    api = Api(
        {
            path: page("shop/a vault/1", pod("a", "shop"), pod("1", "vault")),
            f"{path}&continue=shop%2Fa%20vault%2F1": page("vault/3", pod("2", "vault"), pod("3", "vault")),
            f"{path}&continue=vault%2F3": page("web/c", pod("b", "web"), pod("c", "web")),
        }
    )
    async with client_of(api, tmp_path) as client:
        reply = await client.get(path)
    assert [one["metadata"]["name"] for one in reply.json()["items"]] == ["a", "b", "c"]
    assert reply.json()["metadata"] == {"continue": "web/c"}


async def test_a_watch_streams_what_may_be_seen(tmp_path: Path) -> None:
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
    shown = {"type": "ADDED", "object": pod("a", "shop")}
    api = Api({}, [{"type": "ADDED", "object": pod("b", "vault")}, bookmark, shown])
    async with client_of(api, tmp_path) as client:
        with anyio.fail_after(5):
            async with client.stream("GET", "/api/v1/pods?watch=1") as reply:
                lines = reply.aiter_lines()
                assert [json.loads(await anext(lines)), json.loads(await anext(lines))] == [bookmark, shown]
        api.go_on.set()


async def test_hidden_objects_of_the_cluster_are_neither_read_nor_changed(tmp_path: Path) -> None:
    path = "/api/v1/persistentvolumes/v"
    api = Api({f"GET {path}": volume("vault"), f"GET {path}?pretty=1": volume("vault")})
    async with client_of(api, tmp_path) as client:
        for method, where in (("GET", path), ("GET", path + "?pretty=1"), ("PATCH", path), ("DELETE", path)):
            reply = await client.request(method, where)
            assert reply.status_code == 404
            assert reply.json()["message"] == 'persistentvolumes "v" not found'
        reply = await client.patch(path + "/status", json={})
        assert reply.status_code == 404
        whole = await client.delete("/api/v1/persistentvolumes?labelSelector=a")
        assert whole.status_code == 403
    assert {asked.partition(" ")[0] for asked in api.asked} == {"GET"}


async def test_others_are_changed(tmp_path: Path) -> None:
    path = "/api/v1/persistentvolumes/v"
    api = Api({f"GET {path}": volume("shop"), f"PATCH {path}": volume("shop")})
    async with client_of(api, tmp_path) as client:
        reply = await client.patch(path, content=b"{}", headers={"Content-Type": "application/merge-patch+json"})
    assert reply.json() == volume("shop")
    assert api.asked == [f"GET {path}", f"PATCH {path}"]
    assert api.heads[0].get(b"content-type") is None
    assert api.heads[1].get(b"content-type") == b"application/merge-patch+json"


async def test_that_a_hidden_namespace_exists_is_not_said(tmp_path: Path) -> None:
    conflict = {"kind": "Status", "_status": 409, "message": 'namespaces "vault" already exists'}
    async with client_of(Api({"POST /api/v1/namespaces": conflict}), tmp_path) as client:
        reply = await client.post("/api/v1/namespaces", json={"metadata": {"name": "vault"}})
    assert reply.status_code == 403
    assert "vault" not in reply.text


async def test_tables_hold_what_was_asked_for(tmp_path: Path) -> None:
    rows = [{"cells": ["v"], "object": volume("shop")}, {"cells": ["w"], "object": volume("vault")}]
    table = {"kind": "Table", "metadata": {}, "columnDefinitions": [], "rows": rows}
    api = Api({"/api/v1/persistentvolumes?includeObject=Object": table})
    async with client_of(api, tmp_path) as client:
        reply = await client.get("/api/v1/persistentvolumes", headers=TABLE)
    assert [row["object"]["kind"] for row in reply.json()["rows"]] == ["PartialObjectMetadata"]
    assert "vault" not in reply.text


@pytest.mark.parametrize("answer", ["vault, but no JSON", '["vault"]', '{"kind": "Table", "rows": [{"a": "vault"}]}'])
async def test_what_cannot_be_judged_is_not_shown(tmp_path: Path, answer: str) -> None:
    class Odd(Api):
        async def handle(self, exchange: Exchange) -> None:
            await exchange.respond_whole(200, [JSON], answer.encode())

    async with client_of(Odd({}), tmp_path) as client:
        reply = await client.get("/api/v1/persistentvolumes")
    assert reply.status_code == 406
    assert "vault" not in reply.text
