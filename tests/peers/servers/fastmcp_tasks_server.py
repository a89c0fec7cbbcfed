"""An MCP server with tools that run as tasks (fastmcp, fastmcp-tasks). Argument: the port."""

import asyncio
import sys

from fastmcp import FastMCP
from fastmcp_tasks import TasksExtension

server = FastMCP("tools")


@server.tool(task=True)
async def slow(seconds: float) -> str:
    """Takes its time."""
    await asyncio.sleep(seconds)
    return "here it is"


@server.tool(task=True)
async def broken(seconds: float) -> str:
    """Fails in the end."""
    await asyncio.sleep(seconds)
    raise ValueError("out of paper")


server.add_extension(TasksExtension())
server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
