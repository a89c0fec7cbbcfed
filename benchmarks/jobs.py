"""APScheduler with the same client: one interval job a URL, all due at once, jobs in memory, 100 requests in flight."""

import asyncio
from datetime import UTC, datetime

import aiohttp
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger


class Jobs:
    """The jobs are added while the scheduler is paused; only the firing is timed."""

    def __init__(self, urls: list[str], etag: str) -> None:
        self._headers = {"If-None-Match": etag}
        self._left = len(urls)
        self._over = asyncio.Event()
        self._places = asyncio.Semaphore(100)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=100))
        self._scheduler = AsyncIOScheduler(timezone=UTC)
        self._scheduler.start(paused=True)
        now, hourly = datetime.now(UTC), IntervalTrigger(hours=1, timezone=UTC)
        for url in urls:
            self._scheduler.add_job(self._ask, hourly, [url], next_run_time=now, misfire_grace_time=None, coalesce=True)

    async def drain(self) -> None:
        """Fires every job once."""
        self._scheduler.resume()
        await self._over.wait()

    async def close(self) -> None:
        """Ends the scheduler and its connections."""
        self._scheduler.shutdown(wait=False)
        await self._session.close()

    async def _ask(self, url: str) -> None:
        async with self._places, self._session.get(url, headers=self._headers) as response:
            await response.read()
            assert response.status == 304
        self._left -= 1
        if not self._left:
            self._over.set()
