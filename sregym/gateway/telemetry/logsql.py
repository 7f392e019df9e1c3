"""LogQL in VictoriaLogs' own language (LogsQL, VictoriaLogs 1.52).

Its collector takes JSON lines apart into fields, so what a line filter is to look at is put together again first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from sregym.gateway.telemetry.logql import LineFilter, LogQuery, Matcher

LABELS = {
    "namespace": "kubernetes.pod_namespace",
    "pod": "kubernetes.pod_name",
    "container": "kubernetes.container_name",
    "node": "kubernetes.pod_node_name",
}
"""Labels as Loki's users know them, and the collector's fields, by which streams are indexed."""
LINE = "_line"
MESSAGE = "_msg"
PLAIN = (MESSAGE, "_time", "_stream", "_stream_id")


def is_content(field: str) -> bool:
    """Whether a field comes from the line itself, and is not its message."""
    return field not in PLAIN and not field.startswith("kubernetes.")


def selection(matchers: Sequence[Matcher]) -> str:
    """The filter for a selector."""
    indexed = [one for one in matchers if one.label in LABELS]
    others = [one for one in matchers if one.label not in LABELS]
    parts = [f"{{{', '.join(_indexed(one) for one in indexed)}}}"] if indexed else []
    return " ".join([*parts, *(_by_field(one.label, one) for one in others)]) or "*"


def log_query(query: LogQuery, *, content: Iterable[str], limit: int, newest_first: bool) -> str:
    """The whole query.

    Args:
        content: The fields that lines in question have (see `is_content`).
    """
    pipes = [selection(query.selector)]
    pipes += [f"filter {_by_field(LABELS.get(one.label, one.label), one)}" for one in query.fields]
    if names := sorted(content):
        pipes.append(f"copy {MESSAGE} as msg")
        pipes.append(f"pack_json fields (msg, {', '.join(map(_quote, names))}) as {LINE}")
    places = (MESSAGE, LINE) if names else (MESSAGE,)
    pipes += [f"filter {_line_filter(one, places)}" for one in query.lines]
    pipes.append(f"sort by (_time{' desc' if newest_first else ''})")
    pipes.append(f"limit {limit}")
    return " | ".join(pipes)


def _indexed(one: Matcher) -> str:
    return f"{_quote(LABELS[one.label])}{one.op}{_quote(one.value)}"


def _by_field(field: str, one: Matcher) -> str:
    negated = "!" if one.op.startswith("!") else ""
    test = f"~{_quote(f'^(?:{one.value})$')}" if one.op.endswith("~") else f"={_quote(one.value)}"
    return f"{negated}({_quote(field)}:{test})"


def _line_filter(one: LineFilter, places: Sequence[str]) -> str:
    tests = [_contains(place, one, value) for value in one.values for place in places]
    return f"{'!' if one.op.startswith('!') else ''}({' or '.join(tests)})"


def _contains(place: str, one: LineFilter, value: str) -> str:
    if one.op.endswith("~"):
        return f"{place}:~{_quote(value)}"
    return f"{place}:*{_quote(value)}*"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
