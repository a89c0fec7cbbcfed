"""P18: the seed schema exists under its names, with the values that were really stored."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from sereno.core.schedule import Cron
from sereno.core.values import to_micros
from tests.store.seeding import ANNA, POOL, START, World, added, delivery, leased, opened, remembered, spec

SEED = {
    "polls": (
        "id user_id source_type source_ref condition_text schedule_type interval_seconds timezone next_run_at last_run_at cursor_value"
        " last_hash status failure_count last_error created_at updated_at"
    ),
    "poll_runs": (
        "id poll_id scheduled_for attempt claimed_by started_at finished_at status items_checked items_changed items_matched cursor_before"
        " cursor_after decision_summary error"
    ),
    "notifications": "id poll_id user_id dedupe_key title body delivered_at",
}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with opened(tmp_path / "sereno.db") as found:
        yield found


@pytest.mark.parametrize("name", sorted(SEED))
async def test_P18_each_seed_name_has_exactly_its_columns(world: World, name: str) -> None:
    """Beside the workspace, which every row has, the view shows the seed columns and no others."""
    columns = [row["name"] for row in await world.sql(f"PRAGMA table_info({name})")]
    assert sorted(columns) == sorted([*SEED[name].split(), "workspace"])


async def test_P18_polls_shows_what_was_defined_and_what_happened(world: World) -> None:
    """An interval poll with its cursor, its newest hash and its failures."""
    poll = await added(world)
    await remembered(world, poll)
    await world.sql("UPDATE poll SET failures = 2, last_error = 'HTTP 503', last_run_at = ? WHERE id = ?", to_micros(START), poll)
    (row,) = await world.sql("SELECT * FROM polls")
    at = to_micros(START)
    assert row == {
        "id": poll,
        "workspace": "main",
        "user_id": "anna",
        "source_type": "http",
        "source_ref": "https://example.com/prices",
        "condition_text": "change in ['new', 'updated']",
        "schedule_type": "interval",
        "interval_seconds": 300,
        "timezone": None,
        "next_run_at": at,
        "last_run_at": at,
        "cursor_value": "etag-1",
        "last_hash": "hash-2",
        "status": "active",
        "failure_count": 2,
        "last_error": "HTTP 503",
        "created_at": at,
        "updated_at": at,
    }


@pytest.mark.parametrize(
    ("source_type", "source", "shown"),
    [
        ("file", {"path": "/srv/list.txt"}, "/srv/list.txt"),
        ("command", {"argv": ["df", "-h"]}, '["df","-h"]'),
        ("feed", {"url": "https://example.com/feed"}, "https://example.com/feed"),
    ],
)
async def test_P18_the_source_reference_is_shown_for_every_source(
    world: World, source_type: str, source: dict[str, object], shown: str
) -> None:
    """URL, path or command: whatever names the place."""
    await added(world, source_type=source_type, source=source)
    (row,) = await world.sql("SELECT source_type, source_ref FROM polls")
    assert (row["source_type"], row["source_ref"]) == (source_type, shown)


async def test_P18_a_cron_poll_shows_its_zone(world: World) -> None:
    """A cron schedule has a time zone and no interval."""
    cron = Cron("0 8 * * 1-5", "Europe/Berlin")
    await world.definitions.add_poll(ANNA, spec(schedule=cron), pool=POOL, due=START, managed_by="user")
    (row,) = await world.sql("SELECT schedule_type, interval_seconds, timezone FROM polls")
    assert row == {"schedule_type": "cron", "interval_seconds": None, "timezone": "Europe/Berlin"}


async def test_P18_poll_runs_shows_runs_of_polls_only(world: World) -> None:
    """A running run has no end yet; a delivery's run is not a poll's."""
    poll = await added(world)
    await leased(world, "poll", poll)
    await leased(world, "delivery", await delivery(world, state="sending", poll=poll, due=to_micros(START)))
    (row,) = await world.sql("SELECT * FROM poll_runs")
    assert (row["id"], row["poll_id"], row["attempt"], row["claimed_by"]) == (f"{poll}.1", poll, 1, "worker-1")
    assert (row["scheduled_for"], row["started_at"], row["finished_at"], row["status"]) == (
        *[to_micros(START)] * 2,
        None,
        "running",
    )


async def test_P18_notifications_shows_what_a_poll_told(world: World) -> None:
    """Title, body, the unique key, and the instant of delivery or null; messages of operations are not a poll's."""
    poll = await added(world)
    await delivery(world, 1, state="delivered", poll=poll, delivered_at=to_micros(START + timedelta(seconds=3)))
    await delivery(world, 2, state="queued", poll=poll)
    await delivery(world, 3, state="queued")
    first, second = await world.sql("SELECT * FROM notifications ORDER BY id")
    assert first == {
        "id": "dlv_1",
        "workspace": "main",
        "poll_id": poll,
        "user_id": "anna",
        "dedupe_key": "main:anna:poll_1:item-1@1:hook:1",
        "title": "Item 1 is new",
        "body": "The body of item 1",
        "delivered_at": to_micros(START + timedelta(seconds=3)),
    }
    assert (second["id"], second["delivered_at"]) == ("dlv_2", None)
