"""Clocks of a simulated world: true time, the host's wall clock that steps and drifts, and each process's own view."""

import asyncio
from datetime import datetime, timedelta

from sereno.outside.clock import LONGEST_SLEEP
from sereno.ports import Boot
from sereno.testing.simulation.process.loop import Process, WorldLoop
from sereno.testing.simulation.terms import ProcessBook, Step
from sereno.testing.virtual import START


async def _sleep(seconds: float) -> None:
    await asyncio.sleep(min(seconds, LONGEST_SLEEP) if seconds > 0 else 0)


class TrueClock:
    """True time: neither steps nor drifts. The books are kept in it."""

    def __init__(self, loop: WorldLoop) -> None:
        self._loop = loop

    def now(self) -> datetime:
        """The true instant."""
        return START + timedelta(seconds=self._loop.awake + self._loop.asleep)

    def monotonic(self) -> float:
        """True seconds since the world began."""
        return self._loop.awake + self._loop.asleep

    def boot(self) -> Boot:
        """True seconds."""
        return Boot("true", self.monotonic())

    async def sleep(self, seconds: float) -> None:
        """Sleeps; while the host sleeps, nothing comes nearer."""
        await _sleep(seconds)


class Host:
    """The host: its wall clock, which somebody sets or which runs at another rate, and how long it runs. It is the database's clock."""

    def __init__(self, loop: WorldLoop, book: ProcessBook, uptime: float) -> None:
        self._loop, self._book, self._uptime = loop, book, uptime
        self._set_at, self._wall, self.rate = 0.0, START, 1.0

    def now(self) -> datetime:
        """The host's wall clock."""
        return self._wall + timedelta(seconds=(self._loop.awake + self._loop.asleep - self._set_at) * self.rate)

    def monotonic(self) -> float:
        """Seconds since the start without those asleep."""
        return self._uptime + self._loop.awake

    def boot(self) -> Boot:
        """Seconds since the start."""
        return Boot("host", self._uptime + self._loop.awake + self._loop.asleep)

    async def sleep(self, seconds: float) -> None:
        """Sleeps in awake seconds."""
        await _sleep(seconds)

    @property
    def ahead(self) -> float:
        """Seconds by which the wall clock is ahead of true time."""
        return (self.now() - START).total_seconds() - self._loop.true()

    def step(self, seconds: float) -> None:
        """Somebody sets the wall clock by so much."""
        self._wall, self._set_at = self.now() + timedelta(seconds=seconds), self._loop.true()
        self._book.steps.append(Step(TrueClock(self._loop).now(), seconds))

    def run_at(self, rate: float) -> None:
        """The wall clock runs at another rate from now on."""
        self._wall, self._set_at, self.rate = self.now(), self._loop.true(), rate


class ProcessClock:
    """The clock of one life of a process: the host's wall clock, off by `skew` (a database on another machine), and its own rate."""

    def __init__(self, host: Host, process: Process, skew: timedelta, uptime: float) -> None:
        self._host, self._process, self.skew, self._uptime = host, process, skew, uptime
        self._foreign = bool(skew)

    def now(self) -> datetime:
        """The wall clock as this process sees it."""
        return self._host.now() + self.skew

    def monotonic(self) -> float:
        """This process's monotonic seconds."""
        return self._uptime + self._process.monotonic()

    def boot(self) -> Boot:
        """Seconds since its host started: those asleep count."""
        if not self._foreign:
            return self._host.boot()
        process = self._process
        return Boot(f"host-of-{process.name.partition('.')[0]}", self._uptime + process.monotonic() + process.loop.asleep)

    async def sleep(self, seconds: float) -> None:
        """Sleeps in its own monotonic time."""
        await _sleep(seconds)
