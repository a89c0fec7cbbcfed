"""Drivers: several on one database, the drain in two phases, `once`, leases that are prolonged and leases that are lost (P16, W22)."""

import asyncio
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from sereno.core.errors import InvariantBroken, Unavailable
from sereno.core.work import Kind, LeaseTimes
from sereno.drivers.loop import Driver, Upkeep
from sereno.ports import Only
from sereno.testing.virtual import START, run_virtual
from tests.drivers.stage import HOUR, Stage

LEASE_S = LeaseTimes().lease.total_seconds()
DEADLINE_S = LeaseTimes().total_deadline.total_seconds()


async def started(driver: Driver) -> "asyncio.Task[object]":
    """Lets a driver run in the background."""
    task: asyncio.Task[object] = asyncio.get_running_loop().create_task(driver.run())
    await asyncio.sleep(0)
    return task


async def one_delivery(stage: Stage, seconds: float) -> None:
    """A poll whose first run makes one delivery that takes so long."""
    stage.action.seconds = seconds
    await stage.polls(1, actions=(stage.tell(),))


def test_P16_two_drivers_on_one_file_do_each_run_once(tmp_path: Path) -> None:
    """Two processes' worth of drivers share 60 polls over three rounds: each due instant has one run, by one of them, and one effect
    (incident 14)."""

    async def main() -> None:
        stage = Stage(tmp_path / "s.db")
        await stage.limits("host:example.com", rate=None, burst=1)
        stage.source.seconds = 0.5
        await stage.polls(60, every=timedelta(minutes=1), actions=(stage.tell(),))
        other = stage.open()
        await stage.drive(125, stage.driver("a", slots=8), stage.driver("b", store=other, slots=8))
        assert stage.book.reads_of() == Counter({f"p{n}": 3 for n in range(60)})
        rows = await stage.sql(
            "SELECT subject, scheduled_for, count(*) AS n FROM run GROUP BY subject, scheduled_for HAVING n > 1"
        )
        assert rows == []
        by = await stage.sql(
            "SELECT claimed_by, count(*) AS n FROM run WHERE kind = 'poll' GROUP BY claimed_by ORDER BY claimed_by"
        )
        assert [row["claimed_by"] for row in by] == ["a", "b"]
        assert len(stage.book.acts) == len(set(stage.book.acts)) == 60
        claims = await stage.sql(
            "SELECT count(*) AS n FROM run WHERE claimed_by IS NULL OR started_at IS NULL OR claim_expires_at IS NULL"
        )
        assert claims == [{"n": 0}]
        await other.close()
        await stage.store.close()

    run_virtual(main)


def test_P16_rows_of_another_process_are_seen_within_a_tick(tmp_path: Path) -> None:
    """A driver that has nothing planned finds a poll that another process added, at the latest a tick later."""

    async def main() -> None:
        stage = Stage(tmp_path / "s.db")
        other = stage.open()
        task = await started(driver := stage.driver("a", store=other))
        await stage.clock.sleep(100.3)
        at = stage.clock.monotonic()
        await stage.polls(1, due=stage.clock.now())
        await stage.clock.sleep(2)
        assert [read - at <= stage.times.tick.total_seconds() for read in stage.book.sent_at()] == [True]
        driver.stop()
        await task
        await other.close()
        await stage.store.close()

    run_virtual(main)


def test_stop_finishes_what_is_in_hand_and_claims_nothing_more() -> None:
    """The first phase of the drain: a read under way is committed, what is due besides stays untouched."""

    async def main() -> None:
        stage = Stage()
        stage.source.seconds = 20.0
        await stage.polls(8)
        task = await started(driver := stage.driver(slots=4))
        await stage.clock.sleep(1)
        assert len(stage.book.reads) == 4
        driver.stop()
        await task
        assert stage.clock.monotonic() == pytest.approx(20, abs=1)
        assert driver.tally.done == 4
        runs = await stage.sql("SELECT status, count(*) AS n FROM run GROUP BY status")
        assert [(row["status"], row["n"]) for row in runs] == [("ok", 4)]
        assert len(stage.book.reads) == 4

    run_virtual(main)


def test_the_second_phase_of_the_drain_cancels_and_the_work_falls_due_again() -> None:
    """What does not end within the total deadline is cut off; its lease runs out and another worker takes it up (P16)."""

    async def main() -> None:
        stage = Stage()
        await one_delivery(stage, seconds=10_000)
        task = await started(driver := stage.driver("first"))
        await stage.clock.sleep(2)
        driver.stop()
        began = stage.clock.monotonic()
        await task
        assert stage.clock.monotonic() - began == pytest.approx(DEADLINE_S, abs=0.1)
        assert len(stage.book.cancelled) == 1
        assert await stage.sql("SELECT status FROM run WHERE kind = 'delivery'") == [{"status": "running"}]
        stage.action.seconds = 0.0
        await stage.drive(2 * LEASE_S, stage.driver("second"))
        runs = await stage.sql("SELECT status, claimed_by FROM run WHERE kind = 'delivery' ORDER BY number")
        assert [(row["status"], row["claimed_by"]) for row in runs] == [("abandoned", "first"), ("ok", "second")]
        assert stage.book.acts == [stage.book.acts[0]] * 2
        assert len(stage.book.finished) == 1

    run_virtual(main)


def test_a_second_signal_ends_at_once() -> None:
    """Cancelling the run does not wait for what is in hand longer than the drain allows, and leaves nothing behind that still runs."""

    async def main() -> None:
        stage = Stage()
        await one_delivery(stage, seconds=10_000)
        task = await started(driver := stage.driver())
        await stage.clock.sleep(2)
        driver.stop()
        await stage.clock.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert stage.clock.monotonic() < 3 + DEADLINE_S
        assert len(stage.book.cancelled) == 1
        assert [left for left in asyncio.all_tasks() if left is not asyncio.current_task()] == []

    run_virtual(main)


def test_once_does_what_was_due_and_the_effects_of_that_then_ends() -> None:
    """`once` runs the due polls, delivers what they found, leaves later polls alone, and returns (W08)."""

    async def main() -> None:
        stage = Stage()
        stage.source.seconds, stage.action.seconds = 1.0, 1.0
        await stage.polls(7, actions=(stage.tell(),))
        await stage.polls(3, first=7, due=START + HOUR, actions=(stage.tell(),))
        only = Only(due_by=stage.clock.now())
        driver = stage.driver(only=only)

        async def finished() -> bool:
            return await stage.store.work.next_due(only) is None

        tally = await driver.run(finished)
        assert stage.book.reads_of() == Counter({f"p{n}": 1 for n in range(7)})
        assert len(stage.book.finished) == 7
        assert tally.done == 14
        assert stage.clock.monotonic() < 60
        again = stage.driver(only=Only(due_by=START))
        assert (await again.run(finished)).done == 0

    run_virtual(main)


def test_once_waits_for_the_pool_but_not_for_the_next_round() -> None:
    """With more due than the burst allows, `once` stays within the rate and still does everything that was due."""

    async def main() -> None:
        stage = Stage()
        await stage.polls(20, every=timedelta(seconds=5))
        only = Only(due_by=stage.clock.now())

        async def finished() -> bool:
            return await stage.store.work.next_due(only) is None

        await stage.driver(only=only).run(finished)
        assert stage.book.reads_of() == Counter({f"p{n}": 1 for n in range(20)})
        assert 15 <= stage.clock.monotonic() < 17

    run_virtual(main)


def test_a_driver_of_one_subject_leaves_the_others_alone() -> None:
    """`wait` drives its own operation and nothing else."""

    async def main() -> None:
        stage = Stage()
        mine, _other = await stage.operation("mine"), await stage.operation("other")
        await stage.polls(3)
        only = Only(subject=mine, kinds=(Kind.OPERATION,))

        async def finished() -> bool:
            rows = await stage.sql("SELECT state FROM operation WHERE id = ?", mine)
            return bool(rows[0]["state"] != "waiting")

        task = asyncio.get_running_loop().create_task(stage.driver(only=only, slots=1).run(finished))
        await stage.clock.sleep(30)
        stage.transport.word = "done"
        await task
        assert set(stage.book.reads_of()) == {"mine"}
        assert (await stage.sql("SELECT state FROM operation WHERE id = ?", mine))[0]["state"] == "succeeded"

    run_virtual(main)


def test_W22_a_long_action_keeps_its_lease() -> None:
    """An action five leases long is prolonged: another driver never takes it over, it acts once and is committed (incident 3)."""

    async def main() -> None:
        stage = Stage()
        await one_delivery(stage, seconds=5 * LEASE_S)
        await stage.drive(6 * LEASE_S, stage.driver("a", slots=1), stage.driver("b", slots=1))
        assert len(stage.book.acts) == 1
        runs = await stage.sql("SELECT status FROM run WHERE kind = 'delivery'")
        assert runs == [{"status": "ok"}]

    run_virtual(main)


def test_the_beat_survives_a_mistake_of_ours() -> None:
    """Retention that fails must not end the prolonging of leases: an action long beyond it is still alone."""

    async def main() -> None:
        stage = Stage()
        await one_delivery(stage, seconds=1_000)
        tried: list[float] = []

        async def purge() -> None:
            tried.append(stage.clock.monotonic())
            raise InvariantBroken("the database refused a statement")

        await stage.drive(1_100, stage.driver("a", slots=1, upkeep=Upkeep(purge)), stage.driver("b", slots=1))
        assert len(tried) == 1
        assert len(stage.book.acts) == len(stage.book.finished) == 1

    run_virtual(main)


def test_W22_work_whose_lease_was_lost_is_cancelled() -> None:
    """When the fence moved on, the next beat cuts the action off, and nothing it does is written."""

    async def main() -> None:
        stage = Stage()
        await one_delivery(stage, seconds=10 * LEASE_S)
        task = await started(driver := stage.driver("stale"))
        await stage.clock.sleep(5)
        assert len(stage.book.acts) == 1
        await stage.sql("UPDATE delivery SET run = run + 1")
        await stage.clock.sleep(LEASE_S)
        assert len(stage.book.cancelled) == 1
        before = await stage.sql("SELECT state, run, last_outcome FROM delivery")
        driver.stop()
        await task
        assert await stage.sql("SELECT state, run, last_outcome FROM delivery") == before
        assert before[0]["last_outcome"] is None

    run_virtual(main)


def test_W22_a_stale_commit_is_refused_and_counted_as_lost() -> None:
    """A worker whose lease was taken over while it read writes nothing; the driver goes on (incident 1)."""

    async def main() -> None:
        stage = Stage()
        stage.source.seconds = 10.0
        await stage.polls(1)
        task = await started(driver := stage.driver("stale"))
        await stage.clock.sleep(5)
        await stage.sql("UPDATE poll SET run = run + 1")
        await stage.clock.sleep(10)
        assert driver.tally.lost == 1
        assert await stage.sql("SELECT cursor, runs FROM poll") == [{"cursor": None, "runs": 0}]
        driver.stop()
        await task

    run_virtual(main)


def test_I31_a_dead_worker_is_replaced_within_lease_and_tick() -> None:
    """A worker dies without a word; a second one beside it takes its work up at the latest a lease and a tick later."""

    async def main() -> None:
        stage = Stage()
        await stage.operation("job", deadline=5 * HOUR)
        claimed = await stage.store.work.claim(worker="dead", limit=5, times=stage.times)
        assert len(claimed.works) == 1
        await stage.drive(2 * LEASE_S, stage.driver("alive"))
        assert stage.book.sent_at()[0] <= LEASE_S + stage.times.tick.total_seconds()
        runs = await stage.sql("SELECT status, claimed_by FROM run ORDER BY number LIMIT 2")
        assert [(row["status"], row["claimed_by"]) for row in runs] == [("abandoned", "dead"), ("ok", "alive")]

    run_virtual(main)


def test_a_driver_ends_where_its_database_was_taken_away() -> None:
    """What it would go on doing would be kept nowhere: it stops claiming and says so."""

    async def main() -> None:
        stage = Stage()
        await stage.polls(3)
        gone: list[Unavailable] = []
        driver = stage.driver(upkeep=Upkeep(trouble=lambda: gone[0] if gone else None))
        running = asyncio.get_running_loop().create_task(driver.run())
        await stage.clock.sleep(30)
        assert not running.done()
        gone.append(Unavailable("the database was taken away"))
        await stage.clock.sleep(30)
        with pytest.raises(Unavailable, match="taken away"):
            await running

    run_virtual(main)
