"""The claim: which rows, in which order, under which limits, and what a crash or a jumping clock leaves behind."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from sereno.core.delivery import DeliveryState, OutcomeKind
from sereno.core.errors import LeaseLost
from sereno.core.work import DeliveryWork, Kind, OperationWork, PollWork
from sereno.ports import Only
from sereno.store.executor import InlineExecutor
from tests.store.stage import HOST, LEASE, MINUTE, Stage, done, effect, known, pending, question, subjects, unchanged, us


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    yield made
    await made.close()


def us_of(span: timedelta) -> int:
    """A duration in microseconds."""
    return span // timedelta(microseconds=1)


async def test_P16_a_claim_hands_out_a_due_poll_whole_under_a_lease(stage: Stage) -> None:
    """The work carries the definition, the fence, the lease and the run row is open."""
    poll = await stage.poll()
    work = await stage.claim_poll()
    assert work.poll.id == poll and work.poll.spec.name == "prices"
    assert (work.lease.run, work.lease.worker, work.lease.until) == (1, "w1", stage.now + LEASE)
    assert (work.scheduled_for, work.attempt) == (stage.now, 1)
    run = await stage.one("SELECT * FROM run")
    assert (run["subject"], run["number"], run["status"], run["finished_at"]) == (poll, 1, "running", None)
    assert (run["claimed_by"], run["claim_expires_at"]) == ("w1", us(stage.now + LEASE))
    assert await stage.claim() == [], "a leased poll is not due again"


async def test_a_poll_that_is_not_due_is_not_claimed_and_next_due_says_when(stage: Stage) -> None:
    """Nothing is handed out early."""
    await stage.poll(due=stage.now + MINUTE)
    assert await stage.claim() == []
    assert await stage.work.next_due() == stage.now + MINUTE
    stage.later(MINUTE)
    assert len(await stage.claim()) == 1


async def test_P16_I31_a_crash_between_claim_and_commit_is_taken_over_after_the_lease(stage: Stage) -> None:
    """The next claim closes the run as abandoned, shows the instant it was due at first, and counts attempt 2."""
    poll = await stage.poll()
    first = await stage.claim_poll()
    stage.later(LEASE - timedelta(seconds=1))
    assert await stage.claim() == []
    stage.later(timedelta(seconds=1))
    second = await stage.claim_poll()
    assert (second.lease.run, second.attempt, second.scheduled_for) == (2, 2, first.scheduled_for)
    runs = await stage.sql("SELECT number, status, attempt FROM run WHERE subject = ? ORDER BY number", poll)
    assert [(run["number"], run["status"], run["attempt"]) for run in runs] == [(1, "abandoned", 1), (2, "running", 2)]
    with pytest.raises(LeaseLost):
        await stage.work.commit_poll(first, unchanged(first, stage.now + MINUTE))


async def test_a_poll_whose_runs_die_again_and_again_waits_longer_each_time(stage: Stage) -> None:
    """What ends the process (or a disk that takes no commit) never asks a source once a lease without end; one commit forgives."""
    await stage.poll()
    waits = []
    for _ in range(6):
        work = await stage.claim_poll()
        due = (await stage.one("SELECT due FROM poll"))["due"]
        waits.append((due - us(work.lease.claimed_at)) // us_of(LEASE))
        stage.later(timedelta(microseconds=due - us(stage.now)))
    assert waits == [1, 1, 3, 5, 9, 17]
    last = await stage.claim_poll()
    await stage.work.commit_poll(last, unchanged(last, stage.now + MINUTE))
    stage.later(MINUTE)
    work = await stage.claim_poll()
    assert (await stage.one("SELECT due FROM poll"))["due"] == us(work.lease.until)


async def test_W09_I2_a_request_is_counted_in_the_claim_and_stays_counted_after_a_crash(stage: Stage) -> None:
    """The counter is durable before anything can be sent; the takeover counts its own request."""
    operation = await stage.operation()
    first = await stage.claim_operation()
    assert first.operation.reserved and first.operation.spend.status_requests == 1
    assert (await stage.one("SELECT status_requests_used u FROM operation"))["u"] == 1
    stage.later(LEASE)
    second = await stage.claim_operation()
    assert second.operation.id == operation and second.operation.spend.status_requests == 2
    intents = await stage.sql("SELECT facts FROM journal WHERE kind = 'intent' ORDER BY seq")
    assert [json.loads(row["facts"])["status_requests_used"] for row in intents] == [1, 2]
    assert json.loads(intents[1]["facts"])["taken_over"] is True


async def test_I6_the_claim_moves_due_past_the_lease_and_the_smallest_gap(stage: Stage) -> None:
    """A crash can never shorten the gap between two requests of one operation."""
    await stage.operation(min_gap=timedelta(seconds=90))
    await stage.claim_operation()
    stage.later(LEASE)
    assert await stage.claim() == []
    stage.later(timedelta(seconds=30))
    assert len(await stage.claim()) == 1


async def test_W33_a_passed_deadline_is_claimed_without_a_request_and_without_a_token(stage: Stage) -> None:
    """It is handed out to be closed, however exhausted its pool is."""
    await stage.operation("late", deadline_at=stage.now + MINUTE)
    await stage.limits(HOST, rate=0.001, burst=1)
    await stage.sql("UPDATE pool SET tat = ?, wake = ?", us(stage.now + timedelta(days=9)), us(stage.now + timedelta(days=9)))
    assert await stage.claim() == [], "no token, and the deadline is ahead"
    assert await stage.work.next_due() == stage.now + MINUTE
    stage.later(MINUTE)
    work = await stage.claim_operation()
    assert not work.operation.reserved and work.operation.spend.status_requests == 0
    assert (await stage.one("SELECT tat FROM pool"))["tat"] == us(stage.now - MINUTE + timedelta(days=9))


async def test_W33_a_spent_budget_is_claimed_without_a_reservation(stage: Stage) -> None:
    """A crash in the last allowed request leaves an operation to close, and the limit is never passed."""
    await stage.operation(requests=1)
    assert (await stage.claim_operation()).operation.spend.status_requests == 1
    stage.later(LEASE)
    work = await stage.claim_operation()
    assert not work.operation.reserved and work.operation.spend.status_requests == 1


async def test_W35_an_escalated_operation_is_claimed_at_its_answer_deadline_only(stage: Stage) -> None:
    """Silence is noticed without a request, with the open question loaded."""
    await stage.operation()
    work = await stage.claim_operation()
    answer_by = stage.now + timedelta(hours=3)
    asked = question(work, stage.now, answer_by)
    await stage.work.commit_operation(
        work, pending(work, stage.now, answer_by, state="escalated", escalation=asked, next_poll_at=None)
    )
    stage.later(timedelta(hours=2))
    assert await stage.claim() == []
    stage.later(timedelta(hours=1))
    work = await stage.claim_operation()
    assert not work.operation.reserved and work.operation.open_escalation is not None
    assert work.operation.open_escalation.digest == asked.digest


async def test_priority_goes_first_and_waiting_makes_up_for_it(stage: Stage) -> None:
    """A high priority counts as 15 minutes of waiting per step; what waits longer than that goes first."""
    old = await stage.poll("old", priority=0, due=stage.now - timedelta(minutes=40))
    low = await stage.poll("low", priority=0, due=stage.now - timedelta(minutes=1))
    high = await stage.poll("high", priority=2)
    assert subjects(await stage.claim()) == [old, high, low]


async def test_I29_workspaces_and_pools_take_turns(stage: Stage) -> None:
    """One busy pool or workspace cannot keep others out of a batch."""
    for number in range(20):
        await stage.poll(f"busy-{number:02}", pool="host:busy.example", due=stage.now - timedelta(hours=1))
    quiet = await stage.poll("quiet", pool="host:quiet.example")
    await stage.limits("host:busy.example", rate=None)
    claimed = subjects(await stage.claim(4))
    assert len(claimed) == 4 and quiet in claimed


async def test_only_one_subject_is_claimed_inside_its_pools_limit(stage: Stage) -> None:
    """`wait op_…` drives its own operation and nothing else."""
    await stage.operation("other")
    mine = await stage.operation("mine")
    assert subjects(await stage.claim(only=Only(subject=mine))) == [mine]
    assert await stage.claim(only=Only(subject=mine)) == []
    assert await stage.work.next_due(Only(subject=mine)) == stage.now + LEASE
    await stage.sql("UPDATE pool SET tat = ?", us(stage.now + MINUTE))
    third = await stage.operation("third")
    assert await stage.claim(only=Only(subject=third)) == []
    assert await stage.work.next_due(Only(subject=third)) == stage.now + MINUTE - timedelta(seconds=4)
    assert await stage.claim(only=Only(subject="op_unknown")) == [] and await stage.work.next_due(Only(subject="x")) is None


async def test_once_claims_what_was_due_at_its_start_and_the_effects_of_that(stage: Stage) -> None:
    """A poll that falls due later waits for the next start; a delivery made meanwhile is sent."""
    start = stage.now
    await stage.poll("now")
    await stage.poll("soon", due=start + timedelta(seconds=5))
    only = Only(due_by=start)
    (work,) = await stage.claim(only=only)
    assert isinstance(work, PollWork)
    stage.later(timedelta(seconds=10))
    await stage.work.commit_poll(work, unchanged(work, stage.now + timedelta(seconds=1), effects=(effect("k"),), changed=1))
    (sent,) = await stage.claim(only=only)
    assert isinstance(sent, DeliveryWork) and sent.delivery.effect.dedupe_key == "k"
    assert await stage.claim(only=only) == []
    assert await stage.work.next_due(only) is None
    await stage.work.commit_delivery(sent, done(DeliveryState.QUEUED, stage.now + MINUTE, OutcomeKind.RETRY))
    assert await stage.work.next_due(only) is None, "one try each: the retry is for the next start"
    stage.later(timedelta(seconds=1))
    assert await stage.claim(only=only) == []
    assert {*subjects(await stage.claim())} == {*[row["id"] for row in await stage.sql("SELECT id FROM poll")]}


async def test_a_claim_of_one_kind_leaves_the_others_and_says_when_its_own_is_due(stage: Stage) -> None:
    """A driver for operations alone is not kept busy by polls."""
    await stage.poll()
    operation = await stage.operation(first_look=stage.now + MINUTE)
    only = Only(kinds=(Kind.OPERATION,))
    assert await stage.claim(only=only) == [] and await stage.work.next_due(only) == stage.now + MINUTE
    stage.later(MINUTE)
    assert subjects(await stage.claim(only=only)) == [operation]
    assert len(await stage.claim()) == 1, "the poll is still there"


async def test_a_claim_of_one_kind_is_not_starved_by_another_in_its_pool(stage: Stage) -> None:
    """The one free place of a pool goes to the kind that was asked for, however long the others have been due."""
    await stage.limits(HOST, in_flight=1)
    for name in "abc":
        await stage.poll(name)
    stage.later(MINUTE)
    operation = await stage.operation()
    assert subjects(await stage.claim(only=Only(kinds=(Kind.OPERATION,)))) == [operation]


async def test_once_goes_on_with_a_poll_that_has_more_to_read(stage: Stage) -> None:
    """Further pages belong to the due instant that was served; the schedule's next instant does not."""
    only, start = Only(due_by=stage.now), stage.now
    await stage.poll()
    for page in range(3):
        stage.later(timedelta(seconds=2))
        (work,) = await stage.claim(only=only)
        assert isinstance(work, PollWork)
        assert (work.scheduled_for, work.attempt, work.poll.cursor) == (start, page + 1, f"page-{page}" if page else None)
        due = stage.now if page < 2 else stage.now + timedelta(seconds=1)
        await stage.work.commit_poll(work, unchanged(work, due, cursor=f"page-{page + 1}"))
        assert await stage.work.next_due(only) == (due if page < 2 else None)
    stage.later(MINUTE)
    assert await stage.claim(only=only) == []
    assert (await stage.claim_poll()).attempt == 1


async def test_a_row_of_a_newer_version_is_parked_and_the_others_go_on(stage: Stage) -> None:
    """A schedule type that this version does not know is not guessed at."""
    strange, fine = await stage.poll("strange"), await stage.poll("fine")
    await stage.sql("UPDATE poll_spec SET spec = replace(spec, '\"interval\"', '\"moonphase\"') WHERE poll = ?", strange)
    assert subjects(await stage.claim()) == [fine]
    row = await stage.one("SELECT due, lease_until, last_error FROM poll WHERE id = ?", strange)
    assert (row["due"], row["lease_until"]) == (None, None) and "moonphase" in row["last_error"]
    assert (await stage.one("SELECT status FROM run WHERE subject = ?", strange))["status"] == "failed"


async def test_snapshots_too_long_for_one_text_are_read_row_by_row(stage: Stage) -> None:
    """Large payloads slow a claim down; they do not stop it."""
    poll = await stage.poll()
    work = await stage.claim_poll()
    objects = {f"o{number}": known(f"o{number}", stage.now, kept={"text": "x" * 1_000}) for number in range(30)}
    await stage.work.commit_poll(work, unchanged(work, stage.now, remember=objects, changed=30))
    executor = stage.store.executor
    assert isinstance(executor, InlineExecutor)
    executor.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 20_000)
    work = await stage.claim_poll()
    assert work.poll.id == poll and dict(await stage.work.snapshot(work)) == objects
    executor.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000_000)
    wanted = tuple(effect(f"k{number}", pool="local:console", note="x" * 3_000) for number in range(9))
    await stage.work.commit_poll(work, unchanged(work, stage.now + MINUTE, effects=wanted, changed=9))
    executor.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 9_000)
    assert len(await stage.claim(20)) == 9


async def test_an_interrupted_delivery_says_so(stage: Stage) -> None:
    """An attempt that was claimed and never settled may have happened: the next one knows."""
    await stage.poll()
    work = await stage.claim_poll()
    await stage.work.commit_poll(work, unchanged(work, stage.now + timedelta(days=1), effects=(effect("k"),), changed=1))
    first = await stage.claim_delivery()
    assert (first.delivery.attempts, first.delivery.interrupted) == (1, False)
    stage.later(LEASE)
    second = await stage.claim_delivery()
    assert (second.delivery.attempts, second.delivery.interrupted) == (2, True)
    await stage.work.release(second)
    third = await stage.claim_delivery()
    assert (third.delivery.attempts, third.delivery.interrupted) == (2, True), "giving back does not forget the doubt"


@pytest.mark.parametrize("kind", ["poll", "operation"])
async def test_I7_a_clock_set_back_by_a_day_leaves_nothing_stuck(stage: Stage, kind: str) -> None:
    """Waits keep their length: what was due in a minute is due in a minute after the step; the step is in the journal."""
    if kind == "poll":
        await stage.poll(due=stage.now + MINUTE)
    else:
        await stage.operation(first_look=stage.now + MINUTE, deadline_at=stage.now + timedelta(days=3))
    await stage.claim()
    stage.later(-timedelta(days=1))
    assert await stage.claim() == []
    assert await stage.work.next_due() == stage.now + MINUTE
    (row,) = await stage.sql("SELECT facts FROM journal WHERE subject = 'clock'")
    assert json.loads(row["facts"]) == {"event": "clock_step", "seconds": -86400.0, "moved": True}
    stage.later(MINUTE)
    assert len(await stage.claim()) == 1
    assert len(await stage.sql("SELECT 1 FROM journal WHERE subject = 'clock'")) == 1, "one step is recorded once"


@pytest.mark.parametrize(("look", "left"), [(6, 6), (12, 10), (None, 10)])
async def test_I7_W13_a_clock_set_back_makes_no_look_of_a_deadline(stage: Stage, look: int | None, left: int) -> None:
    """What is due at its deadline, because the provider's wait or the backoff ends later, is not looked at sooner for the step."""
    operation = await stage.operation(deadline_at=stage.now + 10 * MINUTE)
    work = await stage.claim_operation()
    await stage.work.commit_operation(work, pending(work, stage.now, stage.now + 10 * MINUTE))
    planned = None if look is None else us(stage.now + (look + 2) * MINUTE)
    await stage.sql("UPDATE operation SET next_poll_at = ? WHERE id = ?", planned, operation)
    await stage.sql("UPDATE pool SET wake = 0")
    stage.later(-2 * MINUTE)
    assert await stage.claim() == []
    (row,) = await stage.sql("SELECT due, next_poll_at FROM operation")
    start = stage.now + 2 * MINUTE
    assert row["due"] == us(start + left * MINUTE)
    assert row["next_poll_at"] == (None if look is None else us(start + look * MINUTE))


async def test_I7_a_clock_ten_years_ahead_and_back_causes_no_burst(stage: Stage) -> None:
    """Everything falls due at once, but the pool lets through its burst and its rate; after the way back as well."""
    for number in range(30):
        await stage.poll(f"p{number:02}", due=stage.now + timedelta(hours=number))
    await stage.claim()
    stage.later(timedelta(days=3652))
    ahead = await stage.claim(100)
    assert len(ahead) == 5, "the burst of the pool"
    for work in ahead:
        assert isinstance(work, PollWork)
        await stage.work.commit_poll(work, unchanged(work, stage.now + MINUTE))
    stage.later(-timedelta(days=3652))
    sent = len(await stage.claim(100))
    for second in range(1, 60):
        stage.later(timedelta(seconds=1))
        works = await stage.claim(100)
        sent += len(works)
        assert sent <= 5 + second, "sends(Δ) ≤ burst + rate·Δ"
        for work in works:
            assert isinstance(work, PollWork)
            await stage.work.commit_poll(work, unchanged(work, stage.now + timedelta(days=1)))
    assert sent >= 20, "and nothing is stuck"


async def test_P16_two_processes_on_one_file_never_share_a_row(tmp_path: Path) -> None:
    """Claims of two executors at the same time hand out each row once (incident 12)."""
    path = tmp_path / "s.db"
    one = Stage(path, inline=False)
    two = Stage(path, clock=one.clock, first=1 << 40, inline=False)
    try:
        await one.limits(HOST, rate=None)
        for number in range(60):
            await one.poll(f"p{number}")
        await one.operation("job-1"), await one.operation("job-2")
        batches = await asyncio.gather(
            *(stage.claim(5, worker=name) for _ in range(8) for stage, name in ((one, "a"), (two, "b")))
        )
        claimed = [subject for works in batches for subject in subjects(works)]
        assert len(claimed) == len(set(claimed)) == 62
        assert {work.lease.worker for works in batches for work in works} == {"a", "b"}
        runs = await one.sql("SELECT count(*) c, max(number) n FROM run")
        assert (runs[0]["c"], runs[0]["n"]) == (62, 1)
    finally:
        await one.close()
        await two.close()


async def test_what_another_process_writes_is_seen_by_the_next_look(tmp_path: Path) -> None:
    """The driver asks for the next due instant each tick: a poll that another process added is in the answer."""
    one = Stage(tmp_path / "s.db", inline=False)
    two = Stage(tmp_path / "s.db", first=1 << 40, inline=False)
    try:
        assert await one.work.next_due() is None
        await two.poll("theirs")
        assert await one.work.next_due() == two.now
    finally:
        await one.close()
        await two.close()


async def test_an_operation_claimed_while_closing_is_not_claimed_twice(stage: Stage) -> None:
    """Closing and asking are two roads to one row; a claim takes it once."""
    await stage.operation("late", deadline_at=stage.now + timedelta(seconds=1))
    stage.later(timedelta(seconds=5))
    works = await stage.claim()
    assert len(works) == 1 and isinstance(works[0], OperationWork)
