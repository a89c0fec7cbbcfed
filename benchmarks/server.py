"""The server that every contestant asks: canned answers over uvloop, so that it is never the limit.

    python -m benchmarks.server CORE

Prints its port on the first line and ends when standard input closes. `GET /stats` answers what it counted and the processor time it used.
"""

import asyncio
import json
import os
import sys
import time

import uvloop

ETAG = '"v1"'
_HEAD = "Date: Sun, 01 Mar 2026 12:00:00 GMT\r\nServer: bench\r\nCache-Control: max-age=60\r\n"
_BODY = json.dumps({"id": 1, "state": "open", "title": "An item that does not change", "notes": "x" * 900})
UNCHANGED = f"HTTP/1.1 304 Not Modified\r\n{_HEAD}ETag: {ETAG}\r\n\r\n".encode()
WHOLE = f"HTTP/1.1 200 OK\r\n{_HEAD}ETag: {ETAG}\r\nContent-Type: application/json\r\nContent-Length: {len(_BODY)}\r\n\r\n{_BODY}".encode()
_END = b"\r\n\r\n"


class Canned(asyncio.Protocol):
    """One connection. A request with our ETag is answered 304, any other 200 with one kilobyte of JSON."""

    unchanged = whole = connections = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # TCP has both directions
        self._transport, self._rest = transport, b""
        Canned.connections += 1

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        if data.endswith(_END) and data.count(_END) == 1:
            self._answer(data)
            return
        *requests, self._rest = data.split(_END)
        for request in requests:
            self._answer(request)

    def _answer(self, request: bytes) -> None:
        if ETAG.encode() in request:
            Canned.unchanged += 1
            self._transport.write(UNCHANGED)
        elif request.startswith(b"GET /stats "):
            self._transport.write(_stats())
        else:
            Canned.whole += 1
            self._transport.write(WHOLE)


def _stats() -> bytes:
    counted = {
        "unchanged": Canned.unchanged,
        "whole": Canned.whole,
        "connections": Canned.connections,
        "cpu_s": time.process_time(),
    }
    body = json.dumps(counted)
    return f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


async def serve(core: int) -> None:
    """Serves on a free loopback port until standard input closes."""
    os.sched_setaffinity(0, {core})
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Canned, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    over = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), over.set)
    await over.wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
