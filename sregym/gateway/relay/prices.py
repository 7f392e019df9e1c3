"""What a call costs: by the prices that were given, else by the table that comes with LiteLLM.

An unknown model has no price, which is not a price of nothing.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from sregym.gateway.models import ModelAccess, Price, Tokens
from sregym.llm import price_table
from sregym.settings import keep_litellm_offline

MILLION = 1_000_000


class Prices:
    """Of one model. LiteLLM, which reckons, takes seconds to load: `load` it where nobody waits."""

    def __init__(self, access: ModelAccess) -> None:
        self._access = access
        self._litellm: Any = None

    @property
    def known(self) -> bool:
        return self._access.price is not None or self._name is not None

    def load(self) -> None:
        """Import LiteLLM where it will be needed. Idempotent; may be called in any thread."""
        if self._litellm is None and self._access.price is None and self._name is not None:
            keep_litellm_offline()
            import litellm

            self._litellm = litellm

    def cost(self, tokens: Tokens) -> float | None:
        """USD; None where the price or the tokens are not known."""
        if tokens.prompt is None or tokens.completion is None or not self.known:
            return None
        if self._access.price:
            return _given(self._access.price, tokens)
        self.load()
        read, written = self._litellm.cost_per_token(
            model=self._name,
            custom_llm_provider=self._access.provider or None,
            usage_object=_usage(self._litellm, tokens),
        )
        return round(float(read) + float(written), 9)

    @cached_property
    def _name(self) -> str | None:
        """The model as the table has it. A local model that is called as one of the table is not that one."""
        if self._access.provider == "local":
            return None
        table = price_table()
        return next((name for name in (self._access.model, self._access.bare) if name in table), None)


def _given(price: Price, tokens: Tokens) -> float:
    cached = tokens.cached or 0
    of_cached = price.input if price.cached is None else price.cached
    total = ((tokens.prompt or 0) - cached) * price.input + cached * of_cached + (tokens.completion or 0) * price.output
    return round(total / MILLION, 9)


def _usage(litellm: Any, tokens: Tokens) -> Any:
    cached, written = tokens.cached or 0, tokens.cache_written or 0
    return litellm.Usage(
        prompt_tokens=tokens.prompt,
        completion_tokens=tokens.completion,
        total_tokens=(tokens.prompt or 0) + (tokens.completion or 0),
        reasoning_tokens=tokens.reasoning,
        prompt_tokens_details={"cached_tokens": cached, "cache_creation_tokens": written},
        cache_read_input_tokens=cached,
        cache_creation_input_tokens=written,
    )
