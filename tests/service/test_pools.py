"""The pools of the settings hold whoever drives: a program, a foreground wait, the loop."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from sereno.app import Seams, Sereno, open_app
from sereno.service.operations import Wanted
from sereno.settings import parse_settings
from tests.faces.conftest import QuickClock
from tests.faces.provider import CONTRACT, Provider

STRICT = "rate = 0.01\nburst = 1\n"


@asynccontextmanager
async def opened(folder: Path, pool: str, limits: str) -> AsyncIterator[Sereno]:
    """The app in a folder, in quick time, with one pool in its settings."""
    (folder / "contracts").mkdir(exist_ok=True)
    (folder / "contracts" / "acme.toml").write_text(CONTRACT)
    text = f'contracts = ["contracts"]\n[egress]\nallow = ["127.0.0.1"]\n[pools."{pool}"]\n{limits}'
    loaded = parse_settings(text, folder / "sereno.toml")
    async with open_app(loaded, console=io.StringIO(), seams=Seams(clock=QuickClock())) as app:
        yield app


@pytest.mark.parametrize(("limits", "looks"), [(STRICT, {1}), ("rate = 5\n", {2, 3})])
async def test_W29_a_foreground_wait_keeps_to_the_pool_of_the_settings(tmp_path: Path, limits: str, looks: set[int]) -> None:
    """Nothing but the wait runs: one look a hundred seconds leaves one look in sixty; a wide pool leaves more."""
    provider = Provider()
    try:
        async with opened(tmp_path, f"provider:{provider.base.split('/')[2]}", limits) as app:
            wanted = Wanted("acme", "job-1", base=provider.base, deadline=timedelta(seconds=60), max_status_requests=5)
            found = await app.operations.register(wanted)
            await app.operations.wait(found.record.operation.id)
        assert len(provider.books.sent("GET")) in looks
    finally:
        provider.close()


async def test_W29_a_changed_pool_holds_in_the_app_that_is_opened_next(tmp_path: Path) -> None:
    """The wait was registered under wide limits; the program that drives it has strict ones, and only drives."""
    provider = Provider()
    pool = f"provider:{provider.base.split('/')[2]}"
    try:
        async with opened(tmp_path, pool, "rate = 5\n") as app:
            wanted = Wanted("acme", "job-1", base=provider.base, deadline=timedelta(seconds=60), max_status_requests=5)
            operation = (await app.operations.register(wanted)).record.operation.id
        async with opened(tmp_path, pool, STRICT) as app:
            await app.operations.wait(operation)
        assert len(provider.books.sent("GET")) == 1
    finally:
        provider.close()
