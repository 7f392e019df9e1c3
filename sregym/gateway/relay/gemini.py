"""Gemini's protocol in terms of chat completions, for agents that speak it with another provider's model.

LiteLLM's own adapter loses tool parameters that are no JSON schema, call ids and the usage of streams, so it is not
used. Refused is what chat completions have no word for; thoughts of earlier turns are left out.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from sregym.gateway.relay.protocols import Refused, event

_CONFIG = {
    "temperature": "temperature",
    "topP": "top_p",
    "maxOutputTokens": "max_tokens",
    "stopSequences": "stop",
    "seed": "seed",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}
_MODES = {"AUTO": "auto", "ANY": "required", "NONE": "none", "VALIDATED": "auto"}
_FINISH = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}


def to_chat(body: Mapping[str, Any]) -> dict[str, Any]:
    """A generateContent request as a chat completion. Raises Refused, or TypeError and its like where it is none."""
    config = body.get("generationConfig") or body.get("generation_config") or {}
    if (config.get("candidateCount") or 1) != 1:
        raise Refused(400, "candidateCount other than 1 cannot be translated for this model", "unsupported_parameter")
    system = _system(body.get("systemInstruction") or body.get("system_instruction"))
    chat: dict[str, Any] = {"messages": [*system, *_messages(body["contents"])]}
    chat |= {ours: config[theirs] for theirs, ours in _CONFIG.items() if config.get(theirs) is not None}
    if tools := list(_tools(body.get("tools") or [])):
        chat["tools"] = tools
        chat["tool_choice"] = _choice((body.get("toolConfig") or {}).get("functionCallingConfig") or {})
    if config.get("responseMimeType") == "application/json":
        schema = config.get("responseJsonSchema") or _schema(config.get("responseSchema"))
        named = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
        chat["response_format"] = named if schema else {"type": "json_object"}
    if level := (config.get("thinkingConfig") or {}).get("thinkingLevel"):
        chat["reasoning_effort"] = str(level).lower()
    return chat


def _system(instruction: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    texts = [part["text"] for part in (instruction or {}).get("parts", []) if part.get("text")]
    return [{"role": "system", "content": "\n\n".join(texts)}] if texts else []


def _messages(contents: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    open_calls: list[tuple[str, str]] = []  # (name, id) without a result so far
    count = 0
    for content in contents:
        parts = content.get("parts") or []
        if content.get("role") == "model":
            calls = []
            for call in (part["functionCall"] for part in parts if "functionCall" in part):
                count += 1
                named = (call["name"], call.get("id") or f"call_{count}")
                open_calls.append(named)
                calls.append(_tool_call(*named, call.get("args") or {}))
            text = "".join(part["text"] for part in parts if part.get("text") and not part.get("thought"))
            yield {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
            continue
        for result in (part["functionResponse"] for part in parts if "functionResponse" in part):
            answered = _answered(result, open_calls)
            yield {"role": "tool", "tool_call_id": answered, "content": json.dumps(result.get("response") or {})}
        if said := [_user_part(part) for part in parts if "functionResponse" not in part]:
            plain = len(said) == 1 and said[0]["type"] == "text"
            yield {"role": "user", "content": said[0]["text"] if plain else said}


def _answered(result: Mapping[str, Any], open_calls: list[tuple[str, str]]) -> str:
    """The id of the call that a result belongs to: the one it names, or the oldest open one of its name."""
    for index, (name, call_id) in enumerate(open_calls):
        if result.get("id") == call_id or ("id" not in result and result["name"] == name):
            del open_calls[index]
            return call_id
    raise Refused(400, f"the result of {result.get('name')!r} belongs to no call", "invalid_request")


def _tool_call(name: str, call_id: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def _user_part(part: Mapping[str, Any]) -> dict[str, Any]:
    if "text" in part:
        return {"type": "text", "text": part["text"]}
    data = part.get("inlineData") or part.get("inline_data")
    if not data:
        raise Refused(400, f"a part {sorted(part)} cannot be translated for this model", "unsupported_content")
    kind = data.get("mimeType") or data.get("mime_type")
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data['data']}"}}


def _tools(tools: Any) -> Iterator[dict[str, Any]]:
    for tool in [tools] if isinstance(tools, dict) else tools:
        for one in tool.get("functionDeclarations") or tool.get("function_declarations") or []:
            schema = one.get("parametersJsonSchema") or _schema(one.get("parameters"))
            function = {"name": one["name"], "description": one.get("description", "")}
            function["parameters"] = schema or {"type": "object", "properties": {}}
            yield {"type": "function", "function": function}


def _choice(config: Mapping[str, Any]) -> Any:
    names = config.get("allowedFunctionNames") or []
    if config.get("mode") == "ANY" and len(names) == 1:
        return {"type": "function", "function": {"name": names[0]}}
    return _MODES.get(config.get("mode", "AUTO"), "auto")


def _schema(schema: Any) -> Any:
    """Gemini's own schema as a JSON schema: its type names are in upper case."""
    if isinstance(schema, list):
        return [_schema(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: value.lower() if name == "type" and isinstance(value, str) else _schema(value)
        for name, value in schema.items()
    }


def from_chat(answer: Mapping[str, Any], model: str) -> dict[str, Any]:
    """A chat completion as generateContent's answer."""
    choice = answer["choices"][0]
    message = choice["message"]
    parts = [*_spoken(message), *(_function_call(call) for call in message.get("tool_calls") or [])]
    return _chunk(parts, model, finish=choice.get("finish_reason") or "stop", usage=answer.get("usage"))


async def stream_from_chat(pieces: AsyncIterator[Mapping[str, Any]], model: str) -> AsyncIterator[bytes]:
    """Pieces of a chat completion as events. Calls come whole, with the last event, which has the usage."""
    calls: dict[int, dict[str, Any]] = {}
    finish, usage = "stop", None
    async for piece in pieces:
        usage = piece.get("usage") or usage
        for choice in piece.get("choices") or []:
            finish = choice.get("finish_reason") or finish
            delta = choice.get("delta") or {}
            _gather(calls, delta.get("tool_calls") or [])
            if parts := _spoken(delta):
                yield event(_chunk(parts, model))
    parts = [_function_call(call) for _, call in sorted(calls.items())]
    yield event(_chunk(parts, model, finish=finish, usage=usage))


def _gather(calls: dict[int, dict[str, Any]], deltas: Sequence[Mapping[str, Any]]) -> None:
    for delta in deltas:
        call = calls.setdefault(delta.get("index") or 0, {"id": "", "function": {"name": "", "arguments": ""}})
        call["id"] = delta.get("id") or call["id"]
        function = delta.get("function") or {}
        call["function"]["name"] += function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""


def _spoken(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    thought, text = message.get("reasoning_content"), message.get("content")
    return [*([{"text": thought, "thought": True}] if thought else []), *([{"text": text}] if text else [])]


def _function_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {
        "functionCall": {"id": call["id"], "name": function["name"], "args": json.loads(function["arguments"] or "{}")}
    }


def _chunk(parts: Sequence[Any], model: str, *, finish: str | None = None, usage: Any = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": list(parts)}}
    if finish:
        candidate["finishReason"] = _FINISH.get(finish, "STOP")
    chunk: dict[str, Any] = {"candidates": [candidate], "modelVersion": model}
    if usage:
        chunk["usageMetadata"] = _usage(usage)
    return chunk


def _usage(usage: Mapping[str, Any]) -> dict[str, int]:
    prompt, completion = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    thoughts = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    told = {"promptTokenCount": prompt, "candidatesTokenCount": completion - thoughts}
    told |= {"thoughtsTokenCount": thoughts} if thoughts else {}
    told |= {"cachedContentTokenCount": cached} if cached else {}
    return {**told, "totalTokenCount": prompt + completion}
