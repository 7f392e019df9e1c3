"""The one call through LiteLLM, against a server on loopback that speaks the OpenAI API.

In a child process: LiteLLM takes seconds to import and starts things of its own that no other test should see.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.unit.judge.test_llm import RIGHT, reply

pytestmark = pytest.mark.timeout(180)

REPO = Path(__file__).parents[3]
CHILD = """
import asyncio, json, sys
from sregym.errors import JudgeError
from sregym.judge import make_judge
from sregym.settings import Models
from tests.unit.judge.truths import MISSING_KEY, ask

async def grade(address):
    judge = make_judge(Models(judge_api_base=address), model="local/tiny")
    try:
        judgement = await judge.grade(ask(sys.argv[1], MISSING_KEY))
    except JudgeError as error:
        return {"error": str(error)}
    return {"score": str(judgement.score), "tokens": judgement.usage.tokens_in, "judge": judgement.judge}

async def main():
    print(json.dumps([await grade(address) for address in sys.argv[2:]]))

asyncio.run(main())
"""


@contextmanager
def server(status: int, text: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Answers every request alike; yields its address and what it was asked."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append({"path": self.path, "key": self.headers["authorization"], **body})
            answer = {
                "id": "1",
                "object": "chat.completion",
                "created": 1,
                "model": "tiny",
                "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
                "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
            }
            payload = json.dumps(answer if status == 200 else {"error": {"message": "refused"}}).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: object) -> None:
            """Silent."""

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listener.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.server_port}/v1", asked
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()


def graded(*addresses: str) -> list[dict[str, Any]]:
    """What the child says of each address. One child for all: importing LiteLLM costs seconds of CPU."""
    known = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    env = {
        **known,
        "JUDGE_API_KEY": "sk-judge",
        "LLM_QUERY_MAX_RETRIES": "1",
        "LLM_QUERY_INIT_RETRY_DELAY": "0",
    }
    command = [sys.executable, "-c", CHILD, RIGHT, *addresses]
    done = subprocess.run(command, cwd=REPO, env=env, capture_output=True, text=True, timeout=170, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_an_answer_is_a_grade_a_refusal_is_final_and_an_outage_is_tried_again() -> None:
    with (
        server(200, reply()) as (well, asked),
        server(401, "") as (refusing, asked_in_vain),
        server(503, "") as (down, asked_again),
    ):
        grade, refusal, outage = graded(well, refusing, down)
    assert grade == {"score": "1", "tokens": 11, "judge": "local/tiny"}
    (one,) = asked
    assert (one["path"], one["key"], one["model"]) == ("/v1/chat/completions", "Bearer sk-judge", "tiny")
    assert one["temperature"] == 0
    assert RIGHT in one["messages"][1]["content"]
    assert "refuses" in refusal["error"]
    assert len(asked_in_vain) == 1
    assert "no usable answer after 2 tries" in outage["error"]
    assert len(asked_again) == 2
