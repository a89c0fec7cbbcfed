"""Schedules: strictly later, one catch-up, a stable place in the interval (I7, W29)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sereno.core.schedule import Cron, Interval, next_due, next_instants

ANCHOR = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
INSTANTS = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
SCHEDULES = st.builds(
    Interval,
    every=st.timedeltas(timedelta(seconds=1), timedelta(days=3650)),
    anchor=INSTANTS,
    jitter=st.timedeltas(timedelta(0), timedelta(days=1)),
)


def test_instants_lie_on_the_grid() -> None:
    """Without jitter the instants are anchor + n × every, however odd the moment of asking."""
    schedule = Interval(MINUTE, ANCHOR)
    assert next_due(schedule, ANCHOR + timedelta(seconds=61.5), "poll_a").due == ANCHOR + 2 * MINUTE
    assert next_due(schedule, ANCHOR, "poll_a").due == ANCHOR + MINUTE
    assert next_due(schedule, ANCHOR - timedelta(seconds=90), "poll_a").due == ANCHOR - MINUTE


def test_I7_ten_thousand_missed_ticks_are_one_next() -> None:
    """After a long sleep there is one next instant, and the passed ones are counted (incident 9)."""
    now = ANCHOR + 10_000 * MINUTE + timedelta(seconds=5)
    found = next_due(Interval(MINUTE, ANCHOR), now, "poll_a", served=ANCHOR)
    assert (found.due, found.missed) == (ANCHOR + 10_001 * MINUTE, 10_000)


def test_a_run_on_time_misses_nothing() -> None:
    """The instant that was served is not missed, and no due instant later than now makes a negative count."""
    schedule = Interval(MINUTE, ANCHOR)
    assert next_due(schedule, ANCHOR + timedelta(seconds=3), "p", served=ANCHOR).missed == 0
    assert next_due(schedule, ANCHOR, "p", served=ANCHOR + 5 * MINUTE).missed == 0


def test_W29_jitter_is_stable_for_a_poll_and_spreads_polls() -> None:
    """The same poll keeps its place; a thousand polls of one schedule fill the jitter evenly."""
    schedule = Interval(MINUTE, ANCHOR, jitter=MINUTE)
    first, second = next_instants(schedule, ANCHOR, "poll_a", 2)
    assert second - first == MINUTE
    places = [(next_due(schedule, ANCHOR, f"poll_{number}").due - ANCHOR).total_seconds() for number in range(1000)]
    tenths = [sum(1 for place in places if tenth * 6 <= place < (tenth + 1) * 6) for tenth in range(10)]
    assert min(tenths) > 60, tenths


@given(SCHEDULES, INSTANTS, st.text(max_size=5))
def test_next_is_strictly_later_and_within_one_interval(schedule: Interval, after: datetime, seed: str) -> None:
    """next(t) > t always, and never more than one interval away (incident 10)."""
    due = next_due(schedule, after, seed).due
    assert after < due <= after + schedule.every


@given(SCHEDULES, INSTANTS, st.timedeltas(timedelta(0), timedelta(days=3000)))
def test_missed_counts_the_instants_between(schedule: Interval, served: datetime, passed: timedelta) -> None:
    """Missed instants fit between what was served and now."""
    found = next_due(schedule, served + passed, "p", served=served)
    assert abs(found.missed - passed / schedule.every) <= 1


@given(SCHEDULES, INSTANTS)
def test_lists_are_the_steps_one_by_one(schedule: Interval, after: datetime) -> None:
    """Restating a schedule shows just what will happen."""
    instants = next_instants(schedule, after, "p", 3)
    assert len(instants) == 3
    assert instants[1] - instants[0] == instants[2] - instants[1] == schedule.every


def test_cron_says_what_to_use_instead() -> None:
    """The type exists; running it comes later, and the message says what works now."""
    with pytest.raises(ValueError, match="use every="):
        next_due(Cron("0 9 * * *"), ANCHOR, "p")


@pytest.mark.parametrize("every", [timedelta(0), timedelta(seconds=-5), timedelta(milliseconds=999)])
def test_an_interval_below_a_second_is_refused(every: timedelta) -> None:
    """No schedule can spin."""
    with pytest.raises(ValueError, match="at least 1s"):
        next_due(Interval(every, ANCHOR), ANCHOR, "p")


def test_the_end_of_the_calendar_is_refused() -> None:
    """A schedule without an instant before year 9999 says so instead of overflowing."""
    with pytest.raises(ValueError, match="9999"):
        next_due(Interval(timedelta(days=3650), ANCHOR), datetime(9998, 1, 1, tzinfo=UTC), "p")
