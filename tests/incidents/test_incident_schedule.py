"""Incidents of others with schedules: replayed ticks, storms on waking, daylight saving. The numbers are those of
tests/incidents.toml."""

import asyncio
import json
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from sereno.core.schedule import Interval, next_due
from sereno.core.work import LeaseTimes
from sereno.faces.cli.commands import run_command
from sereno.ports import Boot
from sereno.testing.virtual import START, VirtualClock, run_virtual
from tests.drivers.stage import Stage

MINUTE = timedelta(minutes=1)
ZONES = (
    "UTC", "Europe/Berlin", "Europe/London", "Europe/Dublin", "Europe/Moscow", "America/New_York", "America/Chicago", "America/Sao_Paulo",
    "America/St_Johns", "America/Caracas", "America/Havana", "America/Asuncion", "America/Santiago", "Asia/Kolkata", "Asia/Kathmandu",
    "Asia/Tehran", "Asia/Gaza", "Asia/Pyongyang", "Asia/Amman", "Asia/Tokyo", "Australia/Lord_Howe", "Australia/Sydney", "Australia/Eucla",
    "Pacific/Apia", "Pacific/Chatham", "Pacific/Kiritimati", "Pacific/Norfolk", "Africa/Casablanca", "Africa/Cairo", "Antarctica/Troll",
)  # fmt: skip
"""Thirty, with the odd ones: half an hour of daylight saving, two hours of it, changes in Ramadan, a day left out."""


class SuspendedClock(VirtualClock):
    """The clock of a host that may sleep: its wall clock and the time since its start go on meanwhile, monotonic time does
    not."""

    asleep = 0.0

    def suspend(self, seconds: float) -> None:
        """The host sleeps for so long, in no time of the loop."""
        self.offset += timedelta(seconds=seconds)
        self.asleep += seconds

    def boot(self) -> Boot:
        """Seconds since the start of the host."""
        return Boot("virtual", self.monotonic() + self.asleep)


@pytest.mark.parametrize("sleeps", ["the process was away", "the host was suspended", "the process hung"])
def test_I7_ten_thousand_missed_ticks_are_one_run_and_the_next_comes(sleeps: str) -> None:
    """incident 6, incident 9: a poll of every minute sleeps for a week: one run that says missed=n, no effect doubled, then
    each minute."""

    async def main() -> None:
        clock = SuspendedClock()
        stage, missed = Stage(times=LeaseTimes(tick=MINUTE), clock=clock), 10_000
        stage.source.news = True
        await stage.polls(1, every=MINUTE, actions=(stage.tell(),))
        await stage.drive(30, stage.driver())
        assert len(stage.book.reads) == len(stage.book.acts) == 1
        driver = stage.driver()
        if sleeps == "the process was away":
            await stage.clock.sleep(missed * 60)
        task = asyncio.get_running_loop().create_task(driver.run())
        if sleeps == "the host was suspended":
            await stage.clock.sleep(10)
            clock.suspend(missed * 60)
        if sleeps == "the process hung":
            driver._claim = hang(stage.clock, missed * 60, driver._claim)  # type: ignore[method-assign]
            await stage.clock.sleep(missed * 60 + 90)
        await stage.clock.sleep(5 * 60)
        driver.stop()
        await task
        runs = await stage.sql("SELECT missed, status FROM run WHERE kind = 'poll' ORDER BY number")
        late = [run["missed"] for run in runs if run["missed"]]
        assert len(late) == 1 and missed - 2 <= late[0] <= missed + 2, late
        assert 5 <= len(runs) <= 8 and {run["status"] for run in runs} == {"ok"}, "and then one a minute"
        at = stage.book.sent_at()[1:]
        assert min(after - before for before, after in zip(at, at[1:], strict=False)) >= 30, "not one after the other"
        assert len(runs) >= len(stage.book.acts) == len({*stage.book.acts}) >= len(runs) - 1, "the last one may still be queued"

    run_virtual(main)


def hang(clock: VirtualClock, seconds: float, claim: object) -> object:
    """The first claim comes back only after so long."""
    hung: list[bool] = []

    async def hanging() -> int:
        if not hung:
            hung.append(True)
            await clock.sleep(seconds)
        found: int = await claim()  # type: ignore[operator]
        return found

    return hanging


@pytest.mark.parametrize("asleep_s", [61, 90, 119, 130])
def test_I7_a_stop_over_one_due_minute_is_caught_up_once(asleep_s: int) -> None:
    """incident 8: the process is stopped over a due minute and goes on, without a restart: the run comes at once, and only
    once."""

    async def main() -> None:
        stage = Stage()
        await stage.polls(1, every=timedelta(minutes=10), due=START + MINUTE)
        driver = stage.driver()
        driver._claim = hang(stage.clock, asleep_s, driver._claim)  # type: ignore[method-assign]
        task = asyncio.get_running_loop().create_task(driver.run())
        await stage.clock.sleep(9 * 60)
        assert [asleep_s <= at <= asleep_s + 2 for at in stage.book.sent_at()] == [True]
        await stage.clock.sleep(2 * 60)
        assert len(stage.book.reads) == 2, "and the next one at its own time"
        driver.stop()
        await task

    run_virtual(main)


def transitions(zone: str, first: int, last: int) -> Iterator[datetime]:
    """The noon before each change of a zone's offset, in UTC."""
    place, day = ZoneInfo(zone), date(first, 1, 1)
    before = datetime(first, 1, 1, 12, tzinfo=UTC)
    while day.year <= last:
        noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
        if noon.astimezone(place).utcoffset() != before.astimezone(place).utcoffset():
            yield before
        before, day = noon, day + timedelta(days=1)


@pytest.mark.parametrize("zone", ZONES)
def test_next_is_later_at_each_minute_round_the_changes_of_ten_years(zone: str) -> None:
    """incident 10: at every minute of the days on which a zone changes its clocks, next(t) > t, by at most one interval."""
    place = ZoneInfo(zone)
    schedules = [
        Interval(every, datetime(2020, 2, 3, 2, 30, tzinfo=place).astimezone(UTC), jitter=jitter)
        for every, jitter in ((MINUTE, MINUTE), (timedelta(hours=1), timedelta(0)), (timedelta(days=1), timedelta(minutes=7)))
    ]
    for day in transitions(zone, 2026, 2035):
        for minute in range(24 * 60):
            now = day + minute * MINUTE
            for schedule in schedules:
                due = next_due(schedule, now, "poll_1").due
                assert now < due <= now + schedule.every, (zone, now, schedule)


def test_ten_years_of_a_schedule_are_as_many_steps_as_instants() -> None:
    """incident 10: walking on from each instant ends: as many steps as there are days, no instant twice."""
    schedule, now, seen = Interval(timedelta(days=1), START, jitter=timedelta(hours=3)), START, set[datetime]()
    while now < START + timedelta(days=3650):
        now = next_due(schedule, now, "poll_1").due
        seen.add(now)
        assert len(seen) <= 3652
    assert len(seen) >= 3649


def test_a_schedule_that_nothing_can_run_yet_is_refused_when_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """incident 10: a cron line is refused whole, so that no poll is silent or spins for want of a next instant."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "sereno.toml").write_text(
        '[[poll]]\nname = "p"\nsource = {type = "http", url = "https://example.org/"}\ncron = "30 2 * * *"\nzone = "Europe/Berlin"\n'
    )
    assert run_command(("apply",)) == 2
    assert "cron schedules come in a later version" in capsys.readouterr().err
    assert run_command(("poll", "list", "--json")) == 0
    assert json.loads(capsys.readouterr().out)["polls"] == []


@pytest.fixture
def local_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The host's own zone, for the time of one test."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("local_zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"], indirect=True)
@pytest.mark.parametrize("zone_day", [date(2026, 10, 24), date(2026, 3, 27), date(2026, 10, 31), date(2026, 4, 3)])
def test_a_day_is_twenty_four_hours_whatever_the_hosts_clock_does(local_zone: str, zone_day: date) -> None:
    """incident 11: over both changes of daylight saving a poll of `1d` runs each 24 hours, once: the rule of intervals knows no
    zone."""

    async def main() -> None:
        start = datetime(zone_day.year, zone_day.month, zone_day.day, 0, 30, tzinfo=UTC)
        stage = Stage(clock=VirtualClock(start))
        await stage.polls(1, every=timedelta(days=1), due=start)
        for _ in range(20):
            await stage.drive(10, stage.driver())
            due = await stage.store.work.next_due()
            assert due is not None
            await stage.clock.sleep(max(0.0, (due - stage.clock.now()).total_seconds()))
            if len(stage.book.reads) == 5:
                break
        at = stage.book.sent_at()
        assert len(at) == 5
        assert all(abs(after - before - 86_400) < 2 for before, after in zip(at[1:], at[2:], strict=False)), at

    run_virtual(main)
