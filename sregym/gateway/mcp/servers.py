"""One MCP server a mount. The names of mounts, tools and parameters are those that agents of this field know."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_http_request

from sregym.events import Emit
from sregym.gateway.mcp.app import Place
from sregym.gateway.mcp.changing import Done
from sregym.gateway.mcp.observing import jaeger_server, loki_server, prometheus_server
from sregym.gateway.mcp.sessions import session_of
from sregym.gateway.mcp.toolbox import Toolbox, Troubled
from sregym.gateway.upstream import Upstream

Server = FastMCP[Any]

logging.getLogger("fastmcp").setLevel(logging.CRITICAL)  # refusals are answers, not news
logging.getLogger("mcp").setLevel(logging.CRITICAL)


def servers(place: Place, upstream: Upstream, emit: Emit) -> Mapping[str, Server]:
    """The servers by their mounts; one more mount is one more line here, and its name in `app`."""
    toolbox = Toolbox.of(place, upstream, emit)
    submit = _submit_server(toolbox)
    made: dict[str, Server] = {
        "kubectl": _kubectl_server(toolbox),
        "prometheus": prometheus_server(toolbox),
        "jaeger": jaeger_server(toolbox),
        "loki": loki_server(toolbox),
        "node": _node_server(toolbox),
        "submit": submit,
    }
    for name, server in made.items():
        if name != "submit":
            _add_read_more(server, toolbox)
    return {**made, "submit_mcp": submit}


def _kubectl_server(toolbox: Toolbox) -> Server:
    server: Server = FastMCP("kubectl")
    changing, answers = toolbox.changing, toolbox.answers

    @server.tool(output_schema=None)
    async def exec_kubectl_cmd_safely(cmd: str) -> str:
        """Run one kubectl command, such as `kubectl get pods -n shop`, and read its output.

        There is no shell: no pipes, redirections, variables or second command; no terminal (edit, exec -it), no files.
        A manifest goes behind the command: `kubectl apply -f - <<EOF`, its lines, and `EOF`. What changes something is
        tried by a dry run on the server first, and can be taken back with rollback_command(); where that is not so
        (exec, rollout restart), the answer says it.
        """
        session = _session()

        async def work() -> str:
            done = await changing.run(cmd, session)
            return answers.text(done.output, **_facts(done))

        return await _ended(toolbox.call("exec_kubectl_cmd_safely", work))

    @server.tool(output_schema=None)
    async def rollback_command() -> str:
        """Take back the newest change that this session has made with kubectl, and compare with what was before."""
        session = _session()

        async def work() -> str:
            done = await changing.roll_back(session)
            return answers.text(done.output, **_facts(done))

        return await _ended(toolbox.call("rollback_command", work))

    @server.tool(output_schema=None)
    async def get_previous_rollbackable_cmd() -> str:
        """Show the command that rollback_command() would take back."""
        session = _session()

        async def work() -> str:
            change = changing.newest(session)
            if change is None:
                return json.dumps({"command": None, "other_sessions": changing.others(session)})
            return json.dumps({"command": change.command, "at": change.at, "warning": change.warning or None})

        return await _ended(toolbox.call("get_previous_rollbackable_cmd", work))

    return server


def _submit_server(toolbox: Toolbox) -> Server:
    server: Server = FastMCP("submit")

    @server.tool(output_schema=None)
    async def submit(ans: str) -> str:
        """Hand in an answer: first the diagnosis in words; later "" to say that the incident is mitigated."""

        async def work() -> str:
            status, said = await toolbox.coordinator.ask("POST", "/submit", {"solution": ans})
            return json.dumps({"status": str(status), **said} if isinstance(said, dict) else {"status": str(status)})

        return await _ended(toolbox.call("submit", work))

    return server


def _node_server(toolbox: Toolbox) -> Server:
    server: Server = FastMCP("node")

    async def ask(method: str, path: str, body: dict[str, Any] | None = None) -> str:
        status, said = await toolbox.coordinator.ask(method, path, body)
        if status == 200 and isinstance(said, dict) and "text" in said:
            return toolbox.answers.text(str(said.pop("text")), **said)
        return json.dumps(said, ensure_ascii=False)

    @server.tool(output_schema=None)
    async def get_nodes() -> str:
        """List the nodes that run_on_node works on, and its operations with their parameters."""
        return await _ended(toolbox.call("get_nodes", lambda: ask("GET", "/nodes")))

    @server.tool(output_schema=None)
    async def run_on_node(node: str, op: str, parameters: dict[str, Any] | None = None) -> str:
        """Do one operation on a node, such as op="disk-free"; get_nodes() lists operations and their parameters."""
        if not node or not all(char.isalnum() or char in "-." for char in node):
            raise ToolError(json.dumps({"error": "there is no such node; get_nodes() lists them"}))
        body = {**(parameters or {}), "op": op}
        return await _ended(toolbox.call("run_on_node", lambda: ask("POST", f"/nodes/{node}", body)))

    return server


def _add_read_more(server: Server, toolbox: Toolbox) -> None:
    @server.tool(output_schema=None)
    async def read_more(cursor: str) -> str:
        """Show what is left of an answer that ended with a cursor."""
        return await _ended(toolbox.more(cursor))


def _facts(done: Done) -> dict[str, Any]:
    return {**({"undo": done.undo} if done.undo else {}), **(done.facts or {})}


def _session() -> str:
    return session_of(get_http_request().scope)


async def _ended(call: Any) -> str:
    """What a call said. Raises ToolError, which the agent sees as an error of the tool."""
    try:
        return str(await call)
    except Troubled as trouble:
        raise ToolError(str(trouble)) from None
