"""The MCP carrier on a loopback wire: both eras of tasks, sessions, event streams, and every request counted."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sereno.builtin.providers.mcp import McpProvider
from sereno.builtin.rpc import answer_to, header_text
from sereno.core.call import CallKind, CallOutcome
from sereno.core.contract import Contract
from sereno.core.errors import LeaseLost
from sereno.core.observation import HttpReply, NoReply, NoReplyKind, ObservationKind, Reply, read_observation
from sereno.core.operation import OperationState, read_call
from sereno.core.values import Json
from sereno.ports import BeforeHop
from tests.builtin.carrying import NOW, Hops, asked, call, contract, guarded, operation
from tests.outside.rawserver import RawServer, make_gate

OLD, NEW = "2025-11-25", "extension"
STARTING = operation("", job_id="", base="https://mcp.acme.example/mcp")


def tasks(era: str) -> Contract:
    """How a server's tasks are read."""
    return contract(
        {"via": "mcp", "url": "{base}", "era": era, "parameters": ["session"] if era == OLD else []},
        state={"path": "result.status"},
        states={"pending": ["working"], "success": ["completed"], "failure": ["failed"], "cancelled": ["cancelled"]},
        job={"id": "result.taskId"},
        submit={
            "effects": "runs a tool",
            "job_id": "result.task.taskId || result.taskId",
            "body": {"name": "render", "arguments": "{input}"},
            "parameters": {"session": "session"} if era == OLD else {},
        },
        cancel={"effects": "asks the tool to end", "too_late": ["400"]},
    )


@dataclass
class Server:
    """An MCP server of one task: answers by method, keeps what it was asked, forgets sessions when it is told to."""

    says: dict[str, Callable[[dict[str, Any]], Json]] = field(default_factory=dict)
    streams: bool = False
    status: dict[str, int] = field(default_factory=dict)
    version: str = OLD
    session: str = "s-1"
    lost: tuple[int, int | None] = (404, None)
    """How it says that it does not know a session: HTTP status and JSON-RPC code."""
    heads: list[dict[str, str]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)

    def methods(self) -> list[str]:
        """What was asked, in order."""
        return [message["method"] for message in self.messages]

    async def __call__(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        lines = [line.partition(": ") for line in head.decode().split("\r\n")[1:]]
        self.heads.append({name.lower(): value for name, _, value in lines})
        message = json.loads(body)
        self.messages.append(message)
        writer.write(self._answer(message, self.heads[-1]))

    def _answer(self, message: dict[str, Any], head: dict[str, str]) -> bytes:
        method, named = message["method"], head.get("mcp-session-id")
        if named is not None and named != self.session:
            status, code = self.lost
            error: Json = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": "no such session"}}
            return http(status, json.dumps(error) if code is not None else "")
        status = self.status.get(method, 200)
        if method == "initialize" and status == 200:
            result = {"protocolVersion": self.version, "capabilities": {"tasks": {}}, "serverInfo": {"name": "t", "version": "1"}}
            return http(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), session=self.session)
        if "id" not in message:
            return http(202, "")
        whole = json.dumps({"jsonrpc": "2.0", "id": message["id"], **self.says.get(method, working)(message)})  # type: ignore[dict-item]
        return http(status, stream(whole), kind="text/event-stream") if self.streams else http(status, whole)


def working(message: dict[str, Any]) -> Json:
    """The task is under way."""
    return {"result": {"taskId": message["params"].get("taskId", "t-1"), "status": "working", "pollInterval": 1000}}


def unknown(message: dict[str, Any]) -> Json:
    """There is no such task."""
    return {"error": {"code": -32602, "message": "Task not found"}}


def http(status: int, body: str, *, kind: str = "application/json", session: str | None = None) -> bytes:
    """A whole answer."""
    given = f"Mcp-Session-Id: {session}\r\n" if session else ""
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body.encode())}\r\n{given}\r\n"
    return (head + body).encode()


def stream(answer: str) -> str:
    """An event stream: a priming event, a notification, an answer to somebody else, then the one that is meant."""
    notice = json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})
    other = json.dumps({"jsonrpc": "2.0", "id": 0, "result": {"status": "failed"}})
    return f"id: 1\ndata: \n\n: a comment\r\nevent: message\r\ndata: {notice}\r\n\r\ndata:{other}\n\nid: 2\ndata: {answer}\n\n"


async def look(
    server: Server, *, era: str = OLD, provider: McpProvider | None = None, hops: BeforeHop | None = None, **more: str
) -> Reply:
    """One status step at the server."""
    async with RawServer(server) as raw:
        return await look_at(raw, era=era, provider=provider, hops=hops, **more)


async def look_at(
    raw: RawServer, *, era: str = OLD, provider: McpProvider | None = None, hops: BeforeHop | None = None, **more: str
) -> Reply:
    """One status step at a server that goes on."""
    gate, job = make_gate(f"127.0.0.1:{raw.port}"), more.pop("job_id", "t-1")
    try:
        of = operation(f"{raw.url}/mcp", job_id=job, **more)
        return await (provider or McpProvider()).look(of, tasks(era), guarded(gate, hops))
    finally:
        await gate.close()


async def send(server: Server, kind: CallKind, *, era: str = OLD, hops: BeforeHop | None = None) -> Reply:
    """One submit or cancel at the server."""
    async with RawServer(server) as raw:
        gate, base = make_gate(f"127.0.0.1:{raw.port}"), f"{raw.url}/mcp"
        try:
            of = operation("" if kind is CallKind.SUBMIT else base, job_id="" if kind is CallKind.SUBMIT else "t-1", base=base)
            given: Json = {"topic": "x"} if kind is CallKind.SUBMIT else None
            return await McpProvider().send(of, tasks(era), call(kind, given), guarded(gate, hops))
        finally:
            await gate.close()


def kind_of(reply: Reply, era: str = OLD) -> ObservationKind:
    """What the contract reads in it."""
    return read_observation(tasks(era), asked(operation(job_id="t-1")), reply, received_at=NOW).kind


async def test_W09_the_handshake_of_a_session_is_counted() -> None:
    """Three requests leave: the reserved one and two that were asked for before they were sent; the next look needs one."""
    server, hops, provider = Server(), Hops(), McpProvider()
    async with RawServer(server) as raw:
        reply = await look_at(raw, provider=provider, hops=hops)
        assert isinstance(reply, HttpReply) and (reply.hops, len(hops.asked)) == (3, 2)
        assert hops.asked == [raw.url, raw.url]
        assert kind_of(reply) is ObservationKind.PENDING
        again = await look_at(raw, provider=provider, hops=hops)
    assert isinstance(again, HttpReply) and (again.hops, len(hops.asked)) == (1, 2)
    assert server.methods() == ["initialize", "notifications/initialized", "tasks/get", "tasks/get"]
    assert [head.get("mcp-session-id") for head in server.heads] == [None, "s-1", "s-1", "s-1"]
    assert [head.get("mcp-protocol-version") for head in server.heads] == [None, OLD, OLD, OLD]
    ids = [message["id"] for message in server.messages if "id" in message]
    assert len(set(ids)) == len(ids)
    assert "id" not in server.messages[1]


@pytest.mark.parametrize("most", [0, 1])
async def test_W09_without_a_request_left_the_handshake_ends(most: int) -> None:
    """What left is told; the status is not asked for without a count."""
    server = Server()
    reply = await look(server, hops=Hops(most))
    assert isinstance(reply, NoReply) and (reply.sent, reply.hops) == (True, most + 1)
    assert "tasks/get" not in server.methods()
    assert kind_of(reply) is ObservationKind.TRANSPORT


async def test_W32_a_handshake_that_took_until_the_deadline_ends_there() -> None:
    """The send guard stops the request that follows; what left before is told."""

    async def stop(origin: str) -> bool:
        raise LeaseLost("the deadline has passed")

    server = Server()
    reply = await look(server, hops=stop)
    assert isinstance(reply, NoReply) and (reply.kind, reply.sent, reply.hops) == (NoReplyKind.CANCELLED, True, 1)
    assert server.methods() == ["initialize"]


async def test_the_answer_is_found_in_an_event_stream() -> None:
    """Between notifications and answers to others, at any line end; it comes back as JSON."""
    reply = await look(Server(streams=True))
    assert isinstance(reply, HttpReply) and reply.content_type == "application/json"
    assert kind_of(reply) is ObservationKind.PENDING


@pytest.mark.parametrize("lost", [(404, None), (404, -32001), (400, -32000)])
async def test_a_session_that_the_server_forgot_is_made_anew(lost: tuple[int, int | None]) -> None:
    """The protocol says 404; servers also say 400 with their own code. Each request of the new handshake is counted."""
    server, hops, provider = Server(lost=lost), Hops(), McpProvider()
    async with RawServer(server) as raw:
        await look_at(raw, provider=provider, hops=hops)
        server.session = "s-2"
        reply = await look_at(raw, provider=provider, hops=hops)
    assert isinstance(reply, HttpReply) and (reply.status, reply.hops, len(hops.asked)) == (200, 4, 5)
    assert server.methods()[3:] == ["tasks/get", "initialize", "notifications/initialized", "tasks/get"]


async def test_the_session_that_an_operation_names_is_used_at_once() -> None:
    """Servers bind tasks to sessions, and a new process must find the task again."""
    server, hops = Server(), Hops()
    reply = await look(server, hops=hops, session="s-1")
    assert isinstance(reply, HttpReply) and (reply.hops, hops.asked, server.methods()) == (1, [], ["tasks/get"])
    assert server.heads[0]["mcp-session-id"] == "s-1"


async def test_a_server_without_sessions_is_asked_without_one() -> None:
    """No session id in the answer to initialize: none is sent, and no handshake is repeated."""
    server, provider = Server(session=""), McpProvider()
    async with RawServer(server) as raw:
        await look_at(raw, provider=provider)
        reply = await look_at(raw, provider=provider)
    assert isinstance(reply, HttpReply) and reply.hops == 1
    assert all("mcp-session-id" not in head for head in server.heads)


@pytest.mark.parametrize("status", [200, 400, 404])
async def test_an_unknown_task_is_an_answer_and_no_lost_session(status: int) -> None:
    """-32602 comes with 200, 400 or 404; the contract reads it."""
    server = Server({"tasks/get": unknown}, status={"tasks/get": status})
    reply = await look(server)
    assert isinstance(reply, HttpReply) and (reply.status, json.loads(reply.body)["error"]["code"]) == (status, -32602)
    assert server.methods().count("tasks/get") == 1


@pytest.mark.parametrize(("status", "kind"), [(401, "authorization_denied"), (429, "throttled"), (503, "transport")])
async def test_a_refused_handshake_is_the_answer(status: int, kind: str) -> None:
    """Nothing was learned about the task, and the status code says what to do about it."""
    reply = await look(Server(status={"initialize": status}))
    assert isinstance(reply, HttpReply) and (reply.status, reply.hops) == (status, 1)
    assert kind_of(reply) == kind


async def test_a_server_of_another_protocol_version_is_not_asked() -> None:
    """Its answer would mean something else."""
    server = Server(version="2025-06-18")
    reply = await look(server)
    assert isinstance(reply, NoReply) and f"does not speak {OLD}" in reply.message
    assert server.methods() == ["initialize"]


async def test_W24_the_result_is_asked_for_only_once_the_wait_has_succeeded() -> None:
    """A waiting look never sends the blocking request; the copy of the result does, on the same session, counted."""
    done: dict[str, Callable[[dict[str, Any]], Json]] = {
        "tasks/get": lambda message: {"result": {"taskId": "t-1", "status": "completed"}},
        "tasks/result": lambda message: {"result": {"content": [{"type": "text", "text": "here"}]}},
    }
    server, hops, provider = Server(done), Hops(), McpProvider()
    async with RawServer(server) as raw:
        gate, of = make_gate(f"127.0.0.1:{raw.port}"), operation(f"{raw.url}/mcp", job_id="t-1")
        waiting = await provider.look(of, tasks(OLD), guarded(gate, hops))
        assert isinstance(waiting, HttpReply) and "tasks/result" not in server.methods()
        over = await provider.look(replace(of, state=OperationState.SUCCEEDED), tasks(OLD), guarded(gate, hops))
        await gate.close()
    assert isinstance(over, HttpReply) and (over.hops, len(hops.asked)) == (2, 3)
    assert server.methods()[-2:] == ["tasks/get", "tasks/result"]
    found = json.loads(over.body)["result"]
    assert (found["status"], found["result"]["content"][0]["text"]) == ("completed", "here")


def _to_another(message: dict[str, Any]) -> Json:
    return {"id": True, "result": {"taskId": "t-1", "status": "completed"}}


@pytest.mark.parametrize("streams", [False, True])
async def test_W05_an_answer_to_another_request_is_none(streams: bool) -> None:
    """Its state is never taken for ours, however it comes."""
    reply = await look(Server({"tasks/get": _to_another}, streams=streams))
    assert isinstance(reply, NoReply) and (reply.kind, reply.sent, reply.hops) == (NoReplyKind.PROTOCOL, True, 3)


async def test_an_event_that_the_end_cut_off_is_no_answer() -> None:
    """Only a blank line ends an event."""
    cut = HttpReply(200, [("Content-Type", "text/event-stream")], b'data: {"jsonrpc":"2.0","id":7,"result":{}}\n', "", NOW - NOW)
    with pytest.raises(ValueError, match="ended without the answer"):
        answer_to(7, cut)


@given(
    body=st.binary(max_size=80) | st.text('data:{}"id17\n\r, []result', max_size=60).map(str.encode),
    kind=st.sampled_from(("application/json", "text/event-stream", "")),
    status=st.sampled_from((200, 202, 400)),
)
def test_W37_no_answer_makes_the_reader_raise_anything_else(body: bytes, kind: str, status: int) -> None:
    """Noise is handed on as it came, or said to be no answer."""
    try:
        reply = answer_to(7, HttpReply(status, [("content-type", kind)], body, "", NOW - NOW))
    except ValueError:
        return
    assert reply.body == body or json.loads(reply.body)["id"] == 7


async def test_the_extension_needs_no_session() -> None:
    """One request that says all there is to know: version, method, task, and that the client knows tasks."""
    server, hops = Server(), Hops()
    reply = await look(server, era=NEW, hops=hops)
    assert isinstance(reply, HttpReply) and (reply.hops, hops.asked, server.methods()) == (1, [], ["tasks/get"])
    head, params = server.heads[0], server.messages[0]["params"]
    assert (head["mcp-protocol-version"], head["mcp-method"], head["mcp-name"]) == ("2026-07-28", "tasks/get", "t-1")
    assert params["taskId"] == "t-1"
    meta = params["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert "io.modelcontextprotocol/tasks" in meta["io.modelcontextprotocol/clientCapabilities"]["extensions"]
    assert kind_of(reply, NEW) is ObservationKind.PENDING


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("t-1", "t-1"),
        ("a b", "a b"),
        (" a", "=?base64?IGE=?="),
        ("ä", "=?base64?w6Q=?="),
        ("a\r\nx: y", "=?base64?YQ0KeDogeQ==?="),
    ],
)
def test_a_name_in_a_header_cannot_add_another(value: str, written: str) -> None:
    """What is not plain goes in base64 (SEP-2243)."""
    assert header_text(value) == written


async def test_W31_a_submit_calls_the_tool_as_a_task() -> None:
    """2025-11-25: `task` makes a task of the call, the handshake is not counted, and the answer names the session."""
    server, hops = Server({"tools/call": lambda message: {"result": {"task": {"taskId": "t-9", "status": "working"}}}}), Hops(0)
    reply = await send(server, CallKind.SUBMIT, hops=hops)
    assert isinstance(reply, HttpReply) and (reply.status, hops.asked) == (200, [])
    assert server.messages[-1]["params"] == {"task": {}, "name": "render", "arguments": {"topic": "x"}}
    answer = read_call(tasks(OLD), STARTING, call(given={}), reply, received_at=NOW)
    assert (answer.outcome, answer.job_id, answer.parameters["session"]) == (CallOutcome.ACCEPTED, "t-9", "s-1")


async def test_W31_the_extension_leaves_it_to_the_server_to_make_a_task() -> None:
    """One request, named in its header by the tool."""
    server = Server()
    reply = await send(server, CallKind.SUBMIT, era=NEW)
    assert isinstance(reply, HttpReply) and server.methods() == ["tools/call"]
    assert server.heads[0]["mcp-name"] == "render"
    assert set(server.messages[0]["params"]) == {"name", "arguments", "_meta"}
    answer = read_call(tasks(NEW), STARTING, call(given={}), reply, received_at=NOW)
    assert (answer.outcome, answer.job_id) == (CallOutcome.ACCEPTED, "t-1")


@pytest.mark.parametrize(
    ("code", "outcome"), [(-32602, CallOutcome.REFUSED), (-32601, CallOutcome.REFUSED), (-32603, CallOutcome.UNKNOWN)]
)
async def test_W31_an_error_with_200_is_no_acceptance(code: int, outcome: CallOutcome) -> None:
    """A request that was not taken on was refused; after an internal error it may have been done."""
    reply = await send(Server({"tools/call": lambda message: {"error": {"code": code, "message": "no"}}}), CallKind.SUBMIT)
    answer = read_call(tasks(OLD), STARTING, call(given={}), reply, received_at=NOW)
    assert answer.outcome is outcome


@pytest.mark.parametrize("method", ["initialize", "notifications/initialized"])
async def test_W31_a_submit_whose_handshake_failed_was_not_sent(method: str) -> None:
    """That is certain, so nothing is in doubt."""
    server = Server(status={"initialize": 503}) if method == "initialize" else Server(version="2024-11-05")
    reply = await send(server, CallKind.SUBMIT)
    assert isinstance(reply, NoReply) and (reply.sent, server.methods()) == (False, ["initialize"])
    answer = read_call(tasks(OLD), STARTING, call(given={}), reply, received_at=NOW)
    assert answer.outcome is CallOutcome.NOT_SENT


@pytest.mark.parametrize("era", [OLD, NEW])
async def test_W24_a_cancel_names_the_task(era: str) -> None:
    """`tasks/cancel` with the task's id, as its own request."""
    server = Server()
    reply = await send(server, CallKind.CANCEL, era=era)
    assert isinstance(reply, HttpReply) and reply.status == 200
    assert (server.methods()[-1], server.messages[-1]["params"]["taskId"]) == ("tasks/cancel", "t-1")
    answer = read_call(tasks(era), operation(), call(CallKind.CANCEL), reply, received_at=NOW)
    assert answer.outcome is CallOutcome.ACCEPTED


async def test_W24_a_cancel_after_the_end_came_too_late() -> None:
    """Servers say so with an error under HTTP 200."""
    reply = await send(Server({"tasks/cancel": unknown}), CallKind.CANCEL)
    answer = read_call(tasks(OLD), operation(), call(CallKind.CANCEL), reply, received_at=NOW)
    assert answer.outcome is CallOutcome.TOO_LATE
