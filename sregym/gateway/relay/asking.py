"""A request of an agent, read and judged before anything is sent on. Raises Refused for what is none.

Bodies are read as strictly as any provider would: a name given twice, of which two readers could take different ones,
is refused, since the bytes go on as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from sregym.gateway.models import ModelAccess, Protocol
from sregym.gateway.relay.hosted import check_hosted
from sregym.gateway.relay.passing import Asked
from sregym.gateway.relay.protocols import Refused

MAX_BODY = 32 * 1024 * 1024
"""Bytes; a long conversation with images stays below it."""
GEMINI_ACTIONS = ("generateContent", "streamGenerateContent", "countTokens")
_NEEDED: Mapping[Protocol, tuple[str, type | tuple[type, ...]]] = {
    Protocol.CHAT: ("messages", list),
    Protocol.RESPONSES: ("input", (str, list)),
    Protocol.MESSAGES: ("messages", list),
    Protocol.GEMINI: ("contents", (list, dict)),
}


async def read_asked(request: Request, protocol: Protocol, access: ModelAccess) -> Asked:
    """The request, where it is one that this attempt may make."""
    name, action = _gemini_target(request) if protocol is Protocol.GEMINI else (None, "")
    if protocol is Protocol.MESSAGES and request.url.path.endswith("/count_tokens"):
        action = "count_tokens"
    raw = await _body(request)
    body = _parsed(raw)
    model = body.get("model") if name is None else name
    _check_shape(protocol, action, body)
    for named in (model, *(_also_named(body) if protocol is Protocol.GEMINI else ())):
        if not access.allows(named):
            raise Refused(404, f"the model `{str(named)[:100]}` is not available", "model_not_found")
    check_hosted(protocol, body, allowed=access.hosted_tools and protocol in access.passes)
    streaming = action == "streamGenerateContent" if protocol is Protocol.GEMINI else body.get("stream") is True
    return Asked(
        protocol=protocol,
        model=model,
        raw=raw,
        body=body,
        streaming=streaming,
        path=request.url.path,
        action=action if action in ("count_tokens", "countTokens") else "",
        headers=request.headers,
    )


def _gemini_target(request: Request) -> tuple[str, str]:
    name, _, action = str(request.path_params["target"]).rpartition(":")
    if action not in GEMINI_ACTIONS:
        raise Refused(404, f"there is no method {action[:60]!r}", "not_found")
    if action == "streamGenerateContent" and request.query_params.get("alt") != "sse":
        raise Refused(400, "streams are served as server-sent events: add ?alt=sse", "invalid_request")
    return name, action


def _also_named(body: Mapping[str, Any]) -> list[Any]:
    """Models that a Gemini body names besides the path."""
    inner = body.get("generateContentRequest")
    named = [one["model"] for one in (body, inner) if isinstance(one, dict) and one.get("model") is not None]
    return [one.removeprefix("models/") if isinstance(one, str) else one for one in named]


async def _body(request: Request) -> bytes:
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Refused(415, "compressed requests are not read", "unsupported_encoding")
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > MAX_BODY:
            raise Refused(413, f"the request is larger than {MAX_BODY} bytes", "request_too_large")
    return bytes(raw)


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw.decode("utf-8"), object_pairs_hook=_once_each, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        why = f": {error}" if isinstance(error, _Ambiguous) else ""
        raise Refused(400, f"the request is not JSON{why}", "invalid_json") from None
    if not isinstance(body, dict):
        raise Refused(400, "the request must be an object", "invalid_request")
    return body


class _Ambiguous(ValueError):
    """JSON of more than one meaning."""


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Ambiguous("a name is given twice")
    return found


def _no_constant(name: str) -> Any:
    raise _Ambiguous(f"{name} is no number")


def _check_shape(protocol: Protocol, action: str, body: Mapping[str, Any]) -> None:
    if action == "countTokens" and isinstance(body.get("generateContentRequest"), dict):
        body = body["generateContentRequest"]
    name, kind = _NEEDED[protocol]
    if not isinstance(body.get(name), kind):
        raise Refused(400, f"the request needs `{name}`, of the right type", "invalid_request")
    if not isinstance(body.get("stream", False), bool | None):
        raise Refused(400, "`stream` is true or false", "invalid_request")
    if not isinstance(body.get("stream_options"), dict | None):
        raise Refused(400, "`stream_options` is an object", "invalid_request")
