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
from sregym.llm import Asker, checked_key
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
    judge = Asker(
        who="judge",
        key=models.judge_api_key,
        api_base=models.judge_api_base,
        key_variable="JUDGE_API_KEY",
        base_variable="JUDGE_API_BASE",
        instead=OFFLINE,
    )
    return checked_key(model, judge, models)
