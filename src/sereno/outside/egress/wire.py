"""One HTTP/1.1 request over one pooled connection: aiohttp's connections and parser, our own head.

The library's session would add what the gate must not have (a retry of idempotent requests, redirects, cookies, environment), and
its request and response objects carry a dozen options that the gate refuses; together they cost more than a small request itself.
"""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from aiohttp import ClientRequest, ClientTimeout, StreamReader, TCPConnector, hdrs
from aiohttp.connector import Connection
from aiohttp.helpers import TimerNoop
from multidict import CIMultiDictProxy
from yarl import URL

from sereno.outside.egress.exchange import Exchange, GateResolver, OpenSocket, socket_factory
from sereno.outside.egress.idle import MOST_IDLE, Idle
from sereno.outside.egress.limits import GateLimits
from sereno.outside.egress.resolve import Resolve
from sereno.outside.url import Target

_NO_TIMEOUT = ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)  # the gate's own timer bounds all
_READ_BUFFER = 65_536
_NO_TIMER = TimerNoop()
_ORIGINS_KEPT = 4_096


@dataclass(slots=True)
class Answer:
    """The head of an answer and the stream of its body; at the end of the body the connection goes back to the pool."""

    method: str
    """Of the request."""
    status: int
    headers: CIMultiDictProxy[str]
    raw_headers: Sequence[tuple[bytes, bytes]]
    content: StreamReader
    _connection: Connection
    _idle: Idle
    _origin: str
    _over: bool = False
    """True once the connection was ended or given back: it may be another request's by now."""

    @property
    def content_length(self) -> int | None:
        """The length that the head names, if it does."""
        value = self.headers.get(hdrs.CONTENT_LENGTH)
        return int(value) if value is not None and value.isdecimal() else None

    def close(self) -> None:
        """Ends the connection, unless it was given back."""
        if not self._over:
            self._over = True
            self._connection.close()

    def give_back(self) -> None:
        """Returns the connection to the pool; one whose request is not written out (the answer came early) ends."""
        if self._over:
            return
        self._over = True
        transport = self._connection.transport
        if transport is not None and transport.get_write_buffer_size():
            self._connection.close()
        else:
            self._idle.put(self._origin, self._connection)


class Wire:
    """A pool of connections. Bound to the running event loop."""

    def __init__(self, *, limits: GateLimits, resolve: Resolve, open_socket: OpenSocket, tls: ssl.SSLContext | None):
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._connector = TCPConnector(
            resolver=GateResolver(resolve),
            use_dns_cache=False,
            socket_factory=socket_factory(open_socket),
            limit=limits.connections + MOST_IDLE,
            keepalive_timeout=limits.keep_alive,
            ssl=tls or True,
        )
        self._places: dict[str, ClientRequest] = {}
        self._idle = Idle(limits.keep_alive)

    async def ask(self, exchange: Exchange, method: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        """Writes one request to the exchange's target, at most once, and waits for the head of the answer.

        Raises what aiohttp and the exchange raise, and ValueError for a head that would not be one request.
        """
        target = exchange.target
        head = _head(target, method, headers, body=body, agent=self._limits.user_agent)
        connection = self._idle.take(target.origin)
        if connection is None:
            connection = await self._connector.connect(self._place(target), traces=[], timeout=_NO_TIMEOUT)
        try:
            await exchange.leave(connection)
            return await self._converse(connection, target.origin, method, head if body is None else head + body)
        except BaseException:
            connection.close()
            raise

    async def _converse(self, connection: Connection, origin: str, method: str, request: bytes) -> Answer:
        protocol, transport = connection.protocol, connection.transport
        if protocol is None or transport is None or transport.is_closing():
            raise ConnectionResetError("the connection closed before the request was written")
        protocol.set_response_params(
            timer=_NO_TIMER,
            skip_payload=method == "HEAD",
            read_until_eof=True,
            auto_decompress=False,
            read_bufsize=_READ_BUFFER,
            max_line_size=self._limits.header_line,
            max_field_size=self._limits.header_line,
            max_headers=self._limits.header_count,
        )
        transport.write(request)
        message, content = await protocol.read()
        while 100 <= message.code < 200 and message.code != 101:  # what comes before the answer (RFC 9110 15.2)
            message, content = await protocol.read()
        answer = Answer(method, message.code, message.headers, message.raw_headers, content, connection, self._idle, origin)
        content.on_eof(answer.give_back)
        return answer

    def _place(self, target: Target) -> ClientRequest:
        """What the connector wants to know of an origin; it is never sent."""
        found = self._places.get(target.origin)
        if found is None:
            if len(self._places) >= _ORIGINS_KEPT:
                self._places.clear()
            found = self._places[target.origin] = ClientRequest("GET", URL(target.origin), loop=self._loop)
        return found

    async def close(self) -> None:
        """Closes all connections."""
        self._idle.close()
        await self._connector.close()


def _head(target: Target, method: str, headers: Mapping[str, str], *, body: bytes | None, agent: str) -> bytes:
    """Writes request line and headers; what the caller names wins over our own. Raises ValueError for a line within a line."""
    ours = _ours(method, body is not None, agent, *headers)
    lines = [f"{method} {target.url.raw_path_qs} HTTP/1.1\r\nHost: {target.origin.partition('://')[2]}", *ours]
    if (body is not None or method not in ("GET", "HEAD")) and not any(name.lower() == "content-length" for name in headers):
        lines.append(f"Content-Length: {len(body or b'')}")
    lines += [f"{name}: {value}" for name, value in headers.items()]
    text = "\r\n".join(lines) + "\r\n\r\n"
    if not text.count("\r") == text.count("\n") == len(lines) + 2 or "\0" in text:
        raise ValueError("a header holds a line break or a null character")
    return text.encode()


@lru_cache(maxsize=256)
def _ours(method: str, has_body: bool, agent: str, *named: str) -> tuple[str, ...]:
    """Our own headers where the caller names none of that name. Keeps names only, never a value of the caller's."""
    ours = {hdrs.ACCEPT: "*/*", hdrs.ACCEPT_ENCODING: "gzip", hdrs.USER_AGENT: agent}
    if has_body or method in ("POST", "PUT", "PATCH"):
        ours[hdrs.CONTENT_TYPE] = "application/octet-stream"
    lowered = {name.lower() for name in named}
    return tuple(f"{name}: {value}" for name, value in ours.items() if name.lower() not in lowered)
