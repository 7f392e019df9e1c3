"""Models behind LiteLLM, in the protocol that the agent speaks. LiteLLM takes seconds to import: at the first need.

Only known fields of a request are handed on: LiteLLM also takes addresses and keys as arguments, and what an agent
sends must never choose those. Each translation goes through chat completions, which LiteLLM has for every provider.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import anyio

from sregym.gateway.models import ModelAccess, Protocol
from sregym.gateway.relay.gemini import from_chat, stream_from_chat, to_chat
from sregym.gateway.relay.protocols import event
from sregym.settings import keep_litellm_offline

UNTRANSLATABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)
"""How LiteLLM's adapters, and ours, fail on a request of a strange shape."""
REQUEST_TIMEOUT_S = 600.0


def litellm_errors() -> tuple[type[BaseException], ...]:
    """What LiteLLM raises: all of it is derived from the OpenAI client's error, which takes seconds to import, too."""
    import openai

    return (openai.OpenAIError, TimeoutError)


def is_own_fault(error: BaseException) -> bool:
    """Whether LiteLLM failed by itself, on a request of a strange shape; its words are then a traceback."""
    return "Traceback (most recent call last)" in str(error)


_CHAT = frozenset(
    {
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "n",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "stop",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
    }
)
_RESPONSES = frozenset(
    {
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "parallel_tool_calls",
        "reasoning",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_p",
        "truncation",
    }
)
_MESSAGES = frozenset(
    {
        "max_tokens",
        "messages",
        "output_config",
        "stop_sequences",
        "system",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
    }
)


class Backend:
    """One model through LiteLLM."""

    def __init__(self, access: ModelAccess, *, key: str | None, retries: int) -> None:
        self._access = access
        self._fixed: dict[str, Any] = {
            "model": access.for_litellm,
            "api_base": access.base_for_litellm,
            "api_key": key,
            "num_retries": 0,
            "max_retries": retries,  # `num_retries` would come on top of the client's own
            "timeout": REQUEST_TIMEOUT_S,
            "drop_params": True,
        }

    async def load(self) -> None:
        """Import LiteLLM in a thread of its own, so that nobody else has to wait for it."""
        await anyio.to_thread.run_sync(_litellm, abandon_on_cancel=True)

    async def aclose(self) -> None:
        """End LiteLLM's own background task and its connections, which it keeps for the whole process."""
        if "litellm" in sys.modules:
            import litellm
            from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER

            await GLOBAL_LOGGING_WORKER.clear_queue()
            await GLOBAL_LOGGING_WORKER.stop()
            await litellm.close_litellm_async_clients()
            litellm.in_memory_llm_clients_cache.flush_cache()

    async def complete(self, protocol: Protocol, body: Mapping[str, Any]) -> dict[str, Any]:
        """One answer as JSON. Raises litellm_errors(), UNTRANSLATABLE, Refused."""
        await self.load()
        return await _WHOLE[protocol](self, body)

    async def stream(self, protocol: Protocol, body: Mapping[str, Any]) -> AsyncIterator[bytes]:
        """One answer as server-sent events. Raises as `complete` does, also while it is iterated."""
        await self.load()
        return await _STREAMED[protocol](self, body)

    async def count(self, protocol: Protocol, body: Mapping[str, Any]) -> int:
        """Tokens of a request, by LiteLLM's own count. Raises UNTRANSLATABLE, Refused."""
        await self.load()
        if protocol is Protocol.GEMINI:
            chat = to_chat(body.get("generateContentRequest") or body)
        else:
            chat, _ = _from_messages(self._access, body)
        return int(_litellm().token_counter(model=self._access.for_litellm, messages=chat["messages"]))

    async def _chat(self, asked: Mapping[str, Any], *, stream: bool) -> Any:
        more = {"stream_options": {"include_usage": True}} if stream else {}
        return await _litellm().acompletion(**{**asked, **more, **self._fixed}, stream=stream)

    async def chat(self, body: Mapping[str, Any]) -> dict[str, Any]:
        answer = await self._chat(_only(_CHAT - {"stream_options"}, body), stream=False)
        whole: dict[str, Any] = answer.model_dump(mode="json")
        return whole

    async def chat_pieces(self, body: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        answer = await self._chat(_only(_CHAT, body), stream=True)
        return (piece.model_dump(mode="json", exclude_none=True) async for piece in answer)

    async def chat_stream(self, body: Mapping[str, Any]) -> AsyncIterator[bytes]:
        return _chat_events(await self.chat_pieces(body))

    async def gemini(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return from_chat(await self.chat(to_chat(body)), self._access.bare)

    async def gemini_stream(self, body: Mapping[str, Any]) -> AsyncIterator[bytes]:
        return stream_from_chat(await self.chat_pieces(to_chat(body)), self._access.bare)

    async def messages(self, body: Mapping[str, Any]) -> dict[str, Any]:
        asked, names = _from_messages(self._access, body)
        answer = await self._chat(asked, stream=False)
        whole = _anthropic().translate_completion_output_params(answer, tool_name_mapping=names)
        plain: dict[str, Any] = json.loads(json.dumps(dict(whole), default=_plain))
        return {"stop_sequence": None, **plain}

    async def messages_stream(self, body: Mapping[str, Any]) -> AsyncIterator[bytes]:
        asked, names = _from_messages(self._access, body)
        answer = await self._chat(asked, stream=True)
        events: AsyncIterator[bytes] = _anthropic().translate_completion_output_params_streaming(
            answer, model=self._access.bare, tool_name_mapping=names, is_async=True
        )
        return events

    async def responses(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return _without_silence((await self._responses(body, stream=False)).model_dump(mode="json"))

    async def responses_stream(self, body: Mapping[str, Any]) -> AsyncIterator[bytes]:
        return _response_events(await self._responses(body, stream=True))

    async def _responses(self, body: Mapping[str, Any], *, stream: bool) -> Any:
        asked = _only(_RESPONSES, body)
        return await _litellm().aresponses(**asked, **self._fixed, stream=stream, use_chat_completions_api=True)


_WHOLE: Mapping[Protocol, Callable[[Backend, Mapping[str, Any]], Awaitable[dict[str, Any]]]] = {
    Protocol.CHAT: Backend.chat,
    Protocol.RESPONSES: Backend.responses,
    Protocol.MESSAGES: Backend.messages,
    Protocol.GEMINI: Backend.gemini,
}
_STREAMED: Mapping[Protocol, Callable[[Backend, Mapping[str, Any]], Awaitable[AsyncIterator[bytes]]]] = {
    Protocol.CHAT: Backend.chat_stream,
    Protocol.RESPONSES: Backend.responses_stream,
    Protocol.MESSAGES: Backend.messages_stream,
    Protocol.GEMINI: Backend.gemini_stream,
}


def _only(names: frozenset[str], body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name in names}


def _from_messages(access: ModelAccess, body: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """A messages request as a chat completion, and the tool names that had to be shortened."""
    asked = {"max_tokens": 1, **_only(_MESSAGES, body), "model": access.for_litellm}
    chat, names = _anthropic().translate_completion_input_params_with_tool_mapping(asked)
    return _only(_CHAT, chat), names


async def _chat_events(pieces: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    async for piece in pieces:
        yield event(piece)
    yield b"data: [DONE]\n\n"


async def _response_events(items: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    number = 0
    async for item in items:
        value = item.model_dump(mode="json", exclude_none=True)
        if _is_silent(value.get("item") or {}):
            continue
        if "response" in value:
            value["response"] = _without_silence(value["response"])
        yield event({**value, "sequence_number": number}, name=value["type"])
        number += 1


def _without_silence(response: dict[str, Any]) -> dict[str, Any]:
    """LiteLLM puts a message without text beside a tool call, which strict clients do not take."""
    return {**response, "output": [item for item in response.get("output") or [] if not _is_silent(item)]}


def _is_silent(item: Mapping[str, Any]) -> bool:
    """Whether an item is a whole message that says nothing."""
    parts = item.get("content") or []
    done = item.get("type") == "message" and item.get("status") == "completed"
    return done and not any(part.get("text") for part in parts)


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_none=True)


def _litellm() -> Any:
    keep_litellm_offline()
    import litellm

    litellm.suppress_debug_info = True
    return litellm


def _anthropic() -> Any:
    _litellm()
    from litellm.llms.anthropic.experimental_pass_through.adapters.transformation import AnthropicAdapter

    return AnthropicAdapter()
