"""Connections between two requests. The library's own pool judges a connection anew each time it is lent and given back; here it stays
lent, which costs a tenth of a small request less."""

import asyncio
from collections import deque

from aiohttp.connector import Connection

MOST_IDLE = 200
"""Held here at most; more go back to the library's pool."""


class Idle:
    """Connections that wait for the next request to their origin, `keep` seconds at most. Bound to the running event loop."""

    def __init__(self, keep: float, loop: asyncio.AbstractEventLoop | None = None):
        self._keep = keep
        self._loop = loop or asyncio.get_running_loop()
        self._waiting: dict[str, deque[tuple[Connection, float]]] = {}
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def put(self, origin: str, connection: Connection) -> None:
        """Keeps a connection whose answer has come whole; one that must close, or is one too many, is left to the library."""
        protocol = connection.protocol
        if protocol is None or protocol.should_close or self._count >= MOST_IDLE:
            connection.release()
            return
        waiting = self._waiting.get(origin)
        if waiting is None:
            waiting = self._waiting[origin] = deque()
        waiting.append((connection, self._loop.time() + self._keep))
        self._count += 1
        if self._timer is None:
            self._timer = self._loop.call_later(self._keep, self._sweep)

    def take(self, origin: str) -> Connection | None:
        """The connection that waited longest, if one is still open and said nothing while nobody asked."""
        waiting = self._waiting.get(origin)
        while waiting:
            connection, until = waiting.popleft()
            self._count -= 1
            protocol = connection.protocol
            if protocol is not None and protocol.is_connected() and not protocol.should_close and self._loop.time() <= until:
                return connection
            connection.close()
        return None

    def close(self) -> None:
        """Closes all."""
        self._end(float("inf"))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self) -> None:
        self._timer = None
        self._end(self._loop.time())
        if self._count:
            self._timer = self._loop.call_later(self._keep, self._sweep)

    def _end(self, now: float) -> None:
        """Closes what has waited too long, and forgets origins that nothing waits for."""
        for origin, waiting in list(self._waiting.items()):
            while waiting and waiting[0][1] <= now:
                waiting.popleft()[0].close()
                self._count -= 1
            if not waiting:
                del self._waiting[origin]
