"""One worker whose test steers it: `python -m sereno.testing.process.steered FOLDER NAME`.

It is the real app under the real loop. Commands come on standard input, one a line: `stop POINT` (have this process stop itself with
SIGSTOP at the next such point, and claim nothing any more once it goes on), `halt` (the same, at once), `pages N` (let the database grow by
N pages at most; `pages -1` takes the limit away). Each command, and the start, is answered by one line on standard output.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from sereno.app.opening import Seams, open_app
from sereno.app.running import Sereno
from sereno.core.observation import Reply
from sereno.drivers.loop import Driver
from sereno.ports import Fetch, Only, Transport
from sereno.settings import load_settings

_AGAIN_AFTER_S = 0.01
_NO_LIMIT = 1 << 30


@dataclass(frozen=True, slots=True)
class Named:
    """The transport, saying which worker sends."""

    inner: Transport
    name: str

    async def fetch(self, request: Fetch) -> Reply:
        """Sends it with one more header."""
        return await self.inner.fetch(replace(request, headers={**request.headers, "X-Worker": self.name}))

    async def close(self) -> None:
        """Closes what it stands before."""
        await self.inner.close()


@dataclass(slots=True)
class Steering:
    """What the test has asked for."""

    armed: str = ""
    app: Sereno | None = None
    driver: Driver | None = None
    answer: Callable[[str], None] = field(default=lambda text: print(text, flush=True))

    def point(self, name: str) -> None:
        """Called at each named point of engine and driver."""
        if name == self.armed and not self._writing():
            self.armed = ""
            self._stop()

    def halt(self) -> None:
        """Stops at once, or as soon as nothing is being written."""
        if self._writing():
            asyncio.get_running_loop().call_later(_AGAIN_AFTER_S, self.halt)
        else:
            self._stop()

    def _stop(self) -> None:
        if self.driver is not None:
            self.driver.stop()
        os.kill(os.getpid(), signal.SIGSTOP)

    def _writing(self) -> bool:
        """A process that is writing would keep the database's one lock while it is stopped."""
        executor: Any = None if self.app is None else self.app._store.executor
        return executor is not None and bool(executor._writer._busy)

    async def take(self, line: str) -> None:
        """Carries out one command."""
        word, _, rest = line.partition(" ")
        assert self.app is not None
        if word == "stop":
            self.armed = rest
        elif word == "pages":
            await self.app._store.executor.peek(lambda connection: _allow(connection, int(rest)))
        self.answer(f"ok {line}")
        if word == "halt":
            self.halt()


def _allow(connection: Connection, pages: int) -> None:
    most = _NO_LIMIT if pages < 0 else int(connection.execute("PRAGMA page_count").fetchone()[0]) + pages
    connection.execute(f"PRAGMA max_page_count = {most}").fetchone()


async def work(folder: Path, name: str) -> None:
    """Drives until SIGTERM, or until it goes on after it was stopped; then drains."""
    steering = Steering()
    loaded = load_settings(str(folder / "sereno.toml"), dict(os.environ), folder)
    async with open_app(loaded, origin="cli", seams=Seams(crash_point=steering.point)) as app:
        app.set_up_logs(level="info", form="text")
        await app.apply()
        app.kit = replace(app.kit, transport=Named(app.kit.transport, name))
        driver = Driver(app.kit, worker=name, slots=50, only=Only())
        steering.app, steering.driver = app, driver
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, driver.stop)
        commands = loop.create_task(_commands(steering))
        steering.answer("ready")
        await driver.run()
        commands.cancel()
        await asyncio.gather(commands, return_exceptions=True)


async def _commands(steering: Steering) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        await steering.take(line.decode().strip())


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2]))
