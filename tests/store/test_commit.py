"""Commits: the fence, what a decision writes, the outbox, and what happens between claim and commit."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from sereno.core.delivery import DeliveryState, OutcomeKind
from sereno.core.errors import LeaseLost
from sereno.core.escalation import Escalation
from sereno.core.observation import Observation, ObservationKind
from sereno.core.operation import Event, OperationState, decide_answer
from sereno.core.poll import PollState
from sereno.core.schedule import Interval
from sereno.core.work import DeliveryWork, OperationWork, PollWork, Work
from sereno.ports import Given
from sereno.store.executor import InlineExecutor, Job, run_group
from sereno.store.work.polls import PollCommit
from tests.store.seeding import ANNA, START, spec
from tests.store.stage import HOST, LEASE, MINUTE, TIMES, Stage, done, effect, known, pending, question, subjects, unchanged, us


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    yield made
    await made.close()


async def decided(stage: Stage, subject: str) -> list[dict[str, Any]]:
    rows = await stage.sql("SELECT facts FROM journal WHERE subject = ? AND kind = 'decision' ORDER BY seq", subject)
    return [json.loads(row["facts"]) for row in rows]


async def test_an_unchanged_run_writes_its_run_and_no_journal_row(stage: Stage) -> None:
    """A quiet run is one cheap row."""
    poll = await stage.poll()
    work = await stage.claim_poll()
    before = await decided(stage, poll)
    stage.later(timedelta(seconds=2))
    await stage.work.commit_poll(work, unchanged(work, stage.now + MINUTE))
    assert await decided(stage, poll) == before
    row = await stage.one("SELECT due, scheduled_for, lease_until, attempt, runs, last_run_at FROM poll")
    assert row == {
        "due": us(stage.now + MINUTE),
        "scheduled_for": us(stage.now + MINUTE),
        "lease_until": None,
        "attempt": 0,
        "runs": 1,
        "last_run_at": us(stage.now),
    }
    run = await stage.one("SELECT status, finished_at, checked, requests, summary FROM run")
    assert run == {"status": "ok", "finished_at": us(stage.now), "checked": 1, "requests": 1, "summary": "unchanged"}


async def test_P04_I18_cursor_objects_run_and_effects_are_one_commit(stage: Stage) -> None:
    """What was read, how far, and what follows from it stand together; the next claim has all of it."""
    poll = await stage.poll()
    work = await stage.claim_poll()
    objects = {key: known(key, stage.now, matching=True, kept={"n": 2**70}) for key in ("a", "b", "b\0c", "\u2028\U0001f600'\"")}
    decision = unchanged(
        work, stage.now, cursor="etag-2", remember=objects, effects=(effect("k1"), effect("k2")), changed=2, matched=2
    )
    await stage.work.commit_poll(work, decision)
    (facts,) = [facts for facts in await decided(stage, poll) if facts["decision"] == "run"]
    assert facts["effects"] == ["k1", "k2"] and facts["changed"] == 2
    works = await stage.claim()
    sent = [work for work in works if isinstance(work, DeliveryWork)]
    assert [work.delivery.effect.dedupe_key for work in sent] == ["k1", "k2"]
    (again,) = [work for work in works if isinstance(work, PollWork)]
    assert again.poll.cursor == "etag-2" and dict(await stage.work.snapshot(again)) == objects and again.poll.matches == 2
    assert (await stage.one("SELECT cursor_before b, cursor_after a FROM run WHERE number = 1 AND kind = 'poll'")) == {
        "b": None,
        "a": "etag-2",
    }
    await stage.work.commit_poll(again, unchanged(again, stage.now + MINUTE, forget=("a", "b\0c")))
    left = [row["external_id"] for row in await stage.sql("SELECT external_id FROM poll_object")]
    assert left == ["b", "\u2028\U0001f600'\""]


async def test_P07_I17_the_same_dedupe_key_is_queued_once_and_the_rest_is_counted(stage: Stage) -> None:
    """A key that was there before makes no second delivery."""
    await stage.poll()
    work = await stage.claim_poll()
    await stage.work.commit_poll(work, unchanged(work, stage.now, effects=(effect("k"), effect("k")), changed=1))
    work = next(work for work in await stage.claim() if isinstance(work, PollWork))
    await stage.work.commit_poll(work, unchanged(work, stage.now + MINUTE, effects=(effect("k"),), changed=1))
    assert len(await stage.sql("SELECT 1 FROM delivery")) == 1
    assert (await stage.one("SELECT value FROM meta WHERE key = 'suppressed:main'"))["value"] == "2"


async def test_I8_an_old_fence_writes_nothing(stage: Stage) -> None:
    """A worker that was overtaken is refused in every commit, and what it would have written is not there."""
    await stage.poll(), await stage.operation()
    old = await stage.claim()
    stage.later(LEASE)
    new = await stage.claim()
    assert {*subjects(old)} == {*subjects(new)}
    before = await stage.sql("SELECT * FROM poll"), await stage.sql("SELECT * FROM operation")
    for work in old:
        for attempt in all_calls(stage, work):
            with pytest.raises(LeaseLost):
                await attempt()
    assert (await stage.sql("SELECT * FROM poll"), await stage.sql("SELECT * FROM operation")) == before
    assert await stage.sql("SELECT * FROM delivery") == []


def all_calls(stage: Stage, work: Work) -> list[Any]:
    calls: list[Any] = [
        lambda: stage.work.release(work),
        lambda: stage.work.park(work, reason="x"),
        lambda: stage.work.extend(work, TIMES),
        lambda: stage.work.check(work, TIMES),
    ]
    if isinstance(work, PollWork):
        calls.append(lambda: stage.work.commit_poll(work, unchanged(work, stage.now, effects=(effect("stale"),))))
        calls.append(lambda: stage.work.snapshot(work))
    if isinstance(work, OperationWork):
        calls.append(lambda: stage.work.commit_operation(work, pending(work, stage.now, stage.now)))
    return calls


async def test_a_commit_counts_once(stage: Stage) -> None:
    """The same decision committed again finds the lease given back."""
    await stage.poll()
    work = await stage.claim_poll()
    await stage.work.commit_poll(work, unchanged(work, stage.now + MINUTE))
    with pytest.raises(LeaseLost):
        await stage.work.commit_poll(work, unchanged(work, stage.now + MINUTE))


async def test_a_late_commit_that_nobody_overtook_still_counts(stage: Stage) -> None:
    """The fence decides, not the clock: a lease that ran out unclaimed is no reason to lose what was read."""
    await stage.poll()
    work = await stage.claim_poll()
    stage.later(LEASE * 3)
    await stage.work.commit_poll(work, unchanged(work, stage.now + MINUTE))
    assert (await stage.one("SELECT status FROM run"))["status"] == "ok"


async def test_an_edited_definition_fires_nothing_and_loses_no_change(stage: Stage) -> None:
    """What was found under the old definition is read again at once: the cursor does not pass a change that fired nothing."""
    await stage.poll()
    work = await stage.claim_poll()
    other = spec(schedule=Interval(timedelta(minutes=9), anchor=START))
    await stage.store.definitions.edit_poll(ANNA, "prices", other, pool=HOST, due=stage.now, managed_by="user")
    found = {"a": known("a", stage.now)}
    await stage.work.commit_poll(
        work, unchanged(work, stage.now + MINUTE, cursor="etag-2", remember=found, effects=(effect("k"),), changed=1)
    )
    assert await stage.sql("SELECT * FROM delivery") == [] and await stage.sql("SELECT * FROM poll_object") == []
    again = await stage.claim_poll()
    assert again.poll.cursor is None and again.poll.spec == other and again.lease.revision == work.lease.revision + 1
    await stage.store.definitions.edit_poll(
        ANNA, "prices", replace(other, keep="digest"), pool=HOST, due=stage.now, managed_by="user"
    )
    await stage.work.commit_poll(again, unchanged(again, stage.now + MINUTE, cursor="etag-3"))
    assert (await stage.claim_poll()).poll.cursor == "etag-3", "where nothing was found the cursor is taken"


async def test_P09_a_poll_that_ends_is_not_claimed_again(stage: Stage) -> None:
    """The state of the decision is the state of the row."""
    await stage.poll()
    work = await stage.claim_poll()
    await stage.work.commit_poll(work, replace(unchanged(work, stage.now, state=PollState.ENDED), due=None))
    stage.later(timedelta(days=1))
    assert await stage.claim() == [] and await stage.work.next_due() is None


async def test_W26_a_decision_is_audited_with_everything_that_explains_it(stage: Stage) -> None:
    """State, next time, delay source, requests used, limits, HTTP status, parsed state, draw and instants are in one row."""
    operation = await stage.operation(requests=12)
    work = await stage.claim_operation()
    claimed_at = stage.now
    stage.later(timedelta(seconds=3))
    await stage.work.commit_operation(work, pending(work, stage.now, stage.now + MINUTE, facts={"clipped": True}))
    facts = (await decided(stage, operation))[-1]
    expected = {
        "state": "waiting",
        "event": "saw_pending",
        "next_poll_at": us(stage.now + MINUTE),
        "delay_source": "local_backoff",
        "status_requests_used": 1,
        "max_status_requests": 12,
        "deadline_at": us(claimed_at + timedelta(hours=1)),
        "claimed_at": us(claimed_at),
        "received_at": us(stage.now),
        "draw": 0.25,
        "decision": "the provider says running",
        "facts": {"clipped": True},
    }
    assert {key: facts[key] for key in expected} == expected
    assert facts["observation"] == {"kind": "pending", "state": "running", "http_status": 200, "requests": 1}
    row = await stage.one("SELECT last_state, last_http_status, last_checked_at, due, lease_until FROM operation")
    assert (row["last_state"], row["last_http_status"], row["lease_until"]) == ("running", 200, None)
    assert (row["last_checked_at"], row["due"]) == (us(stage.now), us(stage.now + MINUTE))


async def test_W19_an_escalation_is_stored_with_its_effects_and_silence_closes_it(stage: Stage) -> None:
    """Question, delivery and state are one commit; the operation that moves on leaves no open question."""
    operation = await stage.operation()
    work = await stage.claim_operation()
    answer_by = stage.now + timedelta(hours=1)
    asked = pending(
        work,
        stage.now,
        answer_by,
        state=OperationState.ESCALATED,
        event=Event.SAW_TROUBLE,
        escalation=question(work, stage.now, answer_by),
        effects=(effect("op:escalated-1", subject=operation),),
        next_poll_at=None,
    )
    await stage.work.commit_operation(work, asked)
    assert (await stage.one("SELECT state FROM escalation"))["state"] == "open"
    row = await stage.one("SELECT state, escalations FROM operation")
    assert (row["state"], row["escalations"]) == ("escalated", 1)
    sent = await stage.claim_delivery()
    assert sent.delivery.effect.subject == operation
    await stage.work.commit_delivery(sent, done())
    stage.later(timedelta(hours=1))
    silent = await stage.claim_operation()
    over = pending(silent, stage.now, stage.now, state=OperationState.STOPPED, event=Event.SILENCE, observation=None)
    over = replace(over, due=None, next_poll_at=None)
    await stage.work.commit_operation(silent, over)
    assert (await stage.one("SELECT state FROM escalation"))["state"] == "expired"
    assert (await stage.one("SELECT last_state FROM operation"))["last_state"] == "running", "what was seen stays"
    assert await stage.claim() == [] and await stage.work.next_due() is None


async def test_I1_a_hop_is_counted_before_it_is_followed_and_never_past_the_limit(stage: Stage) -> None:
    """Each redirect hop costs a request that is durable first; without budget or lease the hop is not allowed."""
    await stage.operation(requests=2)
    work = await stage.claim_operation()
    assert await stage.work.reserve_hop(work, "https://example.com") is True
    assert await stage.work.reserve_hop(work, "https://example.com") is False
    assert (await stage.one("SELECT status_requests_used u FROM operation"))["u"] == 2
    await stage.work.commit_operation(work, pending(work, stage.now, stage.now + MINUTE))
    assert (await stage.one("SELECT status_requests_used u FROM operation"))["u"] == 2, "the decision keeps the hop"
    assert await stage.work.reserve_hop(work, "https://example.com") is False


async def test_W33_a_reservation_is_given_back_only_for_what_was_not_sent(stage: Stage) -> None:
    """A released step returns its request and is due again; NOT_SENT in a decision returns it too; no more than was reserved."""
    await stage.operation()
    work = await stage.claim_operation()
    await stage.work.release(work)
    assert (await stage.one("SELECT status_requests_used u, attempt a FROM operation")) == {"u": 0, "a": 0}
    work = await stage.claim_operation()
    assert (await stage.one("SELECT status FROM run WHERE number = 1"))["status"] == "released"
    spend = replace(work.operation.spend, status_requests=work.operation.spend.status_requests - 1)
    unsent = Observation(kind=ObservationKind.NOT_SENT, reason="the address was refused")
    await stage.work.commit_operation(work, pending(work, stage.now, stage.now + MINUTE, spend=spend, observation=unsent))
    assert (await stage.one("SELECT status_requests_used u FROM operation"))["u"] == 0
    with pytest.raises(LeaseLost):
        await stage.work.release(work)


async def test_W43_a_parked_operation_keeps_the_reply_and_is_not_retried_blindly(stage: Stage) -> None:
    """Facts are kept, nothing asks again; at its deadline it is handed out once to be closed."""
    operation = await stage.operation()
    work = await stage.claim_operation()
    seen = Observation(kind=ObservationKind.SUCCESS, state="done", http_status=200, result_ref="https://example.com/r")
    await stage.work.park(work, reason="deciding failed: KeyError", observation=seen)
    row = await stage.one("SELECT state, parked, last_state, result_ref, lease_until FROM operation")
    assert row == {
        "state": "waiting",
        "parked": "deciding failed: KeyError",
        "last_state": "done",
        "result_ref": "https://example.com/r",
        "lease_until": None,
    }
    assert (await decided(stage, operation))[-1]["observation"]["state"] == "done"
    stage.later(timedelta(minutes=59))
    assert await stage.claim() == []
    stage.later(MINUTE)
    closing = await stage.claim_operation()
    assert not closing.operation.reserved
    await stage.work.park(closing, reason="again")
    stage.later(timedelta(days=30))
    assert await stage.claim() == []


async def test_I10_W43_a_parked_operation_that_waits_for_an_answer_is_still_closed_at_its_end(stage: Stage) -> None:
    """Our mistake at the end of a question leaves nothing open for good: it is tried again after a while, and nothing is sent."""
    await stage.operation()
    asked = await asking(stage)
    stage.later(timedelta(minutes=30))
    closing = await stage.claim_operation()
    await stage.work.park(closing, reason="a bug")
    assert await stage.claim() == []
    stage.later(timedelta(hours=1) - timedelta(microseconds=1))
    assert await stage.claim() == []
    stage.later(timedelta(microseconds=1))
    closing = await stage.claim_operation()
    assert not closing.operation.reserved and closing.operation.open_escalation is not None
    assert closing.operation.open_escalation.id == asked.id


async def test_I10_W43_an_answer_counts_where_its_operation_is_parked_before_the_end_of_the_question(stage: Stage) -> None:
    """The clock was set back while it was being closed: it is due at the end that was told, and until then a person can answer."""
    operation = await stage.operation()
    asked = await asking(stage)
    stage.later(timedelta(minutes=30))
    closing = await stage.claim_operation()
    stage.later(-timedelta(minutes=20))
    await stage.work.park(closing, reason="a bug")
    row = await stage.one("SELECT state, due, parked FROM operation")
    assert row == {"state": "escalated", "due": us(asked.answer_by), "parked": "a bug"}
    await stage.store.definitions.answer(
        ANNA,
        asked.id,
        Given(asked.digest, "stop", {}, {}),
        lambda found, question, option, now: decide_answer(found, question, option, now),
    )
    assert (await stage.one("SELECT state FROM operation WHERE id = ?", operation))["state"] == "stopped"


async def asking(stage: Stage) -> Escalation:
    """Lets the one operation ask a person, for half an hour."""
    work = await stage.claim_operation()
    asked = question(work, stage.now, stage.now + timedelta(minutes=30))
    state = {"state": OperationState.ESCALATED, "event": Event.SAW_TROUBLE, "escalation": asked, "next_poll_at": None}
    await stage.work.commit_operation(work, pending(work, stage.now, asked.answer_by, **state, category=asked.category))
    return asked


async def test_a_parked_poll_or_delivery_is_out_of_the_claim_and_in_sight(stage: Stage) -> None:
    """A poll keeps its error, a delivery becomes ambiguous."""
    await stage.poll()
    work = await stage.claim_poll()
    await stage.work.commit_poll(work, unchanged(work, stage.now, effects=(effect("k"),), changed=1))
    for work in await stage.claim():
        await stage.work.park(work, reason="our mistake")
    stage.later(timedelta(days=1))
    assert await stage.claim() == []
    assert (await stage.one("SELECT due, last_error FROM poll")) == {"due": None, "last_error": "our mistake"}
    assert (await stage.one("SELECT state, last_outcome FROM delivery")) == {"state": "ambiguous", "last_outcome": "our mistake"}


async def test_a_delivery_is_settled_retried_and_told(stage: Stage) -> None:
    """Queued again with its due, then delivered with its instant; both attempts are in the journal."""
    await stage.poll()
    work = await stage.claim_poll()
    await stage.work.commit_poll(work, unchanged(work, stage.now + timedelta(days=1), effects=(effect("k"),), changed=1))
    sent = await stage.claim_delivery()
    await stage.work.commit_delivery(sent, done(DeliveryState.QUEUED, stage.now + MINUTE, OutcomeKind.RETRY))
    assert await stage.claim() == [] and await stage.work.next_due() == stage.now + MINUTE
    stage.later(MINUTE)
    sent = await stage.claim_delivery()
    assert (sent.delivery.attempts, sent.delivery.interrupted) == (2, False)
    await stage.work.commit_delivery(sent, done())
    row = await stage.one("SELECT state, due, delivered_at, last_outcome FROM delivery")
    assert row == {"state": "delivered", "due": None, "delivered_at": us(stage.now), "last_outcome": "done: 200"}
    assert [facts["outcome"] for facts in await decided(stage, sent.delivery.id)] == ["retry", "done"]
    with pytest.raises(LeaseLost):
        await stage.work.commit_delivery(sent, done())


async def test_W22_a_lease_is_extended_checked_and_lost(stage: Stage) -> None:
    """An extended lease holds off the takeover; a check after its end raises."""
    await stage.poll()
    work = await stage.claim_poll()
    stage.later(LEASE / 2)
    assert await stage.work.check(work, TIMES) == stage.now
    lease = await stage.work.extend(work, TIMES)
    assert lease.until == stage.now + LEASE and lease.run == work.lease.run
    stage.later(LEASE - timedelta(seconds=1))
    assert await stage.claim() == []
    stage.later(timedelta(seconds=1))
    with pytest.raises(LeaseLost):
        await stage.work.check(work, TIMES)
    assert len(await stage.claim()) == 1


async def test_a_group_of_commits_stands_or_falls_one_by_one(stage: Stage) -> None:
    """One stale fence in a group refuses that one only."""
    for number in range(4):
        await stage.poll(f"p{number}")
    works = [work for work in await stage.claim() if isinstance(work, PollWork)]
    await stage.work.release(works[1])
    executor = stage.store.executor
    assert isinstance(executor, InlineExecutor)
    jobs = [
        Job(joined=stage.work._commit_polls, item=PollCommit(work, unchanged(work, stage.now + MINUTE), [])) for work in works
    ]
    run_group(executor.connection, jobs)
    assert [type(job.error) for job in jobs] == [type(None), LeaseLost, type(None), type(None)]
    assert len(await stage.sql("SELECT 1 FROM run WHERE status = 'ok'")) == 3


async def test_old_runs_are_purged_in_batches_and_open_ones_stay(stage: Stage) -> None:
    """Retention deletes closed runs past their age only."""
    await stage.poll("closed"), await stage.poll("open")
    closed, _ = [work for work in await stage.claim() if isinstance(work, PollWork)]
    await stage.work.commit_poll(closed, unchanged(closed, stage.now + timedelta(days=99)))
    stage.later(timedelta(days=29))
    assert await stage.work.purge() == 0
    stage.later(timedelta(days=2))
    assert await stage.work.purge() == 1
    assert [row["status"] for row in await stage.sql("SELECT status FROM run")] == ["running"]


async def test_the_journal_is_append_only(stage: Stage) -> None:
    """The database itself refuses changes to what was written down."""
    await stage.poll()
    for statement in ("UPDATE journal SET facts = '{}'", "DELETE FROM journal"):
        with pytest.raises(Exception, match="append only"):
            await stage.sql(statement)


async def test_a_clock_step_that_a_driver_saw_is_recorded(stage: Stage) -> None:
    """The driver compares wall and monotonic time; the journal keeps what it saw."""
    await stage.work.note_clock_step(7200.5)
    (row,) = await stage.sql("SELECT facts FROM journal WHERE subject = 'clock'")
    assert json.loads(row["facts"])["seconds"] == 7200.5
