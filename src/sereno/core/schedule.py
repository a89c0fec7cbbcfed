"""Schedules: when a poll falls due next. At most one catch-up run, jitter drawn from a seed, no clock."""

from dataclasses import dataclass
from datetime import datetime, timedelta

SHORTEST = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Interval:
    """Every `every` (1 s … 10 years), counted on a fixed grid from `anchor`; `jitter` moves each instant later by a
    stable share of it in [0, jitter)."""

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


@dataclass(frozen=True, slots=True)
class NextDue:
    """The next instant, and how many instants passed unseen (they are one catch-up run, never a burst; I7)."""

    due: datetime
    missed: int


def next_due(schedule: Schedule, after: datetime, seed: str) -> NextDue:
    """Finds the first instant strictly after `after`.

    `seed` (the poll id) fixes the jitter, so that the same poll keeps its place in the interval and polls made together
    spread out (W29). `missed` counts whole instants between the last one and `after`; the caller passes the due instant it served.
    Raises ValueError for a schedule that cannot run yet (cron).
    """
    raise NotImplementedError


def next_instants(schedule: Schedule, after: datetime, seed: str, count: int = 5) -> list[datetime]:
    """Lists the next `count` instants, for restating a schedule to a person."""
    raise NotImplementedError
