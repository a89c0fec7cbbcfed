"""Removes one content encoding (gzip or deflate) in small steps, under a cap. Nested encodings are refused, not unpacked."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterable
from io import BytesIO

_STEP = 65_536
_BREATH = 1_048_576
"""Decoded bytes after which the loop gets its turn (a few milliseconds of work)."""
_MOST_MEMBERS = 64


class BadEncoding(Exception):
    """The body cannot be decoded as its header says."""


class TooLarge(Exception):
    """The body is longer than the caller allows."""


def encoding_of(values: Iterable[str]) -> str | None:
    """Reads Content-Encoding headers: None, `gzip` or `deflate`. Raises BadEncoding for a second one or an unknown one."""
    names = [name for value in values for part in value.split(",") if (name := part.strip().lower()) not in ("", "identity")]
    if not names:
        return None
    if len(names) > 1:
        raise BadEncoding(f"{len(names)} content encodings, one at most is decoded")
    known = {"x-gzip": "gzip", "gzip": "gzip", "deflate": "deflate"}.get(names[0])
    if known is None:
        raise BadEncoding("a content encoding that was not asked for")
    return known


class Inflater:
    """Decodes a stream, at most `cap` bytes; hands each piece to `write` where there is one, else collects them."""

    def __init__(self, encoding: str, cap: int, write: Callable[[bytes], Awaitable[None]] | None = None):
        self._encoding = encoding
        self._cap = cap
        self._write = write
        self._unpack: zlib._Decompress | None = None
        self._members = 0
        self._since_breath = 0
        self._total = 0
        self._out = BytesIO()  # gives its bytes away without a copy

    async def feed(self, data: bytes) -> None:
        """Decodes one piece. Raises BadEncoding, TooLarge."""
        while data:
            if self._unpack is None or self._unpack.eof:
                self._unpack = self._next_member(data)
            data = await self._step(self._unpack, data)

    async def _step(self, unpack: "zlib._Decompress", data: bytes) -> bytes:
        """One bounded step; gives back what is still to decode."""
        try:
            piece = unpack.decompress(data, _STEP)
        except zlib.error as error:
            raise BadEncoding(f"a broken {self._encoding} body") from error
        self._total += len(piece)
        if self._total > self._cap:
            raise TooLarge
        if self._write is None:
            self._out.write(piece)
        elif piece:
            await self._write(piece)
        self._since_breath += len(piece)
        if self._since_breath >= _BREATH:
            self._since_breath = 0
            await asyncio.sleep(0)
        return unpack.unused_data if unpack.eof else unpack.unconsumed_tail

    def _next_member(self, data: bytes) -> "zlib._Decompress":
        self._members += 1
        if self._members > (_MOST_MEMBERS if self._encoding == "gzip" else 1):
            raise BadEncoding("data after the end of the compressed body")
        if self._encoding == "gzip":
            return zlib.decompressobj(16 + zlib.MAX_WBITS)
        # "deflate" means zlib (RFC 9110), but some servers send it bare; the first byte tells (RFC 1950).
        return zlib.decompressobj(zlib.MAX_WBITS if data[0] & 0x0F == 8 else -zlib.MAX_WBITS)

    def finish(self) -> bytes:
        """What was collected. Raises BadEncoding where the stream ended early."""
        if self._unpack is not None and not self._unpack.eof:
            raise BadEncoding(f"a truncated {self._encoding} body")
        return self._out.getvalue()
