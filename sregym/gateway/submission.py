"""The submission API (port 8000 for agents): POST /submit, GET /status, GET /get_app, and what else is served there.

The shapes are those that agents of this field are written for (docs/agents.md, "What an agent is told"). Every refusal
says what to do instead; a body that is too large or no JSON is refused before the desk hears of it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sregym.gateway.desk import Outcome, Receipt, Stage, SubmissionDesk
from sregym.gateway.forwarding import forward

MAX_BODY = 256 * 1024
"""Bytes. A diagnosis is a few paragraphs; this leaves two orders of magnitude."""

_STATUS = {
    Outcome.ACCEPTED: 200,
    Outcome.OVER: 200,
    Outcome.REPEATED: 400,
    Outcome.WRONG_STAGE: 400,
    Outcome.NOT_READY: 503,
}


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    solution: str
    stage: Literal["diagnosis", "mitigation"] | None = None


class Refused(Exception):
    """A body that cannot be a submission."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def submission_app(desk: SubmissionDesk, *, beside: Sequence[Route] = ()) -> Starlette:
    """The API as an ASGI application, without the check of the token (see `sregym.gateway.web`).

    `beside` are routes of what the coordinator serves itself, too.
    """

    async def submit(request: Request) -> JSONResponse:
        try:
            body = _parse(await _read(request))
        except Refused as refused:
            return _answer(refused.status, refused.message)
        receipt = await desk.submit(Stage(body.stage) if body.stage else None, body.solution)
        return _reply(receipt)

    async def status(request: Request) -> JSONResponse:
        return JSONResponse({"stage": desk.status()})

    async def get_app(request: Request) -> JSONResponse:
        return JSONResponse(asdict(desk.app_info()))

    return Starlette(
        routes=[
            Route("/submit", submit, methods=["POST"]),
            Route("/status", status, methods=["GET"]),
            Route("/get_app", get_app, methods=["GET"]),
            *beside,
        ]
    )


def mcp_route(socket: Path) -> Route:
    """`/submit_mcp/...`: the MCP server of the submission API, which runs with the others behind `socket`."""

    async def handle(request: Request) -> Response:
        return await forward(request, socket)

    return Route("/submit_mcp/{rest:path}", handle, methods=["GET", "POST", "DELETE"])


async def _read(request: Request) -> bytes:
    """The body. Raises Refused where it is too large, without reading more than the limit."""
    too_large = Refused(413, f"The body is larger than {MAX_BODY} bytes. Submit a shorter text.")
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > MAX_BODY:
        raise too_large
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                raise too_large
    except ClientDisconnect:
        raise Refused(400, "The body ended early.") from None
    return bytes(body)


def _parse(raw: bytes) -> _Body:
    shape = 'It must be a JSON object {"solution": "text", "stage": "diagnosis" or "mitigation" (optional)}.'
    try:
        value: Any = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise Refused(400, f"The body is not UTF-8 text. {shape}") from None
    except (ValueError, RecursionError):
        raise Refused(400, f"The body is not JSON. {shape}") from None
    try:
        return _Body.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "body"
        raise Refused(400, f"{where}: {first['msg']}. {shape}") from None


def _reply(receipt: Receipt) -> JSONResponse:
    if receipt.outcome is Outcome.OVER:
        return JSONResponse({"status": "done", "message": receipt.message})
    return _answer(_STATUS[receipt.outcome], receipt.message, stage=receipt.stage)


def _answer(status: int, message: str, **more: str) -> JSONResponse:
    return JSONResponse({"status": str(status), "message": message, **more}, status_code=status)
