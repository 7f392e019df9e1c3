"""Chooses the judge of a run. One judge grades all its attempts, whatever model the agent uses."""

from __future__ import annotations

from fractions import Fraction

from pydantic import SecretStr

from sregym.errors import PrerequisiteError
from sregym.events import Emit, silent
from sregym.judge.checklist import DEFAULT_TAU
from sregym.judge.completion import Complete, complete
from sregym.judge.contract import Judge
from sregym.judge.llm import LlmJudge
from sregym.judge.offline import OfflineJudge
from sregym.settings import Models

OFFLINE = "offline"
DEFAULT_MODEL = "anthropic/claude-sonnet-4-6"
"""The judge of the benchmark's paper, so that scores can be read against it."""
_LOCAL = "local/"


def make_judge(
    models: Models,
    *,
    model: str | None = None,
    tau: Fraction = DEFAULT_TAU,
    complete: Complete = complete,
    emit: Emit = silent,
) -> Judge:
    """The judge that is asked for, or set, or the default model where its key is there, else the offline judge.

    Args:
        model: `offline`, `local/NAME` (an OpenAI-compatible server at JUDGE_API_BASE), or LiteLLM's name of a model.

    Raises:
        PrerequisiteError: The model cannot be used: its key or address is missing, or tau is no share.
    """
    if not 0 < tau <= 1:
        raise PrerequisiteError(f"tau is {tau}", cure="choose a threshold above 0 and up to 1, e.g. 7/9")
    chosen = model or models.judge_model or (DEFAULT_MODEL if models.anthropic_api_key else OFFLINE)
    if chosen == OFFLINE:
        return OfflineJudge(tau=tau)
    return LlmJudge(
        name=chosen,
        model=f"openai/{chosen.removeprefix(_LOCAL)}" if chosen.startswith(_LOCAL) else chosen,
        api_base=models.judge_api_base,
        api_key=_key(models, chosen),
        tau=tau,
        max_retries=models.max_retries,
        init_retry_delay_s=models.init_retry_delay_s,
        complete=complete,
        emit=emit,
    )


def _key(models: Models, model: str) -> SecretStr | None:
    """The key for a model. Other providers than these read theirs from the environment, through LiteLLM."""
    if model.startswith(_LOCAL):
        if not models.judge_api_base:
            raise PrerequisiteError(f"the judge {model} has no address", cure="set JUDGE_API_BASE to its server's URL")
        return models.judge_api_key or SecretStr("none")
    if models.judge_api_key:
        return models.judge_api_key
    known = {
        "anthropic/": (models.anthropic_api_key, "ANTHROPIC_API_KEY"),
        "openai/": (models.openai_api_key, "OPENAI_API_KEY"),
        "gpt-": (models.openai_api_key, "OPENAI_API_KEY"),
        "gemini/": (models.gemini_api_key, "GEMINI_API_KEY"),
    }
    for prefix, (key, variable) in known.items():
        if model.startswith(prefix):
            if key is None and not models.judge_api_base:
                cure = f"set {variable} or JUDGE_API_KEY, or use --judge-model {OFFLINE}"
                raise PrerequisiteError(f"the judge {model} has no key", cure=cure)
            return key
    return None
