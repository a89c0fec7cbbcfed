"""Changes that no question asked for: a cancel, a call-back, another version of the contract (W24, W35)."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from sereno.core.budget import Spend
from sereno.core.call import CallKind, CallOutcome, CallState
from sereno.core.contract import Contract, Via
from sereno.core.errors import NotAllowed, NotNow
from sereno.core.escalation import Category, Verb
from sereno.core.observation import DelaySource
from sereno.core.operation import (
    TERMINAL,
    AnswerDecision,
    Ask,
    Close,
    Event,
    Operation,
    OperationState,
    Pushed,
    Read,
    close_operation,
    decide_answer,
    decide_cancel,
    decide_push,
    decide_repin,
    next_call,
)
from tests.core.waiting import (
    ALLOWANCE,
    CANCEL,
    KIND,
    NOON,
    SUBMIT,
    after,
    answered,
    apply,
    decide,
    decide_answered,
    escalated,
    make_contract,
    make_operation,
    reserve,
    saw,
    submitting,
    with_call,
)

S = OperationState
WITH_CANCEL = make_contract(cancel=CANCEL)
PUSH = make_contract(via=Via.PUSH, submit=SUBMIT)
TOLD = Pushed(b'{"status":"done"}', "application/json", NOON)
PLANNED = {"next_poll_at": after(60), "last_checked_at": after(-5)}


# --- a cancel that a person asks for


@pytest.mark.parametrize(
    ("fields", "due"),
    [
        ({}, 0),
        ({"last_checked_at": after(-0.25)}, 0.75),
        ({"delay_source": DelaySource.PROVIDER_RETRY_AFTER, "next_poll_at": after(90)}, 90),
        ({"delay_source": DelaySource.PROVIDER_POLL_HINT, "next_poll_at": after(90)}, 90),
        ({"delay_source": DelaySource.PROVIDER_RETRY_AFTER, "next_poll_at": after(9000)}, 3600),
        # After an answer the plan keeps the provider's wait under the name of the answer (I4).
        ({"delay_source": DelaySource.MANUAL_EXTENSION, "next_poll_at": after(90)}, 90),
    ],
)
def test_W24_I4_a_cancel_is_queued_and_due_at_once_but_for_gap_and_provider(fields: dict[str, object], due: float) -> None:
    """The plan of the looks, the limits and the state stay as they are."""
    operation = make_operation(**{**PLANNED, **fields})  # type: ignore[arg-type]
    decision = decide_cancel(operation, WITH_CANCEL, NOON)
    assert (decision.state, decision.event, decision.new_call) == (S.WAITING, Event.CHANGED, CallKind.CANCEL)
    assert decision.due == after(due) and decision.allowance == ALLOWANCE
    assert (decision.next_poll_at, decision.delay_source) == (operation.next_poll_at, operation.delay_source)


def test_W40_what_is_not_documented_is_not_cancelled() -> None:
    """No contract, no cancel."""
    with pytest.raises(NotAllowed, match="documents no cancelling"):
        decide_cancel(make_operation(), make_contract(), NOON)


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_I11_an_ended_operation_is_not_cancelled(state: OperationState) -> None:
    """Nothing moves it any more."""
    with pytest.raises(NotNow, match="cannot be cancelled"):
        decide_cancel(make_operation(state=state), WITH_CANCEL, NOON)


def test_W20_with_an_open_question_the_question_is_answered() -> None:
    """There the extra looks are shown; and a call that is under way is waited for."""
    operation, _ = escalated()
    with pytest.raises(NotNow, match="question"):
        decide_cancel(operation, WITH_CANCEL, NOON)
    with pytest.raises(NotNow, match="under way"):
        decide_cancel(make_operation(call=with_call(CallKind.CANCEL)), WITH_CANCEL, NOON)


def test_W31_a_submit_that_was_not_sent_is_given_up() -> None:
    """Nothing is sent; one that may be on its way has no job yet that could be cancelled."""
    decision = decide_cancel(submitting(with_call(state=CallState.QUEUED)), WITH_CANCEL, NOON)
    assert (decision.state, decision.event, decision.drop_call, decision.new_call) == (S.STOPPED, Event.ANSWERED_STOP, True, None)
    assert [effect.dedupe_key for effect in decision.effects] == ["main:op_1:stopped:tell"]
    for call in (with_call(state=CallState.SENDING), with_call(state=CallState.QUEUED, interrupted=True)):
        with pytest.raises(NotNow, match="on its way"):
            decide_cancel(submitting(call), WITH_CANCEL, NOON)


# --- a call-back


@pytest.mark.parametrize(
    ("fields", "due"),
    [
        ({}, 0),
        ({"delay_source": DelaySource.CONTRACT_SCHEDULE}, 0),
        ({"last_checked_at": None}, 0),
        ({"last_checked_at": after(-0.25)}, 0.75),
        ({"last_checked_at": NOON, "next_poll_at": after(0.5)}, 0.5),
        ({"last_checked_at": None, "submitted_at": after(-0.25)}, 0.75),
        ({"next_poll_at": None}, 0),
        ({"delay_source": DelaySource.PROVIDER_RETRY_AFTER}, 60),
        ({"delay_source": DelaySource.PROVIDER_POLL_HINT}, 60),
        ({"delay_source": DelaySource.MANUAL_EXTENSION}, 60),
        ({"delay_source": DelaySource.PROVIDER_RETRY_AFTER, "next_poll_at": after(9000)}, 3600),
        ({"call": with_call(CallKind.CANCEL)}, 60),
    ],
)
def test_W35_a_call_back_shortens_only_waits_of_our_own(fields: dict[str, object], due: float) -> None:
    """status-polling §2 row 27: it wakes a look, never under the gap; nothing is decided from it, no limit changes."""
    operation = make_operation(**{**PLANNED, **fields})  # type: ignore[arg-type]
    decision = decide_push(operation, make_contract(), TOLD, NOON)
    assert (decision.state, decision.event, decision.due, decision.pushed) == (S.WAITING, Event.CHANGED, after(due), None)
    assert decision.allowance == ALLOWANCE and decision.delay_source is operation.delay_source
    moved = due < 60
    assert (decision.next_poll_at == decision.due) is (moved or operation.next_poll_at == decision.due)


@pytest.mark.parametrize("via", [Via.HTTP, Via.PUSH])
@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_I11_a_late_call_back_moves_nothing(state: OperationState, via: Via) -> None:
    """It is recorded; nothing is due and nothing is kept."""
    decision = decide_push(make_operation(state=state), make_contract(via=via), TOLD, NOON)
    assert (decision.state, decision.due, decision.pushed, decision.effects) == (state, None, None, ())


def test_W35_a_call_back_during_a_question_moves_nothing() -> None:
    """The question keeps its deadline. Where nothing else tells of the job, the call-back waits for the answer."""
    operation, asked = escalated()
    looked = decide_push(operation, make_contract(), TOLD, after(5))
    assert (looked.state, looked.due, looked.pushed) == (S.ESCALATED, asked.answer_by, None)
    kept = decide_push(operation, PUSH, TOLD, after(5))
    assert (kept.state, kept.due, kept.pushed) == (S.ESCALATED, asked.answer_by, TOLD)


def test_a_call_back_before_the_submit_was_answered_is_kept() -> None:
    """Some are quicker than their own answer; the submit's turn is not moved."""
    decision = decide_push(submitting(next_poll_at=after(9)), PUSH, TOLD, NOON)
    assert (decision.state, decision.due, decision.pushed) == (S.SUBMITTING, after(9), TOLD)


def test_a_call_back_that_came_during_a_call_is_read_after_it() -> None:
    """The call keeps its own time; then the call-back is read at once, after a submit as after a cancel."""
    waiting = pushed_only(call=with_call(CallKind.CANCEL))
    change = decide_push(replace(waiting, next_poll_at=after(90)), PUSH, TOLD, after(5))
    assert (change.due, change.pushed) == (after(90), TOLD)
    done = decide_answered(replace(waiting, pushed=TOLD), answered(CallOutcome.ACCEPTED, job_id=None), after(91), contract=PUSH)
    assert (done.state, done.due) == (S.WAITING, after(91))
    started = decide_answered(submitting(pushed=TOLD), answered(CallOutcome.ACCEPTED), after(4), contract=PUSH)
    assert (started.state, started.due, started.next_poll_at) == (S.WAITING, after(4), None)
    assert next_call(apply(submitting(pushed=TOLD), started), PUSH, after(4)) == Read(TOLD)


def pushed_only(**fields: object) -> Operation:
    """A job whose provider calls back: no status request is allowed."""
    limits = replace(ALLOWANCE, max_status_requests=0)
    return make_operation(Spend(), limits, next_poll_at=None, reserved=False, **fields)  # type: ignore[arg-type]


def test_a_push_only_job_is_read_from_its_call_back() -> None:
    """Kept, due at once, read by the next step without a request; success needs no budget."""
    change = decide_push(pushed_only(), PUSH, TOLD, after(7))
    assert (change.due, change.pushed) == (after(7), TOLD)
    operation = pushed_only(pushed=TOLD)
    assert next_call(operation, PUSH, after(7)) == Read(TOLD)
    assert decide(operation, saw(KIND.SUCCESS, requests=0), after(7), contract=PUSH).state is S.SUCCEEDED
    unreadable = decide(operation, saw(KIND.INTEGRATION_FAILURE, requests=0, state=None), after(7), contract=PUSH)
    assert unreadable.category is Category.INTEGRATION_FAILURE


def test_a_push_only_job_that_is_not_done_waits_until_its_deadline() -> None:
    """Nothing is planned and nothing is sent; a step without a call-back only notes so."""
    decision = decide(pushed_only(pushed=TOLD), saw(KIND.PENDING, requests=0), after(7), contract=PUSH)
    assert (decision.state, decision.due, decision.next_poll_at) == (S.WAITING, after(3600), None)
    waits = replace(pushed_only(pushed=TOLD), next_poll_at=after(90), delay_source=DelaySource.PROVIDER_RETRY_AFTER)
    kept = decide(waits, saw(KIND.PENDING, requests=0), after(7), contract=PUSH)
    assert (kept.due, kept.next_poll_at, kept.delay_source) == (after(3600), after(90), DelaySource.PROVIDER_RETRY_AFTER)
    close = next_call(pushed_only(), PUSH, after(8))
    assert isinstance(close, Close) and close.event is Event.CHANGED
    noted = close_operation(pushed_only(), PUSH, close, after(8), escalation_id="esc_1")
    assert (noted.state, noted.due, noted.effects, noted.escalation) == (S.WAITING, after(3600), (), None)
    planned = replace(pushed_only(), next_poll_at=after(8))
    again = close_operation(planned, PUSH, close, after(8), escalation_id="esc_1")
    assert (again.due, again.next_poll_at) == (after(3600), None)
    late = next_call(pushed_only(pushed=TOLD), PUSH, after(3600))
    assert isinstance(late, Close) and late.category is Category.DEADLINE_EXCEEDED


# --- another version of the contract


@pytest.mark.parametrize(
    ("operation", "due"),
    [
        (make_operation(**PLANNED), after(60)),  # type: ignore[arg-type]
        (make_operation(next_poll_at=None), after(3600)),
        (make_operation(next_poll_at=after(9000)), after(3600)),
        (submitting(next_poll_at=after(9)), after(9)),
    ],
)
def test_another_contract_keeps_what_is_planned(operation: Operation, due: datetime) -> None:
    """A contract edited while operations run changes them when a person says so, and nothing else of them."""
    decision = decide_repin(operation, NOON)
    assert (decision.state, decision.event, decision.due, decision.repin) == (operation.state, Event.CHANGED, due, True)
    assert (decision.allowance, decision.next_poll_at) == (operation.allowance, operation.next_poll_at)


def test_another_contract_leaves_an_open_question_open() -> None:
    """The answer is still asked for; an ended operation has no use for it."""
    operation, asked = escalated()
    decision = decide_repin(operation, NOON)
    assert (decision.state, decision.due, decision.repin) == (S.ESCALATED, asked.answer_by, True)
    for state in TERMINAL:
        with pytest.raises(NotNow):
            decide_repin(make_operation(state=state), NOON)


def _chosen(contract: Contract, verb: Verb, at: datetime, operation: Operation | None = None) -> AnswerDecision:
    """The answer with that verb to an unknown state."""
    operation = operation or make_operation(Spend(2))
    decision = decide(operation, saw(KIND.UNKNOWN_STATE, state="Queued2"), contract=contract)
    assert decision.escalation is not None
    option = next(option for option in decision.escalation.options if option.verb is verb)
    return decide_answer(apply(operation, decision), decision.escalation, option, at)


def test_W40_the_answer_update_contract_follows_the_present_one_and_looks_once() -> None:
    """The document is the store's part; the look comes at once."""
    answer = _chosen(make_contract(), Verb.UPDATE_CONTRACT, after(60))
    assert (answer.state, answer.repin, answer.due, answer.allowance) == (S.WAITING, True, after(60), ALLOWANCE)


@pytest.mark.parametrize(("deadline", "moved"), [(3600, 3660 + 900), (3659, 3660 + 900), (3661, None), (9000, None)])
def test_W40_a_pause_sends_nothing_for_an_hour_and_then_looks_once(deadline: float, moved: float | None) -> None:
    """A deadline before the look moves to fifteen minutes after it; one that has room stays."""
    operation = make_operation(Spend(2), replace(ALLOWANCE, deadline_at=after(deadline), business_deadline_at=after(deadline)))
    answer = _chosen(make_contract(), Verb.PAUSE, after(60), operation)
    assert (answer.state, answer.due, answer.next_poll_at) == (S.WAITING, after(3660), after(3660))
    assert answer.delay_source is DelaySource.MANUAL_EXTENSION
    expected = after(deadline if moved is None else moved)
    assert answer.allowance == replace(operation.allowance, deadline_at=expected, business_deadline_at=expected)
    look = reserve(replace(operation, allowance=answer.allowance, open_escalation=None))
    assert isinstance(next_call(look, make_contract(), after(3660)), Ask)


def test_W35_a_call_back_does_not_cut_a_pause_short() -> None:
    """The person wanted the time."""
    answer = _chosen(make_contract(), Verb.PAUSE, NOON)
    paused = make_operation(next_poll_at=answer.next_poll_at, delay_source=answer.delay_source, allowance=answer.allowance)
    assert decide_push(paused, make_contract(), TOLD, after(9)).due == NOON + timedelta(hours=1)
