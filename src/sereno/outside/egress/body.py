"""Reads a response within its bounds: headers, encoded and decoded size, average rate."""

import asyncio
from dataclasses import dataclass
from io import BytesIO

from aiohttp import hdrs

from sereno.outside.egress.deadline import Deadline
from sereno.outside.egress.decode import Inflater, TooLarge, encoding_of
from sereno.outside.egress.limits import GateLimits
from sereno.outside.egress.wire import Answer

SLACK = 65_536
"""How much longer than its cap an encoded body may be: compression of what cannot be compressed."""


class HeadersTooLarge(Exception):
    """The headers together are over their cap."""


@dataclass(slots=True)
class Clocked:
    """The one timer of a fetch: the total deadline, moved nearer while a body arrives too slowly."""

    scope: Deadline
    began: float
    deadline: float
    limits: GateLimits
    started: float = 0.0
    floor_at: float | None = None
    """When the floor will have been missed; None before the body."""

    def watch(self, now: float) -> None:
        """Starts to demand the average rate."""
        self.started = now
        self.arrived(0)

    def arrived(self, total: int) -> None:
        """Moves the timer: `total` body bytes have come since `watch`."""
        self.floor_at = self.started + self.limits.grace + total / self.limits.floor
        self.scope.move(min(self.deadline, self.floor_at))

    def too_slow(self) -> bool:
        """True where it was the floor that ended the fetch, not the deadline."""
        return self.floor_at is not None and self.floor_at < self.deadline


def check_headers(response: Answer, limits: GateLimits) -> None:
    """Raises HeadersTooLarge. The library bounds lines and their number; this bounds the sum."""
    total = 0
    for name, value in response.raw_headers:
        total += len(name) + len(value) + 4
    if total > limits.header_bytes:
        raise HeadersTooLarge


async def read_body(response: Answer, cap: int, clock: Clocked) -> bytes:
    """Reads and decodes the whole body. Raises TooLarge, BadEncoding and what the library raises for a broken stream."""
    content = response.content
    if response.status in (204, 304) or response.method == "HEAD":
        return await content.readany()
    encoding = encoding_of(response.headers.getall(hdrs.CONTENT_ENCODING, ()))
    if encoding is None and (response.content_length or 0) > cap:
        raise TooLarge
    if content.is_eof() and encoding is None:  # headers and body came in one piece: no timer, no loop
        return _within(await content.readany(), cap)
    clock.watch(asyncio.get_running_loop().time())
    if encoding is None:
        return await _read_plain(response, cap, clock)
    return await _read_encoded(response, Inflater(encoding, cap), cap, clock)


def _within(body: bytes, cap: int) -> bytes:
    if len(body) > cap:
        raise TooLarge
    return body


async def _read_plain(response: Answer, cap: int, clock: Clocked) -> bytes:
    out, total = BytesIO(), 0  # gives its bytes away without a copy
    while block := await response.content.readany():
        total += len(block)
        if total > cap:
            raise TooLarge
        out.write(block)
        clock.arrived(total)
        await asyncio.sleep(0)
    return out.getvalue()


async def _read_encoded(response: Answer, inflater: Inflater, cap: int, clock: Clocked) -> bytes:
    total = 0
    while block := await response.content.readany():
        total += len(block)
        if total > cap + SLACK:
            raise TooLarge
        await inflater.feed(block)
        clock.arrived(total)
        await asyncio.sleep(0)
    return inflater.finish()
