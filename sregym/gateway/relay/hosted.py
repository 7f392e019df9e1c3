"""What a provider would do for an agent beyond answering: search, fetch, run code, read the account's files.

That is the internet, or the operator's own data, by another way than the network. It is refused where the agent has
no internet access; state that a provider keeps (earlier responses, conversations) is refused in any case, because the
next attempt could read it. Tools are let through by a list of those that the client runs itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sregym.gateway.models import Protocol
from sregym.gateway.relay.protocols import Refused

_OPENAI_TOOLS = frozenset(
    {"function", "custom", "local_shell", "shell", "apply_patch", "computer_use_preview", "computer", "namespace",
     "tool_search"}
)  # fmt: skip
_ANTHROPIC_TOOLS = ("custom", "bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_")
_KEPT_STATE = {
    Protocol.RESPONSES: ("previous_response_id", "conversation", "prompt", "background"),
    Protocol.MESSAGES: ("container", "mcp_servers"),
    Protocol.GEMINI: ("cachedContent", "cached_content"),
    Protocol.CHAT: (),
}
_REMOTE = ("http://", "https://", "gs://", "ftp://")


def check_hosted(protocol: Protocol, body: Mapping[str, Any], *, allowed: bool) -> None:
    """Raises Refused. `allowed`: whether tools of the provider may be used."""
    for name in _KEPT_STATE[protocol]:
        if body.get(name):
            raise Refused(
                400, f"`{name}` is not available here: send all that the model needs", "unsupported_parameter"
            )
    if allowed:
        return
    for tool in _HOSTED[protocol](body):
        raise Refused(
            400,
            f"tools that the provider runs are not available here: {tool}; this session has no internet access",
            "unsupported_tool",
        )
    for place in _REMOTE_CONTENT[protocol](body):
        raise Refused(
            400, f"content by address or file id is not available here ({place}): send it inline", "unsupported_content"
        )


def _chat_tools(body: Mapping[str, Any]) -> Iterator[str]:
    if body.get("web_search_options") is not None:
        yield "web_search_options"
    yield from _typed_tools(body.get("tools"))


def _responses_tools(body: Mapping[str, Any]) -> Iterator[str]:
    yield from _typed_tools(body.get("tools"))
    for item in _dicts(body.get("input")):
        yield from _typed_tools(item.get("tools"))


def _typed_tools(tools: Any) -> Iterator[str]:
    for tool in _dicts(tools):
        kind = tool.get("type", "function")
        if kind not in _OPENAI_TOOLS:
            yield str(kind)[:60]
        where = tool.get("environment")
        if isinstance(where, dict) and where.get("type") != "local":
            yield f"{kind} in a container of the provider"
        yield from _typed_tools(tool.get("tools"))


def _messages_tools(body: Mapping[str, Any]) -> Iterator[str]:
    for tool in _dicts(body.get("tools")):
        kind = tool.get("type") or "custom"
        if not str(kind).startswith(_ANTHROPIC_TOOLS):
            yield str(kind)[:60]


def _gemini_tools(body: Mapping[str, Any]) -> Iterator[str]:
    tools = body.get("tools")
    for tool in _dicts([tools] if isinstance(tools, dict) else tools):
        yield from (str(name)[:60] for name in tool if name not in ("functionDeclarations", "function_declarations"))


_HOSTED: Mapping[Protocol, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    Protocol.CHAT: _chat_tools,
    Protocol.RESPONSES: _responses_tools,
    Protocol.MESSAGES: _messages_tools,
    Protocol.GEMINI: _gemini_tools,
}


def _chat_content(body: Mapping[str, Any]) -> Iterator[str]:
    for message in _dicts(body.get("messages")):
        for part in _dicts(message.get("content")):
            for name in ("image_url", "video_url", "audio_url"):
                if _is_remote(part.get(name)):
                    yield name
            file = part.get("file")
            if isinstance(file, dict) and ("file_id" in file or _is_remote(file.get("file_data"))):
                yield "file"


def _responses_content(body: Mapping[str, Any]) -> Iterator[str]:
    for item in _dicts(body.get("input")):
        if item.get("type") == "item_reference":
            yield "item_reference"
        for part in (item, *_dicts(item.get("content")), *_dicts(item.get("output"))):
            yield from (name for name in ("file_id", "file_url") if part.get(name))
            if _is_remote(part.get("image_url")):
                yield "image_url"


def _messages_content(body: Mapping[str, Any]) -> Iterator[str]:
    for message in (*_dicts(body.get("messages")), {"content": body.get("system")}):
        yield from _anthropic_blocks(message.get("content"))


def _anthropic_blocks(content: Any) -> Iterator[str]:
    for block in _dicts(content):
        source = block.get("source")
        if isinstance(source, dict) and source.get("type") in ("url", "file"):
            yield f"source of type {source['type']}"
        if block.get("type") == "container_upload":
            yield "container_upload"
        if block.get("type") == "tool_result":
            yield from _anthropic_blocks(block.get("content"))


def _gemini_content(body: Mapping[str, Any]) -> Iterator[str]:
    for content in (*_dicts(body.get("contents")), body.get("systemInstruction"), body.get("system_instruction")):
        for part in _dicts(content.get("parts") if isinstance(content, dict) else None):
            yield from (name for name in ("fileData", "file_data") if name in part)


_REMOTE_CONTENT: Mapping[Protocol, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    Protocol.CHAT: _chat_content,
    Protocol.RESPONSES: _responses_content,
    Protocol.MESSAGES: _messages_content,
    Protocol.GEMINI: _gemini_content,
}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _is_remote(value: Any) -> bool:
    url = value.get("url") if isinstance(value, dict) else value
    return isinstance(url, str) and url.strip().lower().startswith(_REMOTE)
