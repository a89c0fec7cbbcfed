"""The raw-socket reference: 100 connections that write one prepared request and look for the end of the answer's head."""

import asyncio
from collections.abc import Iterator

_END = b"\r\n\r\n"


class _Asker(asyncio.Protocol):
    def __init__(self, requests: Iterator[bytes]) -> None:
        self._requests = requests
        self.over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # TCP has both directions
        self._transport = transport
        self._next()

    def data_received(self, data: bytes) -> None:
        assert data.startswith(b"HTTP/1.1 304 ") and data.endswith(_END)
        self._next()

    def _next(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
            self.over.set_result(None)
        else:
            self._transport.write(request)


async def drain(port: int, paths: list[str], etag: str) -> None:
    """Asks each path once."""
    head = f" HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nIf-None-Match: {etag}\r\nAccept: */*\r\n\r\n"
    left = iter([f"GET {path}{head}".encode() for path in paths])
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(lambda: _Asker(left), "127.0.0.1", port) for _ in range(100)]
    await asyncio.gather(*(asker.over for _, asker in made))
