"""What the state machines found in the store, each as the few steps that they were shrunk to."""

from datetime import timedelta

import pytest

from sereno.core.errors import NotNow
from sereno.core.operation import decide_repin
from sereno.ports import Change, Only
from tests.store.calling import submitting
from tests.store.seeding import ANNA
from tests.store.stage import HOST, LEASE, Stage, subjects

DAY = timedelta(days=1)


async def test_I10_a_wait_for_one_operation_wakes_at_its_deadline_though_its_next_look_was_to_be_later() -> None:
    """A worker that dies leaves the row due one smallest gap on; the deadline comes before that, and a claim of this row alone sees it."""
    stage = Stage()
    operation = await stage.operation(min_gap=timedelta(minutes=30), deadline_at=stage.now + timedelta(minutes=5))
    await stage.claim_operation()
    deadline, only = stage.now + timedelta(minutes=5), Only(subject=operation)
    assert await stage.work.next_due(only) == deadline
    stage.clock.at = deadline
    assert subjects(await stage.claim(only=only)) == [operation]
    await stage.close()


async def test_I10_a_wait_for_one_operation_is_closed_past_the_limits_of_its_pool() -> None:
    """It sends nothing, so no token is waited for."""
    stage = Stage()
    await stage.limits(HOST, rate=0.001, burst=1)
    await stage.operation("job-1")
    await stage.claim_operation()
    operation = await stage.operation("job-2", deadline_at=stage.now + LEASE)
    assert await stage.work.next_due(Only(subject=operation)) == stage.now + LEASE
    await stage.close()


async def test_another_contract_is_refused_with_a_reason_where_the_submit_was_given_up() -> None:
    """Parked after a mistake of ours, the submit may have been sent: nothing is left that a contract would decide, and nothing changes."""
    stage = Stage()
    operation = await submitting(stage)
    work = await stage.claim_operation()
    await stage.work.park(work, reason="our bug")
    wanted = Change("contract_changed", lambda found, now: decide_repin(found, now), {}, {"format": 0})
    before = await stage.store.reads.operation(ANNA, operation)
    with pytest.raises(NotNow):
        await stage.store.definitions.change_operation(ANNA, operation, wanted)
    assert await stage.store.reads.operation(ANNA, operation) == before
    await stage.close()
