"""Waking up: after sleep, suspend or a stepped clock there is no burst, and what was missed is one run (W08, I7)."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest

from sereno.testing.books import burst_over
from sereno.testing.virtual import VirtualClock, run_virtual
from tests.drivers.stage import HOST, Stage

NIGHT_S = 8 * 3600.0
POLLS = 1000
RATE, BURST = 1.0, 5
"""The limits that a host gets by itself."""


async def _first_runs(stage: Stage, count: int = POLLS, rate: float = RATE) -> None:
    """All polls have run once, politely, before the night."""
    await stage.polls(count, every=timedelta(hours=2))
    await stage.drive(count / rate + 5, stage.driver(slots=32))
    assert stage.book.reads_of() == Counter({f"p{n}": 1 for n in range(count)})


async def _process_was_away(stage: Stage) -> None:
    """No process ran for eight hours."""
    await stage.clock.sleep(NIGHT_S)


async def _host_was_suspended(stage: Stage) -> None:
    """The process lived, but its host slept: wall clock and boot time went on."""
    running = stage.driver(slots=32)
    task = asyncio.get_running_loop().create_task(running.run())
    await stage.clock.sleep(30)
    assert isinstance(stage.clock, VirtualClock)
    stage.clock.offset += timedelta(seconds=NIGHT_S)
    stage.clock.asleep += NIGHT_S
    await stage.clock.sleep(5)
    running.stop()
    await task


@pytest.mark.parametrize("night", [_process_was_away, _host_was_suspended])
def test_W08_I7_a_thousand_polls_on_one_host_wake_without_a_burst(night: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    """After eight hours each poll runs once, what was missed is counted, and no window holds more than burst + rate·Δ
    (incident 7)."""

    async def main() -> None:
        stage = Stage()
        await _first_runs(stage)
        stage.book.reads.clear()
        await night(stage)
        await stage.drive(POLLS / RATE + 5, stage.driver(slots=32))
        assert stage.book.reads_of() == Counter({f"p{n}": 1 for n in range(POLLS)})
        assert burst_over(stage.book.sent_at(), rate=RATE, burst=BURST) <= 1e-6
        runs = await stage.sql("SELECT missed, count(*) AS n FROM run WHERE number = 2 GROUP BY missed")
        assert [(row["missed"], row["n"]) for row in runs] == [(3, POLLS)]

    run_virtual(main)


def test_the_measure_of_a_burst_finds_one() -> None:
    """Six sends at once are one more than a burst of five allows; one a second after five is not."""
    assert burst_over([0.0] * 6, rate=1.0, burst=5) == 1
    assert burst_over([0.0] * 5 + [1.0, 2.0, 3.0], rate=1.0, burst=5) == 0
    assert burst_over([0.0, 100.0, 100.0, 100.0], rate=1.0, burst=2) == 1


STEPS = {"forward ten years": timedelta(days=3650), "back a day": -timedelta(hours=24)}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
def test_I7_a_stepped_clock_is_recorded_once_and_causes_no_burst(step: timedelta) -> None:
    """The host's clock jumps while the driver runs: one record, one run for each poll at most, no window over the limit."""

    async def main() -> None:
        stage = Stage()
        await _first_runs(stage, 100)
        stage.book.reads.clear()
        driver = stage.driver(slots=32)
        task = asyncio.get_running_loop().create_task(driver.run())
        await stage.clock.sleep(10)
        stage.clock.offset += step
        await stage.clock.sleep(120)
        assert max(stage.book.reads_of().values(), default=0) <= 1
        assert burst_over(stage.book.sent_at(), rate=RATE, burst=BURST) <= 1e-6
        # Two hours on, every poll has had its turn: nothing is stuck behind the step.
        await stage.clock.sleep(2 * 3600)
        driver.stop()
        await task
        assert set(stage.book.reads_of()) == {f"p{n}" for n in range(100)}
        assert burst_over(stage.book.sent_at(), rate=RATE, burst=BURST) <= 1e-6
        notes = await stage.sql("SELECT facts FROM journal WHERE subject = 'clock'")
        seconds = [json.loads(row["facts"])["seconds"] for row in notes]
        assert len(seconds) == 1, seconds
        # The store measures a step back from its latest mark, which is at most half a minute old while nothing is claimed.
        assert abs(seconds[0] - step.total_seconds()) <= 32

    run_virtual(main)


def test_W08_an_operation_that_slept_sends_one_request() -> None:
    """After eight hours an operation asks once, not once for each look it missed; after its deadline it asks not at all."""

    async def main() -> None:
        stage = Stage()
        await stage.operation("late", deadline=timedelta(hours=4))
        await stage.operation("long", deadline=timedelta(hours=20))
        await stage.drive(60, stage.driver())
        before = stage.book.reads_of()
        assert before["late"] >= 2
        assert before["long"] >= 2
        stage.book.reads.clear()
        await stage.clock.sleep(NIGHT_S)
        await stage.drive(4, stage.driver())
        assert stage.book.reads_of() == Counter({"long": 1})
        states = await stage.sql("SELECT job_id, state, category FROM operation ORDER BY job_id")
        assert [(row["state"], row["category"]) for row in states] == [("escalated", "deadline_exceeded"), ("waiting", None)]

    run_virtual(main)


def test_I7_several_drivers_share_one_limit(tmp_path: Any) -> None:
    """Three processes on one file wake together: the limit holds for all of them, and nobody repeats another's run."""

    async def main() -> None:
        stage = Stage(tmp_path / "s.db")
        await stage.polls(200, every=timedelta(hours=2))
        stores = [stage.open() for _ in range(2)]
        drivers = [stage.driver("a"), *(stage.driver(f"b{n}", store=store) for n, store in enumerate(stores))]
        await stage.drive(210, *drivers)
        assert stage.book.reads_of() == Counter({f"p{n}": 1 for n in range(200)})
        assert burst_over(stage.book.sent_at(), rate=RATE, burst=BURST) <= 1e-6
        workers = await stage.sql("SELECT DISTINCT claimed_by FROM run")
        assert len(workers) > 1
        assert (await stage.sql("SELECT count(*) AS n FROM run WHERE status <> 'ok'"))[0]["n"] == 0
        for store in (*stores, stage.store):
            await store.close()

    run_virtual(main)


def test_the_pool_of_the_tests_has_the_default_limits() -> None:
    """The figures above are those that a host gets when nobody sets any."""

    async def main() -> None:
        stage = Stage()
        await stage.polls(1)
        (row,) = await stage.sql("SELECT rate, burst FROM pool WHERE name = ?", HOST)
        assert (row["rate"], row["burst"]) == (RATE, BURST)

    run_virtual(main)
