"""Submits and cancels in claims and commits: durable before a byte leaves, in doubt after a crash, never a status request."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from sereno.core.call import CallKind, CallOutcome, CallState
from sereno.core.errors import AlreadyExists, InvariantBroken, LeaseLost
from sereno.core.observation import Observation, ObservationKind
from sereno.core.operation import Event, OperationState
from sereno.core.values import digest, to_micros
from sereno.core.work import OperationWork
from sereno.ports import Only
from tests.store.calling import INPUT, accepted, answer, call_row, cancel, settled, submitting
from tests.store.seeding import ANNA, allowance
from tests.store.stage import HOST, LEASE, MINUTE, Stage, pending, question, us


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage()
    yield stage
    await stage.close()


async def test_I2_W31_a_submit_is_marked_as_sending_in_its_claim_and_reserves_no_request(stage: Stage) -> None:
    """Before the first byte the row says that it may be sent; the budget of status requests is untouched."""
    operation = await submitting(stage)
    work = await stage.claim_operation()
    found, call = work.operation, work.operation.call
    assert (found.id, found.state, found.reserved, found.spend.status_requests) == (
        operation,
        OperationState.SUBMITTING,
        False,
        0,
    )
    assert call is not None
    assert (call.kind, call.state, call.attempts, call.interrupted) == (CallKind.SUBMIT, CallState.SENDING, 1, False)
    assert (call.key, call.input, call.first_sent_at) == ("key-1", INPUT, stage.now)
    assert (call.dedupe_key, call.statement) == (
        f"{operation}:submit",
        {"effects": "starts a job", "by": "anna", "by_kind": "human"},
    )
    row = await call_row(stage)
    assert (row["state"], row["attempts"], row["first_sent_at"]) == ("sending", 1, us(stage.now))
    assert await stage.claim() == [], "a call under way is not handed out twice"


async def test_W28_the_intent_names_the_call_but_neither_its_key_nor_its_input(stage: Stage) -> None:
    """The journal row of the claim holds what a replay of the decision needs; the key as a digest."""
    operation = await submitting(stage, "secret-key", fingerprint="print")
    await stage.claim_operation()
    (intent,) = [row for row in await stage.store.reads.journal(ANNA, operation) if row.kind == "intent"]
    call = intent.facts["call"]
    assert isinstance(call, dict)
    assert (call["kind"], call["state"], call["attempts"], call["interrupted"], call["taken"]) == (
        *("submit", "sending", 1, False, True),
    )
    assert call["key_digest"] == digest(b"secret-key")
    everything = str([row.facts for row in await stage.store.reads.journal(ANNA, operation)])
    assert "secret-key" not in everything and "a house" not in everything
    assert (intent.facts["state"], intent.facts["asks"], intent.facts["job_id"], intent.facts["pins"]) == (
        *("submitting", False, "", {}),
    )


async def test_W31_a_crash_between_claim_and_commit_leaves_a_doubt(stage: Stage) -> None:
    """The next claim, after the lease, finds the call as it may have been sent; the key window counts from the first try."""
    await submitting(stage)
    first = stage.now
    await stage.claim_operation()
    stage.later(LEASE)
    work = await stage.claim_operation()
    call = work.operation.call
    assert call is not None
    assert (call.interrupted, call.attempts, call.first_sent_at) == (True, 2, first)
    runs = await stage.sql("SELECT status FROM run ORDER BY number")
    assert [run["status"] for run in runs] == ["abandoned", "running"]


async def test_W31_an_accepted_submit_names_the_job_that_is_waited_for(stage: Stage) -> None:
    """Job, address, parameters and answer are one commit with the settled call; then looks are reserved as usual."""
    operation = await submitting(stage, parameters={"base": "https://example.com"})
    work = await stage.claim_operation()
    stage.later(timedelta(seconds=2))
    await stage.work.commit_operation(work, accepted(work, stage.now))
    record = await stage.store.reads.operation(ANNA, operation)
    found = record.operation
    assert (found.state, found.job_id, found.url) == (OperationState.WAITING, "job-9", "https://example.com/jobs/job-9")
    assert (found.submitted_at, found.call, found.fingerprint) == (stage.now, None, "submit-key-1")
    assert found.parameters == {"base": "https://example.com", "region": "eu"}
    (call,) = await stage.store.reads.calls(ANNA, operation)
    assert (call.call.state, call.answered_at, call.operation) == (CallState.DONE, stage.now, operation)
    assert call.answer is not None and (call.answer["outcome"], call.answer["job_id"]) == ("accepted", "job-9")
    decided = (await stage.store.reads.journal(ANNA, operation))[-1].facts
    assert decided["job"] == {"job_id": "job-9", "url": found.url, "parameters": {"region": "eu"}}
    stage.later(MINUTE)
    look = await stage.claim_operation()
    assert (look.operation.reserved, look.operation.spend.status_requests, look.operation.call) == (True, 1, None)


async def test_I8_a_commit_under_an_old_fence_settles_no_call(stage: Stage) -> None:
    """The worker that slept past its lease changes neither call nor job."""
    operation = await submitting(stage)
    slow = await stage.claim_operation()
    stage.later(LEASE)
    await stage.claim_operation()
    with pytest.raises(LeaseLost):
        await stage.work.commit_operation(slow, accepted(slow, stage.now))
    with pytest.raises(LeaseLost):
        await stage.work.release(slow)
    row = await call_row(stage)
    assert (row["state"], row["answer"], row["attempts"]) == ("sending", None, 2)
    assert (await stage.store.reads.operation(ANNA, operation)).operation.job_id == ""


async def test_I8_two_workers_on_one_file_never_make_one_call_twice(tmp_path: Path) -> None:
    """Two processes claim at once: each submit is handed out once."""
    one, two = Stage(tmp_path / "s.db", inline=False), Stage(tmp_path / "s.db", first=1_000_000, inline=False)
    await one.limits("host:example.com", rate=None)
    for number in range(20):
        await submitting(one, f"key-{number}")
    found = await asyncio.gather(*(stage.claim(20, worker=f"w{at}") for at, stage in enumerate((one, two))))
    subjects = [work.operation.id for works in found for work in works if isinstance(work, OperationWork)]
    assert len(subjects) == len(set(subjects)) == 20
    assert {row["attempts"] for row in await one.sql("SELECT attempts FROM provider_call")} == {1}
    await one.close()
    await two.close()


async def test_I17_the_database_holds_one_call_for_a_key_and_one_open_call_for_an_operation(stage: Stage) -> None:
    """Whatever the code does: dedupe key, submit key and open call are unique by index."""
    await submitting(stage)
    copy = (
        "INSERT INTO provider_call SELECT workspace, 'call_x', operation, contract, account, parameters, kind, {number}, {dedupe}, key, input,"
        " statement, {state}, attempts, first_sent_at, answer, answered_at, created_at, updated_at FROM provider_call"
    )
    for values in (
        {"number": "2", "dedupe": "dedupe_key", "state": "'done'"},
        {"number": "1", "dedupe": "'other'", "state": "'done'"},
        {"number": "2", "dedupe": "'other'", "state": "'queued'"},
    ):
        with pytest.raises(Exception, match="UNIQUE"):
            await stage.sql(copy.format(**values))
    await stage.sql(copy.format(number="2", dedupe="'other'", state="'done'"))


@pytest.mark.parametrize(
    ("outcome", "stored", "first_sent"),
    [(CallOutcome.THROTTLED, "queued", True), (CallOutcome.NOT_SENT, "queued", False), (CallOutcome.UNKNOWN, "sending", True)],
)
async def test_W21_a_call_that_is_tried_again_keeps_its_doubt_and_only_that(
    stage: Stage, outcome: CallOutcome, stored: str, first_sent: bool
) -> None:
    """What certainly did nothing is queued; what may have been done is interrupted at the next claim; the attempt stays counted."""
    await submitting(stage)
    first = stage.now
    work = await stage.claim_operation()
    await stage.work.commit_operation(work, settled(work, stage.now, CallState.QUEUED, answer(outcome)))
    row = await call_row(stage)
    assert (row["state"], row["attempts"], row["first_sent_at"]) == (stored, 1, us(first) if first_sent else None)
    assert await stage.claim() == []
    stage.later(timedelta(seconds=20))
    again = (await stage.claim_operation()).operation.call
    assert again is not None
    assert (again.interrupted, again.attempts, again.key) == (stored == "sending", 2, "key-1")


async def test_W31_a_doubt_outlives_a_later_try_that_did_nothing(stage: Stage) -> None:
    """The first try may have been taken on: a refusal of the second says nothing about it."""
    await submitting(stage)
    await stage.claim_operation()
    stage.later(LEASE)
    work = await stage.claim_operation()
    await stage.work.commit_operation(work, settled(work, stage.now, CallState.QUEUED, answer(CallOutcome.THROTTLED)))
    assert (await call_row(stage))["state"] == "sending"


async def test_W33_a_step_that_sent_nothing_gives_its_attempt_back(stage: Stage) -> None:
    """A release leaves the call as if the claim had not been; one in doubt stays in doubt."""
    await submitting(stage)
    await stage.work.release(await stage.claim_operation())
    row = await call_row(stage)
    assert (row["state"], row["attempts"], row["first_sent_at"]) == ("queued", 0, None)
    first = stage.now
    await stage.claim_operation()
    stage.later(LEASE)
    await stage.work.release(await stage.claim_operation())
    row = await call_row(stage)
    assert (row["state"], row["attempts"], row["first_sent_at"]) == ("sending", 1, us(first))
    again = (await stage.claim_operation()).operation.call
    assert again is not None and again.interrupted


async def test_I1_a_call_is_made_with_a_spent_request_budget_and_leaves_it_so(stage: Stage) -> None:
    """The counters of status requests are neither asked nor moved by a cancel, hops included."""
    operation = await stage.operation(requests=1)
    work = await stage.claim_operation()
    await stage.work.commit_operation(work, pending(work, stage.now, stage.now + timedelta(hours=2)))
    await stage.store.definitions.change_operation(ANNA, operation, cancel())
    work = await stage.claim_operation()
    call = work.operation.call
    assert call is not None and (call.kind, call.dedupe_key, call.input) == (CallKind.CANCEL, f"{operation}:cancel-1", None)
    assert (work.operation.reserved, work.operation.spend.status_requests) == (False, 1)
    assert await stage.work.reserve_hop(work, "https://example.com")
    await stage.work.commit_operation(
        work, settled(work, stage.now, CallState.DONE, answer(), event=Event.SAW_PENDING, state=OperationState.WAITING)
    )
    row = await stage.one("SELECT status_requests_used, max_status_requests, call FROM operation")
    assert (row["status_requests_used"], row["max_status_requests"], row["call"]) == (1, 1, None)
    runs = await stage.sql("SELECT requests FROM run ORDER BY number")
    assert [run["requests"] for run in runs] == [1, 1]


async def test_W29_a_call_takes_a_token_of_its_pool(stage: Stage) -> None:
    """Submits are inside the shared limit: of three, two leave now and the third when there is a token."""
    await stage.limits(HOST, rate=0.1, burst=2)
    for number in range(3):
        await submitting(stage, f"key-{number}")
    assert len(await stage.claim(10)) == 2
    assert await stage.claim(10) == []
    stage.later(timedelta(seconds=10))
    assert len(await stage.claim(10)) == 1


async def test_W33_past_the_deadline_an_open_call_is_not_marked_as_sending(stage: Stage) -> None:
    """The step only closes: the call stays what it was, no token is taken, and a release gives nothing back."""
    await stage.limits(HOST, rate=1.0, burst=1)
    await submitting(stage)
    tat = (await stage.one("SELECT tat FROM pool"))["tat"]
    stage.later(timedelta(hours=1))
    work = await stage.claim_operation()
    call = work.operation.call
    assert call is not None
    assert (call.state, call.attempts, call.first_sent_at, call.interrupted) == (CallState.QUEUED, 0, None, False)
    assert (await stage.one("SELECT tat FROM pool"))["tat"] == tat
    await stage.work.release(work)
    assert (await call_row(stage))["attempts"] == 0


async def test_W19_a_question_keeps_the_submit_that_a_person_may_still_allow(stage: Stage) -> None:
    """An escalated operation with a queued call sends nothing until the answer; an ended one has no open call."""
    operation = await submitting(stage)
    work = await stage.claim_operation()
    asked = question(work, stage.now, stage.now + timedelta(hours=2))
    denied = answer(CallOutcome.DENIED, http_status=403)
    await stage.work.commit_operation(
        work,
        settled(work, stage.now, CallState.QUEUED, denied, state=OperationState.ESCALATED, due=asked.answer_by, escalation=asked),
    )
    record = await stage.store.reads.operation(ANNA, operation)
    assert record.operation.call is not None and record.operation.call.state is CallState.QUEUED
    assert await stage.claim() == []
    stage.later(timedelta(hours=2))
    work = await stage.claim_operation()
    call = work.operation.call
    assert call is not None and (call.state, call.attempts) == (CallState.QUEUED, 1)
    await stage.work.commit_operation(work, pending(work, stage.now, stage.now, state=OperationState.STOPPED, due=None))
    row = await call_row(stage)
    assert (row["state"], (await stage.one("SELECT call FROM operation"))["call"]) == ("dropped", None)


async def test_W39_a_job_of_another_open_operation_is_refused_before_anything_is_written(stage: Stage) -> None:
    """The fence stands, so that another decision can be committed; the call's answer is not lost."""
    taken = await stage.operation("job-9", first_look=stage.now + MINUTE, parameters={"owner": "anna", "region": "eu"})
    operation = await submitting(stage)  # the answer adds the region
    work = await stage.claim_operation()
    before = await stage.sql("SELECT * FROM operation ORDER BY id")
    with pytest.raises(AlreadyExists) as found:
        await stage.work.commit_operation(work, accepted(work, stage.now, "job-9"))
    assert (found.value.subject, found.value.code) == (taken, "job_taken")
    assert await stage.sql("SELECT * FROM operation ORDER BY id") == before
    asked = question(work, stage.now, stage.now + timedelta(hours=2))
    decision = settled(work, stage.now, CallState.DONE, answer(job_id="job-9"), state=OperationState.ESCALATED, escalation=asked)
    await stage.work.commit_operation(work, decision)
    record = await stage.store.reads.operation(ANNA, operation)
    assert (record.operation.state, record.operation.job_id) == (OperationState.ESCALATED, "")


async def test_W39_a_job_id_that_is_open_under_other_parameters_is_another_job(stage: Stage) -> None:
    """Each parameter names a space of job ids: two submits whose answers say run-1 are two waits, and so are two with one key."""
    first = await submitting(stage, parameters={"dag": "a"})
    second = await submitting(stage, parameters={"dag": "b"}, fingerprint="submit-b")
    for work in [*await stage.claim()]:
        await stage.work.commit_operation(work, accepted(work, stage.now, "run-1"))
    rows = await stage.sql("SELECT id, job_id, parameters FROM operation ORDER BY id")
    assert [(row["id"], row["job_id"]) for row in rows] == [(first, "run-1"), (second, "run-1")]
    assert len({row["parameters"] for row in rows}) == 2


async def test_W39_a_job_whose_operation_has_ended_may_be_named_again(stage: Stage) -> None:
    """Only open operations hold their job."""
    taken = await stage.operation("job-9", first_look=stage.now + MINUTE)
    await stage.sql("UPDATE operation SET state = 'succeeded', due = NULL WHERE id = ?", taken)
    await submitting(stage)
    work = await stage.claim_operation()
    await stage.work.commit_operation(work, accepted(work, stage.now, "job-9"))


async def test_W43_parking_leaves_a_call_that_may_have_been_sent_unknown(stage: Stage) -> None:
    """Our bug in the middle of a call is never a reason to call again; at the deadline the end is told."""
    operation = await submitting(stage)
    work = await stage.claim_operation()
    seen = Observation(kind=ObservationKind.PENDING, http_status=202, reason="it named the job 'job-9'")
    await stage.work.park(work, reason="a bug", observation=seen)
    row = await call_row(stage)
    facts = (await stage.store.reads.journal(ANNA, operation))[-1].facts
    assert "job-9" in str(facts["observation"]), "what was learned is kept"
    assert (await stage.one("SELECT last_http_status FROM operation"))["last_http_status"] is None
    record = await stage.store.reads.operation(ANNA, operation)
    assert (row["state"], record.operation.call, record.due) == ("unknown", None, stage.now + timedelta(hours=1))
    assert await stage.claim() == []
    stage.later(timedelta(hours=1))
    last = await stage.claim_operation()
    assert (last.operation.call, last.operation.reserved) == (None, False)


async def test_a_step_settles_no_other_call_than_its_own(stage: Stage) -> None:
    """A mistake of ours is refused, and nothing is written."""
    await submitting(stage)
    work = await stage.claim_operation()
    decision = accepted(work, stage.now)
    assert decision.call is not None
    wrong = settled(work, stage.now, CallState.DONE, None, call=type(decision.call)("call_other", CallState.DONE, None))
    with pytest.raises(InvariantBroken):
        await stage.work.commit_operation(work, wrong)
    assert (await call_row(stage))["state"] == "sending"


async def test_one_submit_alone_can_be_claimed_and_its_due_instant_is_seen(stage: Stage) -> None:
    """`Only(subject)` and `next_due` know submits."""
    await stage.poll()
    operation = await submitting(stage)
    only = Only(subject=operation)
    assert await stage.work.next_due(only) == stage.now
    (work,) = await stage.claim(only=only)
    assert isinstance(work, OperationWork) and work.operation.id == operation


async def test_I7_a_clock_set_back_leaves_a_submit_neither_stuck_nor_out_of_its_window(stage: Stage) -> None:
    """The wait of a queued submit keeps its length, and the age of its first try too."""
    await submitting(stage, allowance=allowance(deadline_at=stage.now + timedelta(days=9)))
    work = await stage.claim_operation()
    await stage.work.commit_operation(work, settled(work, stage.now, CallState.QUEUED, answer(CallOutcome.THROTTLED)))
    await stage.poll()
    stage.later(-timedelta(days=1))
    await stage.claim()
    assert (await call_row(stage))["first_sent_at"] == to_micros(stage.now)
    stage.later(timedelta(seconds=20))
    works = await stage.claim()
    assert any(isinstance(work, OperationWork) for work in works)
