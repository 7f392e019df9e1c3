"""The lines that a run prints, byte for byte as OpenEnv submissions expect them.

[START] task=<task> env=<env> model=<model>
[STEP] step=<n> action=<tool>(<json>) reward=<0.00> done=<true|false> error=<text|null>
[END] success=<true|false> steps=<n> rewards=<r1,r2,...>
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def start(*, task: str, env: str, model: str) -> str:
    """The first line."""
    return f"[START] task={_one_line(task)} env={_one_line(env)} model={_one_line(model)}"


def step(*, number: int, tool: str, arguments: Mapping[str, Any], reward: float, done: bool, error: str | None) -> str:
    """One line a step. JSON without spaces, keys in the order the agent gave them."""
    call = f"{_one_line(tool)}({json.dumps(dict(arguments), separators=(',', ':'), ensure_ascii=False)})"
    said = "null" if error is None else _one_line(error)
    return f"[STEP] step={number} action={call} reward={reward:.2f} done={_bool(done)} error={said}"


def end(*, success: bool, rewards: Sequence[float]) -> str:
    """The last line."""
    listed = ",".join(f"{reward:.2f}" for reward in rewards)
    return f"[END] success={_bool(success)} steps={len(rewards)} rewards={listed}"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _one_line(text: str) -> str:
    return " ".join(text.split())
