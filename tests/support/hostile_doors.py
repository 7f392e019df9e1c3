"""Malformed and hostile requests to the submission API, the MCP servers and the raw endpoints, as bytes on the wire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.support.hostile import TOKEN, request

DOORS = ("api", "mcp", "metrics", "traces", "logs")
OTHER_TOKEN = "of-another-attempt"
FORM = "Content-Type: application/x-www-form-urlencoded"
JSON = "Content-Type: application/json"
BOTH = "Accept: application/json, text/event-stream"
GOOD = {
    "api": request("/status"),
    "mcp": request("/nowhere"),
    "metrics": request("/api/v1/query?query=up"),
    "traces": request("/api/services"),
    "logs": request("/loki/api/v1/labels"),
}


@dataclass(frozen=True, kw_only=True)
class HostileCall:
    """One request. `says` must stand in the answer, where it is not empty."""

    id: str
    door: str
    raw: bytes
    statuses: frozenset[int]
    says: str = ""


Row = tuple[str, str, bytes, set[int], str]


def hostile_calls() -> list[HostileCall]:
    """All of them; ids are unique."""
    rows = [*_tokens(), *_wire(), *_raw(), *_logs(), *_submissions(), *_mcp_paths(), *_mcp_messages(), *_mcp_tools()]
    return [
        HostileCall(id=f"{door}-{name}", door=door, raw=raw, statuses=frozenset(statuses), says=says)
        for name, door, raw, statuses, says in rows
    ]


def _tokens() -> Iterator[Row]:
    targets = {
        "api": "/status",
        "mcp": "/kubectl/mcp",
        "metrics": "/api/v1/query",
        "traces": "/api/services",
        "logs": "/",
    }
    for door in DOORS:
        at = targets[door]
        for name, raw in (
            ("no-token", request(at, token=False)),
            ("wrong-token", request(at, f"Authorization: Bearer {OTHER_TOKEN}", token=False)),
            ("basic", request(at, f"Authorization: Basic {TOKEN}", token=False)),
            ("wrong-in-path", request(f"/t/{OTHER_TOKEN}{at}")),
            ("empty-in-path", request(f"/t/{at}")),
            ("long-token", request(at, f"Authorization: Bearer {'x' * 20000}", token=False)),
            ("prefix-of-token", request(at, f"Authorization: Bearer {TOKEN[:-1]}", token=False)),
            ("token-and-more", request(at, f"Authorization: Bearer {TOKEN}x", token=False)),
        ):
            yield name, door, raw, {401}, ""


def _wire() -> Iterator[Row]:
    for door in DOORS:
        yield "garbage", door, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n", {400, 0}, ""
        yield "no-version", door, b"GET /status\r\n\r\n", {400, 0}, ""
        yield "giant-header", door, request("/status", "X: " + "y" * 200_000), {400, 431, 0}, ""
        two = request("/status", "Content-Length: 5", "Content-Length: 6", body=b"hello!")
        yield "two-lengths", door, two, {400, 0}, ""
        yield "bad-length", door, request("/status", "Content-Length: -5"), {400, 0}, ""
        both = request("/status", "Content-Length: 3", "Transfer-Encoding: chunked", body=b"0\r\n\r\n")
        yield "length-and-chunks", door, both, {400, 404, 405, 200, 0}, ""
        upgrade = request("/status", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                          "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")  # fmt: skip
        yield "upgrade", door, upgrade, {200, 404}, ""
        yield "connect", door, request("/status", method="CONNECT"), {400, 404, 405, 0}, ""
        yield "absolute", door, request("http://169.254.169.254/latest"), {400, 401, 404}, ""


def _raw() -> Iterator[Row]:
    missing = {
        "metrics": (
            *("/", "/metrics", "/-/reload", "/-/quit", "/-/ready", "/federate?match[]=up", "/api/v1/status/config"),
            *("/api/v1/status/flags", "/api/v1/admin/tsdb/snapshot", "/api/v1/admin/tsdb/delete_series?match[]=up"),
            *("/api/v1/write", "/api/v1/otlp/v1/metrics", "/api/v1/query/", "//api/v1/query", "/API/V1/query"),
            *("/api/v1/query;/x", "/api/v1/label/a/b/values", "/debug/pprof/heap", "/api/v1/query/x"),
        ),
        "traces": (
            *("/", "/search", "/api/archive/abc", "/api/traces/zz", "/api/traces/abc/x", "/api/sampling?service=a"),
            *("/api/metrics/calls", "/api/v3/traces", "/api/services/a%2Fb/operations", "/api/services//operations"),
        ),
        "logs": (
            *("/", "/loki/api/v1/push", "/loki/api/v1/delete", "/loki/api/v1/tail", "/loki/api/v1/rules", "/flush"),
            *("/select/logsql/query?query=*", "/insert/jsonline", "/config", "/loki/api/v1/index/stats", "/ready"),
        ),
    }
    for door, paths in missing.items():
        for path in paths:
            yield f"missing {path[:40]}", door, request(path), {404}, ""
    for path in ("/api/v1/../v1/query", "/api/v1/query/..", "/api/v1/label/%2e%2e/values", "/./api/v1/query",
                 "/api/v1/query%00", "/api/v1/query%0d%0aX:y", "/api/v1/label/..%2f..%2fstatus/values"):  # fmt: skip
        yield f"unclear {path}", "metrics", request(path), {400, 404}, ""
    for method in ("DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"):
        yield f"method {method}", "metrics", request("/api/v1/query?query=up", method=method), {405}, ""
    yield "post", "traces", request("/api/traces", FORM, "Content-Length: 0", method="POST"), {405}, ""
    yield "post-alerts", "metrics", request("/api/v1/alerts", FORM, "Content-Length: 0", method="POST"), {405}, ""
    yield "strange-method", "metrics", request("/api/v1/query", method="BREW"), {400, 405, 0}, ""
    query = "/api/v1/query"
    yield "long-query", "metrics", request(f"{query}?query={'x' * 20000}"), {414}, ""
    yield "json-body", "metrics", _posted(query, b'{"query":"up"}', JSON), {415}, ""
    yield "no-type", "metrics", _posted(query, b"query=up"), {415}, ""
    yield "giant-form", "metrics", _posted(query, b"query=" + b"x" * 70_000, FORM), {413}, ""
    yield "form-to-refuse", "metrics", _posted(query, b"query=broken(", FORM), {400}, "unclosed"
    yield (
        "smuggled-host",
        "metrics",
        request(f"{query}?query=up", "X-Forwarded-Host: evil", "Host: evil"),
        {200, 400},
        "",
    )


def _logs() -> Iterator[Row]:
    at = "/loki/api/v1/query_range"
    for name, query in {
        "empty": "",
        "open": "%7B",
        "everything": '%7Bnamespace=~".*"%7D',
        "metric": "rate(%7Ba=%22b%22%7D[5m])",
        "template": "%7Ba=%22b%22%7D%7Cline_format%20%22x%22",
        "giant": "%7Ba=%22" + "x" * 5000 + "%22%7D",
        "pipe-into-logsql": "%7Ba=%22b%22%7D%20%7C%20delete",
    }.items():
        yield f"query {name}", "logs", request(f"{at}?query={query}"), {400}, "Example"
    good = "%7Ba=%22b%22%7D"
    refused = ("limit=0", "limit=x", "limit=999999", "start=x", "start=5&end=4", "end=0", "since=soon")
    for rest in refused:
        yield rest, "logs", request(f"{at}?query={good}&{rest}"), {400}, ""
    yield "instant", "logs", request(f"/loki/api/v1/query?query={good}"), {400}, "query_range"
    yield "not-utf8", "logs", request(f"{at}?query=%ff"), {400}, ""
    yield "many-fields", "logs", request(f"{at}?{'a=1&' * 300}"), {400}, ""
    yield "control-in-label", "logs", request("/loki/api/v1/label/a%00/values"), {400}, ""


def _submissions() -> Iterator[Row]:
    for name, body in {
        "empty": b"",
        "no-json": b"solution=x",
        "list": b"[]",
        "null": b"null",
        "number": b"5",
        "nested": b"[" * 20_000 + b"]" * 20_000,
        "no-solution": b"{}",
        "solution-null": b'{"solution": null}',
        "solution-number": b'{"solution": 5}',
        "solution-list": b'{"solution": ["a"]}',
        "bad-stage": b'{"solution": "a", "stage": "done"}',
        "stage-number": b'{"solution": "a", "stage": 1}',
        "not-utf8": b'{"solution": "\xff"}',
        "cut": b'{"solution": "a',
        "wrong-stage": b'{"solution": "a", "stage": "mitigation"}',
    }.items():
        yield f"submit {name}", "api", _posted("/submit", body, JSON), {400}, ""
    yield "submit giant", "api", _posted("/submit", b'{"solution": "' + b"x" * 300_000 + b'"}', JSON), {413}, ""
    yield (
        "submit declared-giant",
        "api",
        request("/submit", JSON, "Content-Length: 999999999", method="POST"),
        {413},
        "",
    )
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        yield f"submit {method}", "api", request("/submit", method=method), {405}, ""
    for path in (
        "/",
        "/submit/",
        "/verdict",
        "/admin",
        "/../submit",
        "/submit/..",
        "//submit",
        "/%2e%2e/submit",
        "/openapi.json",
    ):
        yield f"path {path}", "api", request(path), {404, 405, 307}, ""
    yield "status-post", "api", _posted("/status", b"{}", JSON), {405}, ""
    yield "submit_mcp-missing", "api", request("/submit_mcp/x"), {404}, ""
    yield "submit_mcp-climbing", "api", request("/submit_mcp/../kubectl/mcp"), {404}, ""
    yield "submit_mcp-other-mount", "api", _posted("/submit_mcp/%2e%2e/kubectl/mcp", b"{}", JSON, BOTH), {404}, ""


def _mcp_paths() -> Iterator[Row]:
    climbing = ("/kubectl/../submit/mcp", "/kubectl/mcp/../../x", "/kubectl%2fmcp%00", "/kubectl//sse")
    others = ("/", "/mcp", "/sse", "/kubectl/x", "/kubectl/sse/x", "/KUBECTL/mcp", "/secret/mcp", "/kubectl/messages/x")
    for path in (*climbing, *others):
        yield f"path {path}", "mcp", request(path), {404}, ""
    for method in ("GET", "PUT", "PATCH", "OPTIONS", "HEAD"):
        yield f"mcp {method}", "mcp", request("/kubectl/mcp", method=method), {405}, ""
    yield "sse POST", "mcp", _posted("/kubectl/sse", b"{}", JSON), {405}, ""
    yield "messages GET", "mcp", request("/kubectl/messages/?session_id=x"), {405}, ""
    yield "messages no-session", "mcp", _posted("/kubectl/messages/", b"{}", JSON), {400}, ""
    yield "messages bad-session", "mcp", _posted("/kubectl/messages/?session_id=../x", b"{}", JSON), {400}, ""
    unknown = "/kubectl/messages/?session_id=" + "0" * 32
    yield "messages unknown-session", "mcp", _posted(unknown, b"{}", JSON), {404}, ""
    yield "delete", "mcp", request("/kubectl/mcp", method="DELETE"), {200}, ""


def _mcp_messages() -> Iterator[Row]:
    at = "/kubectl/mcp"
    for name, body in {
        "empty": b"",
        "no-json": b"hello",
        "number": b"5",
        "nested": b"[" * 20_000,
        "list": b"[]",
        "no-method": b'{"jsonrpc": "2.0", "id": 1}',
        "method-number": b'{"jsonrpc": "2.0", "id": 1, "method": 5}',
        "version-1": b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}',
        "not-utf8": b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}',
    }.items():
        yield f"message {name}", "mcp", _posted(at, body, JSON, BOTH), {400}, ""
    ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    yield "message no-accept", "mcp", _posted(at, ping, JSON, "Accept: text/plain"), {406}, ""
    yield "message no-type", "mcp", _posted(at, ping, BOTH), {400, 415}, ""
    yield "message giant", "mcp", _posted(at, b" " * 1_100_000 + ping, JSON, BOTH), {413}, ""
    yield "message session-injection", "mcp", _posted(at, ping, JSON, BOTH, "Mcp-Session-Id: a b\tc"), {200}, ""
    yield "message long-session", "mcp", _posted(at, ping, JSON, BOTH, "sregym_ssid: " + "x" * 5000), {200}, ""
    strange = {"unknown-method": "tools/steal", "resources": "resources/list", "complete": "completion/complete"}
    for name, method in strange.items():
        yield f"message {name}", "mcp", _called(at, method, {}), {200, 400}, ""


def _mcp_tools() -> Iterator[Row]:
    def kubectl(command: object) -> bytes:
        return _tool("kubectl", "exec_kubectl_cmd_safely", {"cmd": command})

    for name, command in {
        "another-program": "bash -c id",
        "pipe": "kubectl get pods | sh",
        "and": "kubectl get pods && id",
        "substitution": "kubectl get $(id)",
        "backticks": "kubectl get `id`",
        "newline": "kubectl get pods\nid",
        "kubeconfig": "kubectl get pods --kubeconfig=/root/.kube/config",
        "server": "kubectl get pods -shttp://169.254.169.254",
        "identity": "kubectl get pods --as=system:admin",
        "groups": "kubectl get pods --as-group system:masters",
        "raw": "kubectl get --raw /api/v1/secrets",
        "file": "kubectl apply -f /etc/passwd",
        "url": "kubectl apply -f http://169.254.169.254/",
        "proc": "kubectl create configmap x --from-file=/proc/self/environ",
        "env-file": "kubectl create configmap x --from-env-file=/proc/1/environ",
        "template-file": "kubectl get pods -o go-template-file=/proc/self/environ",
        "cp": "kubectl cp /etc/passwd web:/tmp",
        "proxy": "kubectl proxy --address=0.0.0.0",
        "port-forward": "kubectl port-forward --address 0.0.0.0 web 1:1",
        "terminal": "kubectl exec -it web -- sh",
        "config": "kubectl config view --raw",
        "plugin": "kubectl plugin list",
        "diff": "kubectl diff -f -",
        "edit": "kubectl edit deploy web",
        "zero": "kubectl get pods \x00",
        "giant": "kubectl get " + "x" * 200_000,
        "empty": "",
    }.items():
        yield f"kubectl {name}", "mcp", kubectl(command), {200}, '"isError":true'
    yield "kubectl number", "mcp", kubectl(5), {200}, '"isError":true'
    yield "kubectl list", "mcp", kubectl(["kubectl", "get"]), {200}, '"isError":true'
    yield "kubectl no-argument", "mcp", _tool("kubectl", "exec_kubectl_cmd_safely", {}), {200}, '"isError":true'
    extra = _tool("kubectl", "exec_kubectl_cmd_safely", {"cmd": "kubectl get pods", "shell": True})
    yield "kubectl extra-argument", "mcp", extra, {200}, '"isError":true'
    yield "unknown-tool", "mcp", _tool("kubectl", "run_shell", {}), {200}, "nknown tool"
    yield (
        "tool-of-another-mount",
        "mcp",
        _tool("prometheus", "exec_kubectl_cmd_safely", {"cmd": "x"}),
        {200},
        "nknown tool",
    )
    yield "cursor", "mcp", _tool("kubectl", "read_more", {"cursor": "../../../etc/passwd"}), {200}, '"isError":true'
    yield "promql", "mcp", _tool("prometheus", "get_metrics", {"query": "broken("}), {200}, "unclosed"
    minutes = {"query": "up", "last_n_minutes": -5}
    yield "minutes", "mcp", _tool("prometheus", "get_metrics", minutes), {200}, '"isError":true'
    forever = {"service": "a", "last_n_minutes": 10**9}
    yield "for-ever", "mcp", _tool("jaeger", "get_traces", forever), {200}, '"isError":true'
    yield "label", "mcp", _tool("loki", "get_label_values", {"label": "../../x"}), {200}, '"isError":true'
    yield "logql", "mcp", _tool("loki", "get_logs", {"query": "{a="}), {200}, '"isError":true'
    yield "node", "mcp", _tool("node", "run_on_node", {"node": "../submit", "op": "x"}), {200}, '"isError":true'


def _tool(mount: str, name: str, arguments: dict[str, Any]) -> bytes:
    return _called(f"/{mount}/mcp", "tools/call", {"name": name, "arguments": arguments})


def _called(path: str, method: str, parameters: dict[str, Any]) -> bytes:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
    return _posted(path, json.dumps(message).encode(), JSON, BOTH)


def _posted(path: str, body: bytes, *headers: str) -> bytes:
    return request(path, *headers, f"Content-Length: {len(body)}", method="POST", body=body)
