"""fastmcp-tasks: `call_tool_task` and `await task.result()` on a fastmcp Client, as the documentation of background tasks shows.

`task.wait(timeout=…)` would bound the wait; `result()` is what gives the result, and is unbounded by its own documentation, which says
that the caller bounds it with `wait`. Here the caller does: `wait(timeout=deadline)`, then `result()`.
"""

from fastmcp import Client
from fastmcp.exceptions import ToolError
from fastmcp_tasks.client import call_tool_task

from conformance.loop import run
from conformance.stage import Stage, Told, word_of

NAME = "fastmcp-tasks"
DIALECT = "mcp-tasks"
OFFERS = ("submit",)
PACKAGES = ("fastmcp", "fastmcp-tasks", "mcp")
CONFIGURATION = "task = await call_tool_task(client, …); await task.wait(timeout=deadline); await task.result()"


async def _wait(stage: Stage) -> Told:
    async with Client(f"{stage.base}/mcp", auth=stage.key) as client:
        task = await call_tool_task(client, "render", {})
        try:
            last = await task.wait(timeout=stage.deadline)
        except TimeoutError as error:
            return Told("timed_out", word_of(error))
        try:
            await task.result()
        except ToolError as error:
            return Told("failed" if last.status in ("failed", "cancelled") else "stopped", word_of(error))
    return Told("succeeded")


def wait(stage: Stage) -> Told:
    """Calls the tool as a task and takes its result."""
    return run(_wait(stage))
