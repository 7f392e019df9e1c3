"""LiteLLM behind two functions. Importing it takes seconds, so that happens at the first call and in no other module.

Only the fields of a chat completion are handed on: LiteLLM also takes addresses and keys as arguments, and what an
agent sends must never choose those.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import openai

from sregym.gateway.models import ModelAccess
from sregym.settings import keep_litellm_offline

LITELLM_ERRORS = (openai.OpenAIError, TimeoutError)
"""LiteLLM's exceptions are all derived from the OpenAI client's."""

_FIELDS = frozenset(
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


async def complete(access: ModelAccess, body: Mapping[str, Any], *, key: str | None, retries: int) -> dict[str, Any]:
    """One answer as JSON. Raises LITELLM_ERRORS."""
    answer = await _call(access, body, key=key, retries=retries, stream=False)
    whole: dict[str, Any] = answer.model_dump(mode="json")
    return whole


async def stream(
    access: ModelAccess, body: Mapping[str, Any], *, key: str | None, retries: int
) -> AsyncIterator[dict[str, Any]]:
    """One answer in pieces. Raises LITELLM_ERRORS, also while it is iterated."""
    answer = await _call(access, body, key=key, retries=retries, stream=True)

    async def pieces() -> AsyncIterator[dict[str, Any]]:
        async for piece in answer:
            yield piece.model_dump(mode="json", exclude_none=True)

    return pieces()


async def _call(access: ModelAccess, body: Mapping[str, Any], *, key: str | None, retries: int, stream: bool) -> Any:
    keep_litellm_offline()
    import litellm

    asked = {name: value for name, value in body.items() if name in _FIELDS}
    return await litellm.acompletion(
        model=access.model,
        api_base=access.api_base,
        api_key=key,
        num_retries=retries,
        drop_params=True,
        stream=stream,
        **asked,
    )
