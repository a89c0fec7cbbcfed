"""Sereno itself: as many polls as there are URLs, in a database of its own, run by the loop of `sereno up`."""

import asyncio
import sqlite3
import time
from contextlib import AsyncExitStack, closing
from pathlib import Path

from sereno.app import Sereno, open_app
from sereno.drivers.crew import Tally
from sereno.drivers.loop import Driver
from sereno.service.polls import read_model
from sereno.settings import load_settings

_SETTINGS = """
[egress]
allow = ["127.0.0.1:{port}"]

[pools."host:127.0.0.1:{port}"]
rate = "unlimited"
"""
_TOGETHER = 500


class Polls:
    """Everything is the default but for the pool's limit and the allowed address."""

    def __init__(self, folder: Path, port: int, urls: list[str]) -> None:
        self._folder, self._port, self._urls = folder, port, urls
        self._names = [f"item-{number}" for number in range(len(urls))]
        self._stack = AsyncExitStack()
        self._app: Sereno | None = None

    async def open(self) -> None:
        """Makes the polls and runs each twice: the baseline, and a first unchanged run."""
        config = self._folder / "sereno.toml"
        config.write_text(_SETTINGS.format(port=self._port))
        app = await self._stack.enter_async_context(open_app(load_settings(str(config), {}, self._folder)))
        self._app = app
        app.set_up_logs(level="warning", form="text")
        await app.apply()
        models = [
            read_model({"name": name, "source": {"type": "http", "url": url}, "every": "1d"})
            for name, url in zip(self._names, self._urls, strict=True)
        ]
        for start in range(0, len(models), _TOGETHER):
            await asyncio.gather(*(app.polls.add(model, look=False) for model in models[start : start + _TOGETHER]))
        await self.drain()
        self.make_due()
        await self.drain()

    def make_due(self) -> None:
        """What a day's sleep would do: every poll is due."""
        now = time.time_ns() // 1_000
        with closing(sqlite3.connect(self._folder / ".sereno" / "sereno.db")) as connection, connection:
            connection.execute("UPDATE poll SET due = ?, scheduled_for = ?", (now, now))
            connection.execute("UPDATE pool SET wake = ? WHERE name LIKE 'host:%'", (now,))

    async def drain(self) -> None:
        """Runs each poll once, all of them being due: claim, conditional GET, decision, commit."""
        assert self._app is not None
        driver = Driver(self._app.kit, worker="bench", slots=self._app.loaded.settings.slots)

        async def finished() -> bool:
            return driver.tally.done >= len(self._urls)

        tally = await driver.run(finished)
        assert tally == Tally(done=len(self._urls)), tally

    async def close(self) -> None:
        """Closes the database."""
        await self._stack.aclose()
