"""Steps read back from the journal: deciding again from the recorded facts gives the same decisions, by the core's own rules (W28)."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from sereno.core.call import CallOutcome
from sereno.core.contract import Contract, Via
from sereno.core.escalation import Escalation, Option
from sereno.core.observation import DelaySource as Source
from sereno.core.observation import Observation, ObservationKind, ReadHint
from sereno.core.operation import (
    AnswerDecision,
    Close,
    Operation,
    OperationDecision,
    OperationState,
    Pushed,
    close_operation,
    decide_answer,
    decide_call,
    decide_cancel,
    decide_operation,
    decide_push,
    next_call,
)
from sereno.core.record import StepRecord
from sereno.core.values import to_micros
from sereno.core.work import Kind, OperationWork
from sereno.ports import Change, Given, Only
from tests.core.waiting import CANCEL, KEYED, make_contract
from tests.store.calling import SYSTEM, answer, new_submit
from tests.store.seeding import ANNA, action, allowance, new_operation
from tests.store.stage import LEASE, Stage


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage()
    yield stage
    await stage.close()


class Drawn(Random):
    """Draws what was drawn; where the draw was not used, anything."""

    def __init__(self, draw: float | None) -> None:
        super().__init__(0)
        self.draw = draw

    def random(self) -> float:
        return 0.0 if self.draw is None else self.draw


def again(step: StepRecord, contract: Contract) -> OperationDecision:
    """Decides a recorded step once more."""
    operation = step.operation
    assert operation is not None
    asks = "esc_again"
    if step.answer is not None:
        return decide_call(operation, contract, step.answer, step.received_at, Drawn(step.draw), escalation_id=asks)
    if step.observation is not None:
        return decide_operation(operation, contract, step.observation, step.received_at, Drawn(step.draw), escalation_id=asks)
    close = next_call(operation, contract, step.received_at)
    assert isinstance(close, Close)
    return close_operation(operation, contract, close, step.received_at, escalation_id=asks)


async def replayed(stage: Stage, operation: str, contract: Contract) -> Sequence[OperationDecision]:
    """Every step decides the same again, down to counters and the keys of what is told."""
    steps = await stage.store.reads.steps(ANNA, operation)
    decisions = []
    for step in steps:
        decision, facts = again(step, contract), step.decided
        assert (str(decision.state), str(decision.event), decision.reason) == (facts["state"], facts["event"], facts["decision"])
        assert str(decision.delay_source) == facts["delay_source"]
        due = None if decision.due is None else to_micros(decision.due)
        assert due == facts["due"], step.seq
        spend = decision.spend
        counted = (spend.transport_failures, spend.throttles, spend.answered, spend.not_found, spend.tolerated, spend.steady)
        names = ("transport_failures_used", "throttles_used", "answered", "not_found", "tolerated", "steady")
        assert counted == tuple(facts[name] for name in names)
        assert [effect.dedupe_key for effect in decision.effects] == facts["effects"]
        assert dict(decision.pins) == facts.get("pins", {})
        decisions.append(decision)
    return decisions


OPERATIONS = Only(kinds=(Kind.OPERATION,))


async def claimed(stage: Stage) -> OperationWork:
    """Claims the one operation when it is due."""
    stage.clock.at = max(stage.now, await stage.work.next_due(OPERATIONS) or stage.now)
    (work,) = await stage.claim(only=OPERATIONS)
    assert isinstance(work, OperationWork)
    return work


async def look(stage: Stage, contract: Contract, observation: Observation) -> OperationWork:
    """Claims when it is due, and settles with the core's decision."""
    work = await claimed(stage)
    stage.later(timedelta(seconds=1))
    decision = decide_operation(
        work.operation, contract, observation, stage.now, Random(work.lease.run), escalation_id=f"esc_{work.lease.run}"
    )
    await stage.work.commit_operation(work, decision)
    return work


async def call(stage: Stage, contract: Contract, outcome: CallOutcome, job: str | None = None) -> OperationWork:
    """The same for a call."""
    work = await claimed(stage)
    stage.later(timedelta(seconds=1))
    said = answer(outcome, job_id=job, url=None if job is None else f"https://example.com/{job}", parameters={})
    decision = decide_call(
        work.operation, contract, said, stage.now, Random(work.lease.run), escalation_id=f"esc_{work.lease.run}"
    )
    await stage.work.commit_operation(work, decision)
    return work


KIND = ObservationKind


async def test_W28_the_looks_of_an_operation_are_decided_again_the_same(stage: Stage) -> None:
    """Pending, a provider's wait, a failure to answer, a missing job, a count that lets something pass, a pin, a word nobody knows."""
    contract = make_contract()
    new = new_operation(actions=(action(),), first_look_at=stage.now, allowance=allowance(max_status_requests=20))
    operation = (await stage.store.definitions.register(ANNA, new))[0].operation.id
    wait = ReadHint(Source.PROVIDER_RETRY_AFTER, "40", stage.now + timedelta(seconds=50))
    for seen in (
        Observation(KIND.PENDING, state="running", http_status=200, hints=(wait,), pins={"created": "yesterday"}),
        Observation(KIND.TRANSPORT, http_status=503, reason="HTTP 503"),
        Observation(KIND.NOT_FOUND_YET, http_status=404, reason="HTTP 404"),
        Observation(KIND.PENDING, state="odd", http_status=200, tolerated=True, reason="odd, which the contract lets pass"),
        Observation(KIND.THROTTLED, http_status=429, reason="HTTP 429"),
        Observation(KIND.NOT_SENT, requests=0, reason="nothing left"),
        Observation(KIND.UNKNOWN_STATE, state="strange", http_status=200, reason="the contract does not know it"),
    ):
        await look(stage, contract, seen)
    decisions = await replayed(stage, operation, contract)
    assert len(decisions) == 7
    assert (decisions[-1].state, len(decisions[-1].effects)) == (OperationState.ESCALATED, 1)


async def test_W28_silence_and_deadlines_are_decided_again_the_same(stage: Stage) -> None:
    """A deadline that closes without a request, and a question that nobody answers."""
    contract = make_contract()
    new = new_operation(actions=(action(),), first_look_at=stage.now + timedelta(days=2))
    operation = (await stage.store.definitions.register(ANNA, new))[0].operation.id
    for _ in range(2):
        work = await claimed(stage)
        close = next_call(work.operation, contract, stage.now)
        assert isinstance(close, Close)
        closed = close_operation(work.operation, contract, close, stage.now, escalation_id="esc_1")
        await stage.work.commit_operation(work, closed)
    states = [decision.state for decision in await replayed(stage, operation, contract)]
    assert states == [OperationState.ESCALATED, OperationState.STOPPED]


async def test_W28_a_submit_and_a_cancel_are_decided_again_the_same(stage: Stage) -> None:
    """Throttled under its key, interrupted, taken on, cancelled by a person, and seen to have ended; by the core's own rules."""
    contract = make_contract(submit=KEYED, cancel=replace(CANCEL, ends_as="failed"))
    record, _ = await stage.store.definitions.register(ANNA, new_submit(actions=(action(),)))
    operation = record.operation.id
    await call(stage, contract, CallOutcome.THROTTLED)
    await claimed(stage)
    stage.later(LEASE)
    interrupted = await call(stage, contract, CallOutcome.ACCEPTED, "job-9")
    assert interrupted.operation.call is not None and interrupted.operation.call.interrupted
    await look(stage, contract, Observation(KIND.PENDING, state="running", http_status=200))

    def rule(found: Operation, now: object) -> AnswerDecision:
        return decide_cancel(found, contract, stage.now)

    await stage.store.definitions.change_operation(ANNA, operation, Change("cancel_requested", rule))
    await call(stage, contract, CallOutcome.ACCEPTED)
    # This provider has no word for it: a job whose cancel it took on ends as failed.
    await look(stage, contract, Observation(KIND.FAILURE, state="failed", http_status=200, reason="failed"))
    decisions = await replayed(stage, operation, contract)
    assert [str(decision.event) for decision in decisions] == [
        *("submit_again", "submitted", "saw_pending", "saw_pending", "saw_cancelled"),
    ]
    found = (await stage.store.reads.operation(ANNA, operation)).operation
    assert (found.state, found.spend.status_requests, found.job_id) == (OperationState.CANCELLED, 2, "job-9")


async def test_W28_a_call_back_is_decided_again_the_same(stage: Stage) -> None:
    """A provider that is never asked: what it called back with ends the wait, and the body is kept by its digest alone."""
    contract = make_contract(via=Via.PUSH)
    new = new_operation(pushed_only=True, allowance=allowance(max_status_requests=0))
    operation = (await stage.store.definitions.register(ANNA, new))[0].operation.id

    def rule(found: Operation, now: object) -> AnswerDecision:
        return decide_push(found, contract, Pushed(b"{}", "application/json", stage.now), stage.now)

    await stage.store.definitions.change_operation(SYSTEM, operation, Change("pushed", rule))
    await look(stage, contract, Observation(KIND.SUCCESS, state="done", http_status=200))
    (decision,) = await replayed(stage, operation, contract)
    assert decision.state is OperationState.SUCCEEDED
    (step,) = await stage.store.reads.steps(ANNA, operation)
    assert step.operation is not None and step.operation.pushed is not None and step.operation.pushed.body == b""


async def test_W20_the_real_answers_fit_the_store(stage: Stage) -> None:
    """A denied submit is asked about, allowed again by a person under its own key, and then taken on."""
    contract = make_contract(submit=KEYED, cancel=CANCEL)
    record, _ = await stage.store.definitions.register(ANNA, new_submit())
    operation = record.operation.id
    await call(stage, contract, CallOutcome.DENIED)
    asked = (await stage.store.reads.operation(ANNA, operation)).operation.open_escalation
    assert asked is not None
    option = next(found for found in asked.options if found.key in ("submit_again", "check_again"))

    def rule(found: Operation, escalation: Escalation, chosen: Option, now: object) -> AnswerDecision:
        return decide_answer(found, escalation, chosen, stage.now)

    answered = await stage.store.definitions.answer(ANNA, asked.id, Given(asked.digest, option.key, {}), rule)
    assert answered.operation.state is OperationState.SUBMITTING and answered.operation.call is not None
    work = await call(stage, contract, CallOutcome.ACCEPTED, "job-9")
    assert work.operation.call is not None and work.operation.call.key == "key-1"
    assert (await stage.store.reads.operation(ANNA, operation)).operation.state is OperationState.WAITING
    assert len(await replayed(stage, operation, contract)) == 2


async def test_an_older_journal_row_says_that_it_holds_too_little(stage: Stage) -> None:
    """A step whose intent lacks what deciding needs is told apart, not guessed."""
    operation = await stage.operation()
    contract = make_contract()
    await look(stage, contract, Observation(KIND.PENDING, state="running", http_status=200))
    await stage.sql("DROP TRIGGER journal_no_update")
    await stage.sql("UPDATE journal SET facts = json_remove(facts, '$.created_at') WHERE kind = 'intent'")
    (step,) = await stage.store.reads.steps(ANNA, operation)
    assert step.operation is None and step.observation is not None
    assert replace(step, operation=None) == step
