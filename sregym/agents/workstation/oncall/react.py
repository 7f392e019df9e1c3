"""A model in a loop with one tool, a shell; it speaks plain OpenAI chat completions. Ends when the incident is handed
in, or when the model has nothing more to do.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from . import desk

MOST_TURNS = 80
MOST_OUTPUT = 12_000
COMMAND_WITHIN_S = 120.0
ANSWER_WITHIN_S = 600.0
TRIES = 5
FIRST_PAUSE_S = 2.0

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "bash",
            "description": "Run a command in a shell with kubectl, jq and curl. Returns its status, stdout and stderr.",
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string", "description": "The command."}},
                "required": ["command"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "submit",
            "description": (
                "Hand in. First call: the diagnosis, as text (which components, what is wrong with them, how that leads"
                " to what users see). Second call, once the application serves again: an empty text."
            ),
            "parameters": {
                "type": "object",
                "properties": {"solution": {"type": "string", "description": "The text."}},
                "required": ["solution"],
            },
        },
    },
]

TASK = """You are the engineer on call. The application {app_name} (Kubernetes namespaces: {namespaces}) has an
incident: its users see failures or delays. {descriptions}

Find the root cause with the shell, then hand in your diagnosis with the tool `submit`. After that repair the incident
so that it stays repaired, check that the application serves again, and call `submit` with an empty text. Look before
you change anything. Do not ask questions: nobody is there to answer."""


def complete(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """One answer of the model. Raises RuntimeError where none comes."""
    body: dict[str, Any] = {"model": os.environ["AGENT_MODEL_ID"], "messages": messages, "tools": TOOLS}
    if effort := os.environ.get("AGENT_REASONING_EFFORT"):
        body["reasoning_effort"] = effort
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ['AGENT_API_KEY']}"}
    url = os.environ["AGENT_API_BASE"] + "/chat/completions"
    pause = FIRST_PAUSE_S
    for attempt in range(1, TRIES + 1):
        try:
            request = urllib.request.Request(url, data=json.dumps(body).encode(), headers=headers)
            with urllib.request.urlopen(request, timeout=ANSWER_WITHIN_S) as reply:
                message: dict[str, Any] = json.load(reply)["choices"][0]["message"]
                return message
        except urllib.error.HTTPError as error:
            said = f"{error.code}: {error.read().decode(errors='replace')[:1000]}"
            if error.code < 500 and error.code not in (408, 409, 429):
                raise RuntimeError(f"the model refused: {said}") from error
        except (OSError, ValueError, KeyError, IndexError) as error:
            said = repr(error)
        desk.say(f"no answer from the model ({attempt} of {TRIES}): {said}")
        time.sleep(pause)
        pause *= 2
    raise RuntimeError("no answer from the model")


def run_command(command: str) -> str:
    """Run it; output is cut in the middle where it is long."""
    try:
        done = subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_WITHIN_S,
            check=False,
        )
        said = f"status {done.returncode}\n{done.stdout}{done.stderr}"
    except subprocess.TimeoutExpired:
        said = f"not done within {COMMAND_WITHIN_S:g} s"
    if len(said) > MOST_OUTPUT:
        half = MOST_OUTPUT // 2
        said = f"{said[:half]}\n... {len(said) - MOST_OUTPUT} characters left out ...\n{said[-half:]}"
    return said


def submit(solution: str) -> str:
    try:
        return json.dumps(desk.call("/submit", {"solution": solution}))
    except RuntimeError as error:
        return str(error)


def use(call: dict[str, Any]) -> str:
    """Carry out one tool call; what is wrong with it is told to the model."""
    name = call["function"]["name"]
    try:
        arguments = json.loads(call["function"]["arguments"] or "{}")
        if name == "bash":
            return run_command(str(arguments["command"]))
        if name == "submit":
            return submit(str(arguments["solution"]))
    except (ValueError, KeyError, TypeError) as error:
        return f"bad arguments: {error!r}"
    return f"there is no tool {name}"


def is_over() -> bool:
    return desk.call("/status")["stage"] not in ("diagnosis", "mitigation")


def main() -> None:
    app = desk.app()
    messages: list[dict[str, Any]] = [{"role": "user", "content": TASK.format(**app)}]
    record = Path(os.environ["AGENT_LOGS_DIR"]) / "messages.jsonl"
    with record.open("a", encoding="utf-8") as log:
        log.write(json.dumps(messages[0]) + "\n")
        for _ in range(MOST_TURNS):
            answer = complete(messages)
            turn = [{"role": "assistant", **{k: v for k, v in answer.items() if k in ("content", "tool_calls")}}]
            for call in answer.get("tool_calls") or []:
                turn.append({"role": "tool", "tool_call_id": call["id"], "content": use(call)})
            messages += turn
            log.writelines(json.dumps(message) + "\n" for message in turn)
            log.flush()
            if is_over() or not answer.get("tool_calls"):
                return


if __name__ == "__main__":
    main()
