"""Raw endpoints and the log store, in front of servers that record what reaches them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp

from sregym.gateway.telemetry.access import TelemetryAccess
from sregym.gateway.telemetry.raw import MAX_FORM, logs_app, metrics_app, traces_app
from sregym.gateway.upstream import ClusterAccess, Upstream
from tests.support.observability import Observed
from tests.support.servers import kubeconfig, raw_server

Site = tuple[Observed, dict[str, httpx.AsyncClient]]
FORM = {"content-type": "application/x-www-form-urlencoded"}


@asynccontextmanager
async def observed(
    tmp_path: Path, access: TelemetryAccess | None = None
) -> AsyncIterator[tuple[Observed, dict[str, httpx.AsyncClient]]]:
    seen, access = Observed(), access or TelemetryAccess()
    async with (
        raw_server(seen.handle) as server,
        Upstream(ClusterAccess(kubeconfig=kubeconfig(tmp_path, server))) as upstream,
    ):
        apps: dict[str, ASGIApp] = {
            "metrics": metrics_app(access, upstream),
            "traces": traces_app(access, upstream),
            "logs": logs_app(access, upstream),
        }
        yield seen, {name: client(app) for name, app in apps.items()}


def client(app: ASGIApp) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://raw")


async def test_queries_pass_as_they_are(tmp_path: Path) -> None:
    async with observed(tmp_path) as (seen, at):
        answer = await at["metrics"].get("/api/v1/query", params={"query": 'up{a="b c"}', "time": "5"})
        assert answer.json()["data"]["result"][0]["metric"]["pod"] == "front-1"
        await at["metrics"].post("/api/v1/query_range", content="query=up&step=5", headers=FORM)
        assert (await at["traces"].get("/api/services")).json()["data"] == ["front", "back"]
        await at["traces"].get("/api/services/a b/operations")
    assert seen.asked == [
        ("prometheus:9090", "/api/v1/query", {"query": ['up{a="b c"}'], "time": ["5"]}),
        ("prometheus:9090", "/api/v1/query_range", {"query": ["up"], "step": ["5"]}),
        ("jaeger:16686", "/api/services", {}),
        ("jaeger:16686", "/api/services/a b/operations", {}),
    ]


@pytest.mark.parametrize(
    ("door", "method", "path", "status"),
    [
        ("metrics", "GET", "/", 404),
        ("metrics", "GET", "/metrics", 404),
        ("metrics", "GET", "/graph", 404),
        ("metrics", "POST", "/-/reload", 404),
        ("metrics", "POST", "/-/quit", 404),
        ("metrics", "GET", "/api/v1/status/config", 404),
        ("metrics", "GET", "/api/v1/admin/tsdb/snapshot", 404),
        ("metrics", "POST", "/api/v1/admin/tsdb/delete_series?match[]=up", 404),
        ("metrics", "POST", "/api/v1/write", 404),
        ("metrics", "GET", "/api/v1/query/", 404),
        ("metrics", "GET", "//api/v1/query", 404),
        ("metrics", "GET", "/api/v1/query/../status/config", 404),
        ("metrics", "GET", "/api/v1/label/%2e%2e/values", 400),
        ("metrics", "GET", "/api/v1/label/..%2f..%2fstatus%2fconfig/values", 400),
        ("metrics", "GET", "/api/v1/query%00", 400),
        ("metrics", "GET", "/api/v1/query%0a", 400),
        ("metrics", "DELETE", "/api/v1/query", 405),
        ("metrics", "PUT", "/api/v1/series", 405),
        ("metrics", "POST", "/api/v1/alerts", 405),
        ("metrics", "POST", "/api/v1/targets", 405),
        ("metrics", "HEAD", "/api/v1/query", 405),
        ("traces", "POST", "/api/traces", 405),
        ("traces", "POST", "/api/archive/abc", 404),
        ("traces", "GET", "/api/traces/zz", 404),
        ("traces", "GET", "/api/traces/abc/../../x", 404),
        ("traces", "GET", "/api/services/a%2fb/operations", 404),
        ("traces", "GET", "/api/services/../operations", 200),
        ("logs", "POST", "/loki/api/v1/push", 404),
        ("logs", "POST", "/loki/api/v1/delete", 404),
        ("logs", "GET", "/loki/api/v1/tail", 404),
        ("logs", "GET", "/select/logsql/query?query=*", 404),
        ("logs", "GET", "/insert/jsonline", 404),
        ("logs", "GET", "/config", 404),
    ],
)
async def test_only_reading_and_only_what_is_listed(
    tmp_path: Path, door: str, method: str, path: str, status: int
) -> None:
    async with observed(tmp_path) as (seen, at):
        url = httpx.URL("http://raw").copy_with(raw_path=path.encode())
        answer = await at[door].request(method, url)
        assert answer.status_code == status
        assert status == 200 or seen.asked == []


async def test_bodies_and_queries_are_bounded_and_must_be_well_made(tmp_path: Path) -> None:
    async with observed(tmp_path) as (seen, at):
        post = at["metrics"].post
        assert (await post("/api/v1/query", content="x=" + "y" * MAX_FORM, headers=FORM)).status_code == 413
        assert (await post("/api/v1/query", json={"query": "up"})).status_code == 415
        assert (await at["metrics"].get("/api/v1/query?query=" + "y" * 17000)).status_code == 414
        assert (await at["logs"].get("/loki/api/v1/labels?query=%ff")).status_code == 400
        assert seen.asked == []
        seen.fat = True
        answer = await at["metrics"].get("/api/v1/query?query=up")
        assert answer.status_code == 422
        assert "ask for less" in answer.json()["error"]


async def test_a_backend_that_is_down_is_503_with_the_reason(tmp_path: Path) -> None:
    async with observed(tmp_path) as (seen, at):
        seen.down = {"prometheus:9090", "jaeger:16686", "logs:9428"}
        metrics = await at["metrics"].get("/api/v1/query?query=up")
        traces = await at["traces"].get("/api/services")
        logs = await at["logs"].get("/loki/api/v1/labels")
    assert {metrics.status_code, traces.status_code, logs.status_code} == {503}
    assert metrics.json()["errorType"] == "unavailable"
    assert "no endpoints" in traces.json()["errors"][0]["msg"]
    assert "no endpoints" in logs.text


async def test_an_api_server_that_is_away_is_503_too(tmp_path: Path) -> None:
    access = ClusterAccess(kubeconfig=kubeconfig(tmp_path, "http://127.0.0.1:9"))
    async with Upstream(access) as upstream:
        answer = await client(metrics_app(TelemetryAccess(), upstream)).get("/api/v1/alerts")
    assert answer.status_code == 503
    assert "cannot be reached" in answer.json()["error"]


async def test_victorialogs_answers_as_loki_does(tmp_path: Path) -> None:
    structured = {
        "_time": "2026-01-31T12:00:01.000000001Z",
        "_msg": "done",
        "_line": '{"level":"ERROR","msg":"done"}',
        "msg": "done",
        "level": "ERROR",
        "kubernetes.pod_namespace": "shop",
        "kubernetes.pod_name": "front-1",
        "kubernetes.container_name": "front",
    }
    async with observed(tmp_path) as (seen, at):
        seen.rows.append(structured)
        get = at["logs"].get
        window = {"start": "1769860800", "end": "2026-01-31T13:00:00Z", "limit": "5"}
        answer = await get("/loki/api/v1/query_range", params={"query": '{namespace="shop"}', **window})
        assert (await get("/loki/api/v1/labels")).json() == {
            "status": "success",
            "data": ["container", "namespace", "pod"],
        }
        assert (await get("/loki/api/v1/label/namespace/values")).json()["data"] == ["shop"]
        assert (await get("/loki/api/v1/label/job/values")).json()["data"] == []
        series = (await get("/loki/api/v1/series", params={"match[]": '{pod="front-1"}'})).json()["data"]
        assert series == [{"namespace": "shop", "pod": "front-1", "container": "front"}]
    stream = {"namespace": "shop", "pod": "front-1", "container": "front"}
    values = [["1769860800500000000", "it broke"], ["1769860801000000001", '{"level":"ERROR","msg":"done"}']]
    assert answer.json()["data"]["result"] == [{"stream": stream, "values": values}]
    _, path, sent = seen.asked[1]
    assert path == "/select/logsql/query"
    assert sent["query"][0].endswith("| sort by (_time desc) | limit 5")
    assert (sent["start"], sent["end"]) == (["1769860800000000000"], ["1769864399999999999"])


@pytest.mark.parametrize(
    "asked",
    [
        {"query": "{"},
        {},
        {"query": '{pod="a"}', "limit": "0"},
        {"query": '{pod="a"}', "limit": "99999"},
        {"query": '{pod="a"}', "limit": "x"},
        {"query": '{pod="a"}', "start": "yesterday"},
        {"query": '{pod="a"}', "start": "2026-01-31T13:00:00"},
        {"query": '{pod="a"}', "start": "5", "end": "4"},
        {"query": '{pod="a"}', "since": "5 minutes"},
        {"query": '{pod="a"}', "start": "9" * 30},
        {"query": '{pod="a"}', "end": "0"},
    ],
)
async def test_what_loki_would_refuse_is_refused(tmp_path: Path, asked: dict[str, str]) -> None:
    async with observed(tmp_path) as (seen, at):
        answer = await at["logs"].get("/loki/api/v1/query_range", params=asked)
        assert answer.status_code == 400
        assert "Example" in answer.text
        assert seen.asked == []


async def test_loki_itself_gets_requests_as_they_are(tmp_path: Path) -> None:
    async with observed(tmp_path, TelemetryAccess.of("full")) as (seen, at):
        await at["logs"].get("/loki/api/v1/query_range", params={"query": 'rate({pod="a"}[5m])'})
    assert seen.asked == [("logs:3100", "/loki/api/v1/query_range", {"query": ['rate({pod="a"}[5m])']})]


async def test_what_the_log_store_refuses_is_told_in_the_words_of_the_query(tmp_path: Path) -> None:
    async with observed(tmp_path) as (seen, at):
        seen.refuses = (
            'cannot parse [{"x"} | filter (_msg:~"a(")]: error parsing regexp: missing closing ): `a(`; context: y'
        )
        answer = await at["logs"].get("/loki/api/v1/query_range", params={"query": '{pod="a"} |~ "a("'})
        assert answer.status_code == 400
        assert answer.text.startswith("error parsing regexp: missing closing ): `a(`. Example")
        assert "_msg" not in answer.text


async def test_lines_may_come_oldest_first(tmp_path: Path) -> None:
    async with observed(tmp_path) as (seen, at):
        seen.rows = []
        answer = await at["logs"].get("/loki/api/v1/query_range", params={"query": '{pod="a"}', "direction": "forward"})
        assert answer.json()["data"]["result"] == []
        assert "sort by (_time) |" in seen.asked[-1][2]["query"][0]
