"""The MCP carrier: tasks of an MCP server over streamable HTTP, in both eras of the protocol (status-polling §3.3).

`2025-11-25` speaks in sessions: `initialize`, `notifications/initialized`, then the request. Servers bind tasks to the session that
made them, so an answer to a submit carries it as the member `session`, and an operation's parameter `session` is used again. The
result is not in the status: once a wait has succeeded, a look also asks `tasks/result` and answers with it as `result.result`.
`extension` (`io.modelcontextprotocol/tasks`, protocol 2026-07-28) has no sessions: each request says all there is to know.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from typing import Final, TypeGuard

from sereno.builtin.calling import send_body, send_request, template_of
from sereno.builtin.rpc import SESSION, VERSION, Message, answer_to, error_code, header_text, result_of, with_member, with_result
from sereno.core.call import CallKind, ProviderCall
from sereno.core.contract import Contract
from sereno.core.errors import LeaseLost
from sereno.core.observation import HttpReply, NoReply, NoReplyKind, Reply
from sereno.core.operation import Operation, OperationState
from sereno.core.reading.address import origin_of
from sereno.core.values import Json, to_micros
from sereno.ports import Fetch, Guarded

ERAS: Final = ("2025-11-25", "extension")
MODERN: Final = "2026-07-28"
EXTENSION: Final = "io.modelcontextprotocol/tasks"
MAX_BODY = 10_000_000
"""Bytes of a decoded answer, event stream and all."""
SESSIONS_KEPT = 1_000
NEW: Final = "new"
"""As the parameter `session`: make one."""
UNKNOWN_TASK: Final = -32602
_HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
_META = "io.modelcontextprotocol/"
_CLIENT: Mapping[str, Json] = {"name": "sereno", "version": "1"}
_NAMED: Mapping[str, str] = {"tools/call": "name", "tasks/get": "taskId", "tasks/cancel": "taskId", "tasks/result": "taskId"}
"""Methods whose requests say in a header what they are about, and which parameter that is (SEP-2243)."""
_NOT_DONE = (-32700, -32600, -32601, UNKNOWN_TASK)
_SET_UP = (NoReplyKind.REFUSED_ADDRESS, NoReplyKind.NO_CREDENTIAL)
"""Nothing that comes back changes these: another try meets the same, so a person is asked at once."""
_SESSION_IS_GONE = (-32000, -32001)
"""What servers answer with 400 for a session they do not know; the protocol itself says 404."""


_Request = tuple[str, Mapping[str, Json] | None]


class _Ends(Exception):
    """The step ends before its own request: with this reply."""

    def __init__(self, reply: Reply):
        super().__init__()
        self.reply = reply


@dataclass(slots=True)
class _Talk:
    """The requests of one step to one server."""

    url: str
    account: str
    guarded: Guarded
    counts: bool
    """True where each request after the first is counted before it is sent."""
    left: int = 0
    spent: timedelta = timedelta(0)
    own: bool = False
    """True once the step's own request, and not only a handshake, may have left."""


class McpProvider:
    """Implements `ports.Provider`. Sessions are kept in memory and made anew where the server has forgotten one."""

    def __init__(self) -> None:
        self._numbers = count()
        self._sessions: dict[tuple[str, str, str], str] = {}

    def problem(self, contract: Contract, parameters: Mapping[str, str]) -> str | None:
        """Says that the contract names an era which is not spoken here, or None."""
        return None if contract.status.era in ERAS else f"the contract names the era {contract.status.era!r}"

    async def look(self, operation: Operation, contract: Contract, guarded: Guarded) -> Reply:
        """Sends `tasks/get` (or the contract's method), on a session where the era has them."""
        talk, era = _Talk(operation.url, operation.account, guarded, counts=True), contract.status.era
        request = (contract.status.operation or "tasks/get", {"taskId": operation.job_id})
        reply = await self._converse(talk, era, operation.parameters, request)
        # A wait that goes on never asks for a result: the request would block until there is one.
        if era != ERAS[0] or operation.state is not OperationState.SUCCEEDED or not _is_completed(reply):
            return reply
        found = await self._converse(talk, era, operation.parameters, ("tasks/result", {"taskId": operation.job_id}))
        result = result_of(found) if isinstance(found, HttpReply) else None
        return found if result is None else replace(with_result(reply, result), hops=talk.left, elapsed=talk.spent)

    async def send(self, operation: Operation, contract: Contract, call: ProviderCall, guarded: Guarded) -> Reply:
        """Sends `tasks/cancel`, or the `tools/call` that starts a task. Its handshake is not counted: no status is asked for."""
        try:
            template = template_of(contract, call)
            request = _send_request(operation, contract, call)
            url = operation.url or send_request(operation, contract, call).url
        except ValueError as error:
            return NoReply(NoReplyKind.REFUSED_ADDRESS, f"the {call.kind} cannot be made: {error}", sent=False)
        talk = _Talk(url, operation.account, guarded, counts=False)
        reply = await self._converse(talk, template.era or contract.status.era, operation.parameters, request)
        if isinstance(reply, HttpReply) and (talk.own or reply.status in (401, 403, 429)):
            return _refusal_by_status(reply)
        if talk.own:
            return reply
        said = f"HTTP {reply.status}" if isinstance(reply, HttpReply) else reply.message
        failed = f"the handshake failed, the {call.kind} was not sent: {said}"
        if isinstance(reply, NoReply) and not reply.sent:
            return reply if reply.kind in _SET_UP else replace(reply, message=failed)
        return NoReply(NoReplyKind.PROTOCOL, failed, sent=False)

    async def _converse(self, talk: _Talk, era: str | None, parameters: Mapping[str, str], request: _Request) -> Reply:
        """Asks, on a session where the era has them. What the world does is a value."""
        try:
            if era == "extension":
                return await self._own(talk, _modern(request, self._number(talk)))
            if era == "2025-11-25":
                return await self._in_session(talk, parameters.get("session", NEW), request)
        except _Ends as ends:
            return ends.reply
        except ValueError as error:
            return NoReply(NoReplyKind.PROTOCOL, f"not as an MCP server answers: {error}", sent=talk.left > 0, hops=talk.left)
        says = f"the contract names the era {era!r}; there are {' and '.join(ERAS)}"
        return NoReply(NoReplyKind.REFUSED_ADDRESS, says, sent=False)

    async def _in_session(self, talk: _Talk, given: str, request: _Request) -> Reply:
        place = (talk.url, talk.account, given)
        known = self._sessions.get(place, given if given != NEW else None)
        session = await self._open(talk, place) if known is None else known
        reply = await self._own(talk, _sessioned(request, self._number(talk), session))
        if known and isinstance(reply, HttpReply) and _is_gone(reply):
            talk.own = False  # the server knew no such session, so it did nothing
            session = await self._open(talk, place)
            reply = await self._own(talk, _sessioned(request, self._number(talk), session))
        if request[0] == "tools/call" and isinstance(reply, HttpReply) and reply.status < 300:
            return with_member(reply, "session", session or NEW)
        return reply

    def _number(self, talk: _Talk) -> int:
        """An id that no other request of the session has, also where another process uses it too."""
        return to_micros(talk.guarded.now) + next(self._numbers)

    async def _own(self, talk: _Talk, message: Message) -> Reply:
        """Sends the step's own request."""
        reply = await self._ask(talk, message, own=True)
        if isinstance(reply, NoReply) and not reply.sent:
            talk.own = False
        return reply

    async def _open(self, talk: _Talk, place: tuple[str, str, str]) -> str:
        """Makes a session; an empty text where the server has none. Raises _Ends with the answer that ends the step."""
        self._sessions.pop(place, None)
        params: dict[str, Json] = {"protocolVersion": ERAS[0], "capabilities": {}, "clientInfo": dict(_CLIENT)}
        hello = await self._ask(talk, Message("initialize", params, self._number(talk), {}))
        result = result_of(hello) if isinstance(hello, HttpReply) else None
        if not isinstance(hello, HttpReply) or hello.status >= 300:
            raise _Ends(hello)
        if result is None or result.get("protocolVersion") != ERAS[0]:
            raise ValueError(f"it does not speak {ERAS[0]}")
        session = hello.header(SESSION) or ""
        ready = await self._ask(talk, _sessioned(("notifications/initialized", None), None, session))
        if not isinstance(ready, HttpReply) or ready.status >= 300:
            raise _Ends(ready)
        while len(self._sessions) >= SESSIONS_KEPT:
            self._sessions.pop(next(iter(self._sessions)))
        self._sessions[place] = session
        return session

    async def _ask(self, talk: _Talk, message: Message, *, own: bool = False) -> Reply:
        """Sends one message. Raises ValueError for an answer that is none, _Ends where no request is left for it."""
        guarded, origin = talk.guarded, origin_of(talk.url)
        if talk.left and talk.counts:
            await _counted(talk, origin)
        fetch = Fetch(
            url=talk.url,
            method="POST",
            headers={**_HEADERS, **message.headers},
            body=message.body(),
            credential=talk.account or None,
            total_deadline=guarded.total_deadline - talk.spent,
            max_bytes=MAX_BODY,
            before_first_byte=guarded.before_first_byte,
            allowed_origins=(origin,),
        )
        talk.own = own
        reply = await guarded.transport.fetch(fetch)
        talk.left, talk.spent = talk.left + reply.hops, talk.spent + reply.elapsed
        if isinstance(reply, NoReply) or message.number is None:
            return replace(reply, hops=talk.left)
        return replace(answer_to(message.number, reply), hops=talk.left)


async def _counted(talk: _Talk, origin: str) -> None:
    """Counts one more request before it is sent. Raises _Ends where none is left, or nothing may be sent any more."""
    before_hop = talk.guarded.before_hop
    try:
        if before_hop is not None and await before_hop(origin):
            return
        kind, says = NoReplyKind.PROTOCOL, "no request is left after the handshake"
    except LeaseLost as stop:
        kind, says = NoReplyKind.CANCELLED, f"stopped after the handshake ({stop.message})"
    raise _Ends(NoReply(kind, says, sent=True, hops=talk.left))


def _send_request(operation: Operation, contract: Contract, call: ProviderCall) -> _Request:
    """Method and parameters of a submit or cancel. Raises ValueError."""
    template = template_of(contract, call)
    if call.kind is CallKind.CANCEL:
        return template.operation or "tasks/cancel", {"taskId": operation.job_id}
    params = send_body(operation, contract, call)
    if not isinstance(params, dict):
        raise ValueError("its body is no table with the tool's name and arguments")
    if (template.era or contract.status.era) == ERAS[0]:
        params = {"task": {}, **params}  # what makes a task of the call; the extension leaves that to the server
    return template.operation or "tools/call", params  # type: ignore[return-value]  # what JSON holds


def _sessioned(request: _Request, number: int | None, session: str) -> Message:
    headers = {VERSION: ERAS[0], **({SESSION: session} if session else {})}
    return Message(request[0], request[1], number, headers)


def _modern(request: _Request, number: int) -> Message:
    """A request of protocol 2026-07-28: what it is about stands in its headers too, and who asks in its `_meta`."""
    method, given = request
    params: dict[str, Json] = dict(given or {})
    about = params.get(_NAMED.get(method, ""))
    headers = {VERSION: MODERN, "Mcp-Method": method}
    if isinstance(about, str):
        headers["Mcp-Name"] = header_text(about)
    meta = params.get("_meta")
    params["_meta"] = {
        **(meta if isinstance(meta, dict) else {}),
        f"{_META}protocolVersion": MODERN,
        f"{_META}clientInfo": dict(_CLIENT),
        f"{_META}clientCapabilities": {"extensions": {EXTENSION: {}}},
    }
    return Message(method, params, number, headers)


def _refusal_by_status(reply: HttpReply) -> HttpReply:
    """The answer to a call as HTTP would say it, since that is how a contract tells a refusal from an acceptance: an error that comes
    with 200 gets 400 where the server did not take the request on (JSON-RPC 2.0, 5.1), else 500: it may have been done."""
    code = error_code(reply)
    if reply.status >= 300 or code is None:
        return reply
    return replace(reply, status=400 if code in _NOT_DONE else 500)


def _is_completed(reply: Reply) -> TypeGuard[HttpReply]:
    result = result_of(reply) if isinstance(reply, HttpReply) else None
    return result is not None and result.get("status") == "completed"


def _is_gone(reply: HttpReply) -> bool:
    """True where the server does not know the session; an unknown task is -32602 and no reason for another session."""
    code = error_code(reply)
    return (reply.status == 404 and code != UNKNOWN_TASK) or (reply.status == 400 and code in _SESSION_IS_GONE)
