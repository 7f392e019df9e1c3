"""Loki's query API, whatever log store is behind it: Loki itself, or VictoriaLogs for the part of LogQL in `logql`.

Both answer in Loki's format, so agents and tools need to know one.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import urlencode

from sregym.gateway.telemetry.access import TelemetryAccess
from sregym.gateway.telemetry.backend import Answer, Backend, BackendDown, Parameters
from sregym.gateway.telemetry.logql import BadQuery, parse_log_query, parse_selector
from sregym.gateway.telemetry.logsql import LABELS, LINE, MESSAGE, is_content, log_query, selection
from sregym.gateway.upstream import Upstream

PREFIX = "/loki/api/v1"
DEFAULT_LIMIT = 100
MAX_LIMIT = 5000
"""Loki's own defaults."""
DEFAULT_SINCE_S = 3600.0
MOST_SERIES = 5000
NS = 1_000_000_000

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_LABEL_VALUES = re.compile(rf"{PREFIX}/label/([A-Za-z_][A-Za-z0-9_.]*)/values")


class LogStore(Protocol):
    """Answers Loki's query API."""

    async def answer(self, path: str, parameters: Parameters) -> Answer:
        """One request. Raises BackendDown, TooLarge, BadQuery."""


def log_store(access: TelemetryAccess, upstream: Upstream) -> LogStore:
    """The log store of a cluster."""
    backend = Backend(upstream=upstream, namespace=access.namespace, service=access.logs)
    return Loki(backend) if access.log_store == "loki" else VictoriaLogs(backend)


class Loki:
    """Loki itself."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def answer(self, path: str, parameters: Parameters) -> Answer:
        return await self._backend.get(path, parameters)


class VictoriaLogs:
    """VictoriaLogs 1.52, as its collector for Kubernetes fills it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def answer(self, path: str, parameters: Parameters) -> Answer:
        asked = _Asked(parameters)
        if path == f"{PREFIX}/query_range":
            return await self._query_range(asked)
        if path == f"{PREFIX}/query":
            raise BadQuery("log queries have no instant form; use query_range with start and end")
        if path == f"{PREFIX}/labels":
            return await self._labels(asked)
        if path == f"{PREFIX}/series":
            return await self._series(asked)
        if match := _LABEL_VALUES.fullmatch(path):
            return await self._label_values(match[1], asked)
        raise BadQuery(f"{path} is not served")

    async def _query_range(self, asked: _Asked) -> Answer:
        query = parse_log_query(asked.one("query"))
        newest_first = asked.one("direction", "backward").lower() != "forward"
        limit = asked.limit()
        content = [name for name in await self._fields(selection(query.selector), asked) if is_content(name)]
        text = log_query(query, content=content, limit=limit, newest_first=newest_first)
        rows = _rows(await self._ask("query", text, asked))
        data = {"resultType": "streams", "result": _streams(rows), "stats": {}}
        return _success(data)

    async def _labels(self, asked: _Asked) -> Answer:
        present = await self._fields(asked.selection(), asked)
        return _success(sorted(label for label, field in LABELS.items() if field in present))

    async def _label_values(self, label: str, asked: _Asked) -> Answer:
        field = LABELS.get(label)
        if field is None:
            return _success([])
        said = await self._ask("field_values", asked.selection(), asked, ("field", field))
        return _success(sorted(value for value in _values(said) if value))

    async def _series(self, asked: _Asked) -> Answer:
        fields = ", ".join(json.dumps(field) for field in LABELS.values())
        found: dict[str, Mapping[str, str]] = {}
        for selector in asked.all("match[]", "match") or ["*"]:
            chosen = selection(parse_selector(selector)) if selector != "*" else "*"
            text = f"{chosen} | uniq by ({fields}) limit {MOST_SERIES}"
            for row in _rows(await self._ask("query", text, asked)):
                labels = _labels_of(row)
                found[json.dumps(labels, sort_keys=True)] = labels
        return _success([found[key] for key in sorted(found)])

    async def _fields(self, chosen: str, asked: _Asked) -> list[str]:
        return list(_values(await self._ask("field_names", chosen, asked)))

    async def _ask(self, what: str, query: str, asked: _Asked, *more: tuple[str, str]) -> bytes:
        start, end = asked.window()
        # Loki's windows leave their end out; those of VictoriaLogs do not.
        form = urlencode([("query", query), ("start", start), ("end", end - 1), *more]).encode()
        said = await self._backend.ask("POST", f"/select/logsql/{what}", form=form)
        if said.status == 400:
            raise BadQuery(_said_of_the_query(said.body.decode("utf-8", "replace")))
        if said.status != 200:
            raise BackendDown(f"the log store answered with status {said.status}")
        return said.body


class _Asked:
    """The parameters of a request, read as Loki reads them."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters

    def all(self, *names: str) -> list[str]:
        return [value for name, value in self._parameters if name in names]

    def one(self, name: str, default: str = "") -> str:
        return next(iter(self.all(name)), default)

    def selection(self) -> str:
        query = self.one("query")
        return selection(parse_selector(query)) if query.strip() not in ("", "{}") else "*"

    def limit(self) -> int:
        text = self.one("limit", str(DEFAULT_LIMIT))
        if not text.isdecimal() or not 0 < int(text) <= MAX_LIMIT:
            raise BadQuery(f"limit must be a number from 1 to {MAX_LIMIT}")
        return int(text)

    def window(self) -> tuple[int, int]:
        """Start and end in nanoseconds since the epoch."""
        end = _time(self.one("end"), "end") if self.one("end") else time.time_ns()
        if self.one("start"):
            start = _time(self.one("start"), "start")
        else:
            since = self.one("since")
            start = end - int((_duration(since) if since else DEFAULT_SINCE_S) * NS)
        if not 0 <= start < end:
            raise BadQuery("end must be after start")
        return start, end


def _said_of_the_query(text: str) -> str:
    """What the store has against a query, without the query as it was translated."""
    match = re.search(r"error parsing regexp: [^;]*", text)
    return match[0].strip() if match else "the log store does not understand this query; write it more simply"


def _time(text: str, name: str) -> int:
    """Nanoseconds, seconds (with a fraction) or RFC 3339, as nanoseconds."""
    if re.fullmatch(r"\d{1,19}", text):
        return int(text) if len(text) > 10 else int(text) * NS
    if re.fullmatch(r"\d{1,10}\.\d{1,9}", text):
        return int(float(text) * NS)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise BadQuery(f"{name} must be nanoseconds or seconds since 1970, or a time such as 2026-01-31T12:00:00Z")
    return int(moment.timestamp() * NS)


def _duration(text: str) -> float:
    if not re.fullmatch(f"(?:{_DURATION.pattern})+", text):
        raise BadQuery("since must be a duration such as 15m or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(text))


def _success(data: Any) -> Answer:
    return Answer(status=200, body=json.dumps({"status": "success", "data": data}, ensure_ascii=False).encode())


def _rows(body: bytes) -> list[Mapping[str, str]]:
    """JSON lines."""
    return [json.loads(line) for line in body.splitlines() if line.strip()]


def _values(body: bytes) -> Iterable[str]:
    return (str(one["value"]) for one in json.loads(body)["values"])


def _labels_of(row: Mapping[str, str]) -> dict[str, str]:
    return {label: row[field] for label, field in LABELS.items() if row.get(field)}


def _streams(rows: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    """Rows in order, put together by stream; streams in the order of their first row."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        labels = _labels_of(row)
        key = json.dumps(labels, sort_keys=True)
        stream = found.setdefault(key, {"stream": labels, "values": []})
        stream["values"].append([str(_nanoseconds(row["_time"])), _line(row)])
    return list(found.values())


def _line(row: Mapping[str, str]) -> str:
    """The line: structured ones as JSON, the others as they are."""
    structured = any(is_content(name) and name not in ("msg", LINE) and value for name, value in row.items())
    return row[LINE] if structured and LINE in row else row.get(MESSAGE, "")


def _nanoseconds(text: str) -> int:
    """RFC 3339 in UTC with up to nine digits of a second, as nanoseconds."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
    return seconds * NS + int(fraction.ljust(9, "0")[:9] or 0)
