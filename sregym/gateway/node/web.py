"""The node tool over HTTP, beside the submission API: GET /nodes, POST /nodes/NAME {"op": ..., ...}.

Every refusal says why. Answers are JSON: {"node", "op", "ok", "text"} and, where text was left out, "truncated".
"""

from __future__ import annotations

import json
from dataclasses import asdict

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from sregym.errors import ClusterError
from sregym.gateway.node.contract import Refused
from sregym.gateway.node.tool import NodeTool, NoSuchNode, NotHere, catalogue

MAX_BODY = 64 * 1024


def node_routes(tool: NodeTool | None) -> list[Route]:
    """The routes, without the check of the token. Without a tool they say that there is none here."""

    async def nodes(request: Request) -> JSONResponse:
        if tool is None or tool.cluster.node_shell is None:
            return _refusal(501, "this tool is not available here")
        return JSONResponse({"nodes": list(tool.workers), "operations": catalogue()})

    async def call(request: Request) -> JSONResponse:
        if tool is None:
            return _refusal(501, "this tool is not available here")
        try:
            body = await _json_object(request)
            answer = await tool.call(request.path_params["node"], body)
        except ValueError as error:
            return _refusal(400, str(error))
        except Refused as error:
            return _refusal(403, str(error))
        except NoSuchNode as error:
            return _refusal(404, str(error))
        except NotHere as error:
            return _refusal(501, str(error))
        except ClusterError as error:
            return _refusal(502, str(error))
        found = asdict(answer)
        return JSONResponse(found if answer.truncated else {k: v for k, v in found.items() if k != "truncated"})

    return [Route("/nodes", nodes, methods=["GET"]), Route("/nodes/{node}", call, methods=["POST"])]


async def _json_object(request: Request) -> dict[str, object]:
    """Raises ValueError."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                raise ValueError(f"the body is larger than {MAX_BODY} bytes")
    except ClientDisconnect:
        raise ValueError("the body ended early") from None
    try:
        value = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ValueError('the body must be a JSON object such as {"op": "disk-free"}') from None
    if not isinstance(value, dict):
        raise ValueError('the body must be a JSON object such as {"op": "disk-free"}')
    return value


def _refusal(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status_code=status)
