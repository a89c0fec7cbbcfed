"""fastmcp-tasks: `await client.call_tool(…, timeout=deadline)` on a fastmcp Client, which drives a task to its end by itself.

The documentation of background tasks shows this call; its timeout is one limit for the whole drive, says fastmcp_tasks.client.
"""

import fastmcp_tasks.client  # noqa: F401 - registers tasks with every Client
from fastmcp import Client
from fastmcp.exceptions import ToolError

from conformance.loop import run
from conformance.stage import Stage, Told, word_of

NAME = "fastmcp-tasks"
DIALECT = "mcp-tasks"
OFFERS = ("deadline", "submit")
PACKAGES = ("fastmcp", "fastmcp-tasks", "mcp")
CONFIGURATION = "await client.call_tool(name, {}, timeout=deadline) on a Client with the defaults (tasks are on)"


async def _wait(stage: Stage) -> Told:
    async with Client(f"{stage.base}/mcp", auth=stage.key) as client:
        try:
            await client.call_tool("render", {}, timeout=stage.deadline)
        except TimeoutError as error:
            return Told("timed_out", word_of(error))
        except ToolError as error:
            return Told("stopped" if "requires input" in str(error) else "failed", word_of(error))
    return Told("succeeded")


def wait(stage: Stage) -> Told:
    """Calls the tool as a task and takes its result."""
    return run(_wait(stage))
