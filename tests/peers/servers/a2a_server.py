"""An A2A agent whose tasks do what the message says (a2a-sdk). Argument: the port."""

import asyncio
import sys

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers.default_request_handler_v2 import DefaultRequestHandlerV2
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.routes.rest_routes import create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, Part, Task, TaskState, TaskStatus
from starlette.applications import Starlette


class Executor(AgentExecutor):
    """Works for a second; then fails, asks, goes on for ever, or completes."""

    async def execute(self, context, queue):
        updater = TaskUpdater(queue, context.task_id, context.context_id)
        status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
        await queue.enqueue_event(Task(id=context.task_id, context_id=context.context_id, status=status))
        await updater.start_work()
        wanted = context.get_user_input()
        await asyncio.sleep(3600 if wanted == "for ever" else 1)
        if wanted == "fail":
            await updater.failed()
        elif wanted == "ask":
            await updater.requires_input()
        else:
            await updater.add_artifact([Part(text="here it is")])
            await updater.complete()

    async def cancel(self, context, queue):
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


card = AgentCard(
    name="agent",
    description="does what it is told",
    version="1",
    capabilities=AgentCapabilities(streaming=True),
    default_input_modes=["text"],
    default_output_modes=["text"],
)
handler = DefaultRequestHandlerV2(agent_executor=Executor(), task_store=InMemoryTaskStore(), agent_card=card)
routes = create_jsonrpc_routes(handler, "/rpc") + create_rest_routes(handler)
uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
