"""One frozen tree of settings: the only place that reads the environment.

Filled once in `main.py` and handed down; nobody fetches a setting from anywhere else. Names of the environment are
those that users of the benchmark rely on (docs/settings.md lists them).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import platformdirs
from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from sregym.errors import PrerequisiteError

_FROZEN = SettingsConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class Paths(BaseSettings):
    """Where things are kept on this machine."""

    model_config = _FROZEN
    cache: Path = Field(
        default_factory=lambda: Path(platformdirs.user_cache_dir("sregym")), validation_alias="SREGYM_CACHE_DIR"
    )
    """Builds and images: may be deleted at any time, costs a rebuild."""
    state: Path = Field(
        default_factory=lambda: Path(platformdirs.user_state_dir("sregym")), validation_alias="SREGYM_STATE_DIR"
    )
    """Undo journals, kubeconfigs, leases: needed by `main.py recover`."""
    results: Path = Field(default=Path("results"), validation_alias="SREGYM_RESULTS_DIR")
    """One folder a run."""


class Ports(BaseSettings):
    """Ports on the coordinator's host. 0 = any free one. Defaults are the ones agents of this field expect."""

    model_config = _FROZEN
    bind_host: str = Field(default="127.0.0.1", validation_alias="API_BIND_HOST")
    api: int = Field(default=8000, validation_alias="API_PORT", ge=0, le=65535)
    mcp: int = Field(default=9954, validation_alias="MCP_SERVER_PORT", ge=0, le=65535)
    kube_proxy: int = Field(default=16443, validation_alias="KUBE_PROXY_PORT", ge=0, le=65535)


class Models(BaseSettings):
    """Which models, and the keys, which stay in the coordinator's process (the model relay adds them)."""

    model_config = _FROZEN
    agent_model: str | None = Field(default=None, validation_alias="AGENT_MODEL_ID")
    agent_api_base: str | None = Field(default=None, validation_alias="AGENT_API_BASE")
    agent_api_key: SecretStr | None = Field(default=None, validation_alias="AGENT_API_KEY")
    agent_reasoning_effort: str | None = Field(default=None, validation_alias="AGENT_REASONING_EFFORT")
    judge_model: str | None = Field(default=None, validation_alias="JUDGE_MODEL_ID")
    judge_api_base: str | None = Field(default=None, validation_alias="JUDGE_API_BASE")
    judge_api_key: SecretStr | None = Field(default=None, validation_alias="JUDGE_API_KEY")
    anthropic_api_key: SecretStr | None = Field(default=None, validation_alias="ANTHROPIC_API_KEY")
    openai_api_key: SecretStr | None = Field(default=None, validation_alias="OPENAI_API_KEY")
    gemini_api_key: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("GEMINI_API_KEY", "GOOGLE_API_KEY")
    )
    agent_api_protocols: str = Field(default="", validation_alias="AGENT_API_PROTOCOLS")
    """What the server at AGENT_API_BASE speaks, where that is more than chat completions: `chat,responses,messages`."""
    agent_input_price: float | None = Field(default=None, validation_alias="AGENT_INPUT_PRICE", ge=0)
    """USD per million tokens, for models that LiteLLM's table does not know; so are the next two."""
    agent_output_price: float | None = Field(default=None, validation_alias="AGENT_OUTPUT_PRICE", ge=0)
    agent_cached_price: float | None = Field(default=None, validation_alias="AGENT_CACHED_PRICE", ge=0)
    max_retries: int = Field(default=5, validation_alias="LLM_QUERY_MAX_RETRIES", ge=0)
    init_retry_delay_s: float = Field(default=1.0, validation_alias="LLM_QUERY_INIT_RETRY_DELAY", ge=0)

    def key_for(self, provider: str, *, public: bool) -> str | None:
        """The agent's key for a provider. A server at another address (not `public`) gets AGENT_API_KEY or none."""
        key = self.agent_api_key or (self.own_key(provider) if public else None)
        return key.get_secret_value() if key else None

    def own_key(self, provider: str) -> SecretStr | None:
        """The key that a provider gave, whoever asks."""
        own = {"anthropic": self.anthropic_api_key, "openai": self.openai_api_key, "gemini": self.gemini_api_key}
        return own.get(provider)


class Timeouts(BaseSettings):
    """Deadlines in seconds."""

    model_config = _FROZEN
    session_s: float = Field(default=1800.0, validation_alias="SREGYM_AGENT_TIMEOUT", gt=0)
    """The agent's whole session; cap of TTD and TTM (docs/results.md, "Times")."""
    app_ready_s: float = Field(default=600.0, validation_alias="WAIT_FOR_POD_READY_TIMEOUT", gt=0)
    healthy_phase_s: float = Field(default=120.0, validation_alias="SREGYM_HEALTHY_PHASE", ge=0)
    """How long load and telemetry run before the fault in graded attempts."""
    symptom_s: float = Field(default=120.0, validation_alias="SREGYM_SYMPTOM_TIMEOUT", gt=0)
    teardown_s: float = Field(default=180.0, validation_alias="SREGYM_TEARDOWN_BUDGET", gt=0)


class Settings(BaseSettings):
    """The tree. `Settings()` reads the environment; every value can be given as an argument in tests."""

    model_config = _FROZEN
    paths: Paths = Field(default_factory=Paths)
    ports: Ports = Field(default_factory=Ports)
    models: Models = Field(default_factory=Models)
    timeouts: Timeouts = Field(default_factory=Timeouts)

    def __init__(self, **values: Any) -> None:
        """Raises PrerequisiteError where the environment holds something that cannot be."""
        try:
            super().__init__(**values)
        except ValidationError as error:
            wrong = [f"{'.'.join(map(str, one['loc']))}={one['input']}: {one['msg']}" for one in error.errors()]
            raise PrerequisiteError("; ".join(wrong), cure="change or unset it in the environment") from error


_SECRET_NAMES = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_CREDENTIALS")


def secrets_in_environment() -> set[str]:
    """Values that must never be written down: every variable with the name of a secret (providers' keys are many)."""
    return {value for name, value in os.environ.items() if value and name.upper().endswith(_SECRET_NAMES)}


def keep_litellm_offline() -> None:
    """Call before LiteLLM is imported: it would fetch a price list from the internet; the one it comes with will do."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
