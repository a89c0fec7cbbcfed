"""JSON-RPC over streamable HTTP, as MCP speaks it: what a request looks like, and which of the messages that come back is its answer."""

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sereno.core.observation import HttpReply
from sereno.core.values import BadJson, Json, canonical, parse_json

SESSION = "Mcp-Session-Id"
VERSION = "MCP-Protocol-Version"
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_WRAPPED = re.compile(r"=\?base64\?.*\?=")
_LINE_END = re.compile(rb"\r\n|\n|\r")
MOST_LINES = 100_000
MOST_EVENTS = 2_000
"""What a server may say before its answer, notes on progress above all: each event is read as JSON, which takes its time."""


@dataclass(frozen=True, slots=True)
class Message:
    """One request (with `number`) or notification (without), and the headers that go with it."""

    method: str
    params: Mapping[str, Json] | None
    number: int | None
    headers: Mapping[str, str]

    def body(self) -> bytes:
        """The message as JSON."""
        whole: dict[str, object] = {"jsonrpc": "2.0", "method": self.method}
        if self.number is not None:
            whole["id"] = self.number
        if self.params is not None:
            whole["params"] = dict(self.params)
        return canonical(whole)


def header_text(value: str) -> str:
    """A value as MCP headers carry it: visible ASCII as it is, everything else in base64 between marks (SEP-2243)."""
    if _PLAIN.fullmatch(value) and not _WRAPPED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def answer_to(number: int, reply: HttpReply) -> HttpReply:
    """The reply with nothing but the answer to request `number` as its body, and that as JSON.

    A refusal (4xx, 5xx) and a body that is not JSON-RPC come back as they are: the contract reads them, or says that it cannot.
    Raises ValueError where a 2xx holds messages, but none that answers this request.
    """
    if reply.content_type == "text/event-stream":
        for event in _events(reply.body):
            if _answers(number, _parsed(event)):
                return replace(reply, body=event, headers=_as_json(reply))
        raise ValueError("the event stream ended without the answer")
    message = _parsed(reply.body)
    if reply.status < 300 and isinstance(message, dict) and not _answers(number, message):
        raise ValueError("the answer is to another request")
    return reply


def result_of(reply: HttpReply) -> Mapping[str, Json] | None:
    """The `result` of a 2xx answer, or None."""
    message = _parsed(reply.body) if reply.status < 300 else None
    found = message.get("result") if isinstance(message, dict) else None
    return found if isinstance(found, dict) else None


def error_code(reply: HttpReply) -> Json:
    """The `error.code` of an answer, or None."""
    message = _parsed(reply.body)
    error = message.get("error") if isinstance(message, dict) else None
    return error.get("code") if isinstance(error, dict) else None


def with_member(reply: HttpReply, name: str, value: str) -> HttpReply:
    """The answer with one more member beside `result`, which its contract may name; unchanged where it is no object."""
    message = _parsed(reply.body)
    if not isinstance(message, dict):
        return reply
    return replace(reply, body=canonical({**message, name: value}))


def with_result(reply: HttpReply, result: Mapping[str, Json]) -> HttpReply:
    """The answer about a task with the task's own result inside its `result`."""
    message, told = _parsed(reply.body), result_of(reply)
    if not isinstance(message, dict) or told is None:
        return reply
    whole: dict[str, object] = {**message, "result": {**told, "result": dict(result)}}
    return replace(reply, body=canonical(whole))


def _answers(number: int, message: Json) -> bool:
    if not isinstance(message, dict) or not ("result" in message or "error" in message):
        return False
    named = message.get("id")
    return named == number and not isinstance(named, bool)


def _parsed(data: bytes) -> Json:
    try:
        return parse_json(data)
    except BadJson:
        return None


def _events(body: bytes) -> Iterator[bytes]:
    """The data of each event of a stream (WHATWG HTML 9.2.6); one that the end cut off is no event. Raises ValueError for a stream of
    more than `MOST_LINES` lines or `MOST_EVENTS` events."""
    start, events, lines = (3 if body.startswith(b"\xef\xbb\xbf") else 0), 0, list[bytes]()
    for number, end in enumerate(_LINE_END.finditer(body, start)):
        line, start = body[start : end.start()], end.end()
        if number >= MOST_LINES or events >= MOST_EVENTS:
            raise ValueError(f"the event stream has more than {MOST_LINES:,} lines or {MOST_EVENTS:,} events")
        if line.startswith(b"data:"):
            lines.append(line[5:].removeprefix(b" "))
        elif not line and lines:
            yield b"\n".join(lines).decode("utf-8", "replace").encode()
            events, lines = events + 1, []


def _as_json(reply: HttpReply) -> list[tuple[str, str]]:
    kept = [(name, value) for name, value in reply.headers if name.lower() != "content-type"]
    return [*kept, ("content-type", "application/json")]
