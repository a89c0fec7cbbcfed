"""Drivers on clocks that are wrong, are set or stop with the machine: durations hold, nothing spins, nothing is sent early (I4, I6, I23)."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from sereno.core.observation import HttpReply, Reply
from sereno.core.work import LeaseTimes
from sereno.drivers.loop import Driver
from sereno.ports import Fetch
from sereno.testing.virtual import VirtualClock, run_virtual
from tests.drivers.stage import HOUR, AnyClock, Book, ScriptedTransport, Stage

YEARS = timedelta(days=3653)
TIMES = LeaseTimes(tick=timedelta(seconds=10))
"""Few ticks in many hours."""
AFTER_S = 7200
ANSWER_S = 1.0


class Counted:
    """The store; counts claims."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.claims = 0

    def __getattr__(self, name: str) -> Any:
        self.claims += name == "claim"
        return getattr(self._inner, name)


def lived(off: timedelta) -> tuple[list[tuple[float, str]], int]:
    """What a worker whose wall clock is off by `off` sends in ten minutes, and how often it claims."""

    async def main() -> tuple[list[tuple[float, str]], int]:
        stage = Stage()
        own = VirtualClock()
        own.offset = off
        kit = stage.kit(clock=own)
        counted = Counted(kit.store)
        object.__setattr__(kit, "store", counted)
        await stage.operation("job")
        await stage.polls(5, every=timedelta(minutes=1))
        stage.source.seconds = 2
        await stage.drive(600, Driver(kit, worker="w", slots=16))
        return stage.book.reads, counted.claims

    return run_virtual(main)


@pytest.mark.parametrize("off", [timedelta(hours=-24), YEARS, timedelta(seconds=-90)])
def test_I23_a_worker_whose_wall_clock_is_off_does_the_same_at_the_same_moments(off: timedelta) -> None:
    """The database's clock says what is due; the worker's own only measures: the same sends, and no more claims."""
    reads, claims = lived(timedelta(0))
    assert len(reads) > 50
    assert lived(off) == (reads, claims)
    assert claims < 1000, "a tick is a second"


class Busy(ScriptedTransport):
    """Asks for two hours each time, and takes a second to say so."""

    def __init__(self, book: Book, clock: AnyClock) -> None:
        super().__init__(book, clock)
        self.answered: list[float] = []

    async def fetch(self, request: Fetch) -> Reply:
        reply = await super().fetch(request)
        assert isinstance(reply, HttpReply)
        await self._clock.sleep(ANSWER_S)
        self.answered.append(self._clock.monotonic())
        return HttpReply(200, (*reply.headers, ("retry-after", str(AFTER_S))), reply.body, reply.url, timedelta(seconds=ANSWER_S))


@pytest.mark.parametrize("at", [0.5, 1800.0, 7199.5])
@pytest.mark.parametrize("step", [HOUR, YEARS, -24 * HOUR])
def test_I4_a_clock_that_is_set_while_a_driver_runs_brings_no_look_forward(at: float, step: timedelta) -> None:
    """In the middle of a look, of its wait, and right before the next: two hours are two hours, and the step is recorded once."""

    async def main() -> None:
        stage = Stage(times=TIMES)
        clock = stage.clock
        assert isinstance(clock, VirtualClock)
        stage.transport = busy = Busy(stage.book, clock)
        await stage.operation("job", deadline=3 * YEARS)
        driver = stage.driver()
        running = asyncio.get_running_loop().create_task(driver.run())
        await clock.sleep(at)
        clock.offset += step
        await clock.sleep(2.5 * HOUR.total_seconds() - at)
        driver.stop()
        await running
        sent = stage.book.sent_at()
        waits = [later - earlier for earlier, later in zip(busy.answered, sent[1:], strict=False)]
        assert len(waits) == 1
        assert all(AFTER_S <= wait <= AFTER_S + 2 * stage.times.tick.total_seconds() for wait in waits), waits
        rows = await stage.sql(
            "SELECT facts ->> 'seconds' AS seconds, facts ->> 'moved' AS moved FROM journal WHERE subject = 'clock'"
        )
        assert rows == [{"seconds": pytest.approx(step.total_seconds()), "moved": 1}]

    run_virtual(main)


def test_I4_a_machine_that_sleeps_waits_meanwhile() -> None:
    """A Retry-After of two hours, of which the machine slept most: the look comes when the two hours are over, not two hours after waking."""

    async def main() -> None:
        stage = Stage(times=TIMES)
        clock = stage.clock
        assert isinstance(clock, VirtualClock)
        stage.transport = Busy(stage.book, clock)
        await stage.operation("job", deadline=3 * YEARS)
        driver = stage.driver()
        running = asyncio.get_running_loop().create_task(driver.run())
        await clock.sleep(600)
        clock.offset += timedelta(seconds=6000)
        clock.asleep += 6000
        await clock.sleep(1200)
        driver.stop()
        await running
        first, second = stage.book.sent_at()
        assert await stage.sql("SELECT 1 FROM journal WHERE subject = 'clock'") == [], "that was no step"
        assert second + 6000 - first == pytest.approx(AFTER_S + ANSWER_S, abs=21)

    run_virtual(main)


@pytest.mark.parametrize("step", [YEARS, timedelta(days=3 * 365, minutes=17), -24 * HOUR])
def test_I7_polls_keep_their_interval_over_a_step(step: timedelta) -> None:
    """None is read for the step, each is read an interval after its last run, and at least half of one lies between two runs after it."""

    async def main() -> None:
        stage = Stage(times=TIMES)
        clock = stage.clock
        assert isinstance(clock, VirtualClock)
        await stage.polls(5)
        driver = stage.driver()
        running = asyncio.get_running_loop().create_task(driver.run())
        await clock.sleep(600)
        clock.offset += step
        await clock.sleep(4 * HOUR.total_seconds())
        driver.stop()
        await running
        for name in (f"p{number}" for number in range(5)):
            at = [when for when, which in stage.book.reads if which == name]
            gaps = [later - earlier for earlier, later in zip(at, at[1:], strict=False)]
            assert gaps[0] == pytest.approx(3600, abs=21)
            assert len(gaps) >= 3
            assert all(1790 <= gap <= 5410 for gap in gaps), gaps
        assert [row["missed"] for row in await stage.sql("SELECT DISTINCT missed FROM run")] == [0]

    run_virtual(main)
