"""What a request asks of the Kubernetes API, judged on its decoded path.

A path is decoded once, refused where two readers could understand it differently (encoded slashes, dot segments,
doubled slashes, control characters, bad UTF-8), and written anew in one canonical form. So what is judged here is
what the API server sees.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote_plus

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_SAFE = ":@!$&'()*+,;=~-._"
_PROXIES = frozenset({"pods", "services", "nodes"})
LONGEST = 8192


class BadTarget(ValueError):
    """A request target that has no single meaning."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A request target. For a path that names no resource (`/version`) `resource` is empty.

    `canonical` is the path and query to send on.
    """

    canonical: str
    path: str
    query: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False
    """Whether a stream of events is asked for."""

    @property
    def path_of_object(self) -> str:
        """The canonical path without query and subresource."""
        path = self.canonical.partition("?")[0]
        return path.removesuffix("/" + self.subresource) if self.subresource else path


def parse_target(raw: str) -> Target:
    """Raises BadTarget."""
    if len(raw) > LONGEST:
        raise BadTarget(f"longer than {LONGEST} characters")
    path, mark, query = raw.partition("?")
    if not path.startswith("/"):
        raise BadTarget("does not begin with /")
    if not raw.isascii() or any(ch <= " " or ch == "\x7f" for ch in raw):
        raise BadTarget("holds characters that must be percent-encoded")
    _decode(query, what="query")
    segments = path[1:].split("/")
    decoded = [_decode(segment, what="path") for segment in segments]
    tail = _proxied_from(decoded)
    for index, segment in enumerate(decoded):
        last = index == len(decoded) - 1
        _check(segment, proxied=tail is not None and index >= tail, may_be_empty=last)
    canonical = "/" + "/".join(quote(segment, safe=_SAFE) for segment in decoded)
    return Target(
        canonical=canonical + mark + query,
        path="/" + "/".join(decoded),
        query=query,
        watch=_watches(decoded, query),
        **_resource(decoded),
    )


def _watches(segments: list[str], query: str) -> bool:
    """As the API server reads it: the first `watch` counts, and only `false` and `0` mean no."""
    if (_below_version(segments) or [""])[0] == "watch":
        return True
    for part in query.split("&"):
        key, _, value = part.partition("=")
        if ";" not in part and unquote_plus(key) == "watch":
            return unquote_plus(value).lower() not in ("false", "0")
    return False


def _decode(text: str, *, what: str) -> str:
    if text.count("%") != len(_ESCAPE.findall(text)):
        raise BadTarget(f"bad percent-encoding in the {what}")
    raw = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    try:
        return raw.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        raise BadTarget(f"the {what} is not UTF-8") from None


def _check(segment: str, *, proxied: bool, may_be_empty: bool) -> None:
    if segment in (".", ".."):
        raise BadTarget("dot segment in the path")
    if any(ch < " " or ch == "\x7f" or ch == "\\" for ch in segment):
        raise BadTarget("control character or backslash in the path")
    if proxied:
        return
    if "/" in segment or "%" in segment:
        raise BadTarget("encoded slash or percent sign in the path")
    if not segment and not may_be_empty:
        raise BadTarget("empty segment in the path")


def _proxied_from(segments: list[str]) -> int | None:
    """Index from which segments belong to a proxied server, whose paths may be of any shape."""
    rest = _below_version(segments)
    if rest is None or segments[0] != "api":
        return None
    start = len(segments) - len(rest)
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        start, rest = start + 2, rest[2:]
    return start + 3 if len(rest) > 2 and rest[0] in _PROXIES and rest[2] == "proxy" else None


def _below_version(segments: list[str]) -> list[str] | None:
    if segments[0] == "api" and len(segments) > 2:
        return segments[2:]
    if segments[0] == "apis" and len(segments) > 3:
        return segments[3:]
    return None


def _resource(segments: list[str]) -> dict[str, Any]:
    rest = _below_version(segments)
    if rest is None or not rest[0]:
        return {}
    found = {"group": segments[1] if segments[0] == "apis" else "", "version": segments[len(segments) - len(rest) - 1]}
    if rest[0] == "watch":  # deprecated, still served: /api/v1/watch/namespaces/...
        rest = rest[1:] or [""]
    if rest[0] == "namespaces" and len(rest) > 1:
        found["namespace"] = rest[1]
        if len(rest) > 2 and rest[2] and rest[2] not in ("status", "finalize"):
            rest = rest[2:]
    names = ("resource", "name", "subresource")
    return found | dict(zip(names, rest, strict=False))
