"""To a provider that speaks the agent's protocol: the request as it is but for the model's name, the answer as it is.

No header of the agent's goes on but the versions that a provider asks for, and none of the provider's comes back that
says whose account it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from sregym.gateway.models import ModelAccess, Protocol

ANTHROPIC_VERSION = "2023-06-01"
_ONWARDS = {
    Protocol.CHAT: (),
    Protocol.RESPONSES: ("openai-beta",),
    Protocol.MESSAGES: ("anthropic-version", "anthropic-beta"),
    Protocol.GEMINI: (),
}
_BACK = frozenset({"retry-after", "retry-after-ms", "x-should-retry", "request-id", "x-request-id"})


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request of an agent, understood so far as the relay must."""

    protocol: Protocol
    model: object
    """As the agent names it."""
    raw: bytes
    body: Mapping[str, Any]
    streaming: bool
    path: str
    action: str = ""
    """What is asked besides an answer: `count_tokens`, `countTokens`."""
    headers: Mapping[str, str]


def upstream_request(client: httpx.AsyncClient, access: ModelAccess, asked: Asked, key: str | None) -> httpx.Request:
    """The request for the provider."""
    headers = {"content-type": "application/json", **_key_header(asked.protocol, key)}
    if asked.protocol is Protocol.MESSAGES:
        headers["anthropic-version"] = ANTHROPIC_VERSION
    headers |= {name: asked.headers[name] for name in _ONWARDS[asked.protocol] if name in asked.headers}
    url = access.root(asked.protocol) + _path(asked, access.bare)
    return client.build_request("POST", url, content=_content(access, asked), headers=headers)


def answer_headers(answer: httpx.Response) -> dict[str, str]:
    """Headers of the provider's answer that clients make use of."""
    return {name: value for name, value in answer.headers.items() if name.lower() in _BACK}


def wants_usage(asked: Asked) -> bool:
    """Whether the agent asked for the usage of a chat stream, which the relay needs in any case."""
    options = asked.body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def _path(asked: Asked, model: str) -> str:
    match asked.protocol:
        case Protocol.CHAT:
            return "/chat/completions"
        case Protocol.RESPONSES:
            return "/responses"
        case Protocol.MESSAGES:
            return "/v1/messages/count_tokens" if asked.action else "/v1/messages"
        case Protocol.GEMINI:
            if asked.action:
                return f"/v1beta/models/{quote(model)}:{asked.action}"
            return f"/v1beta/models/{quote(model)}:" + (
                "streamGenerateContent?alt=sse" if asked.streaming else "generateContent"
            )


def _content(access: ModelAccess, asked: Asked) -> bytes:
    """The agent's own bytes wherever nothing has to be changed."""
    body = asked.body
    if asked.protocol is Protocol.GEMINI:
        return asked.raw
    if body.get("model") != access.bare:
        body = {**body, "model": access.bare}
    if asked.protocol is Protocol.CHAT and asked.streaming and not wants_usage(asked):
        body = {**body, "stream_options": {**(body.get("stream_options") or {}), "include_usage": True}}
    return asked.raw if body is asked.body else json.dumps(body).encode()


def _key_header(protocol: Protocol, key: str | None) -> dict[str, str]:
    if not key:
        return {}
    if protocol is Protocol.MESSAGES:
        return {"x-api-key": key}
    return {"x-goog-api-key": key} if protocol is Protocol.GEMINI else {"authorization": f"Bearer {key}"}
