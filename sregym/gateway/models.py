"""What the model relay is told and what it counts: plain records, importable without any model library."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

LOCAL = "local/"
CALLS_FILE = "model_calls.jsonl"


@dataclass(frozen=True, kw_only=True)
class ModelAccess:
    """The model that an agent may use. `model` is any LiteLLM string; `local/NAME` needs `api_base`.

    Keys are not here: the relay's process reads them from the environment, and nothing is written down.
    """

    model: str
    api_base: str | None = None

    @property
    def speaks_openai(self) -> bool:
        """Whether requests can go to `api_base` as they are."""
        return self.api_base is not None and (self.model.startswith((LOCAL, "openai/")) or "/" not in self.model)

    @property
    def bare(self) -> str:
        """The model's name without its provider."""
        return self.model.partition("/")[2] or self.model

    def allows(self, name: object) -> bool:
        return name in (self.model, self.bare)


@dataclass(frozen=True, kw_only=True)
class ModelCall:
    """One call, as it is written to the attempt's folder. Tokens are None where the model did not say."""

    at: str
    model: str
    stream: bool
    status: int
    seconds: float
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error: str | None = None

    def line(self) -> str:
        return json.dumps(asdict(self)) + "\n"


@dataclass(frozen=True, kw_only=True)
class ModelUsage:
    """The sum over an attempt. `unmetered` counts answered calls whose tokens are not known."""

    calls: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    unmetered: int = 0


def usage_in(folder: Path) -> ModelUsage:
    """Adds up the calls recorded in a folder. A last line cut short by a kill is not counted."""
    file = folder / CALLS_FILE
    lines = file.read_text(encoding="utf-8").split("\n")[:-1] if file.exists() else []
    calls = [ModelCall(**json.loads(line)) for line in lines]
    answered = [call for call in calls if call.status < 400]
    return ModelUsage(
        calls=len(calls),
        failed=len(calls) - len(answered),
        prompt_tokens=sum(call.prompt_tokens or 0 for call in calls),
        completion_tokens=sum(call.completion_tokens or 0 for call in calls),
        unmetered=sum(call.prompt_tokens is None for call in answered),
    )
