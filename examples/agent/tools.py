"""The same kubectl as an MCP tool, for frameworks that work with tools. Needs the package fastmcp."""

import asyncio
import json
import os

from fastmcp import Client


async def main() -> None:
    async with Client(os.environ["MCP_SERVER_URL"] + "/kubectl/mcp") as server:
        answer = await server.call_tool("exec_kubectl_cmd_safely", {"cmd": "kubectl get pods"})
        print(json.loads(answer.content[0].text)["output"])


asyncio.run(main())
