"""Names to addresses: all of them, judged before any is used. DNS has own threads, so that a dead server starves nobody."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import IPv6Address

from sereno.outside.egress.address import Address, parse_address, why_name_denied, why_special
from sereno.outside.egress.allow import Allow
from sereno.outside.url import BAD_PORTS, Target

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Finds all A and AAAA addresses of a name. Raises OSError where there are none."""

_MOST_ADDRESSES = 64


class Refused(Exception):
    """The gate does not ask this address. Nothing was sent to it."""


def _system_look_up(host: str) -> Sequence[str]:
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


class SystemResolver:
    """Asks the operating system, each name once at a time, in daemon threads: a hanging look-up holds up neither other names nor the exit.

    Bound to the running event loop. A thread that outlives its caller keeps its slot until the system answers.
    """

    def __init__(self, *, threads: int = 32, look_up: Callable[[str], Sequence[str]] = _system_look_up):
        self._slots = asyncio.Semaphore(threads)
        self._look_up = look_up
        self._pending: dict[str, asyncio.Task[Sequence[str]]] = {}

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        pending = self._pending.get(host)
        if pending is None:
            pending = self._pending[host] = asyncio.ensure_future(self._ask(host))
            pending.add_done_callback(_look_at_failure)
        return await asyncio.shield(pending)

    def close(self) -> None:
        """Waits for no look-up any longer."""
        for task in self._pending.values():
            task.cancel()

    async def _ask(self, host: str) -> Sequence[str]:
        try:
            async with self._slots:
                answer: asyncio.Future[Sequence[str]] = asyncio.get_running_loop().create_future()
                threading.Thread(target=self._in_thread, args=(host, answer), name="sereno-dns", daemon=True).start()
                return await answer
        finally:
            del self._pending[host]

    def _in_thread(self, host: str, answer: "asyncio.Future[Sequence[str]]") -> None:
        try:
            settle = partial(answer.set_result, self._look_up(host))
        except (OSError, UnicodeError) as error:
            settle = partial(answer.set_exception, error)
        with suppress(RuntimeError):  # the loop was closed while the system thought
            answer.get_loop().call_soon_threadsafe(_unless_done, answer, settle)


def _unless_done(answer: "asyncio.Future[Sequence[str]]", settle: Callable[[], None]) -> None:
    if not answer.done():
        settle()


def _look_at_failure(task: "asyncio.Task[Sequence[str]]") -> None:
    """Keeps asyncio from reporting a failure that every caller stopped waiting for."""
    if not task.cancelled():
        task.exception()


def check_target(target: Target, allow: Allow) -> None:
    """Judges what the URL alone shows: literal address, denied name, bad port. Raises Refused."""
    if target.port in BAD_PORTS and not allow.opens_port(target.host, target.address, target.port):
        raise Refused(f"port {target.port} is never asked")
    if target.address is not None:
        check_address(target.address, target, allow)
    elif not allow.names(target.host, target.port) and (why := why_name_denied(target.host)) is not None:
        raise Refused(f"{target.host} is {why}")


def check_address(address: Address, target: Target, allow: Allow) -> None:
    """Judges one address for one target. Raises Refused; the hint names the setting."""
    why = why_special(address)
    if why is None or allow.opens(address, target.port) or allow.names(target.host, target.port):
        return
    where = str(address) if target.address is not None else f"{target.host} is {address}, which"
    raise Refused(f"{where} is special ({why}); to open it add it to [egress] allow")


async def checked_addresses(target: Target, allow: Allow, resolve: Resolve) -> list[Address]:
    """Resolves a target; if any of its addresses is refused, all are. Raises Refused, OSError."""
    if target.address is not None:
        return [target.address]
    try:
        texts = await resolve(target.host, target.port)
    except UnicodeError as error:
        raise OSError("not a name that DNS can carry") from error
    addresses: list[Address] = []
    for text in texts[:_MOST_ADDRESSES]:
        address = parse_address(text)
        if isinstance(address, IPv6Address) and address.scope_id:
            raise Refused(f"{target.host} has an address with a zone")
        check_address(address, target, allow)
        if address not in addresses:
            addresses.append(address)
    if not addresses:
        raise OSError("the name has no address")
    return addresses
