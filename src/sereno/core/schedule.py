"""Schedules: when a poll falls due next. At most one catch-up run, jitter drawn from a seed, no clock."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from sereno.core.quick import quick
from sereno.core.values import FAR_FUTURE

SHORTEST = timedelta(seconds=1)
_NO_INSTANT = "the schedule has no instant before year 9999"
_MICROSECOND = timedelta(microseconds=1)
_NONE = timedelta(0)


@quick
@dataclass(frozen=True, slots=True)
class Interval:
    """Every `every` (1 s … 10 years), counted on a fixed grid from `anchor`; `jitter` moves each instant later by a
    stable share of it in [0, jitter). The grid runs both ways, so an anchor in the future never delays a poll."""

    every: timedelta
    anchor: datetime
    jitter: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Cron:
    """A five-field cron expression in an IANA zone. The type is stored today; running it comes with the zones issue."""

    expression: str
    zone: str = "UTC"
    jitter: timedelta = timedelta(0)


Schedule = Interval | Cron


@quick
@dataclass(frozen=True, slots=True)
class NextDue:
    """The next instant, and how many instants passed unseen (they are one catch-up run, never a burst; I7)."""

    due: datetime
    missed: int


def next_due(schedule: Schedule, after: datetime, seed: str, *, served: datetime | None = None) -> NextDue:
    """Finds the first instant strictly after `after`.

    `seed` (the poll id) fixes the jitter, so that the same poll keeps its place in the interval and polls made together
    spread out (W29). `served` is the due instant that was served: `missed` counts the instants after it, up to and including
    `after`; without it nothing was missed. Raises ValueError for a schedule that cannot run yet (cron), or that has no instant
    before year 9999.
    """
    match schedule:
        case Interval():
            return _next_on_grid(schedule, after, seed, served)
        case Cron():
            raise ValueError("cron schedules come in a later version; use every=…")


def rested(schedule: Schedule, ran_at: datetime) -> datetime:
    """The instant until which a run at `ran_at` is enough: half an interval on.

    A grid instant before it is passed over, so that after a late or a first run the source is not asked twice in a row.
    """
    return ran_at + schedule.every / 2 if isinstance(schedule, Interval) else ran_at


def next_instants(schedule: Schedule, after: datetime, seed: str, count: int = 5) -> list[datetime]:
    """Lists the next `count` instants, for restating a schedule to a person."""
    found: list[datetime] = []
    for _ in range(count):
        after = next_due(schedule, after, seed).due
        found.append(after)
    return found


def _next_on_grid(schedule: Interval, after: datetime, seed: str, served: datetime | None) -> NextDue:
    every = schedule.every
    if every < SHORTEST:
        raise ValueError(f"an interval is at least {SHORTEST.total_seconds():g}s")
    try:
        start = schedule.anchor + _place(schedule.jitter, seed)
        passed = (after - start) // every
        due = start + (passed + 1) * every
    except OverflowError as error:
        raise ValueError(_NO_INSTANT) from error
    if due > FAR_FUTURE:
        raise ValueError(_NO_INSTANT)
    missed = 0 if served is None else passed - (served - start) // every
    return NextDue(due, missed if missed > 0 else 0)


@lru_cache(maxsize=100_000)
def _place(jitter: timedelta, seed: str) -> timedelta:
    """The stable share of the jitter, in whole microseconds: SHA-256 of the seed read as a fraction."""
    if not jitter:
        return _NONE
    share = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")
    return timedelta(0, 0, (share * (jitter // _MICROSECOND)) >> 64)
