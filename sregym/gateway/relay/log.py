"""The record of model calls: a line each in `model_calls.jsonl`, and what was said in `model_bodies.jsonl.gz`.

Lines are appended whole; bodies are one gzip member a call, so that a kill costs the last one at most.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from sregym.gateway.models import (
    BODIES_FILE,
    BUDGET_SPENT,
    BYTES_PER_TOKEN,
    CALLS_FILE,
    Budget,
    ModelCall,
    Protocol,
    Tokens,
    calls_in,
)
from sregym.gateway.relay.prices import Prices
from sregym.gateway.relay.redaction import Redactor

MOST_OF_A_BODY = 1024 * 1024
"""Bytes of one request or answer that are kept; a conversation of a long session stays below it."""
MOST_BODIES = 128 * 1024 * 1024
"""Bytes of the bodies' file; calls after that have their line only."""


class Kept:
    """The first bytes of a body, and how many it had."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        self._data += data[: MOST_OF_A_BODY - len(self._data)]

    def text(self, redactor: Redactor) -> str:
        """What is kept, without secrets; a cut body says so."""
        left_out = self.total - len(self._data)
        if not left_out:
            return redactor.record(bytes(self._data))
        whole = bytes(self._data[: len(self._data) - redactor.longest])  # the cut may have gone through a secret
        return redactor.record(whole) + f"... and {self.total - len(whole)} bytes more"


@dataclass(kw_only=True)
class Call:
    """Measures one call and writes its record once, whatever becomes of it."""

    model: str
    protocol: Protocol
    streaming: bool
    translated: bool
    path: str
    _write: Callable[[Call, int, str | None], None]
    request: Kept = field(default_factory=Kept)
    answer: Kept = field(default_factory=Kept)
    tokens: Tokens = field(default_factory=Tokens)
    started: float = field(default_factory=time.monotonic)
    _written: bool = False

    def see(self, tokens: Tokens) -> None:
        self.tokens = self.tokens.later(tokens)

    def done(self, status: int, error: str | None = None) -> None:
        """Write the record. A second call is without effect."""
        if not self._written:
            self._written = True
            self._write(self, status, error)


class CallLog:
    """The calls of one attempt: written down, and added up for its budget."""

    def __init__(self, folder: Path, *, model: str, budget: Budget, prices: Prices, redactor: Redactor) -> None:
        self._calls = folder / CALLS_FILE
        self._bodies = folder / BODIES_FILE
        self._model = model
        self._budget = budget
        self._prices = prices
        self._redactor = redactor
        before = calls_in(folder)  # of a process that died
        self._number = len(before)
        self._tokens = sum(call.budget_tokens for call in before)
        self._cost = sum(call.cost_usd or call.charged_usd or 0.0 for call in before)

    def begin(self, *, protocol: Protocol, streaming: bool, translated: bool, path: str, request: bytes) -> Call:
        """A call that is about to be made."""
        call = Call(
            model=self._model,
            protocol=protocol,
            streaming=streaming,
            translated=translated,
            path=path,
            _write=self._write,
        )
        call.request.add(request)
        return call

    @property
    def budget_is_spent(self) -> bool:
        return self._budget.spent(self._cost, self._tokens)

    def refused(self, *, protocol: Protocol, streaming: bool, status: int) -> None:
        """A call that was not made because the budget is spent."""
        self._append(
            ModelCall(
                number=self._next(),
                at=_now(),
                model=self._model,
                protocol=protocol.value,
                stream=streaming,
                status=status,
                seconds=0.0,
                error=BUDGET_SPENT,
                refused=True,
            )
        )

    def _write(self, call: Call, status: int, error: str | None) -> None:
        tokens = call.tokens
        line = ModelCall(
            number=self._next(),
            at=_now(),
            model=self._model,
            protocol=call.protocol.value,
            translated=call.translated,
            stream=call.streaming,
            status=status,
            seconds=round(time.monotonic() - call.started, 3),
            prompt_tokens=tokens.prompt,
            completion_tokens=tokens.completion,
            cached_tokens=tokens.cached,
            reasoning_tokens=tokens.reasoning,
            cost_usd=self._prices.cost(tokens),
            request_bytes=call.request.total,
            answer_bytes=call.answer.total if status < 400 else 0,
            error=None if error is None else self._redactor.clean_text(error),
        )
        if line.is_unmetered:
            estimate = Tokens(
                prompt=line.request_bytes // BYTES_PER_TOKEN, completion=line.answer_bytes // BYTES_PER_TOKEN
            )
            line = replace(line, charged_usd=self._prices.cost(estimate))
        self._tokens += line.budget_tokens
        self._cost += line.cost_usd or line.charged_usd or 0.0
        self._append(line)
        self._keep(line.number, call)

    def _append(self, line: ModelCall) -> None:
        with self._calls.open("a", encoding="utf-8") as file:
            file.write(line.line())

    def _keep(self, number: int, call: Call) -> None:
        if self._bodies.exists() and self._bodies.stat().st_size > MOST_BODIES:
            return
        body = {
            "number": number,
            "path": self._redactor.record(call.path.encode()),
            "request": call.request.text(self._redactor),
            "answer": call.answer.text(self._redactor),
        }
        with self._bodies.open("ab") as file:
            file.write(gzip.compress(json.dumps(body).encode() + b"\n", compresslevel=4))

    def _next(self) -> int:
        self._number += 1
        return self._number


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
