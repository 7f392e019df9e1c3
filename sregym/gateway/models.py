"""What the model relay is told and what it counts: plain records, importable without any model library."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

LOCAL = "local/"
CALLS_FILE = "model_calls.jsonl"
BODIES_FILE = "model_bodies.jsonl.gz"
BUDGET_SPENT = "budget spent"
BYTES_PER_TOKEN = 4
"""A rule of thumb, for calls that were answered and not counted (a stream that the agent cut): they cost budget too."""


class Protocol(StrEnum):
    """How a client speaks to a model."""

    CHAT = "chat"
    """OpenAI chat completions; what compatible servers speak."""
    RESPONSES = "responses"
    """OpenAI responses."""
    MESSAGES = "messages"
    """Anthropic messages."""
    GEMINI = "gemini"
    """Gemini generateContent."""


_OF_PROVIDER = {
    "openai": (Protocol.CHAT, Protocol.RESPONSES),
    "local": (Protocol.CHAT,),
    "anthropic": (Protocol.MESSAGES,),
    "gemini": (Protocol.GEMINI,),
}
_BY_NAME = {"claude": "anthropic", "gpt-": "openai", "chatgpt": "openai", "codex": "openai"}
_PUBLIC = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
}


@dataclass(frozen=True, kw_only=True)
class Price:
    """USD per million tokens. `cached` None = as `input`."""

    input: float
    output: float
    cached: float | None = None


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What one attempt may spend; None = no limit. Looked at before each call, so the last one may exceed it."""

    cost_usd: float | None = None
    tokens: int | None = None

    def spent(self, cost_usd: float, tokens: int) -> bool:
        dear = self.cost_usd is not None and cost_usd >= self.cost_usd
        return dear or (self.tokens is not None and tokens >= self.tokens)


@dataclass(frozen=True, kw_only=True)
class ModelAccess:
    """The model that an agent may use. `model` is any LiteLLM string; `local/NAME` needs `api_base`.

    Keys are not here: the relay's process reads them from the environment, and nothing is written down.
    """

    model: str
    api_base: str | None = None
    aliases: tuple[str, ...] = ()
    """Further names that the agent's client insists on; all of them mean the same model."""
    speaks: tuple[Protocol, ...] = ()
    """What the server at `api_base` speaks, where that does not follow from the provider."""
    price: Price | None = None
    """Where LiteLLM's table does not know it."""
    budget: Budget = Budget()
    hosted_tools: bool = False
    """Whether the provider may search, fetch or run things for the agent: the internet by another way."""

    @property
    def provider(self) -> str:
        """LiteLLM's name of the provider; empty where only LiteLLM can tell."""
        prefix, slash, _ = self.model.partition("/")
        if slash:
            return prefix
        if self.api_base:
            return "openai"
        return next((provider for start, provider in _BY_NAME.items() if self.model.startswith(start)), "")

    @property
    def bare(self) -> str:
        """The model's name without its provider."""
        return self.model.partition("/")[2] or self.model

    @property
    def for_litellm(self) -> str:
        """The model as LiteLLM knows it: a local server is one that speaks as OpenAI does."""
        return f"openai/{self.bare}" if self.provider == "local" else self.model

    @property
    def passes(self) -> tuple[Protocol, ...]:
        """Protocols in which a request can go to the provider as it is. Everything else is translated."""
        if self.speaks:
            return self.speaks
        if self.provider == "openai" and self.api_base and not _is_openai(self.api_base):
            return (Protocol.CHAT,)  # somebody's compatible server
        return _OF_PROVIDER.get(self.provider, ())

    @property
    def is_public(self) -> bool:
        """Whether requests go to the provider's own address."""
        return self.api_base is None

    def root(self, protocol: Protocol) -> str:
        """The address below which the paths of a protocol lie, without a slash at its end."""
        base = (self.api_base or _PUBLIC.get(self.provider, "")).rstrip("/")
        if protocol in (Protocol.MESSAGES, Protocol.GEMINI):
            return base.removesuffix("/v1").removesuffix("/v1beta")
        return base

    @property
    def base_for_litellm(self) -> str | None:
        """`api_base` as LiteLLM wants it for the provider; None = the provider's own address."""
        if self.api_base is None:
            return None
        if self.provider == "anthropic":
            return self.root(Protocol.MESSAGES)
        return f"{self.root(Protocol.GEMINI)}/v1beta" if self.provider == "gemini" else self.api_base

    def with_aliases(self, names: tuple[str, ...]) -> ModelAccess:
        return replace(self, aliases=names)

    def allows(self, name: object) -> bool:
        return name in (self.model, self.bare, *self.aliases)


def _is_openai(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == "openai.com" or host.endswith(".openai.com")


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """What one answer took. `prompt` holds the cached ones, `completion` the reasoning; None where it was not said."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    """Read from the provider's cache."""
    cache_written: int | None = None
    reasoning: int | None = None

    def later(self, other: Tokens) -> Tokens:
        """These and a later word of the same answer together: counts of a stream only grow."""
        pairs = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(Tokens)}
        known = {name: [one for one in pair if one is not None] for name, pair in pairs.items()}
        return Tokens(**{name: max(counts) for name, counts in known.items() if counts})


@dataclass(frozen=True, kw_only=True)
class ModelCall:
    """One call, as it is written to the attempt's folder. Tokens and cost are None where they are not known."""

    at: str
    model: str
    stream: bool
    status: int
    seconds: float
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error: str | None = None
    number: int = 0
    protocol: str = Protocol.CHAT.value
    translated: bool = False
    """Whether the provider speaks another protocol than the agent."""
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    charged_usd: float | None = None
    """What it takes of a budget where the cost itself is not known: an estimate."""
    request_bytes: int = 0
    answer_bytes: int = 0
    refused: bool = False
    """Not sent to the model: the budget was spent."""

    def line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @property
    def is_unmetered(self) -> bool:
        """Answered, and the tokens are not known."""
        return self.status < 400 and self.prompt_tokens is None

    @property
    def budget_tokens(self) -> int:
        """What it takes of a budget; estimated where the tokens of an answer are not known."""
        if self.is_unmetered:
            return (self.request_bytes + self.answer_bytes) // BYTES_PER_TOKEN
        return (self.prompt_tokens or 0) + (self.completion_tokens or 0)


@dataclass(frozen=True, kw_only=True)
class ModelUsage:
    """The sum over an attempt. `unmetered` counts answered calls whose tokens are not known.

    `failed` counts calls that the model's side did not answer; that one was malformed is the caller's doing.
    """

    calls: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    unmetered: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    """None where the price of a call is not known; never a guess."""
    budget_spent: bool = False
    """Whether a call was refused for that."""


MALFORMED = frozenset({400, 413, 415, 422})
"""Statuses that blame the request (RFC 9110, section 15.5)."""


def calls_in(folder: Path) -> list[ModelCall]:
    """The calls recorded in a folder. A line cut short by a kill is not counted."""
    file = folder / CALLS_FILE
    lines = file.read_text(encoding="utf-8").split("\n")[:-1] if file.exists() else []
    return [call for call in map(_call_of, lines) if call is not None]


def forget_calls(folder: Path) -> None:
    """Of an attempt that was broken off and is made anew in the same folder."""
    for name in (CALLS_FILE, BODIES_FILE):
        (folder / name).unlink(missing_ok=True)


def _call_of(line: str) -> ModelCall | None:
    try:
        return ModelCall(**json.loads(line))
    except ValueError:
        return None


def usage_in(folder: Path) -> ModelUsage:
    """Adds up the calls recorded in a folder."""
    every = calls_in(folder)
    calls = [call for call in every if not call.refused]
    answered = [call for call in calls if call.status < 400]
    malformed = [call for call in calls if call.status in MALFORMED]
    return ModelUsage(
        calls=len(calls),
        failed=len(calls) - len(answered) - len(malformed),
        prompt_tokens=_total(call.prompt_tokens for call in calls),
        completion_tokens=_total(call.completion_tokens for call in calls),
        unmetered=sum(call.is_unmetered for call in calls),
        cached_tokens=_total(call.cached_tokens for call in calls),
        reasoning_tokens=_total(call.reasoning_tokens for call in calls),
        cost_usd=_cost(answered),
        budget_spent=len(every) > len(calls),
    )


def _total(numbers: Iterable[int | None]) -> int:
    return sum(number or 0 for number in numbers)


def _cost(answered: list[ModelCall]) -> float | None:
    costs = [call.cost_usd for call in answered]
    known = [cost for cost in costs if cost is not None]
    return round(sum(known), 9) if known and len(known) == len(costs) else None
