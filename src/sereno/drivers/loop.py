"""The long-running loop (`sereno up`), and the same loop bounded (`sereno once`, `sereno wait`)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

import structlog

from sereno.core.errors import SerenoError, Unavailable
from sereno.drivers.crew import Crew, Tally
from sereno.drivers.wakeup import Wakeup
from sereno.engine.guard import Moment
from sereno.engine.kit import Kit
from sereno.ports import Only

log = structlog.get_logger("sereno.drivers")

CLOCK_STEP = 60.0
"""Seconds of difference between the wall clock and the time since boot that count as a step; a machine that sleeps makes none."""
UNAVAILABLE_PAUSE = 5.0
PURGE_EVERY = 600.0


async def _nothing() -> None:
    return None


def _no_trouble() -> Unavailable | None:
    return None


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What the app asks of a driver beside work: removing old runs now and then, and ending where the database is no longer there
    or damaged."""

    purge: Callable[[], Awaitable[None]] = _nothing
    trouble: Callable[[], Unavailable | None] = _no_trouble
    patience_s: float | None = None
    """How long claims may fail in a row before the driver ends with the error; None = it tries for ever, as a service does."""


class Driver:
    """Claims due work and has it performed, until told to stop or until `finished` says so.

    `only` restricts what is claimed. Several drivers, in one process or many, may run on one database.
    """

    def __init__(self, kit: Kit, *, worker: str, slots: int, only: Only | None = None, upkeep: Upkeep | None = None):
        self._kit = kit
        self._worker = worker
        self._only = only
        self._wakeup = Wakeup()
        self._crew = Crew(kit, slots, self._one_ended)
        self._enough = max(1, slots // 4)
        """Free slots that are worth a claim while work is in hand."""
        self._stopping = False
        self._clock_offset: float | None = None
        self._instant: tuple[datetime, float] | None = None
        """The database's instant at the last claim, and monotonic time then: this worker's wall clock may be years off."""
        self._upkeep = upkeep or Upkeep()
        self._trouble: Unavailable | None = None
        self._purged_mono = kit.clock.monotonic()
        self._refused_mono: float | None = None
        """Since when claims fail."""

    @property
    def tally(self) -> Tally:
        """How the work so far ended."""
        return self._crew.tally

    @property
    def busy(self) -> int:
        """How many pieces of work are in hand."""
        return self._crew.busy

    @property
    def stopping(self) -> bool:
        """True once an end was asked for."""
        return self._stopping

    def stop(self) -> None:
        """Asks for an end: nothing more is claimed, what is in hand is finished."""
        self._stopping = True
        self._wakeup.ring()

    def ring(self) -> None:
        """Tells that something may have fallen due (a row was written in this process)."""
        self._wakeup.ring()

    async def run(self, finished: Callable[[], Awaitable[bool]] | None = None) -> Tally:
        """Runs until stopped, or until nothing is in hand and `finished()` is true. Drains on the way out.

        Raises Unavailable where the database was taken away meanwhile, or is damaged, or was not available for longer than
        `Upkeep.patience_s`.
        """
        beat = asyncio.get_running_loop().create_task(self._beats(), name="beat")
        try:
            while not self._stopping:
                claimed = await self._claim()
                if claimed or self._stopping:
                    continue
                if finished is not None and self._crew.busy == 0 and await finished():
                    break
                await self._wakeup.wait(await self._patience())
        finally:
            try:
                await self._crew.drain(self._kit.times.total_deadline.total_seconds())
            finally:
                beat.cancel()
                await asyncio.gather(beat, return_exceptions=True)
        if self._trouble is not None:
            raise self._trouble
        return self.tally

    def _one_ended(self) -> None:
        """Wakes the loop where it would claim or end: not for each of the ends before that."""
        if self._crew.free >= self._enough or not self._crew.busy:
            self._wakeup.ring()

    async def _claim(self) -> int:
        """Claims a batch when enough slots are free; answers how much came."""
        crew = self._crew
        if crew.free < self._enough and crew.busy:
            return 0
        before = Moment.of(self._kit.clock)
        try:
            found = await self._kit.store.claim(worker=self._worker, limit=crew.free, times=self._kit.times, only=self._only)
        except Unavailable as error:
            await self._refused(error, before.mono)
            return 0
        self._refused_mono = None
        self._kit.crash_point("claim.done")
        self._instant = (found.now, self._kit.clock.monotonic())
        crew.start(found.works, before)
        return len(found.works)

    async def _refused(self, error: Unavailable, since: float) -> None:
        """Waits before the next claim, or ends the loop where claims failed for as long as was to be borne, or will go on failing."""
        if self._look_after_the_store():
            return
        self._refused_mono = since if self._refused_mono is None else self._refused_mono
        patience = self._upkeep.patience_s
        if patience is not None and self._kit.clock.monotonic() - self._refused_mono >= patience:
            self._trouble = error
            self.stop()
            return
        log.warning("the store is not available; trying again", error=error.message)
        await self._wakeup.wait(UNAVAILABLE_PAUSE)

    async def _patience(self) -> float:
        """Seconds until something may be due; at most a tick, so that other processes' rows are seen."""
        tick = self._kit.times.tick.total_seconds()
        if self._crew.busy and self._crew.free < self._enough:
            return tick
        try:
            due = await self._kit.store.next_due(self._only)
        except Unavailable:
            return tick
        if due is None or self._instant is None:
            return tick
        at, mono = self._instant
        passed = self._kit.clock.monotonic() - mono
        return min(tick, max(0.001, (due - at).total_seconds() - passed))

    async def _beats(self) -> None:
        """Each tick: lease extension, clock steps, retention."""
        while True:
            await self._kit.clock.sleep(self._kit.times.tick.total_seconds())
            self._look_after_the_store()
            try:
                await self._crew.extend()
                await self._watch_clock()
                await self._purge_sometimes()
            except SerenoError as error:
                # The beat goes on: without it no lease would be prolonged any more.
                log.warning("the store did not take the beat", code=error.code, error=error.message)

    async def _watch_clock(self) -> None:
        offset = self._kit.clock.now().timestamp() - self._kit.clock.boot().seconds
        if self._clock_offset is not None and abs(offset - self._clock_offset) > CLOCK_STEP:
            log.warning("the host clock stepped", seconds=round(offset - self._clock_offset, 3))
            await self._kit.store.note_clock_step(offset - self._clock_offset)
        self._clock_offset = offset

    async def _purge_sometimes(self) -> None:
        if self._kit.clock.monotonic() - self._purged_mono > PURGE_EVERY:
            self._purged_mono = self._kit.clock.monotonic()
            await self._upkeep.purge()

    def _look_after_the_store(self) -> bool:
        """Ends the loop, and answers True, where its database was taken away or is damaged: what it goes on doing would be kept nowhere."""
        trouble = self._upkeep.trouble()
        if trouble is not None:
            self._trouble = trouble
            self.stop()
        return trouble is not None
