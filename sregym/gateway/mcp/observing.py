"""Metrics, traces and logs as tools."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import anyio.from_thread
import anyio.to_thread
import requests
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from requests.adapters import BaseAdapter

from sregym.gateway.mcp.toolbox import Toolbox, Troubled
from sregym.gateway.telemetry.backend import Answer, Backend, BackendDown
from sregym.gateway.telemetry.log_store import PREFIX
from sregym.gateway.telemetry.logql import BadQuery

Server = FastMCP[Any]

PROMQL_EXAMPLE = 'sum by (pod) (rate(container_cpu_usage_seconds_total{namespace="shop"}[1m]))'
NO_SERIES = 'no series match; count by (__name__) ({job!=""}) lists the names of all'
MOST_TRACES = 20
MOST_LINES = 500
LONGEST_MINUTES = 24 * 60
_POINTS = 60


class BadPromQL(BadQuery):
    """What Prometheus did not understand."""


class ThroughBackend(BaseAdapter):
    """Carries the requests of a synchronous client, in a worker thread, over our own connection to the cluster."""

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self._backend = backend

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:  # type: ignore[override]
        parts = urlsplit(request.url or "")
        ask = partial(self._backend.ask, request.method or "GET", parts.path, parts.query)
        answer: Answer = anyio.from_thread.run(ask)
        response = requests.Response()
        response.status_code = answer.status
        response.headers["content-type"] = answer.content_type
        response._content = answer.body
        response.url, response.request = request.url or "", request
        return response

    def close(self) -> None:
        """Nothing of its own is open."""


def prometheus_server(toolbox: Toolbox) -> Server:
    """Metrics and alerts."""
    server: Server = FastMCP("prometheus")
    client = PrometheusConnect(url="http://prometheus")
    client._session.trust_env = False
    client._session.mount("http://prometheus", ThroughBackend(toolbox.metrics))

    @server.tool(output_schema=None)
    async def get_metrics(query: str, last_n_minutes: int = 0) -> str:
        """Evaluate a PromQL query now or, with last_n_minutes, over that time, in at most 60 steps."""

        async def work() -> str:
            if last_n_minutes:
                end = datetime.now(UTC)
                start = end - timedelta(minutes=_minutes(last_n_minutes))
                step = max(5, _minutes(last_n_minutes) * 60 // _POINTS)
                ask = partial(client.custom_query_range, query, start, end, f"{step}s")
            else:
                ask = partial(client.custom_query, query)
            try:
                result: Any = await anyio.to_thread.run_sync(ask)
            except PrometheusApiClientException as error:
                raise BadPromQL(f"{_said_by_prometheus(str(error))} (example: {PROMQL_EXAMPLE})") from None
            if not isinstance(result, list) or (result and not isinstance(result[0], dict)):
                return json.dumps({"result": result})
            facts = (
                {} if result else {"hint": "no series match; get_metrics('count by (__name__) ({job!=\"\"})') lists"}
            )
            return toolbox.answers.items("result", result, **facts)

        return await _ended(toolbox.call("get_metrics", work))

    @server.tool(output_schema=None)
    async def get_alerts() -> str:
        """List the alerts that are pending or firing now."""

        async def work() -> str:
            data = _json(await toolbox.metrics.get("/api/v1/alerts"))
            return toolbox.answers.items("alerts", data["data"]["alerts"])

        return await _ended(toolbox.call("get_alerts", work))

    return server


def jaeger_server(toolbox: Toolbox) -> Server:
    """Traces."""
    server: Server = FastMCP("jaeger")

    async def ask(path: str, *parameters: tuple[str, str]) -> Any:
        return _json(await toolbox.traces.get(path, parameters)).get("data") or []

    @server.tool(output_schema=None)
    async def get_services() -> str:
        """List the services that have sent traces."""
        return await _items(toolbox, "get_services", "services", lambda: ask("/api/services"))

    @server.tool(output_schema=None)
    async def get_operations(service: str) -> str:
        """List the operations of a service."""
        return await _items(
            toolbox, "get_operations", "operations", lambda: ask("/api/operations", ("service", service))
        )

    @server.tool(output_schema=None)
    async def get_traces(service: str, last_n_minutes: int) -> str:
        """Show the newest traces of a service from the last minutes, at most 20, each with its spans."""

        async def work() -> Sequence[Any]:
            end = time.time_ns() // 1000
            start = end - _minutes(last_n_minutes) * 60_000_000
            window = (("start", str(start)), ("end", str(end)), ("limit", str(MOST_TRACES)))
            found = await ask("/api/traces", ("service", service), *window)
            return [_trace(one) for one in found]

        return await _items(toolbox, "get_traces", "traces", work)

    @server.tool(output_schema=None)
    async def get_dependency_graph(last_n_minutes: int = 30) -> str:
        """Show which service has called which, and how often."""

        async def work() -> Sequence[Any]:
            lookback = _minutes(last_n_minutes) * 60_000
            window = (("endTs", str(time.time_ns() // 1_000_000)), ("lookback", str(lookback)))
            found: Sequence[Any] = await ask("/api/dependencies", *window)
            return found

        return await _items(toolbox, "get_dependency_graph", "calls", work)

    return server


def loki_server(toolbox: Toolbox) -> Server:
    """Logs."""
    server: Server = FastMCP("loki")

    async def ask(path: str, *parameters: tuple[str, str]) -> Any:
        return _json(await toolbox.logs.answer(f"{PREFIX}{path}", parameters))["data"]

    @server.tool(output_schema=None)
    async def get_logs(query: str, last_n_minutes: int = 15) -> str:
        """Show log lines, newest first, at most 500, by a LogQL query such as {namespace="shop"} |= "error".

        Selectors, the line filters |= != |~ !~ and label filters behind them are understood; no metric queries.
        """

        async def work() -> Sequence[Any]:
            end = time.time_ns()
            start = end - _minutes(last_n_minutes) * 60_000_000_000
            window = (("start", str(start)), ("end", str(end)), ("limit", str(MOST_LINES)))
            data = await ask("/query_range", ("query", query), *window)
            if data["resultType"] != "streams":
                return list(data["result"])
            lines = [
                (int(at), {"at": _moment(int(at)), **stream["stream"], "line": line})
                for stream in data["result"]
                for at, line, *_ in stream["values"]
            ]
            return [line for _, line in sorted(lines, key=lambda one: -one[0])]

        return await _items(toolbox, "get_logs", "lines", work)

    @server.tool(output_schema=None)
    async def get_labels() -> str:
        """List the labels that log lines have."""
        return await _items(toolbox, "get_labels", "labels", lambda: ask("/labels"))

    @server.tool(output_schema=None)
    async def get_label_values(label: str) -> str:
        """List the values of a label, such as namespace or pod."""

        async def work() -> Sequence[Any]:
            if not label.isascii() or not label.replace("_", "a").isalnum():
                raise BadQuery("a label is named with letters, digits and _; get_labels() lists them")
            return list(await ask(f"/label/{label}/values") or [])

        return await _items(toolbox, "get_label_values", "values", work)

    return server


async def _items(toolbox: Toolbox, tool: str, name: str, work: Callable[[], Awaitable[Sequence[Any]]]) -> str:
    async def whole() -> str:
        found = list(await work())
        return toolbox.answers.items(name, found, count=len(found))

    return await _ended(toolbox.call(tool, whole))


async def _ended(call: Awaitable[str]) -> str:
    try:
        return await call
    except Troubled as trouble:
        raise ToolError(str(trouble)) from None


def _minutes(number: int) -> int:
    if not 0 < number <= LONGEST_MINUTES:
        raise BadQuery(f"last_n_minutes must be from 1 to {LONGEST_MINUTES}")
    return number


def _json(answer: Answer) -> Any:
    """The JSON of an answer. Raises BackendDown, BadQuery."""
    if answer.status in (400, 404, 422):
        raise BadQuery(answer.body.decode("utf-8", "replace").strip()[:500])
    try:
        value = json.loads(answer.body)
    except ValueError:
        value = None
    if answer.status != 200 or not isinstance(value, dict):
        raise BackendDown(f"it answered with status {answer.status}")
    return value


def _said_by_prometheus(text: str) -> str:
    """The client's error holds the answer's bytes as Python writes them."""
    start, end = text.find("{"), text.rfind("}")
    try:
        value = json.loads(text[start : end + 1].replace("\\\\", "\\").replace("\\'", "'"))
    except ValueError:
        return text[:500]
    return str(value.get("error", text))[:500] if isinstance(value, dict) else text[:500]


def _moment(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _trace(trace: dict[str, Any]) -> dict[str, Any]:
    """A trace without what repeats: spans in the order of their start, in milliseconds."""
    spans = sorted(trace.get("spans") or [], key=lambda span: span["startTime"])
    processes = trace.get("processes") or {}
    return {
        "trace": trace.get("traceID"),
        "start": _moment(spans[0]["startTime"] * 1000) if spans else None,
        "spans": [_span(span, processes, spans[0]["startTime"]) for span in spans],
    }


def _span(span: dict[str, Any], processes: dict[str, Any], begun: int) -> dict[str, Any]:
    parent = next((ref["spanID"] for ref in span.get("references") or [] if ref.get("refType") == "CHILD_OF"), None)
    events = [{tag["key"]: tag["value"] for tag in log.get("fields") or []} for log in span.get("logs") or []]
    return {
        "span": span["spanID"],
        **({"parent": parent} if parent else {}),
        "service": (processes.get(str(span.get("processID"))) or {}).get("serviceName"),
        "operation": span["operationName"],
        "after_ms": round((span["startTime"] - begun) / 1000, 3),
        "took_ms": round(span["duration"] / 1000, 3),
        "tags": {tag["key"]: tag["value"] for tag in span.get("tags") or []},
        **({"events": events} if events else {}),
    }
