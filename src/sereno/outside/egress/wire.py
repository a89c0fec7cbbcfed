"""One HTTP/1.1 request over one pooled connection: aiohttp's connector, request and response without its session.

The session would add what the gate must not have (a retry of idempotent requests, redirects, cookies, environment) and costs a
fifth of a small request. Its own sequence is kept: connect, set the parser's bounds, write, read the headers.
"""

import asyncio
import ssl
from collections.abc import Mapping

from aiohttp import ClientResponse, ClientTimeout, TCPConnector, hdrs
from aiohttp.helpers import TimerNoop
from multidict import CIMultiDict

from sereno.outside.egress.exchange import GateRequest, GateResolver, OpenSocket, socket_factory
from sereno.outside.egress.limits import GateLimits
from sereno.outside.egress.resolve import Resolve
from sereno.outside.url import Target

_NO_TIMEOUT = ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)  # the gate's own timer bounds all
_READ_BUFFER = 65_536
_NO_TIMER = TimerNoop()


class Wire:
    """A pool of connections. Bound to the running event loop."""

    def __init__(self, *, limits: GateLimits, resolve: Resolve, open_socket: OpenSocket, tls: ssl.SSLContext | None):
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._connector = TCPConnector(
            resolver=GateResolver(resolve),
            use_dns_cache=False,
            socket_factory=socket_factory(open_socket),
            limit=limits.connections,
            keepalive_timeout=limits.keep_alive,
            ssl=tls or True,
        )

    async def ask(self, target: Target, method: str, headers: Mapping[str, str], body: bytes | None) -> ClientResponse:
        """Writes one request and waits for the headers of its answer. Raises what aiohttp and the exchange raise."""
        ours = CIMultiDict(headers)
        ours.setdefault(hdrs.USER_AGENT, self._limits.user_agent)
        request = GateRequest(method, target.url, headers=ours, data=body, loop=self._loop, timer=_NO_TIMER)
        connection = await self._connector.connect(request, traces=[], timeout=_NO_TIMEOUT)
        try:
            assert connection.protocol is not None
            connection.protocol.set_response_params(
                timer=_NO_TIMER,
                skip_payload=method == "HEAD",
                read_until_eof=True,
                auto_decompress=False,
                read_bufsize=_READ_BUFFER,
                max_line_size=self._limits.header_line,
                max_field_size=self._limits.header_line,
                max_headers=self._limits.header_count,
            )
            response = await request.send(connection)
            try:
                return await response.start(connection)
            except BaseException:
                response.close()
                raise
        except BaseException:
            connection.close()
            raise

    async def close(self) -> None:
        """Closes all connections."""
        await self._connector.close()
