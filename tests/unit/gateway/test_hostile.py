"""Hostile requests to the kube proxy in front of a server that records what reaches it.

Each gets the status of the table, none crashes the proxy, none shows what is hidden, and none reaches the cluster as
somebody else, as an upgrade, or with a path that the table says is refused.
"""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from sregym.gateway.hiding import Hidden
from sregym.gateway.http1 import Exchange, Head
from sregym.gateway.identity import Identity, TokenGate
from sregym.gateway.serve import serving_kube
from sregym.gateway.upstream import ClusterAccess
from sregym.gateway.web import tcp_socket
from tests.support.hostile import HIDDEN, MARKER, TOKEN, VISIBLE, Hostile, corpus, request
from tests.support.servers import LOOPBACK, kubeconfig, raw_server
from tests.support.wire import send_raw

JSON = (b"content-type", b"application/json")
AT_ONCE = 8
_WATCH = re.compile(r"[?&]w(?:a|%61)tch(?:&|$|=$|=&|=1|=%31|=t|=T|=y)")


def there(name: str, namespace: str) -> dict[str, Any]:
    """An object that is hidden in every way at once, or in none."""
    involved = {"namespace": namespace, "name": name}
    spec = {"claimRef": involved}
    images = [{"names": [f"registry.internal/{name}:1"]}]
    meta = {"name": namespace if name == MARKER else name, "namespace": namespace, "labels": {"is": name}}
    return {"metadata": meta, "involvedObject": involved, "spec": spec, "status": {"images": images}}


class Cluster:
    """Every list holds something hidden, every watch tells of it."""

    def __init__(self) -> None:
        self.heads: list[Head] = []

    async def handle(self, exchange: Exchange) -> None:
        head = exchange.head
        self.heads.append(head)
        path = head.target.decode()
        async for _ in exchange.body():
            pass
        across = path.startswith(("/api/v1/", "/apis/")) and (
            "namespaces/" not in path or "namespaces/default/events" in path
        )
        if path.startswith(f"/api/v1/namespaces/{HIDDEN}/"):
            await exchange.respond_whole(200, [JSON], MARKER.encode())
        elif not across or path == "/apis/" or head.method != b"GET":
            await exchange.respond_whole(200, [JSON], b"{}")
        elif "/watch/" in path or _WATCH.search(path):
            await exchange.respond(200, [JSON, (b"transfer-encoding", b"chunked")], self._events(head))
        else:
            await exchange.respond_whole(200, [JSON], json.dumps(self._list(head)).encode())

    def _list(self, head: Head) -> dict[str, Any]:
        objects = [there("web", VISIBLE), there(MARKER, HIDDEN)]
        if b"Table" in (head.get(b"accept") or b""):
            return {"kind": "Table", "metadata": {}, "rows": [self._row(head, one) for one in objects]}
        return {"kind": "SomeList", "metadata": {"remainingItemCount": 7}, "items": objects}

    def _row(self, head: Head, obj: dict[str, Any]) -> dict[str, Any]:
        if b"includeObject=Object" in head.target:
            return {"cells": [obj["metadata"]["labels"]["is"]], "object": obj}
        assert b"includeObject=Metadata" in head.target or b" = " in (head.get(b"accept") or b"")
        kind = {"kind": "PartialObjectMetadata", "metadata": obj["metadata"]}
        return {"cells": [obj["metadata"]["labels"]["is"]], "object": kind}

    async def _events(self, head: Head) -> AsyncIterator[bytes]:
        for obj in (there(MARKER, HIDDEN), there("web", VISIBLE)):
            subject: Any = obj
            if b"Table" in (head.get(b"accept") or b""):
                subject = {"kind": "Table", "columnDefinitions": [], "rows": [self._row(head, obj)]}
            yield json.dumps({"type": "ADDED", "object": subject}).encode() + b"\n"


def trouble_of(case: Hostile, status: int, raw: bytes) -> str | None:
    """What is wrong with an answer."""
    if MARKER.encode() in raw:
        return "shows what is hidden"
    fit = status == case.code if case.code is not None else status in (200, 406)
    return None if fit else f"status {status}, not {case.code}: {raw[:200]!r}"


FAMILIES = sorted({case.id.partition(" ")[0] for case in corpus()})


def test_there_are_many() -> None:
    assert len({case.id for case in corpus()}) == len(corpus()) >= 300


@pytest.mark.parametrize("family", FAMILIES)
async def test_hostile_requests(tmp_path: Path, family: str) -> None:
    cases = [case for case in corpus() if case.id.partition(" ")[0] == family]
    cluster, crashes, wrong = Cluster(), list[str](), dict[str, str]()
    slots = anyio.CapacityLimiter(AT_ONCE)

    def note(name: str, /, **data: Any) -> None:
        if name == "kube.crashed":
            crashes.append(str(data))

    async with raw_server(cluster.handle) as server:
        access = ClusterAccess(kubeconfig=kubeconfig(tmp_path, server, token="ours"))
        hidden = Hidden(namespaces=frozenset({HIDDEN}), images=frozenset({f"registry.internal/{MARKER}"}))
        sockets = [tcp_socket(LOOPBACK, 0)]
        async with serving_kube(access, TokenGate(TOKEN), Identity(), sockets, note, hidden) as port:
            assert port

            async def play(case: Hostile) -> None:
                async with slots:
                    method = case.raw.split(b" ", 1)[0].decode("latin-1")
                    reply = await send_raw(LOOPBACK, port, case.raw, method=method)
                if trouble := trouble_of(case, reply.status, reply.raw):
                    wrong[case.id] = trouble

            async with anyio.create_task_group() as tasks:
                for case in cases:
                    tasks.start_soon(play, case)
            after = await send_raw(LOOPBACK, port, request("/version"))
    assert not wrong, "\n".join(f"{name}: {trouble}" for name, trouble in wrong.items())
    assert (crashes, after.status) == ([], 200)
    for head in cluster.heads:
        assert head.get(b"impersonate-user") == b"oncall"
        assert head.get(b"impersonate-group") == b"oncall"
        assert head.get(b"authorization") == b"Bearer ours"
        ours = [name for name, _ in head.headers if name.startswith((b"impersonate-", b"x-remote-"))]
        assert len(ours) == 2
        assert not head.wants_upgrade
        assert f"namespaces/{HIDDEN}/".encode() not in head.target
        assert head.get(b"transfer-encoding") is None or head.get(b"content-length") is None
