"""Tasks of MCP servers and A2A agents that nobody here wrote: submit, wait, result, failure, cancel.

The first test that needs them sets up the environment of the peers and, for the MCP reference server, its npm package.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sereno.core.escalation import Category
from sereno.core.operation import OperationState
from sereno.service.results import CopyState
from tests.peers.serving import HERE, free_port, node_module, opened, peer, python_of_peers, submitted, waited

pytestmark = pytest.mark.full

S = OperationState


@pytest.fixture(scope="module")
def fastmcp() -> Iterator[str]:
    """An MCP server of the extension era."""
    python, port = python_of_peers(), free_port()
    with peer([python, str(HERE / "servers/fastmcp_tasks_server.py"), str(port)], port) as origin:
        yield origin


@pytest.fixture(scope="module")
def everything() -> Iterator[str]:
    """The reference server of the era of sessions."""
    port = free_port()
    node, script = node_module("@modelcontextprotocol/server-everything/dist/index.js")
    with peer([node, script, "streamableHttp"], port, PORT=str(port)) as origin:
        yield origin


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    """An A2A agent."""
    python, port = python_of_peers(), free_port()
    with peer([python, str(HERE / "servers/a2a_server.py"), str(port)], port) as origin:
        yield origin


def port_of(origin: str) -> int:
    """The port of an origin."""
    return int(origin.rpartition(":")[2])


async def cancelled(app: Any, operation: str) -> Any:
    """Lets the job start, cancels it, and waits for its end."""
    await app.once()
    assert (await app.operations.get(operation)).operation.job_id
    await app.operations.cancel(operation)
    return await waited(app, operation)


async def kept(app: Any, operation: str) -> str:
    """The text of the result's copy, once its delivery is through."""
    await app.once()
    result = await app.results.get(operation)
    assert result.state is CopyState.KEPT, result
    return "".join([piece.decode() async for piece in app.results.read(result.parts[0].artifact.digest)])


async def test_fastmcp_tasks(fastmcp: str, tmp_path: Path) -> None:
    """The extension: one request a look, the result inlined and kept, a failed tool, a cancel."""
    name, base = "mcp-task-extension", f"{fastmcp}/mcp"
    async with opened(tmp_path, port_of(fastmcp)) as app:
        done = await submitted(app, name, {"name": "slow", "arguments": {"seconds": 1}}, base=base)
        failed = await submitted(app, name, {"name": "broken", "arguments": {"seconds": 1}}, base=base)
        long = await submitted(app, name, {"name": "slow", "arguments": {"seconds": 600}}, base=base)
        assert (await cancelled(app, long)).state is S.CANCELLED
        assert (await waited(app, done)).state is S.SUCCEEDED
        assert "here it is" in await kept(app, done)
        found = await waited(app, failed)
        assert found.state is S.FAILED and "out of paper" in (found.error_text or "")


async def test_mcp_reference_server(everything: str, tmp_path: Path) -> None:
    """The era of sessions: the job's session outlives the program that started it, and the result is asked for at the end."""
    name, base, port = "mcp-task", f"{everything}/mcp", port_of(everything)
    given = {"name": "simulate-research-query", "arguments": {"topic": "owls"}}
    async with opened(tmp_path, port) as app:
        done = await submitted(app, name, given, base=base)
        long = await submitted(app, name, given, base=base)
        assert (await cancelled(app, long)).state is S.CANCELLED
    async with opened(tmp_path, port) as app:
        found = await waited(app, done)
        assert (found.state, found.last_state) == (S.SUCCEEDED, "completed")
        assert found.parameters["session"] not in ("", "new")
        assert "owls" in await kept(app, done)


def message(text: str, number: str) -> dict[str, Any]:
    """A message to the agent, answered at once with its task."""
    said = {"messageId": number, "role": "ROLE_USER", "parts": [{"text": text}]}
    return {"message": said, "configuration": {"returnImmediately": True}}


@pytest.mark.parametrize(("contract", "path"), [("a2a-task", ""), ("a2a-task-jsonrpc", "/rpc")])
async def test_a2a(agent: str, tmp_path: Path, contract: str, path: str) -> None:
    """Both bindings: completed with an artifact, failed, asking, cancelled."""
    base = f"{agent}{path}"
    async with opened(tmp_path, port_of(agent)) as app:
        ids = {text: await submitted(app, contract, message(text, text), base=base) for text in ("do", "fail", "ask", "for ever")}
        assert (await cancelled(app, ids["for ever"])).state is S.CANCELLED
        assert (await waited(app, ids["do"])).state is S.SUCCEEDED
        assert "here it is" in await kept(app, ids["do"])
        assert (await waited(app, ids["fail"])).state is S.FAILED
        asking = await waited(app, ids["ask"])
        assert (asking.state, asking.category) == (S.ESCALATED, Category.NEEDS_INPUT)
