"""The judge that asks a model: one call, a strict answer, asked again where the answer is no answer.

A judge that cannot be reached, or that goes on answering nonsense, is a JudgeError: the diagnosis is UNSCORED, never
failed. Nothing of a model's answer is repaired or guessed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from fractions import Fraction

import stamina
from pydantic import BaseModel, ConfigDict, SecretStr, StrictBool, ValidationError

from sregym.errors import JudgeError
from sregym.events import Emit, silent
from sregym.judge import prompt
from sregym.judge.checklist import CHECKLIST, DEFAULT_TAU
from sregym.judge.completion import Complete, Completion, CompletionRequest, TransientError, complete
from sregym.judge.contract import Answer, Fingerprint, JudgeInput, Judgement, JudgeUsage, judged

_LONGEST_WAIT_S = 60.0

# Retries are told of by events; stamina's own hook would print each of them on standard output, amid tables and JSON.
stamina.instrumentation.set_on_retry_hooks(())


class _AnswerModel(BaseModel):
    model_config = ConfigDict(extra="ignore")
    question: str
    yes: StrictBool
    reason: str


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore")
    answers: list[_AnswerModel]


class MalformedAnswer(TransientError):
    """The model answered, but not with one entry for each question."""


@dataclass(frozen=True, kw_only=True)
class LlmJudge:
    """Satisfies `Judge`. `model` is LiteLLM's name of it; `name` is what users call it (`local/NAME`)."""

    name: str
    model: str
    api_base: str | None = None
    api_key: SecretStr | None = None
    tau: Fraction = DEFAULT_TAU
    max_retries: int = 5
    init_retry_delay_s: float = 1.0
    complete: Complete = complete
    emit: Emit = field(default=silent)

    def fingerprint(self) -> Fingerprint:
        return Fingerprint(
            judge=self.name,
            model=self.model,
            checklist=CHECKLIST.digest(),
            prompt=prompt.digest(),
            rules="",
            tau=str(self.tau),
        )

    async def grade(self, question: JudgeInput) -> Judgement:
        spent: list[Completion] = []
        retries = stamina.retry_context(
            on=self._worth_another_try,
            attempts=self.max_retries + 1,
            timeout=None,
            wait_initial=self.init_retry_delay_s,
            wait_max=max(_LONGEST_WAIT_S, self.init_retry_delay_s),
        )
        try:
            async for attempt in retries:
                with attempt:
                    answers = await self._ask(question, spent)
        except TransientError as error:
            raise JudgeError(f"no usable answer after {self.max_retries + 1} tries; last: {error}") from error
        return judged(answers, fingerprint=self.fingerprint(), tau=self.tau, usage=_sum(spent))

    async def _ask(self, question: JudgeInput, spent: list[Completion]) -> list[Answer]:
        request = CompletionRequest(
            model=self.model,
            system=prompt.SYSTEM,
            user=prompt.user_message(question, fence=prompt.new_fence()),
            api_base=self.api_base,
            api_key=self.api_key,
        )
        reply = await self.complete(request)
        spent.append(reply)
        return parse(reply.text)

    def _worth_another_try(self, error: Exception) -> bool:
        if isinstance(error, TransientError):
            self.emit("judge.retry", judge=self.name, reason=str(error))
            return True
        return False


def parse(text: str) -> list[Answer]:
    """The answers in a model's reply. Raises MalformedAnswer unless every question has exactly one."""
    start = text.find("{")
    try:
        body, _ = json.JSONDecoder().raw_decode(text, max(start, 0))
        reply = _Reply.model_validate(body)
    except (ValueError, ValidationError, RecursionError) as error:
        raise MalformedAnswer(f"the answer is not the JSON that was asked for: {text[:120]!r}") from error
    given = [one.question for one in reply.answers]
    wanted = [one.id for one in CHECKLIST.questions]
    if sorted(given) != sorted(wanted):
        raise MalformedAnswer(f"the answer covers {given}, but the questions are {wanted}")
    return [Answer(question=one.question, yes=one.yes, reason=one.reason.strip()) for one in reply.answers]


def _sum(spent: list[Completion]) -> JudgeUsage:
    costs = [one.cost_usd for one in spent if one.cost_usd is not None]
    return JudgeUsage(
        calls=len(spent),
        tokens_in=sum(one.tokens_in for one in spent),
        tokens_out=sum(one.tokens_out for one in spent),
        cost_usd=sum(costs) if spent and len(costs) == len(spent) else None,
    )
