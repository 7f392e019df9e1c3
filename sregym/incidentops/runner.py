"""Lets a model play episodes through the client, with tool calls over an OpenAI-compatible endpoint (LiteLLM).

The model sees briefing and results, never rewards, scores or the name of the task. A reply without a usable tool
call costs a step with an explanation, as any wrong call does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from sregym.incidentops import transcript
from sregym.incidentops.models import IncidentObservation, ToolCallAction
from sregym.incidentops.server.tools import TOOLS
from sregym.incidentops.settings import RunnerSettings

SUCCESS = 0.95  # a score from here on counts as a solved incident
KEPT_MESSAGES = 60
SYSTEM = """You are the on-call site reliability engineer of a company with six services, and you are paged.
Work only with the tools, one call at a time; every call takes a minute. Look before you act: read alerts, logs,
metrics, settings and releases. Change as little as possible. After a change, run the health check until the
service is healthy, then call resolve_incident once with the root cause as `service: mechanism`."""


class Model(Protocol):
    """A chat model with tools: messages in, one assistant message (as a mapping) out."""

    name: str

    def reply(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        """The assistant's message: `content` and `tool_calls` as in the OpenAI API."""
        ...


class Session(Protocol):
    """What the runner needs of a client (`IncidentEnv(...).sync()`)."""

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode; the answer has `.observation`."""
        ...

    def step(self, action: ToolCallAction) -> Any:
        """One call; the answer has `.observation`, `.reward`, `.done`."""
        ...


class LiteLlmModel:
    """A model at the OpenAI-compatible endpoint of the settings, asked through LiteLLM, whatever its name is."""

    def __init__(self, settings: RunnerSettings) -> None:
        self.name = settings.model_name
        self._settings = settings

    def reply(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        """One completion, deterministic as far as the provider allows."""
        import litellm

        answer = litellm.completion(
            model=f"openai/{self.name}",
            api_base=self._settings.api_base_url,
            api_key=self._settings.hf_token.get_secret_value() or "none",
            messages=messages,
            tools=tools,
            temperature=0.0,
            num_retries=3,
        )
        message: dict[str, Any] = answer.choices[0].message.model_dump()
        return message


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """A played episode as the runner saw it."""

    score: dict[str, float] | None
    rewards: tuple[float, ...]

    @property
    def success(self) -> bool:
        """Whether the incident counts as solved."""
        return self.score is not None and self.score["score"] >= SUCCESS


def tool_schemas() -> list[dict[str, Any]]:
    """The ten tools in the form of the OpenAI API."""
    return [
        {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.schema()}}
        for t in TOOLS.values()
    ]


def play(
    session: Session,
    model: Model,
    *,
    reset: dict[str, Any],
    task: str,
    env: str,
    say: Callable[[str], None],
) -> Ended:
    """Play one episode and say its lines."""
    say(transcript.start(task=task, env=env, model=model.name))
    observation: IncidentObservation = session.reset(**reset).observation
    briefing = json.dumps(observation.incident, ensure_ascii=False)
    messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": briefing}]
    rewards: list[float] = []
    done = False
    while not done:
        reply = model.reply(messages, tool_schemas())
        call_id, action = chosen(reply)
        result = session.step(action)
        observation, done = result.observation, bool(result.done)
        rewards.append(float(result.reward or 0.0))
        say(
            transcript.step(
                number=observation.step,
                tool=action.tool_name,
                arguments=action.arguments,
                reward=rewards[-1],
                done=done,
                error=observation.error,
            )
        )
        messages += _exchange(reply, call_id, observation)
        messages = messages[:2] + messages[2:][-KEPT_MESSAGES:]
    ended = Ended(score=observation.score, rewards=tuple(rewards))
    say(transcript.end(success=ended.success, rewards=rewards))
    return ended


def chosen(reply: dict[str, Any]) -> tuple[str | None, ToolCallAction]:
    """The first tool call of a reply: from `tool_calls`, or from JSON in the text (models without tool calling)."""
    for call in reply.get("tool_calls") or []:
        function = call["function"]
        return str(call.get("id") or "call"), _action(str(function.get("name")), function.get("arguments"))
    text = str(reply.get("content") or "")
    start, stop = text.find("{"), text.rfind("}")
    if 0 <= start < stop:
        try:
            data = json.loads(text[start : stop + 1])
        except ValueError:
            data = None
        if isinstance(data, dict) and ("tool" in data or "tool_name" in data or "name" in data):
            name = data.get("tool") or data.get("tool_name") or data.get("name")
            return None, _action(str(name), data.get("arguments") or data.get("args") or {})
    return None, ToolCallAction(tool_name="no_tool_call", arguments={})


def _action(name: str, arguments: object) -> ToolCallAction:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            arguments = {"unreadable_arguments": str(arguments)[:200]}
    return ToolCallAction(tool_name=name[:64], arguments=arguments if isinstance(arguments, dict) else {})


def _exchange(reply: dict[str, Any], call_id: str | None, observation: IncidentObservation) -> list[dict[str, Any]]:
    seen: dict[str, Any] = {"result": observation.result} if observation.ok else {"error": observation.error}
    text = json.dumps(seen | {"clock": observation.clock, "steps_left": observation.steps_left}, ensure_ascii=False)
    said: dict[str, Any] = {"role": "assistant", "content": reply.get("content") or ""}
    if call_id is None:
        return [said, {"role": "user", "content": text}]
    said["tool_calls"] = (reply.get("tool_calls") or [])[:1]
    return [said, {"role": "tool", "tool_call_id": call_id, "content": text}]
