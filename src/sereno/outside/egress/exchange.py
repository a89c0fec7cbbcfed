"""One fetch as the client library meets it: the checks in its resolver, its sockets and right before its first byte.

aiohttp gives these hooks no way to hand over a request, so the running exchange travels in a context variable.
"""

import socket
from collections.abc import Awaitable, Callable, Set
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import AddrInfoType, Connection

from sereno.core.errors import SerenoError
from sereno.outside.egress.address import Address, parse_address
from sereno.outside.egress.allow import Allow
from sereno.outside.egress.resolve import Refused, Resolve, check_address, checked_addresses
from sereno.outside.url import Target

OpenSocket = Callable[[AddrInfoType], socket.socket]


class Stopped(Exception):
    """The caller's last check said no: this request was not written."""


class SecondSend(Exception):
    """The client library tried to write a request again by itself; it was stopped."""


@dataclass(slots=True)
class Exchange:
    """What one fetch may still do. `requests` counts those that were handed to a connection (each hop is one)."""

    allow: Allow
    before_first_byte: Callable[[], Awaitable[None]] | None
    target: Target
    requests: int = 0
    status: int | None = None
    """Of the newest answer whose headers came."""
    armed: bool = False
    refused: str | None = None
    approved: Set[tuple[Address, int]] = frozenset()

    def arm(self, target: Target) -> None:
        """Allows exactly one request, to this target."""
        self.target, self.armed = target, True
        self.approved = frozenset()

    def approves(self, address: Address, port: int) -> bool:
        """True for what this request's look-up gave, and for the address that its URL names."""
        return (address, port) in self.approved or (address, port) == (self.target.address, self.target.port)

    async def leave(self, connection: Connection) -> None:
        """The last moment before a request is written. Raises SecondSend, Refused, Stopped: then it is not."""
        if not self.armed:
            raise SecondSend
        self.armed = False
        self._check_peer(connection)
        if self.before_first_byte is not None:
            await self._last_check()
            if connection.closed:  # while we asked; nothing was written, so nothing counts
                raise ConnectionResetError("the connection closed before the request was written")
        self.requests += 1

    async def _last_check(self) -> None:
        assert self.before_first_byte is not None
        try:
            await self.before_first_byte()
        except SerenoError as error:
            raise Stopped(type(error).__name__) from error

    def _check_peer(self, connection: Connection) -> None:
        """Judges the address that is really connected, once a connection."""
        protocol = connection.protocol
        if protocol is None or getattr(protocol, "sereno_peer_checked", False):
            return
        peer = connection.transport.get_extra_info("peername") if connection.transport else None
        if not peer:
            raise Refused("the connection does not say whom it reached")
        check_address(parse_address(peer[0]), self.target, self.allow)
        protocol.sereno_peer_checked = True  # type: ignore[attr-defined]  # lives and dies with the connection


_current: ContextVar[Exchange] = ContextVar("sereno_exchange")
enter, leave = _current.set, _current.reset


class GateResolver(AbstractResolver):
    """Resolves for the client library and notes which addresses may be connected to."""

    def __init__(self, resolve: Resolve):
        self._resolve = resolve

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC) -> list[ResolveResult]:
        """All checked addresses of the exchange's target. Raises Refused, OSError."""
        exchange = _current.get()
        if (host, port) != (exchange.target.host, exchange.target.port):
            raise Refused("the client library asked for another host")
        addresses = await checked_addresses(exchange.target, exchange.allow, self._resolve)
        exchange.approved = {(address, port) for address in addresses}
        return [
            ResolveResult(
                hostname=host, host=str(address), port=port, family=_family(address), proto=0, flags=socket.AI_NUMERICHOST
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """Nothing is held."""


def _family(address: Address) -> int:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6


def socket_factory(open_socket: OpenSocket) -> Callable[[AddrInfoType], socket.socket]:
    """Wraps the opening of sockets: none is made for an address that this exchange did not approve."""

    def open_checked(info: AddrInfoType) -> socket.socket:
        exchange = _current.get()
        sockaddr: Any = info[4]
        address = parse_address(str(sockaddr[0]))
        try:
            if not exchange.approves(address, sockaddr[1]):
                raise Refused("the address was not resolved by this request")
            check_address(address, exchange.target, exchange.allow)
        except Refused as error:
            exchange.refused = str(error)
            raise OSError("refused by the egress gate") from error  # the library's connect loop lets only OSError through
        return open_socket(info)

    return open_checked


def plain_socket(info: AddrInfoType) -> socket.socket:
    """Opens a socket of the kind the address needs."""
    return socket.socket(family=info[0], type=info[1], proto=info[2])
