"""The four protocols as the relay has to know them: errors in their shape, usage in their words, lists of models.

Sources: the providers' API references (chat completions, responses, messages, generateContent).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from sregym.gateway.models import Protocol, Tokens

EVENT_STREAM = "text/event-stream"
_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_GOOGLE_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class Refused(Exception):
    """A request that is not sent on. `code` is for programs, in OpenAI's manner."""

    def __init__(self, status: int, message: str, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code


def error_body(protocol: Protocol, status: int, message: str, code: str) -> dict[str, Any]:
    """An error in the shape that clients of the protocol read."""
    if protocol is Protocol.MESSAGES:
        kind = _ANTHROPIC_TYPES.get(status) or ("invalid_request_error" if status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}}
    if protocol is Protocol.GEMINI:
        kind = _GOOGLE_STATUS.get(status) or ("INVALID_ARGUMENT" if status < 500 else "INTERNAL")
        return {"error": {"code": status, "message": message, "status": kind}}
    kind = "invalid_request_error" if status < 500 and status != 429 else "server_error"
    return {
        "error": {"message": message, "type": code if status == 429 else kind, "param": None, "code": code},
    }


def error_event(protocol: Protocol, status: int, message: str, code: str) -> bytes:
    """The same as an event of a stream that has begun."""
    body = error_body(protocol, status, message, code)
    if protocol is Protocol.RESPONSES:
        body = {"type": "error", "code": code, "message": message, "param": None, "sequence_number": 0}
    named = protocol in (Protocol.MESSAGES, Protocol.RESPONSES)
    return event(body, name="error" if named else None)


def event(value: Mapping[str, Any], *, name: str | None = None) -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + json.dumps(value).encode() + b"\n\n"


def protocol_of(path: str, headers: Mapping[str, str]) -> Protocol:
    """In whose manner a client wants to be answered that asks for something that is not there."""
    if path.startswith(("/v1beta", "/v1alpha")) or "x-goog-api-key" in headers:
        return Protocol.GEMINI
    if "/messages" in path or "anthropic-version" in headers:
        return Protocol.MESSAGES
    return Protocol.RESPONSES if "/responses" in path else Protocol.CHAT


def model_entry(protocol: Protocol, name: str) -> dict[str, Any]:
    """One model, as a client of the protocol lists it."""
    if protocol is Protocol.MESSAGES:
        return {"type": "model", "id": name, "display_name": name, "created_at": "2025-01-01T00:00:00Z"}
    if protocol is Protocol.GEMINI:
        methods = ["generateContent", "streamGenerateContent", "countTokens"]
        return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}
    return {"id": name, "object": "model", "created": int(time.time()), "owned_by": "system"}


def model_list(protocol: Protocol, names: tuple[str, ...]) -> dict[str, Any]:
    """All models."""
    entries = [model_entry(protocol, name) for name in names]
    if protocol is Protocol.MESSAGES:
        return {"data": entries, "has_more": False, "first_id": names[0], "last_id": names[-1]}
    return {"models": entries} if protocol is Protocol.GEMINI else {"object": "list", "data": entries}


def tokens_in(protocol: Protocol, value: Any) -> Tokens:
    """What an answer, or one event of it, says about tokens."""
    if not isinstance(value, dict):
        return Tokens()
    if protocol is Protocol.CHAT:
        return _openai(value.get("usage"), "prompt", "completion")
    if protocol is Protocol.RESPONSES:
        answer = value.get("response", value)
        return _openai(answer.get("usage") if isinstance(answer, dict) else None, "input", "output")
    if protocol is Protocol.GEMINI:
        return _gemini(value.get("usageMetadata"))
    start = value.get("message")
    return _anthropic(start.get("usage") if isinstance(start, dict) else value.get("usage"))


def _openai(usage: Any, into: str, out: str) -> Tokens:
    if not isinstance(usage, dict):
        return Tokens()
    read, written = usage.get(f"{into}_tokens_details"), usage.get(f"{out}_tokens_details")
    return Tokens(
        prompt=_count(usage.get(f"{into}_tokens")),
        completion=_count(usage.get(f"{out}_tokens")),
        cached=_count(read.get("cached_tokens")) if isinstance(read, dict) else None,
        cache_written=_count(read.get("cache_creation_tokens")) if isinstance(read, dict) else None,
        reasoning=_count(written.get("reasoning_tokens")) if isinstance(written, dict) else None,
    )


def _anthropic(usage: Any) -> Tokens:
    if not isinstance(usage, dict):
        return Tokens()
    fresh, cached = _count(usage.get("input_tokens")), _count(usage.get("cache_read_input_tokens"))
    written = _count(usage.get("cache_creation_input_tokens"))
    known = fresh is not None
    return Tokens(
        prompt=(fresh or 0) + (cached or 0) + (written or 0) if known else None,
        completion=_count(usage.get("output_tokens")),
        cached=cached,
        cache_written=written,
    )


def _gemini(usage: Any) -> Tokens:
    if not isinstance(usage, dict):
        return Tokens()
    prompt, tools = _count(usage.get("promptTokenCount")), _count(usage.get("toolUsePromptTokenCount"))
    answer, thoughts = _count(usage.get("candidatesTokenCount")), _count(usage.get("thoughtsTokenCount"))
    return Tokens(
        prompt=None if prompt is None else prompt + (tools or 0),
        completion=None if answer is None and thoughts is None else (answer or 0) + (thoughts or 0),
        cached=_count(usage.get("cachedContentTokenCount")),
        reasoning=thoughts,
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
