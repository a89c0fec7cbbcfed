"""Names to addresses: all of them, judged before any is used. DNS has own threads, so that a dead server starves nobody."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv6Address

from sereno.outside.egress.address import Address, parse_address, why_name_denied, why_special
from sereno.outside.egress.allow import Allow
from sereno.outside.url import BAD_PORTS, Target

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Finds all A and AAAA addresses of a name. Raises OSError where there are none."""

_MOST_ADDRESSES = 64


class Refused(Exception):
    """The gate does not ask this address. Nothing was sent to it."""


class SystemResolver:
    """Asks the operating system. `close` lets running look-ups end by themselves."""

    def __init__(self, threads: int = 32):
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="sereno-dns")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, socket.getaddrinfo, host, port, 0, socket.SOCK_STREAM)
        return [str(entry[4][0]) for entry in found]

    def close(self) -> None:
        """Takes no more look-ups."""
        self._threads.shutdown(wait=False, cancel_futures=True)


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
