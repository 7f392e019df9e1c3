"""One call of a model through LiteLLM. The only module of the judge that knows LiteLLM.

Importing LiteLLM takes seconds, so that happens at the first call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pydantic import SecretStr

from sregym.errors import JudgeError
from sregym.settings import keep_litellm_offline

CALL_TIMEOUT_S = 180.0
MAX_TOKENS = 8_000
"""Of an answer, thinking included."""


class TransientError(JudgeError):
    """The call failed in a way that may pass: asking again is worth it."""


@dataclass(frozen=True, kw_only=True)
class CompletionRequest:
    """What is sent."""

    model: str
    system: str
    user: str
    api_base: str | None = None
    api_key: SecretStr | None = None
    temperature: float = 0.0
    """Left out where the model does not take one."""


@dataclass(frozen=True, kw_only=True)
class Completion:
    """What came back. `cost_usd` is None where the price is not known."""

    text: str
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None


class Complete(Protocol):
    """Calls a model once. Raises TransientError, or JudgeError where asking again is useless."""

    async def __call__(self, request: CompletionRequest) -> Completion: ...


async def complete(request: CompletionRequest) -> Completion:
    """A `Complete` through LiteLLM, which finds the provider by the model's name."""
    keep_litellm_offline()
    import litellm
    import openai  # LiteLLM's exceptions are all derived from this client's

    litellm.suppress_debug_info = True  # it prints advice on standard output otherwise
    try:
        reply = await litellm.acompletion(
            model=request.model,
            messages=[{"role": "system", "content": request.system}, {"role": "user", "content": request.user}],
            temperature=request.temperature,
            max_tokens=MAX_TOKENS,
            api_base=request.api_base,
            api_key=request.api_key.get_secret_value() if request.api_key else None,
            timeout=CALL_TIMEOUT_S,
            num_retries=0,
            drop_params=True,
        )
    except (
        openai.BadRequestError,
        openai.AuthenticationError,
        openai.PermissionDeniedError,
        openai.NotFoundError,
    ) as error:
        raise JudgeError(f"the judge model {request.model} refuses: {_first_line(error)}") from error
    except (openai.OpenAIError, TimeoutError, OSError) as error:
        raise TransientError(f"the judge model {request.model} cannot be reached: {_first_line(error)}") from error
    usage = getattr(reply, "usage", None)
    return Completion(
        text=reply.choices[0].message.content or "",
        tokens_in=getattr(usage, "prompt_tokens", 0) or 0,
        tokens_out=getattr(usage, "completion_tokens", 0) or 0,
        cost_usd=getattr(reply, "_hidden_params", {}).get("response_cost"),
    )


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]
