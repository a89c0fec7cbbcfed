"""Who decides what goes wrong at a provider, and the dice alone that do."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Protocol

from sereno.testing.hostile.book import Job, Ordered
from sereno.testing.hostile.faults import FAULTS
from sereno.testing.hostile.more import MORE
from sereno.testing.hostile.waits import HINTS, WAITS, Wait, draw_hint, draw_wait

SUBMIT_FAULTS = ("lost before", "lost after", "500 after", "429", "refused", "denied", "away", "nameless")
CANCEL_FAULTS = ("429", "lost before", "lost after", "404")
MORE_SUBMIT_FAULTS = ("unreadable", "two jobs", "job of another", "after the deadline")
REPEATED = ("lost after", "500 after", "unreadable")
"""Faults after which a submit is sent again under its key."""
MORE_CANCEL_FAULTS = ("500 after", "after the deadline")
LOOKS: Sequence[str] = (*FAULTS, *MORE)
HOST_FAULTS = ("outage", "slow connection")
HANDED_OVER = "handed over"
WAIT_KINDS = (*WAITS, *(f"hint {name}" for name in HINTS), HANDED_OVER)


class Fates(Protocol):
    """Draws what strikes at one event; None = nothing does. `skew` is how far the wall clock of the asker's
    database is ahead of the provider's."""

    def connection(self) -> float:
        """Seconds until the connection stands."""
        ...

    def away(self, now: datetime) -> bool:
        """True while the whole host answers nobody."""
        ...

    def look(self, job: Job, *, ended: bool) -> str | None:
        """A name of FAULTS or MORE."""
        ...

    def hint(self) -> dict[str, object] | str | None:
        """Body hints for an honest answer that the job goes on, or `handed over`."""
        ...

    def submit(self, order: Ordered, *, known: bool) -> str | None:
        """A name of SUBMIT_FAULTS or MORE_SUBMIT_FAULTS."""
        ...

    def cancel(self, job: Job) -> str | None:
        """A name of CANCEL_FAULTS or MORE_CANCEL_FAULTS."""
        ...

    def wait(self, now: datetime, skew: timedelta, *, likely: bool) -> tuple[str | None, Wait]:
        """A Retry-After and its kind; `likely` after a fault."""
        ...


NO_WAIT = Wait((), read=False)


class DicedFates:
    """Each job has a hostility of its own; kinds are equally likely."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice

    def connection(self) -> float:
        """At once."""
        return 0.0

    def away(self, now: datetime) -> bool:
        """Never."""
        return False

    def look(self, job: Job, *, ended: bool) -> str | None:
        """By the job's hostility."""
        return self._dice.choice(list(FAULTS)) if self._dice.random() < job.hostility else None

    def hint(self) -> dict[str, object] | str | None:
        """In a fifth of the answers."""
        if self._dice.random() >= 0.2:
            return None
        return draw_hint(self._dice) if self._dice.random() < 0.7 else HANDED_OVER

    def submit(self, order: Ordered, *, known: bool) -> str | None:
        """More often than not."""
        return self._dice.choice((*SUBMIT_FAULTS, *[None] * 5))

    def cancel(self, job: Job) -> str | None:
        """More often than not."""
        return self._dice.choice((*CANCEL_FAULTS, None, None, None))

    def wait(self, now: datetime, skew: timedelta, *, likely: bool) -> tuple[str | None, Wait]:
        """After a fault nearly always."""
        return (None, draw_wait(self._dice, now)) if likely or self._dice.random() < 0.1 else (None, NO_WAIT)
