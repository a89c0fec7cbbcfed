"""What users of other waiters complain about, shown on the real store: restarts, stalled workers, watchers that nobody ends."""

from datetime import timedelta

import pytest

from sereno.core.errors import LeaseLost
from sereno.core.values import to_micros
from sereno.core.work import LeaseTimes
from tests.engine.desk import Desk, answer
from tests.engine.starting import KEYED, ORIGIN, document, submit
from tests.engine.test_calls import CALL, OPERATION, says, wait_until_due

LEASE_S = LeaseTimes().lease.total_seconds()


@pytest.mark.parametrize("keyed", [False, True])
async def test_W31_a_restart_reads_the_job_again_and_submits_nothing(keyed: bool) -> None:
    """status-polling §2 row 22: the worker dies after the submit was taken on; the next one only looks, until the job's end."""
    desk = Desk()
    await submit(desk, document({"idempotency": KEYED} if keyed else None))
    desk.wire.gives = says()
    await desk.perform()
    assert [request.method for request in desk.wire.sent] == ["POST"]
    await wait_until_due(desk)
    await desk.claim()
    desk.hand.advance(LEASE_S + 1)
    desk.wire.gives = answer("done")
    await desk.perform()
    assert [(request.method, request.url) for request in desk.wire.sent[1:]] == [("GET", f"{ORIGIN}/jobs/job-1")]
    assert (await desk.one(OPERATION))["state"] == "succeeded"
    runs = await desk.sql("SELECT status FROM run ORDER BY number")
    assert [row["status"] for row in runs] == ["ok", "abandoned", "ok"]


async def test_W31_a_restart_in_the_middle_of_a_submit_sends_no_second_one() -> None:
    """status-polling §2 row 22: whether the POST left is not known, and no key is honoured: a person is asked, whatever the restarts."""
    desk = Desk()
    await submit(desk, document())
    desk.wire.gives = says()
    for _ in range(2):
        await desk.claim()
        desk.hand.advance(LEASE_S + 1)
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (row["state"], row["category"], desk.wire.sent) == ("escalated", "submit_unknown", [])
    assert (await desk.one(CALL))["state"] == "unknown"


async def test_W08_a_wait_that_a_restart_interrupted_is_never_stuck() -> None:
    """status-polling §2 row 22: whoever dies at whatever look, the row falls due again by itself, a lease later at most."""
    desk = Desk()
    await desk.operation()
    for look in range(1, 5):
        await desk.claim()
        row = await desk.one(OPERATION)
        assert to_micros(desk.hand.now()) < row["due"] <= to_micros(desk.hand.now() + timedelta(seconds=LEASE_S))
        assert (row["state"], row["used"]) == ("waiting", look)
        desk.hand.advance(LEASE_S + 1)
    desk.wire.gives = answer("done")
    await desk.perform()
    assert (await desk.one(OPERATION))["state"] == "succeeded"


async def test_W22_a_worker_that_wakes_up_overwrites_nothing() -> None:
    """status-polling §2 row 26: the new owner saw the end; the answer of the old one is refused, and its run stands as abandoned
    (incident 13)."""
    desk = Desk()
    await desk.operation()
    stalled = await desk.claim()
    other = desk.wire

    async def taken_over() -> None:
        other.meanwhile, other.gives = None, answer("done")
        desk.hand.advance(LEASE_S + 1)
        await desk.perform()
        other.gives = answer("broken")

    other.meanwhile = taken_over
    with pytest.raises(LeaseLost):
        await desk.perform(stalled)
    row = await desk.one(OPERATION)
    assert (row["state"], row["last_state"], row["used"]) == ("succeeded", "done", 2)
    runs = await desk.sql("SELECT status, claimed_by FROM run ORDER BY number")
    assert [run["status"] for run in runs] == ["abandoned", "ok"]
    told = await desk.sql("SELECT kind, run FROM journal WHERE run > 0 ORDER BY seq")
    assert [(entry["kind"], entry["run"]) for entry in told] == [("intent", 1), ("intent", 2), ("decision", 2)]


@pytest.mark.parametrize(("requests", "category"), [(100_000, "deadline_exceeded"), (50, "request_budget_exhausted")])
async def test_W09_a_watcher_that_nobody_ends_ends_itself(requests: int, category: str) -> None:
    """status-polling §2 row 31: a job that runs for ever, a deadline of six hours, nobody who answers: seven days later nothing is sent."""
    desk, span = Desk(), timedelta(hours=6)
    await desk.operation(requests=requests, deadline=span)
    started, looks = desk.hand.now(), 0
    while (await desk.one(OPERATION))["state"] == "waiting":
        await wait_until_due(desk)
        await desk.perform()
        looks = len(desk.wire.sent)
    assert (await desk.one(OPERATION))["category"] == category
    assert looks == requests if requests == 50 else desk.hand.now() >= started + span and 170 < looks < 800
    await wait_until_due(desk)
    await desk.perform()
    assert (await desk.one(OPERATION))["state"] == "stopped", "silence ends it"
    desk.hand.advance(7 * 24 * 3600)
    assert (await desk.store.work.claim(worker="w", limit=5, times=desk.times)).works == []
    assert len(desk.wire.sent) == looks


@pytest.mark.parametrize("hours", [2, -2])
async def test_W35_a_clock_that_jumps_during_a_look_makes_it_neither_late_nor_early(hours: int) -> None:
    """status-polling §0 xai-sdk PollTimer: how long a look took is measured by a clock that nobody sets; the answer is in time, and its
    instant is told by the clock as it was set."""
    desk = Desk()
    await desk.operation(deadline=timedelta(hours=1))
    claimed_at = desk.hand.now()

    async def jump() -> None:
        desk.hand.wall += timedelta(hours=hours)

    desk.wire.meanwhile, desk.wire.seconds, desk.wire.gives = jump, 3.0, answer("done")
    await desk.perform()
    row = await desk.one("SELECT state, category, last_checked_at FROM operation")
    assert (row["state"], row["category"]) == ("succeeded", None)
    assert row["last_checked_at"] == to_micros(claimed_at + timedelta(hours=hours, seconds=3))
