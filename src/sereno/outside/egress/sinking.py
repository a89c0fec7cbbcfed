"""Hands a body to the caller's sink as it comes (W30), under the bounds that hold for a collected one."""

import asyncio
import errno
import os

from aiohttp import hdrs

from sereno.outside.egress.body import SLACK, Clocked
from sereno.outside.egress.decode import Inflater, TooLarge, encoding_of
from sereno.outside.egress.failure import NotKept
from sereno.outside.egress.wire import Answer
from sereno.outside.redaction import Redaction
from sereno.ports import Sink

MOST_DECLINED = 1_000_000
"""Bytes of a body that the sink did not take: an error page. What was meant for a sink is never collected whole."""


class Scrubbed:
    """Writes to a sink what it is given, without known secrets: an end that could be the start of one waits for what follows."""

    def __init__(self, sink: Sink, redaction: Redaction):
        self._sink = sink
        self._redaction = redaction
        self._longest = max(map(len, redaction.byte_forms), default=0)
        self._held = b""

    async def write(self, piece: bytes) -> None:
        """Raises TooLarge where the sink says that it has no room for so much (EFBIG), NotKept for all else that stops it."""
        if self._longest:
            piece = self._redaction.redact_bytes(self._held + piece)
            ready = max(0, len(piece) - self._longest + 1)
            piece, self._held = piece[:ready], piece[ready:]
        await self._hand_over(piece)

    async def finish(self) -> None:
        """Writes what was held back."""
        held, self._held = self._held, b""
        await self._hand_over(held)

    async def _hand_over(self, piece: bytes) -> None:
        if not piece:
            return
        try:
            await self._sink.write(piece)
        except OSError as error:
            if error.errno == errno.EFBIG:
                raise TooLarge from error
            raise NotKept(
                f"the body could not be kept ({os.strerror(error.errno) if error.errno else 'no reason given'})"
            ) from error


async def stream_body(response: Answer, sink: Scrubbed, cap: int, clock: Clocked) -> None:
    """Reads, decodes and hands over the whole body. Raises what `read_body` raises, and NotKept."""
    if response.status in (204, 304) or response.method == "HEAD":
        return
    encoding = encoding_of(response.headers.getall(hdrs.CONTENT_ENCODING, ()))
    if encoding is None and (response.content_length or 0) > cap:
        raise TooLarge
    inflater = Inflater(encoding, cap, sink.write) if encoding is not None else None
    clock.watch(asyncio.get_running_loop().time())
    total, room = 0, cap if inflater is None else cap + SLACK
    while block := await response.content.readany():
        total += len(block)
        if total > room:
            raise TooLarge
        await (sink.write(block) if inflater is None else inflater.feed(block))
        clock.arrived(total)
        await asyncio.sleep(0)
    if inflater is not None:
        inflater.finish()
    await sink.finish()
