"""What steps of the host's clock leave alone beside waits: a restored backup, and the receiver's key (I4, I7, I17)."""

from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from sereno.core.delivery import DeliveryDecision, DeliveryState, Outcome, OutcomeKind, before_send, decide_delivery
from sereno.core.work import DeliveryWork
from sereno.store.backup import backup, restore
from sereno.store.definitions import Definitions
from tests.store.seeding import ANNA, CountedIds
from tests.store.stage import MINUTE, effect, unchanged, us
from tests.store.test_clock_steps import DAY, HOUR, YEARS, Host, Set, waiting

STEPS = [3 * DAY, -3 * DAY, timedelta(seconds=20)]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize("replaced", ["read", "deleted"])
async def test_I4_I30_a_restore_across_a_step_keeps_the_waits(
    tmp_path: Path, step: timedelta, noticed: bool, replaced: str
) -> None:
    """The clock was set after the backup was made: what was leased is due at once, and a wait of two hours is one, neither silence nor a
    look too early; whether the replaced database saw the step or nobody did."""
    host, path = Host(), tmp_path / "s.db"
    first = Set(path, host, 1)
    await waiting(first)
    await first.operation("job-2", deadline_at=first.now + 3 * YEARS, first_look=first.now)
    assert len(await first.claim()) == 1
    backup(path, tmp_path / "b.db")
    if noticed:
        host.set(step)
        await first.claim()
    host.at += 10 * MINUTE
    await first.close()
    if not noticed:
        host.set(step)
    if replaced == "deleted":
        for side in ("", "-wal", "-shm"):
            Path(f"{path}{side}").unlink(missing_ok=True)
    restore(tmp_path / "b.db", path, now=host.at, force=True)
    second = Set(path, host, 5000)
    (due,) = await second.claim()
    assert await second.steps() == [step.total_seconds()], "found once"
    for row in await second.sql("SELECT wake FROM pool"):
        assert row["wake"] <= us(second.now + 2 * HOUR), "no silence"
    await second.work.release(due)
    await second.sql("UPDATE operation SET due = NULL, next_poll_at = NULL, state = 'cancelled' WHERE job_id = 'job-2'")
    await second.looks_after(2 * HOUR - 10 * MINUTE)
    await second.close()


async def test_I4_a_step_of_an_earlier_start_of_the_host_is_known_to_the_replaced_database(tmp_path: Path) -> None:
    """The replaced database went on from the backup: how far it moved the waits since is on record there, over starts of the host."""
    host, path = Host(), tmp_path / "s.db"
    first = Set(path, host, 1)
    await waiting(first)
    backup(path, tmp_path / "b.db")
    host.set(3 * DAY)
    await first.claim()
    host.start = "second"
    await first.claim()
    await first.close()
    restore(tmp_path / "b.db", path, now=host.at, force=True)
    second = Set(path, host, 5000)
    await second.looks_after(2 * HOUR)
    await second.close()


async def test_a_restore_over_another_history_goes_by_the_clocks_alone(tmp_path: Path) -> None:
    """What another database moved says nothing about this backup: only how the clock stood then and stands now."""
    host = Host()
    first = Set(tmp_path / "a.db", host, 1)
    await waiting(first)
    backup(tmp_path / "a.db", tmp_path / "b.db")
    await first.close()
    other = Set(tmp_path / "o.db", host, 1000)
    await other.claim()
    for step in (HOUR, -HOUR, 3 * DAY):
        host.set(step)
        await other.claim()
    await other.sql("UPDATE meta SET value = '5' WHERE key = 'clock_moved'")
    await other.close()
    restore(tmp_path / "b.db", tmp_path / "o.db", now=host.at, force=True)
    second = Set(tmp_path / "o.db", host, 5000)
    assert await second.claim() == []
    assert await second.steps() == [(3 * DAY).total_seconds()]
    await second.looks_after(2 * HOUR)
    await second.close()


@pytest.mark.parametrize("noticed", [True, False])
async def test_I7_a_restore_after_a_step_back_does_not_forget_what_a_pool_spent(tmp_path: Path, noticed: bool) -> None:
    """One send an hour: the one that went out since the backup still counts, by the clock as it was set."""
    host, path = Host(), tmp_path / "s.db"
    first = Set(path, host, 1)
    await first.limits("host:example.com", rate=1 / 3600, burst=1)
    for job in ("job-1", "job-2"):
        await first.operation(job, deadline_at=first.now + 3 * YEARS)
    backup(path, tmp_path / "b.db")
    if noticed:
        host.set(-DAY)
    assert len(await first.claim()) == 1
    host.at += 2 * MINUTE
    await first.close()
    if not noticed:
        host.set(-DAY)
    restore(tmp_path / "b.db", path, now=host.at, force=True)
    second = Set(path, host, 5000)
    assert await second.claim() == []
    second.later(HOUR - 3 * MINUTE)
    assert await second.claim() == []
    second.later(MINUTE)
    assert len(await second.claim()) == 1
    await second.close()


@pytest.mark.parametrize(("ahead", "looks"), [(3 * DAY, 1), (-3 * DAY, 0)])
async def test_a_backup_on_another_machine_goes_by_its_own_clock(tmp_path: Path, ahead: timedelta, looks: int) -> None:
    """Nobody can tell a clock that stands ahead from time that passed: waits end early by it. One that stands behind is noticed."""
    host = Host()
    first = Set(tmp_path / "s.db", host, 1)
    await waiting(first)
    backup(tmp_path / "s.db", tmp_path / "b.db")
    await first.close()
    host.start = "other"
    host.set(ahead)
    restore(tmp_path / "b.db", tmp_path / "n.db", now=host.at)
    second = Set(tmp_path / "n.db", host, 5000)
    assert len(await second.claim()) == looks
    await second.close()


async def _attempts(
    stage: Set, steps: dict[int, timedelta], wait: timedelta = 3 * HOUR
) -> tuple[list[timedelta], DeliveryDecision]:
    """Attempts without an answer until none follows: when each left, by time that nobody sets. `steps`: after so many the clock is set."""
    left: list[timedelta] = []
    while True:
        work = next((one for one in await stage.claim() if isinstance(one, DeliveryWork)), None)
        if work is not None:
            now = work.lease.claimed_at
            decision = before_send(work.delivery, now)
            if decision is None:
                left.append(stage.now - stage.host.put)
                lost = Outcome(OutcomeKind.UNKNOWN, "timeout", not_before=now + wait)
                decision = decide_delivery(work.delivery, lost, now, Random(1))
            await stage.work.commit_delivery(work, decision)
            if decision.due is None:
                return left, decision
            stage.host.set(steps.get(len(left), timedelta(0)))
        stage.later(10 * MINUTE)


async def _keyed(stage: Set) -> str:
    await stage.poll()
    work = await stage.claim_poll()
    await stage.work.commit_poll(work, unchanged(work, stage.now + 1000 * DAY, effects=(effect("k"),), changed=1))
    return str((await stage.one("SELECT id FROM delivery"))["id"])


@pytest.mark.parametrize("before", [timedelta(0), 5 * DAY, -5 * DAY])
@pytest.mark.parametrize("steps", [{}, {1: -2 * DAY}, {1: 2 * DAY}, {1: 2 * DAY, 3: -2 * DAY}, {2: -YEARS, 4: 2 * YEARS}])
async def test_I17_keyed_retries_end_with_the_receivers_key_whatever_the_clock_does(
    before: timedelta, steps: dict[int, timedelta]
) -> None:
    """Twenty-one hours by time that nobody sets: not two days more, and not one attempt alone; what was told of its making stays."""
    stage = Set()
    await stage.claim()
    stage.host.set(before)
    await _keyed(stage)
    made = await stage.one("SELECT created_at FROM delivery")
    left, decision = await _attempts(stage, steps)
    assert len(left) == 8
    assert left[-1] - left[0] == timedelta(hours=21)
    assert decision.state is DeliveryState.AMBIGUOUS
    assert await stage.one("SELECT created_at FROM delivery") == made


@pytest.mark.parametrize("step", [-2 * DAY, 2 * DAY])
async def test_I17_sending_again_by_hand_after_a_step_gives_the_span_anew(step: timedelta) -> None:
    """A person decides after the clock was set: the span counts from the decision, and the next step moves it too."""
    stage = Set()
    await stage.claim()
    stage.host.set(DAY)
    delivery = await _keyed(stage)
    await _attempts(stage, {1: step})
    definitions = Definitions(stage.store.executor, clock=stage.host, ids=CountedIds(90_000))
    await definitions.retry_delivery(ANNA, delivery)
    left, _ = await _attempts(stage, {2: step})
    assert left[-1] - left[0] == timedelta(hours=21)
    await definitions.retry_delivery(ANNA, delivery)
    left, _ = await _attempts(stage, {})
    assert left[-1] - left[0] == timedelta(hours=21)
