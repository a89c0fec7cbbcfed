"""The bare loop: aiohttp on uvloop, keep-alive, 100 in flight, reads the body, remembers nothing."""

import asyncio

import aiohttp


async def drain(urls: list[str], etag: str) -> None:
    """Asks each URL once."""
    left = iter(urls)

    async def worker(session: aiohttp.ClientSession) -> None:
        for url in left:
            async with session.get(url, headers={"If-None-Match": etag}) as response:
                await response.read()
                assert response.status == 304

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=100)) as session:
        await asyncio.gather(*(worker(session) for _ in range(100)))
