"""The incident desk: what application is on call, and where diagnosis and mitigation are handed in."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from typing import Any

PATIENCE_S = 300.0
PAUSE_S = 1.0


def base_url() -> str:
    return f"http://{os.environ['API_HOSTNAME']}:{os.environ['API_PORT']}"


def call(path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """One request; waits while the desk is not ready or cannot be reached. Raises RuntimeError on a refusal."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    give_up = time.monotonic() + PATIENCE_S
    while True:
        request = urllib.request.Request(base_url() + path, data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                answer: dict[str, Any] = json.load(reply)
                return answer
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            if error.code not in (502, 503) or time.monotonic() > give_up:
                raise RuntimeError(f"{path}: {error.code}: {text}") from error
        except OSError as error:
            if time.monotonic() > give_up:
                raise RuntimeError(f"{path}: {error}") from error
        time.sleep(PAUSE_S)


def app() -> dict[str, Any]:
    """app_name, namespace, namespaces, descriptions."""
    return call("/get_app")


def diagnose(text: str) -> None:
    """Hand in what is wrong and why."""
    say(f"diagnosis: {text}")
    say(f"-> {call('/submit', {'solution': text, 'stage': 'diagnosis'})}")


def mitigated() -> None:
    """Say that the incident is over."""
    say(f"mitigation -> {call('/submit', {'solution': '', 'stage': 'mitigation'})}")


def say(text: str) -> None:
    print(text, flush=True)
