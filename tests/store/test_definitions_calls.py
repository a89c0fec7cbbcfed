"""Submits registered, cancels and other contracts asked for, call-backs noted: each a transaction of its own, by whom it may be."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sereno.core.call import CallKind, CallOutcome, CallState
from sereno.core.errors import InvariantBroken, LeaseLost, NotAllowed, NotFound, NotNow, RequestError
from sereno.core.escalation import Escalation, Option, Verb
from sereno.core.observation import DelaySource, Observation, ObservationKind
from sereno.core.operation import AnswerDecision, Event, Operation, OperationState
from sereno.core.values import canonical, digest
from sereno.core.work import OperationWork
from sereno.ports import AnswerRule, Change, Given, Page
from tests.store.calling import (
    INPUT,
    SYSTEM,
    accepted,
    answer,
    call_row,
    cancel,
    changed,
    new_submit,
    push,
    settled,
    submitting,
)
from tests.store.seeding import ANNA, BEN, BOT, ELSEWHERE, allowance, new_operation
from tests.store.stage import HOST, LEASE, MINUTE, Stage, pending, subjects, us

DEADLINE = timedelta(hours=1)
CANCEL = Option("cancel", Verb.CANCEL, "Cancel at the provider; it stops.", minutes=15, checks=5)
AGAIN = Option("submit_again", Verb.SUBMIT_AGAIN, "Send the submit once more.")
UPDATE = Option("update_contract", Verb.UPDATE_CONTRACT, "Follow the contract as it stands now.", minutes=15, checks=1)
STOP = Option("stop", Verb.STOP, "Stop waiting.")


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage()
    yield stage
    await stage.close()


async def asked(stage: Stage, work: OperationWork, **changes: Any) -> None:
    """Commits a step that asks a person, with all the options of these tests."""
    escalation = Escalation(
        id=changes.pop("escalation", f"esc_{work.operation.id}"),
        workspace="main",
        operation=work.operation.id,
        category=changes.pop("category"),
        statement={"state": "odd"},
        options=(CANCEL, AGAIN, UPDATE, STOP),
        digest="d1",
        created_at=stage.now,
        answer_by=stage.now + timedelta(days=1),
    )
    base = changes.pop("decision", None) or pending(work, stage.now, stage.now)
    decision = replace(
        base, state=OperationState.ESCALATED, due=escalation.answer_by, next_poll_at=None, escalation=escalation, job=None
    )
    await stage.work.commit_operation(work, decision)


async def escalated(stage: Stage) -> str:
    """A wait that asks a person."""
    await stage.operation()
    work = await stage.claim_operation()
    await asked(stage, work, category="unknown_state")
    return work.operation.id


def rule(**changes: Any) -> AnswerRule:
    """An answer that leads to `changes`."""

    def decide(operation: Operation, escalation: Escalation, option: Option, now: datetime) -> AnswerDecision:
        values: dict[str, Any] = {"state": OperationState.WAITING, "event": Event.ANSWERED_GO_ON, **changes}
        return changed(operation, now, **values)

    return decide


async def test_W31_a_submit_is_registered_whole_and_due_at_once(stage: Stage) -> None:
    """Key, input and limits are durable before anything is sent; the pool is awake."""
    record, is_new = await stage.store.definitions.register(
        ANNA, new_submit(allowance=allowance(deadline_at=stage.now + DEADLINE))
    )
    operation = record.operation
    assert is_new and (operation.state, operation.job_id, record.due) == (OperationState.SUBMITTING, "", stage.now)
    assert operation.next_poll_at is None and operation.call is not None
    assert (operation.call.state, operation.call.input, operation.call.key) == (CallState.QUEUED, INPUT, "key-1")
    assert (await stage.one("SELECT wake FROM pool"))["wake"] == us(stage.now)
    (created,) = await stage.store.reads.journal(ANNA, operation.id)
    assert created.facts["state"] == "submitting"
    assert created.facts["call"] == {"id": operation.call.id, "kind": "submit", "key_digest": digest(b"key-1")}
    assert (await stage.store.reads.counts(ANNA)).operations == {"submitting": 1}
    assert [found.operation.id for found in await stage.store.reads.operations(ANNA, Page(state="open"))] == [operation.id]


@pytest.mark.parametrize("state", ["submitting", "succeeded", "stopped"])
async def test_I17_the_same_key_gives_the_first_operation_back_whatever_its_state(stage: Stage, state: str) -> None:
    """A caller that repeats its request starts no second job, also after the first has ended."""
    operation = await submitting(stage)
    await stage.sql("UPDATE operation SET state = ?", state)
    again, is_new = await stage.store.definitions.register(BEN, new_submit(allowance=allowance(max_status_requests=99)))
    assert (again.operation.id, is_new) == (operation, False)
    assert len(await stage.sql("SELECT 1 FROM provider_call")) == 1
    other, is_new = await stage.store.definitions.register(ANNA, new_submit(account="other"))
    assert is_new and other.operation.id != operation


@pytest.mark.parametrize("changes", [{"given": {"prompt": "a boat"}}, {"fingerprint": "another"}])
async def test_W39_another_input_under_a_used_key_is_a_contradiction(stage: Stage, changes: dict[str, Any]) -> None:
    """The job of another request is never handed out as this one's; nothing is stored."""
    operation = await submitting(stage)
    with pytest.raises(NotNow) as found:
        await stage.store.definitions.register(ANNA, new_submit(**changes))
    assert (found.value.code, found.value.subject) == ("contradiction", operation)
    assert len(await stage.sql("SELECT 1 FROM operation")) == 1


async def test_W21_a_job_is_submitted_anew_by_a_person_as_a_linked_operation(stage: Stage) -> None:
    """The new operation names the old one; an agent may not ask for it, and the old one has to exist."""
    first = await submitting(stage)
    anew = new_submit("key-2", previous=first, allowance=allowance(deadline_at=stage.now + DEADLINE))
    with pytest.raises(NotAllowed):
        await stage.store.definitions.register(BOT, anew)
    with pytest.raises(NotFound):
        await stage.store.definitions.register(ANNA, replace(anew, previous="op_nowhere"))
    record, is_new = await stage.store.definitions.register(ANNA, anew)
    assert is_new and record.operation.previous == first
    assert (await stage.store.reads.journal(ANNA, record.operation.id))[0].facts["previous"] == first


async def test_W21_I23_a_job_is_submitted_anew_once_though_the_clock_that_orders_ids_was_set_back(tmp_path: Path) -> None:
    """The new operation has the smaller id; asking twice starts no second job all the same."""
    before, since = Stage(tmp_path / "s.db", first=500), Stage(tmp_path / "s.db", first=1)
    first = await submitting(before)
    anew = new_submit("key-2", previous=first, allowance=allowance(deadline_at=before.now + DEADLINE))
    record, _ = await since.store.definitions.register(ANNA, anew)
    assert record.operation.id < first
    with pytest.raises(NotNow) as twice:
        await since.store.definitions.register(ANNA, new_submit("key-3", previous=first, allowance=anew.allowance))
    assert (twice.value.code, len(await since.sql("SELECT 1 FROM operation"))) == ("submitted_anew", 2)
    await before.close()
    await since.close()


async def test_a_submit_without_a_key_is_refused(stage: Stage) -> None:
    """Without a key nothing tells two requests apart."""
    with pytest.raises(RequestError):
        await stage.store.definitions.register(ANNA, new_submit(""))
    assert await stage.sql("SELECT 1 FROM operation") == []


async def test_W20_W24_a_person_cancels_and_the_next_step_makes_the_call(stage: Stage) -> None:
    """The cancel has its own row, key and statement; who asked is in the journal."""
    operation = await stage.operation(first_look=stage.now + MINUTE)
    record = await stage.store.definitions.change_operation(ANNA, operation, cancel())
    call = record.operation.call
    assert call is not None and (call.kind, call.state, call.key) == (CallKind.CANCEL, CallState.QUEUED, f"{operation}:cancel-1")
    assert call.statement == {"effects": "it stops", "by": "anna", "by_kind": "human"}
    entry = (await stage.store.reads.journal(ANNA, operation))[-1].facts
    assert (entry["decision"], entry["by"], entry["call"], entry["statement"]) == (
        *("cancel_requested", "anna", call.id, {"effects": "it stops"}),
    )
    with pytest.raises(NotNow) as twice:
        await stage.store.definitions.change_operation(ANNA, operation, cancel())
    assert twice.value.code == "call_open"
    work = await stage.claim_operation()
    assert work.operation.call is not None and work.operation.call.state is CallState.SENDING
    refused = settled(work, stage.now, CallState.REFUSED, answer(CallOutcome.TOO_LATE), state=OperationState.WAITING)
    await stage.work.commit_operation(work, refused)
    record = await stage.store.definitions.change_operation(ANNA, operation, cancel())
    assert record.operation.call is not None and record.operation.call.dedupe_key == f"{operation}:cancel-2"
    calls = await stage.store.reads.calls(ANNA, operation)
    assert [found.call.state for found in calls] == [CallState.REFUSED, CallState.QUEUED]
    assert await stage.store.reads.calls(ELSEWHERE, operation) == []


@pytest.mark.parametrize("who", [BOT, SYSTEM])
@pytest.mark.parametrize("word", ["cancel_requested", "contract_changed", "anything_else"])
async def test_W20_only_a_person_changes_an_operation(stage: Stage, who: Any, word: str) -> None:
    """An agent neither cancels nor changes the contract; the rule is not even asked."""
    operation = await stage.operation()
    before = await stage.sql("SELECT * FROM operation")
    with pytest.raises(NotAllowed) as found:
        await stage.store.definitions.change_operation(who, operation, replace(cancel(), word=word))
    assert found.value.code == "needs_person"
    assert await stage.sql("SELECT * FROM operation") == before


async def test_a_cancel_while_a_look_is_under_way_keeps_what_the_look_learns(stage: Stage) -> None:
    """The step's facts count, it decides nothing, and the call comes next, after the minimum gap."""
    operation = await stage.operation()
    work = await stage.claim_operation()
    await stage.store.definitions.change_operation(ANNA, operation, cancel())
    assert await stage.claim() == [], "the lease still holds the row"
    await stage.work.commit_operation(work, pending(work, stage.now, stage.now + MINUTE))
    found = (await stage.store.reads.operation(ANNA, operation)).operation
    assert (found.last_state, found.spend.status_requests) == ("running", 1)
    assert await stage.claim() == [], "not sooner than a look would come"
    stage.later(timedelta(seconds=1))
    nexts = await stage.claim_operation()
    assert nexts.operation.call is not None and nexts.operation.call.kind is CallKind.CANCEL
    assert (nexts.operation.reserved, nexts.operation.spend.status_requests) == (False, 1)


async def test_W35_a_cancel_queued_during_a_look_waits_as_the_look_was_asked_to(stage: Stage) -> None:
    """What the provider asked for in that answer holds for the cancel too."""
    operation = await stage.operation()
    work = await stage.claim_operation()
    await stage.store.definitions.change_operation(ANNA, operation, cancel())
    asked = pending(work, stage.now, stage.now + MINUTE, delay_source=DelaySource.PROVIDER_RETRY_AFTER)
    await stage.work.commit_operation(work, asked)
    stage.later(MINUTE - timedelta(seconds=1))
    assert await stage.claim() == []
    stage.later(timedelta(seconds=1))
    assert (await stage.claim_operation()).operation.call is not None


async def test_W31_nothing_is_changed_while_a_call_may_be_on_its_way(stage: Stage) -> None:
    """The answer of a submit is not thrown away; once the lease is over, the stale worker loses instead."""
    operation = await submitting(stage)
    work = await stage.claim_operation()
    drop = Change(
        "cancel_requested", lambda found, now: changed(found, now, state=OperationState.STOPPED, due=None, drop_call=True)
    )
    with pytest.raises(NotNow) as found:
        await stage.store.definitions.change_operation(ANNA, operation, drop)
    assert found.value.code == "under_way"
    stage.later(LEASE)
    await stage.store.definitions.change_operation(ANNA, operation, drop)
    assert (await call_row(stage))["state"] == "unknown", "it may have been sent"
    with pytest.raises(LeaseLost):
        await stage.work.commit_operation(work, accepted(work, stage.now))


async def test_W31_a_submit_that_was_not_sent_is_dropped_when_a_person_gives_up(stage: Stage) -> None:
    """Nothing was sent, and nothing is: the call is closed unsent with the operation."""
    operation = await submitting(stage)
    stop = Change("cancel_requested", lambda found, now: changed(found, now, state=OperationState.STOPPED, due=None))
    record = await stage.store.definitions.change_operation(ANNA, operation, stop)
    assert (record.operation.state, record.operation.call, record.due) == (OperationState.STOPPED, None, None)
    assert (await call_row(stage))["state"] == "dropped"
    assert await stage.claim() == []


async def test_W40_cancel_as_an_answer_queues_the_call_in_the_same_transaction(stage: Stage) -> None:
    """Answer, state and call stand or fall together; a rule that fails leaves the question open and no call."""
    operation = await escalated(stage)
    given = Given("d1", "cancel", {"state": "odd"})
    with pytest.raises(NotAllowed):
        await stage.store.definitions.answer(BOT, f"esc_{operation}", given, rule(new_call=CallKind.CANCEL))

    def greedy(found: Operation, escalation: Escalation, option: Option, now: datetime) -> AnswerDecision:
        wider = replace(found.allowance, max_status_requests=found.allowance.max_status_requests + 99)
        return changed(found, now, state=OperationState.WAITING, allowance=wider, new_call=CallKind.CANCEL)

    with pytest.raises(InvariantBroken):
        await stage.store.definitions.answer(ANNA, f"esc_{operation}", given, greedy)
    assert await stage.sql("SELECT 1 FROM provider_call") == []
    record = await stage.store.definitions.answer(ANNA, f"esc_{operation}", given, rule(new_call=CallKind.CANCEL))
    call = record.operation.call
    assert record.operation.state is OperationState.WAITING and call is not None
    assert (call.dedupe_key, call.statement) == (f"{operation}:cancel-1", {"state": "odd", "by": "anna", "by_kind": "human"})
    assert (await stage.store.reads.escalation(ANNA, f"esc_{operation}")).state == "answered"
    work = await stage.claim_operation()
    assert work.operation.call is not None and work.operation.call.id == call.id


@pytest.mark.parametrize("state", [CallState.REFUSED, CallState.UNKNOWN])
async def test_W21_a_submit_is_sent_again_only_where_it_certainly_was_not_taken_on(stage: Stage, state: CallState) -> None:
    """The new call has its own row and the old key; one that may have been taken on is not sent again, whoever asks."""
    operation = await submitting(stage)
    work = await stage.claim_operation()
    await asked(
        stage, work, category="integration_failure", decision=settled(work, stage.now, state, answer(CallOutcome.REFUSED))
    )
    again = rule(state=OperationState.SUBMITTING, event=Event.ANSWERED_SUBMIT, new_call=CallKind.SUBMIT)
    answering = stage.store.definitions.answer(ANNA, f"esc_{operation}", Given("d1", "submit_again", {}), again)
    if state is CallState.UNKNOWN:
        with pytest.raises(NotNow) as found:
            await answering
        assert found.value.code == "submit_unknown"
        assert (await stage.store.reads.escalation(ANNA, f"esc_{operation}")).state == "open"
        return
    call = (await answering).operation.call
    assert call is not None
    assert (call.dedupe_key, call.key, call.input, call.attempts) == (f"{operation}:submit-2", "key-1", INPUT, 0)
    same, is_new = await stage.store.definitions.register(ANNA, new_submit())
    assert (same.operation.id, is_new) == (operation, False)
    work = await stage.claim_operation()
    assert work.operation.call is not None and work.operation.call.id == call.id


async def test_W40_an_answer_pins_the_present_contract_and_says_from_which(stage: Stage) -> None:
    """The document is stored under its digest; the journal holds both digests; without a document nothing changes."""
    operation = await escalated(stage)
    document = {"contract": "generic-status", "version": 2}
    given = Given("d1", "update_contract", {})
    with pytest.raises(InvariantBroken):
        await stage.store.definitions.answer(ANNA, f"esc_{operation}", given, rule(repin=True))
    before = (await stage.store.reads.operation(ANNA, operation)).operation
    record = await stage.store.definitions.answer(ANNA, f"esc_{operation}", replace(given, document=document), rule(repin=True))
    pinned = digest(canonical(dict(document)))
    assert (record.operation.contract_digest, record.operation.revision) == (pinned, before.revision + 1)
    assert await stage.store.reads.contract(pinned) == document
    entry = (await stage.store.reads.journal(ANNA, operation))[-1].facts
    assert (entry["contract_digest_before"], entry["contract_digest"]) == (before.contract_digest, pinned)


async def test_a_contract_that_a_person_changes_lets_the_look_under_way_decide_nothing(stage: Stage) -> None:
    """What was asked under the old contract is a fact; the next step decides under the new one."""
    operation = await stage.operation()
    work = await stage.claim_operation()
    document = {"contract": "generic-status", "version": 2}
    repin = Change("contract_changed", lambda found, now: changed(found, now, repin=True), {}, document)
    record = await stage.store.definitions.change_operation(ANNA, operation, repin)
    assert record.operation.contract_digest == digest(canonical(dict(document)))
    seen = Observation(kind=ObservationKind.SUCCESS, state="done", http_status=200)
    ended = pending(work, stage.now, stage.now, state=OperationState.SUCCEEDED, due=None, next_poll_at=None, observation=seen)
    await stage.work.commit_operation(work, ended)
    found = (await stage.store.reads.operation(ANNA, operation)).operation
    assert (found.state, found.last_state) == (OperationState.WAITING, "done")


async def test_a_change_that_leaves_a_question_closes_it(stage: Stage) -> None:
    """No question stays open beside an operation that goes on."""
    operation = await escalated(stage)
    goes_on = Change("contract_changed", lambda found, now: changed(found, now, state=OperationState.WAITING))
    await stage.store.definitions.change_operation(ANNA, operation, goes_on)
    assert (await stage.store.reads.escalation(ANNA, f"esc_{operation}")).state == "expired"
    with pytest.raises(NotNow):
        await stage.store.definitions.answer(ANNA, f"esc_{operation}", Given("d1", "cancel", {}), rule())


async def push_only(stage: Stage) -> str:
    """A wait that only a call-back ends."""
    none = allowance(deadline_at=stage.now + DEADLINE, max_status_requests=0, max_transport_failures=0, max_throttles=0)
    record, _ = await stage.store.definitions.register(ANNA, new_operation(allowance=none, pushed_only=True))
    assert (record.due, record.operation.next_poll_at) == (stage.now + DEADLINE, None)
    return record.operation.id


async def test_W41_a_wait_for_a_call_back_needs_a_deadline_and_no_other_limit(stage: Stage) -> None:
    """No status request is ever given to it, whatever limits come with it; a deadline that has passed is refused."""
    await push_only(stage)
    assert await stage.claim() == []
    given = new_operation("job-2", allowance=allowance(deadline_at=stage.now + DEADLINE), pushed_only=True)
    record, _ = await stage.store.definitions.register(ANNA, given)
    assert record.operation.allowance.max_status_requests == 0
    late = new_operation("job-3", allowance=allowance(deadline_at=stage.now), pushed_only=True)
    with pytest.raises(RequestError):
        await stage.store.definitions.register(ANNA, late)


async def test_W35_a_call_back_is_kept_and_read_without_a_request_or_a_token(stage: Stage) -> None:
    """The body comes with the next claim; the step that decided on it forgets it; the pool is not asked."""
    operation = await push_only(stage)
    await stage.limits(HOST, rate=0.001, burst=1)
    await stage.poll()
    await stage.claim()
    await stage.store.definitions.change_operation(SYSTEM, operation, push())
    work = await stage.claim_operation()
    pushed = work.operation.pushed
    assert pushed is not None and (pushed.body, pushed.content_type, pushed.received_at) == (
        *(b'{"state":"done"}', "application/json", stage.now),
    )
    assert (work.operation.reserved, work.operation.spend.status_requests) == (False, 0)
    await stage.work.commit_operation(work, pending(work, stage.now, stage.now + DEADLINE))
    assert await stage.sql("SELECT 1 FROM pushed_body") == []
    assert (await stage.sql("SELECT requests FROM run WHERE subject = ?", operation))[-1]["requests"] == 0
    facts = (await stage.store.reads.journal(ANNA, operation))[-1].facts
    kept = facts["pushed"]
    assert isinstance(kept, dict) and (kept["bytes"], kept["digest"]) == (16, digest(b'{"state":"done"}'))
    stage.later(MINUTE)
    assert operation not in subjects(await stage.claim())


async def test_W35_a_call_back_during_the_submit_loses_neither_its_answer_nor_itself(stage: Stage) -> None:
    """A provider that is quicker than its own answer: the submit is settled, then the call-back is read."""
    none = allowance(deadline_at=stage.now + DEADLINE, max_status_requests=0)
    operation = await submitting(stage, allowance=none, pushed_only=True)
    work = await stage.claim_operation()
    await stage.store.definitions.change_operation(SYSTEM, operation, push())
    assert await stage.claim() == []
    await stage.work.commit_operation(work, accepted(work, stage.now, due=stage.now + DEADLINE, next_poll_at=None))
    reading = await stage.claim_operation()
    assert reading.operation.job_id == "job-9" and reading.operation.pushed is not None
    await stage.store.definitions.change_operation(SYSTEM, operation, push(b"newer"))
    await stage.work.commit_operation(reading, pending(reading, stage.now, stage.now + DEADLINE, next_poll_at=None))
    newer = (await stage.claim_operation()).operation.pushed
    assert newer is not None and newer.body == b"newer"


@pytest.mark.parametrize(
    ("source", "sooner"),
    [(DelaySource.LOCAL_BACKOFF, True), (DelaySource.PROVIDER_RETRY_AFTER, False), (DelaySource.MANUAL_EXTENSION, False)],
)
async def test_W35_a_call_back_during_a_look_wakes_the_next_one_inside_its_bounds(
    stage: Stage, source: DelaySource, sooner: bool
) -> None:
    """Never below the smallest gap, and never inside a wait that the provider asked for."""
    operation = await stage.operation(min_gap=timedelta(seconds=3))
    work = await stage.claim_operation()
    await stage.store.definitions.change_operation(SYSTEM, operation, push(kept=False))
    planned = stage.now + timedelta(minutes=9)
    await stage.work.commit_operation(work, pending(work, stage.now, planned, delay_source=source))
    record = await stage.store.reads.operation(ANNA, operation)
    assert record.due == record.operation.next_poll_at == (stage.now + timedelta(seconds=3) if sooner else planned)


async def test_W35_a_call_back_moves_a_waiting_look_as_its_rule_says(stage: Stage) -> None:
    """Nothing is under way: the look comes when the rule plans it, and the pool wakes for it."""
    operation = await stage.operation(first_look=stage.now + timedelta(minutes=30))
    record = await stage.store.definitions.change_operation(SYSTEM, operation, push(kept=False, look=timedelta(seconds=5)))
    assert record.due == record.operation.next_poll_at == stage.now + timedelta(seconds=5)
    assert (await stage.one("SELECT wake FROM pool"))["wake"] == us(stage.now + timedelta(seconds=5))


@pytest.mark.parametrize(
    "changes",
    [
        {"state": OperationState.SUCCEEDED},
        {"new_call": CallKind.CANCEL},
        {"drop_call": True},
        {"repin": True},
        {"allowance": allowance(max_status_requests=999)},
    ],
)
async def test_W35_a_call_back_decides_nothing(stage: Stage, changes: dict[str, Any]) -> None:
    """The store does not trust the rule: a call-back moves no state, no limit, no call and no contract."""
    operation = await stage.operation()
    before = await stage.sql("SELECT * FROM operation")
    greedy = Change("pushed", lambda found, now: changed(found, now, **changes))
    with pytest.raises(InvariantBroken):
        await stage.store.definitions.change_operation(SYSTEM, operation, greedy)
    assert await stage.sql("SELECT * FROM operation") == before
    with pytest.raises(NotAllowed):
        await stage.store.definitions.change_operation(BOT, operation, push())
    with pytest.raises(NotFound):
        await stage.store.definitions.change_operation(ELSEWHERE, operation, push())


async def test_W35_a_call_back_while_a_person_is_asked_waits_for_the_answer(stage: Stage) -> None:
    """It is kept, nothing moves, and the step after the answer reads it."""
    operation = await push_only(stage)
    stage.later(DEADLINE)
    work = await stage.claim_operation()
    await asked(stage, work, category="deadline_exceeded")
    record = await stage.store.definitions.change_operation(SYSTEM, operation, push())
    assert (record.operation.state, record.due) == (OperationState.ESCALATED, stage.now + timedelta(days=1))
    assert await stage.claim() == []

    def extend(found: Operation, escalation: Escalation, option: Option, now: datetime) -> AnswerDecision:
        wider = replace(found.allowance, deadline_at=now + timedelta(minutes=15), max_status_requests=5)
        return changed(found, now, state=OperationState.WAITING, allowance=wider)

    record = await stage.store.definitions.answer(ANNA, f"esc_{operation}", Given("d1", "cancel", {}), extend)
    assert record.operation.allowance.max_status_requests == 0, "it is never asked, whatever the answer allows"
    work = await stage.claim_operation()
    assert work.operation.pushed is not None and not work.operation.reserved
    await asked(
        stage, work, category="contradiction", escalation="esc_2", decision=pending(work, stage.now, stage.now, observation=None)
    )
    stop = rule(state=OperationState.STOPPED, event=Event.ANSWERED_STOP, due=None)
    await stage.store.definitions.answer(ANNA, "esc_2", Given("d1", "stop", {}), stop)
    assert await stage.sql("SELECT 1 FROM pushed_body") == [], "nobody will read it"


async def test_W35_a_call_back_never_hurries_a_call(stage: Stage) -> None:
    """A submit that waits out its throttling is not sent sooner because the provider called back; the body is read after it."""
    none = allowance(deadline_at=stage.now + DEADLINE, max_status_requests=0)
    operation = await submitting(stage, allowance=none, pushed_only=True)
    for before in (True, False):
        work = await stage.claim_operation()
        if before:
            await stage.store.definitions.change_operation(SYSTEM, operation, push())
        again = stage.now + timedelta(seconds=20)
        await stage.work.commit_operation(work, settled(work, stage.now, CallState.QUEUED, answer(CallOutcome.THROTTLED)))
        if not before:
            await stage.store.definitions.change_operation(SYSTEM, operation, push(b"newer"))
        assert (await stage.store.reads.operation(ANNA, operation)).due == again
        stage.clock.at = again
    work = await stage.claim_operation()
    await stage.work.commit_operation(work, accepted(work, stage.now, due=stage.now + DEADLINE, next_poll_at=None))
    reading = await stage.claim_operation()
    assert reading.operation.pushed is not None and reading.operation.pushed.body == b"newer"


async def test_W43_a_call_back_does_not_wake_what_is_parked(stage: Stage) -> None:
    """Our mistake is not repeated because something came in; the body waits with the operation."""
    operation = await push_only(stage)
    await stage.store.definitions.change_operation(SYSTEM, operation, push())
    work = await stage.claim_operation()
    await stage.work.park(work, reason="a bug")
    record = await stage.store.definitions.change_operation(SYSTEM, operation, push(b"newer"))
    assert record.due == stage.now + DEADLINE
    assert await stage.claim() == []
