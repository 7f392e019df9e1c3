"""An API server whose Service proxy leads to a small Prometheus, Jaeger and VictoriaLogs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

from sregym.gateway.http1 import Exchange

JSON = [(b"content-type", b"application/json")]
PROXY = "/api/v1/namespaces/observe/services/"
ROW = {
    "_time": "2026-01-31T12:00:00.5Z",
    "_msg": "it broke",
    "_stream": "{}",
    "kubernetes.pod_namespace": "shop",
    "kubernetes.pod_name": "front-1",
    "kubernetes.container_name": "front",
}
SPAN = {
    "spanID": "b1",
    "operationName": "GET /",
    "startTime": 1_700_000_000_000_000,
    "duration": 1500,
    "processID": "p1",
    "references": [{"refType": "CHILD_OF", "spanID": "a1"}],
    "tags": [{"key": "error", "value": True}],
    "logs": [{"fields": [{"key": "event", "value": "late"}]}],
}


@dataclass
class Observed:
    """Records what was asked. `down` names Services without a pod."""

    down: set[str] = field(default_factory=set)
    asked: list[tuple[str, str, dict[str, list[str]]]] = field(default_factory=list)
    rows: list[dict[str, str]] = field(default_factory=lambda: [ROW])
    fat: bool = False
    refuses: str = ""
    """What the log store has against every query."""

    async def handle(self, exchange: Exchange) -> None:
        path, _, query = exchange.head.target.decode().partition("?")
        body = b"".join([piece async for piece in exchange.body()]).decode()
        if not path.startswith(PROXY):
            user = (exchange.head.get(b"impersonate-user") or b"nobody").decode()
            await exchange.respond_whole(200, JSON, json.dumps({"user": user}).encode())
            return
        service, _, rest = path.removeprefix(PROXY).partition("/proxy")
        parameters = parse_qs(query) | parse_qs(body)
        self.asked.append((service, unquote(rest), parameters))
        if service in self.down:
            said = {"kind": "Status", "status": "Failure", "message": f'no endpoints available for service "{service}"'}
            await exchange.respond_whole(503, JSON, json.dumps(said).encode())
            return
        status, answer = self._answer(unquote(rest), parameters)
        raw = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        await exchange.respond_whole(status, JSON, raw)

    def _answer(self, path: str, asked: dict[str, list[str]]) -> tuple[int, Any]:
        query = asked.get("query", [""])[0]
        if query == "broken(":
            return 400, {"status": "error", "errorType": "bad_data", "error": 'parse error: it\'s "unclosed" \\d'}
        if self.refuses and path == "/select/logsql/query":
            return 400, self.refuses
        if self.fat:
            return 200, {"status": "success", "data": "x" * (9 * 1024 * 1024)}
        vector = [{"metric": {"__name__": "up", "pod": "front-1"}, "value": [1_700_000_000, "1"]}]
        alert = {"labels": {"alertname": "PodNotReady"}, "state": "firing", "annotations": {}, "value": "1"}
        trace = {"traceID": "a0", "spans": [SPAN], "processes": {"p1": {"serviceName": "front"}}}
        answers: dict[str, Any] = {
            "/api/v1/query": {"status": "success", "data": {"resultType": "vector", "result": vector}},
            "/api/v1/query_range": {"status": "success", "data": {"resultType": "matrix", "result": vector}},
            "/api/v1/alerts": {"status": "success", "data": {"alerts": [alert]}},
            "/api/services": {"data": ["front", "back"]},
            "/api/operations": {"data": [{"name": "GET /", "spanKind": "server"}]},
            "/api/traces": {"data": [trace]},
            "/api/dependencies": {"data": [{"parent": "front", "child": "back", "callCount": 3}]},
            "/select/logsql/field_names": {"values": [{"value": name, "hits": 1} for name in self._fields()]},
            "/select/logsql/field_values": {"values": [{"value": "shop", "hits": 1}]},
            "/select/logsql/query": "\n".join(json.dumps(row) for row in self.rows),
        }
        return (200, answers[path]) if path in answers else (200, {"status": "success", "data": []})

    def _fields(self) -> list[str]:
        return sorted({name for row in self.rows for name in row})
