"""What an agent is told: its environment variables. The names are those of this field.

Nothing here may say what is broken, and no key is here: a model's key is added outside the container, so the one that
clients insist on is a dummy.
"""

from __future__ import annotations

from collections.abc import Mapping

from sregym.agents.container import HOME
from sregym.agents.spec import AgentSpec
from sregym.gateway.models import ModelAccess

NO_KEY = "not-needed"


def agent_environment(
    spec: AgentSpec,
    *,
    api_host: str,
    api_port: int,
    urls: Mapping[str, str],
    kubeconfig: str,
    logs: str,
    artifact: str,
    model: ModelAccess | None,
    model_url: str | None,
    reasoning_effort: str | None,
    proxy: str | None = None,
) -> dict[str, str]:
    """The agent's own variables come last and win, but for those that say where things are.

    Args:
        urls: Addresses of further doors, by the variables that hold them.
        proxy: The way to what is allowed beyond the gateway, where there is one.
    """
    told = {
        "KUBECONFIG": kubeconfig,
        "API_HOSTNAME": api_host,
        "API_PORT": str(api_port),
        **urls,
        "AGENT_LOGS_DIR": logs,
        "AGENT_VERSION": spec.version,
        "SREGYM_ARTIFACT_ID": artifact,
    }
    defaults = {"HOME": HOME, "TZ": "UTC", "LANG": "C.UTF-8"}
    if model and model_url:
        defaults |= _model_variables(model, model_url)
    if proxy:
        defaults |= _proxy_variables(proxy, api_host)
    if reasoning_effort:
        defaults["AGENT_REASONING_EFFORT"] = reasoning_effort
    return {**defaults, **spec.environment, **told}


def _model_variables(model: ModelAccess, url: str) -> dict[str, str]:
    """What clients of each protocol read; `url` ends in /v1, which all but OpenAI's add themselves."""
    root = url.removesuffix("/v1")
    return {
        "AGENT_MODEL_ID": model.model,
        "AGENT_API_BASE": url,
        "AGENT_API_KEY": NO_KEY,
        "OPENAI_BASE_URL": url,
        "OPENAI_API_BASE": url,
        "OPENAI_API_KEY": NO_KEY,
        "ANTHROPIC_BASE_URL": root,
        "ANTHROPIC_API_KEY": NO_KEY,
        "ANTHROPIC_MODEL": model.bare,
        "ANTHROPIC_SMALL_FAST_MODEL": model.bare,
        "GOOGLE_GEMINI_BASE_URL": root,
        "GEMINI_API_KEY": NO_KEY,
        "GEMINI_MODEL": model.bare,
    }


def _proxy_variables(proxy: str, gateway: str) -> dict[str, str]:
    """In both cases of letters, as programs differ; the gateway itself is reached directly."""
    variables = {name: proxy for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")}
    variables["NO_PROXY"] = f"{gateway},localhost,127.0.0.1"
    return {**variables, **{name.lower(): value for name, value in variables.items()}, "NODE_USE_ENV_PROXY": "1"}
