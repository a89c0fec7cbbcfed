"""The pools of the settings hold whoever drives: a program, a foreground wait, the loop.

The quick clock is a real one: how long something took is judged from below alone. What the pool does not hold back would be there
in a few seconds; a machine that stalls makes it later, never sooner.
"""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from sereno.app import Seams, Sereno, open_app
from sereno.core.operation import OperationState
from sereno.service.operations import Wanted
from sereno.settings import parse_settings
from tests.faces.conftest import SETTINGS, QuickClock
from tests.faces.provider import CONTRACT, Provider

WIDE = "rate = 5\n"


@asynccontextmanager
async def opened(folder: Path, clock: QuickClock, provider: Provider, limits: str) -> AsyncIterator[Sereno]:
    """The app in a folder, in quick time, with the provider's pool in its settings; it looks for due work every second and a half."""
    (folder / "contracts").mkdir(exist_ok=True)
    (folder / "contracts" / "acme.toml").write_text(CONTRACT)
    pool = f"provider:{provider.base.split('/')[2]}"
    text = f'contracts = ["contracts"]\n{SETTINGS}[pools."{pool}"]\n{limits}'
    loaded = parse_settings(text, folder / "sereno.toml")
    async with open_app(loaded, console=io.StringIO(), seams=Seams(clock=clock)) as app:
        yield app


async def registered(app: Sereno, provider: Provider) -> str:
    """A wait whose deadline is out of reach; its job is done at the third look."""
    wanted = Wanted("acme", "job-1", base=provider.base, deadline=timedelta(days=1), max_status_requests=20)
    return (await app.operations.register(wanted)).record.operation.id


async def shortest_pause(app: Sereno, operation: str) -> float:
    """Drives the wait to its end; answers the shortest quick seconds between two claims of a look, by its run records."""
    ended = await app.operations.wait(operation)
    assert ended.operation.state is OperationState.SUCCEEDED
    begun = sorted(run.started_at for run in await app.runs.list(operation))
    assert len(begun) >= 3
    return min((later - before).total_seconds() for before, later in zip(begun, begun[1:], strict=False))


@pytest.mark.parametrize("seconds", [20, 40])
async def test_W29_a_foreground_wait_keeps_to_the_pool_of_the_settings(tmp_path: Path, seconds: int) -> None:
    """Nothing but the wait runs: its looks are as far apart as the pool says, not four seconds as the contract would have it."""
    clock, provider = QuickClock(), Provider()
    try:
        async with opened(tmp_path, clock, provider, f"rate = {1 / seconds}\nburst = 1\n") as app:
            pause = await shortest_pause(app, await registered(app, provider))
        assert pause > seconds - 0.01
        assert len(provider.books.sent("GET")) == 3
    finally:
        provider.close()


async def test_W29_a_changed_pool_holds_in_the_app_that_is_opened_next(tmp_path: Path) -> None:
    """The wait was registered under wide limits; the program that drives it has strict ones, and only drives."""
    clock, provider = QuickClock(), Provider()
    try:
        async with opened(tmp_path, clock, provider, WIDE) as app:
            operation = await registered(app, provider)
        async with opened(tmp_path, clock, provider, "rate = 0.05\nburst = 1\n") as app:
            assert await shortest_pause(app, operation) > 20 - 0.01
        assert len(provider.books.sent("GET")) == 3
    finally:
        provider.close()
