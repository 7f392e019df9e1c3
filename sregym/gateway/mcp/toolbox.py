"""What the tools work with, and how each call ends: JSON text, or an error that says what to do."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpcore

from sregym.errors import CommandError, PrerequisiteError
from sregym.events import Emit
from sregym.gateway.mcp.answers import Answers, BadCursor
from sregym.gateway.mcp.app import Place
from sregym.gateway.mcp.changing import Changing, Failed
from sregym.gateway.mcp.command import EXAMPLE, Refused
from sregym.gateway.mcp.kubectl import Kubectl, KubectlFailed
from sregym.gateway.telemetry.backend import Backend, BackendDown, TooLarge
from sregym.gateway.telemetry.log_store import LogStore, log_store
from sregym.gateway.telemetry.logql import EXAMPLE as LOGQL_EXAMPLE
from sregym.gateway.telemetry.logql import BadQuery
from sregym.gateway.upstream import Upstream

DESK_WITHIN_S = 60.0


class Troubled(Exception):
    """A call that failed; the text is the JSON for the agent."""


@dataclass(frozen=True, kw_only=True)
class Coordinator:
    """The submission API and the node tool, which live in the coordinator's process."""

    socket: Path
    token: str

    async def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """Status and JSON. Raises httpcore's errors, TimeoutError, ValueError."""
        content = b"" if body is None else json.dumps(body).encode()
        headers = [("host", "gateway"), ("authorization", f"Bearer {self.token}"), ("content-type", "application/json")]
        with anyio.fail_after(DESK_WITHIN_S):
            async with httpcore.AsyncConnectionPool(uds=str(self.socket)) as pool:
                answer = await pool.request(method, f"http://gateway{path}", headers=headers, content=content)
        return answer.status, json.loads(answer.content)


@dataclass(frozen=True, kw_only=True)
class Toolbox:
    """Made once for an attempt."""

    changing: Changing
    answers: Answers
    metrics: Backend
    traces: Backend
    logs: LogStore
    coordinator: Coordinator
    emit: Emit

    @classmethod
    def of(cls, place: Place, upstream: Upstream, emit: Emit) -> Toolbox:
        """The toolbox of an attempt."""
        telemetry = place.telemetry
        kubectl = Kubectl(program=place.kubectl, kubeconfig=place.kubeconfig, home=place.folder / "home")
        kubectl.home.mkdir(parents=True, exist_ok=True)
        return cls(
            changing=Changing(kubectl, place.folder / "undo", emit=emit),
            answers=Answers(place.folder / "answers"),
            metrics=Backend(upstream=upstream, namespace=telemetry.namespace, service=telemetry.metrics),
            traces=Backend(upstream=upstream, namespace=telemetry.namespace, service=telemetry.traces),
            logs=log_store(telemetry, upstream),
            coordinator=Coordinator(socket=place.api, token=place.token),
            emit=emit,
        )

    async def call(self, tool: str, work: Callable[[], Awaitable[str]]) -> str:
        """One call of a tool: recorded, its errors told in a way that helps. Raises Troubled."""
        begun = time.monotonic()
        error: str | None = None
        try:
            return await work()
        except Exception as problem:  # noqa: BLE001 - edge: one call's surprise must not end the server
            error, told = _told(problem)
            raise Troubled(json.dumps(told, ensure_ascii=False)) from None
        finally:
            self.emit("mcp.called", tool=tool, seconds=round(time.monotonic() - begun, 3), error=error)

    async def more(self, cursor: str) -> str:
        """What is left of an earlier answer."""

        async def work() -> str:
            return self.answers.more(cursor)

        return await self.call("read_more", work)


def _told(problem: Exception) -> tuple[str, dict[str, Any]]:
    """What is recorded, and what the agent is told."""
    said = str(problem)
    match problem:
        case Refused():
            return "refused", {"error": said, "example": EXAMPLE}
        case BadQuery():
            return "bad query", {"error": said, "example": LOGQL_EXAMPLE}
        case Failed() | KubectlFailed():
            return "failed", {"error": said}
        case BadCursor():
            return "bad cursor", {"error": said}
        case BackendDown():
            hint = "this part of the observability stack does not answer now; others and kubectl may"
            return f"down: {said}", {"error": f"unavailable: {said}", "hint": hint}
        case TooLarge():
            return "too large", {"error": "the answer is too large; ask for less, or for a shorter time"}
        case CommandError() | PrerequisiteError():
            return said, {"error": "kubectl cannot be run now; try again"}
        case httpcore.NetworkError() | httpcore.ProtocolError() | TimeoutError() | ValueError():
            return repr(problem), {"error": "this cannot be answered now; try again"}
        case _:
            return repr(problem), {"error": "an internal error; try again, or try it differently"}
