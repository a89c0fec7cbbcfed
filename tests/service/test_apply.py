"""Applying the settings file: several processes at once, and a database that goes away under a running loop."""

import asyncio
import io
from pathlib import Path

import pytest

from sereno.app import open_app
from sereno.core.errors import Unavailable
from sereno.settings import parse_settings

POLLS = "".join(
    f'[[poll]]\nname = "p{n}"\nevery = "1h"\nsource = {{ type = "file", path = "/etc/hostname" }}\n' for n in range(20)
)


async def test_two_processes_that_apply_the_same_file_at_once_agree(tmp_path: Path) -> None:
    """The slower one finds the other's polls and takes them for its own."""
    loaded = parse_settings(POLLS, tmp_path / "sereno.toml")
    async with open_app(loaded, console=io.StringIO()) as one, open_app(loaded, console=io.StringIO()) as other:
        done = await asyncio.gather(one.apply(), other.apply())
        actions = [[applied.action for applied in applications] for applications in done]
        assert sorted(pair for pair in zip(*actions, strict=True)) and all(
            "created" in pair for pair in zip(*actions, strict=True)
        )
        assert len(await one.polls.list()) == 20


async def test_a_loop_whose_database_was_deleted_ends(tmp_path: Path) -> None:
    """What it would go on doing would be kept nowhere."""
    fast = '[lease]\nlease = "3s"\ntotal_deadline = "1s"\nguard = "0.3s"\ncommit_time = "0.5s"\ntick = "0.05s"\n'
    loaded = parse_settings(fast + POLLS, tmp_path / "sereno.toml")
    async with open_app(loaded, console=io.StringIO()) as app:
        await app.apply()
        running = asyncio.create_task(app.run())
        loaded.database.unlink()
        with pytest.raises(Unavailable, match="taken away"):
            await asyncio.wait_for(running, 90)
