"""Settings of the standalone server and runner: the only reader of the environment in this package.

The package runs by itself (a Space, a container), so it cannot use the settings of the benchmark around it.
"""

from __future__ import annotations

from pathlib import Path

import platformdirs
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class ServerSettings(BaseSettings):
    """The server. Environment: INCIDENTOPS_<FIELD>, and MAX_CONCURRENT_ENVS as OpenEnv has it."""

    model_config = SettingsConfigDict(env_prefix="INCIDENTOPS_", frozen=True, extra="ignore", populate_by_name=True)
    host: str = "0.0.0.0"
    port: int = Field(default=7860, ge=0, le=65535)
    also_port: int = Field(default=0, ge=0, le=65535)
    """A second port to listen on; containers of OpenEnv are expected on 8000, Spaces on 7860. 0: none."""
    db: str = ""
    """SQLite file, `:memory:`, or empty: one file per port in the user's state folder."""
    max_sessions: int = Field(default=256, ge=1, validation_alias="MAX_CONCURRENT_ENVS")
    """Sessions of each kind (sockets; HTTP and MCP together)."""
    idle_s: float = Field(default=900.0, gt=0)
    """A session over HTTP or MCP that was not used for so long may be dropped (its episode stays in the file)."""
    max_body_bytes: int = Field(default=1_000_000, ge=1024)
    """Largest request body and socket message."""
    keep_episodes: int = Field(default=10_000, ge=1)
    """Finished episodes kept in the file; the oldest go first."""

    def database(self) -> str:
        """The path to open."""
        if self.db:
            return self.db
        folder = Path(platformdirs.user_state_dir("incidentops"))
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder / f"server-{self.port}.sqlite3")


class RunnerSettings(BaseSettings):
    """The agent runner (`inference.py`), with the names that OpenEnv submissions use."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", populate_by_name=True)
    hf_token: SecretStr = Field(default=SecretStr(""), validation_alias="HF_TOKEN")
    """Key for the model's endpoint."""
    model_name: str = Field(default="mistralai/Mistral-7B-Instruct-v0.2", validation_alias="MODEL_NAME")
    env_server_url: str = Field(default="http://localhost:7860", validation_alias="ENV_SERVER_URL")
    api_base_url: str = Field(default="https://router.huggingface.co/v1", validation_alias="API_BASE_URL")
    """An OpenAI-compatible endpoint. Every model is asked there, by the name that the endpoint has for it."""
