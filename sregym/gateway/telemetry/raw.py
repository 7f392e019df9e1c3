"""Raw endpoints: the query APIs of Prometheus, Jaeger and Loki, read-only.

What may be asked is a list of paths, judged after decoding and written anew; everything else is 404. A backend that is
down is 503 with its reason, in the form that the clients of that API expect.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from sregym.gateway.telemetry.access import TelemetryAccess
from sregym.gateway.telemetry.backend import FORM, MAX_ANSWER, Answer, Backend, BackendDown, TooLarge
from sregym.gateway.telemetry.log_store import LogStore, log_store
from sregym.gateway.telemetry.logql import EXAMPLE, BadQuery
from sregym.gateway.upstream import Upstream

MAX_QUERY = 16 * 1024
MAX_FORM = 64 * 1024
"""Bytes. Queries are lines that people write."""

_NAME = r"[A-Za-z_:][A-Za-z0-9_:.]*"
_SEGMENT = r"[^/]{1,253}"
_ANY_METHOD = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")


class Refused(Exception):
    """A request that is not passed on."""

    def __init__(self, status: int, message: str, *, allow: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.allow = allow


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """A path that is served, as a pattern on the decoded path; with a form where its API has one."""

    path: str
    form: bool = False


METRICS = (
    Allowed(path="/api/v1/query", form=True),
    Allowed(path="/api/v1/query_range", form=True),
    Allowed(path="/api/v1/series", form=True),
    Allowed(path="/api/v1/labels", form=True),
    Allowed(path=f"/api/v1/label/{_NAME}/values"),
    Allowed(path="/api/v1/alerts"),
    Allowed(path="/api/v1/rules"),
    Allowed(path="/api/v1/targets"),
    Allowed(path="/api/v1/metadata"),
)
TRACES = (
    Allowed(path="/api/services"),
    Allowed(path="/api/operations"),
    Allowed(path=f"/api/services/{_SEGMENT}/operations"),
    Allowed(path="/api/traces"),
    Allowed(path="/api/traces/[0-9a-fA-F]{1,32}"),
    Allowed(path="/api/dependencies"),
)
LOGS = (
    Allowed(path="/loki/api/v1/query", form=True),
    Allowed(path="/loki/api/v1/query_range", form=True),
    Allowed(path="/loki/api/v1/labels", form=True),
    Allowed(path=f"/loki/api/v1/label/{_NAME}/values"),
    Allowed(path="/loki/api/v1/series", form=True),
)

Ask = Callable[[str, str, str, bytes | None], Awaitable[Answer]]
Complain = Callable[[int, str], Response]


def metrics_app(access: TelemetryAccess, upstream: Upstream) -> Starlette:
    """Prometheus' query API."""
    backend = Backend(upstream=upstream, namespace=access.namespace, service=access.metrics)
    return _application(METRICS, backend.ask, _as_prometheus)


def traces_app(access: TelemetryAccess, upstream: Upstream) -> Starlette:
    """Jaeger's query API."""
    backend = Backend(upstream=upstream, namespace=access.namespace, service=access.traces)
    return _application(TRACES, backend.ask, _as_jaeger)


def logs_app(access: TelemetryAccess, upstream: Upstream) -> Starlette:
    """Loki's query API."""
    store = log_store(access, upstream)

    async def ask(method: str, path: str, query: str, form: bytes | None) -> Answer:
        text = "&".join(part for part in (query, (form or b"").decode("latin-1")) if part)
        return await _ask_store(store, path, text)

    return _application(LOGS, ask, _as_loki)


async def _ask_store(store: LogStore, path: str, encoded: str) -> Answer:
    try:
        parameters = parse_qsl(encoded, keep_blank_values=True, errors="strict", max_num_fields=100)
    except (UnicodeDecodeError, ValueError):
        raise Refused(400, "the parameters are not encoded rightly") from None
    try:
        return await store.answer(path, parameters)
    except BadQuery as error:
        raise Refused(400, f"{error}. Example: {EXAMPLE}") from None


def _application(allowed: Sequence[Allowed], ask: Ask, complain: Complain) -> Starlette:
    async def handle(request: Request) -> Response:
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        try:
            one = _judge(allowed, path, request)
            query = _query_of(request)
            form = await _form_of(request) if one.form and request.method == "POST" else None
            answer = await ask(request.method, path, query, form)
        except Refused as refused:
            response = complain(refused.status, refused.message)
            if refused.allow:
                response.headers["allow"] = refused.allow
            return response
        except BackendDown as down:
            return complain(503, f"unavailable: {down}. Try again later; other tools may work")
        except TooLarge:
            return complain(422, f"the answer is larger than {MAX_ANSWER} bytes; ask for less, or for a shorter time")
        return Response(answer.body, status_code=answer.status, headers={"content-type": answer.content_type})

    return Starlette(routes=[Route("/{path:path}", handle, methods=list(_ANY_METHOD))])


def _judge(allowed: Sequence[Allowed], path: str, request: Request) -> Allowed:
    if any(ch < " " or ch == "\x7f" for ch in path) or any(part in (".", "..") for part in path.split("/")):
        raise Refused(400, "the path has dot segments or control characters")
    one = next((one for one in allowed if re.fullmatch(one.path, path)), None)
    if one is None:
        served = ", ".join(re.sub(r"\[.*?\](?:\{.*?\}|\*)?", "*", a.path).replace("**", "*") for a in allowed)
        raise Refused(404, f"there is no {path[:100]} here. Served, for reading: {served}")
    methods = ("GET", "POST") if one.form else ("GET",)
    if request.method not in methods:
        raise Refused(405, "only reading is served here", allow=", ".join(methods))
    return one


def _query_of(request: Request) -> str:
    raw: bytes = request.scope.get("query_string", b"")
    if len(raw) > MAX_QUERY:
        raise Refused(414, f"the query is longer than {MAX_QUERY} bytes")
    if any(not 0x21 <= byte < 0x7F for byte in raw):
        raise Refused(400, "the query holds characters that must be percent-encoded")
    return raw.decode("ascii")


async def _form_of(request: Request) -> bytes:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM.decode():
        raise Refused(415, f"a POST here carries a form ({FORM.decode()})")
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_FORM:
                raise Refused(413, f"the form is larger than {MAX_FORM} bytes")
    except ClientDisconnect:
        raise Refused(400, "the form ended early") from None
    return bytes(body)


def _as_prometheus(status: int, message: str) -> Response:
    kind = {503: "unavailable", 404: "not_found", 422: "execution"}.get(status, "bad_data")
    return JSONResponse({"status": "error", "errorType": kind, "error": message}, status_code=status)


def _as_jaeger(status: int, message: str) -> Response:
    errors = [{"code": status, "msg": message}]
    return JSONResponse({"data": None, "total": 0, "limit": 0, "offset": 0, "errors": errors}, status_code=status)


def _as_loki(status: int, message: str) -> Response:
    return PlainTextResponse(f"{message}\n", status_code=status)
