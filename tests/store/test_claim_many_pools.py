"""A restricted claim (`once`) reaches every pool that has due work, however many pools there are."""

import asyncio
from pathlib import Path

from sereno.app import open_app
from sereno.service.polls import read_model
from sereno.settings import parse_settings


async def test_once_is_not_starved_by_more_pools_than_one_claim_takes(tmp_path: Path) -> None:
    """12 polls on 12 hosts with 4 slots, and one more pool later: each is run, and `once` ends."""
    async with open_app(parse_settings("slots = 4\n", tmp_path / "sereno.toml"), origin="cli") as app:
        for number in range(12):
            source = {"type": "http", "url": f"http://10.0.0.{number}/"}
            await app.polls.add(read_model({"name": f"p{number}", "every": "1h", "source": source}), look=False)
        async with asyncio.timeout(50):
            assert (await app.once()).done == 12
        last = read_model({"name": "last", "every": "1h", "source": {"type": "http", "url": "http://10.0.1.1/"}})
        await app.polls.add(last, look=False)
        async with asyncio.timeout(50):
            assert (await app.once()).done == 1
