"""What the cluster has recorded: metrics, alerts, traces and log lines, over the raw endpoints.

Nothing here is needed: where an endpoint is not given or does not answer, it has nothing to say.
"""

from __future__ import annotations

import json
import os
import time
import urllib.parse
import urllib.request
from collections import Counter
from dataclasses import dataclass
from typing import Any

from .desk import say
from .kube import Obj, dig

WITHIN_S = 15.0
RECENT_S = 120
TRACES = 40
LINES = 200


@dataclass(frozen=True)
class Sample:
    labels: dict[str, str]
    value: float


def metric(promql: str) -> list[Sample]:
    """An instant query; nothing where it cannot be answered."""
    answer = _ask("PROMETHEUS_URL", "/api/v1/query", query=promql)
    return [Sample(row["metric"], float(row["value"][1])) for row in dig(answer, "data", "result", default=[])]


def firing(namespace: str) -> list[dict[str, str]]:
    """Labels of the alerts that fire about a namespace."""
    answer = _ask("PROMETHEUS_URL", "/api/v1/alerts")
    alerts = [one for one in dig(answer, "data", "alerts", default=[]) if one.get("state") == "firing"]
    return [one["labels"] for one in alerts if one["labels"].get("namespace") == namespace]


def failing_spans(entry: str) -> Counter[tuple[str, str]]:
    """Where recent failed requests failed first: (service, what it said) of failed spans without a failed child."""
    now = int(time.time() * 1e6)
    answer = _ask(
        "JAEGER_URL",
        "/api/traces",
        service=entry,
        tags=json.dumps({"error": "true"}),
        start=str(now - RECENT_S * 1_000_000),
        end=str(now),
        limit=str(TRACES),
    )
    deepest: Counter[tuple[str, str]] = Counter()
    for trace in dig(answer, "data", default=[]):
        deepest.update(_deepest(trace))
    return deepest


def complaints(namespace: str, container: str) -> list[str]:
    """Recent lines of a container that speak of an error, newest first."""
    now = time.time()
    answer = _ask(
        "LOKI_URL",
        "/loki/api/v1/query_range",
        query=f'{{namespace="{namespace}", container="{container}"}} |~ "(?i)error|fail|refused|denied|timeout|panic"',
        start=str(int((now - RECENT_S) * 1e9)),
        end=str(int(now * 1e9)),
        limit=str(LINES),
        direction="backward",
    )
    streams = dig(answer, "data", "result", default=[])
    values = sorted((value for stream in streams for value in stream.get("values", [])), reverse=True)
    return [str(value[1]) for value in values]


def _deepest(trace: Obj) -> list[tuple[str, str]]:
    failed = {span["spanID"]: span for span in trace.get("spans", []) if _tag(span, "error")}
    parents = {ref["spanID"] for span in failed.values() for ref in span.get("references", [])}
    return [
        (
            str(dig(trace, "processes", span["processID"], "serviceName", default="?")),
            str(_tag(span, "otel.status_description") or span.get("operationName", "")),
        )
        for name, span in failed.items()
        if name not in parents
    ]


def _tag(span: Obj, key: str) -> Any:
    return next((tag.get("value") for tag in span.get("tags", []) if tag.get("key") == key), None)


def _ask(variable: str, path: str, **parameters: str) -> Any:
    base = os.environ.get(variable)
    if not base:
        return {}
    url = f"{base.rstrip('/')}{path}?{urllib.parse.urlencode(parameters)}"
    try:
        with urllib.request.urlopen(url, timeout=WITHIN_S) as reply:
            return json.load(reply)
    except (OSError, ValueError) as error:
        say(f"no answer from {path}: {error}")
        return {}
