"""Submits and cancels: what is sent again, what never is, and what each answer amounts to (W21, W24, W31)."""

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest

from sereno.core.budget import Spend
from sereno.core.call import CallKind, CallOutcome, CallState, ProviderCall
from sereno.core.contract import Cancel, Contract, Delays, Duplicate, Idempotency, KeyPlace, Via
from sereno.core.delay import first_delay
from sereno.core.errors import InvariantBroken
from sereno.core.escalation import Category, Verb
from sereno.core.observation import DelaySource, Observation, ObservationKind
from sereno.core.operation import (
    Close,
    Event,
    Job,
    Operation,
    OperationDecision,
    OperationState,
    Send,
    close_operation,
    decide_answer,
    decide_taken,
    next_call,
)
from tests.core.waiting import (
    ALLOWANCE,
    CANCEL,
    KEYED,
    KIND,
    NOON,
    SUBMIT,
    after,
    answered,
    apply,
    decide,
    decide_answered,
    make_contract,
    make_operation,
    poll_hint,
    retry_after,
    saw,
    seconds,
    submitting,
    with_call,
)

O, S = CallOutcome, OperationState  # noqa: E741
PLAIN, WITH_KEY = make_contract(submit=SUBMIT, cancel=CANCEL), make_contract(submit=KEYED, cancel=CANCEL)
REPEATABLE = make_contract(submit=SUBMIT, cancel=replace(CANCEL, repeatable=True))
REJECTS = make_contract(
    submit=replace(
        SUBMIT, idempotency=Idempotency(KeyPlace.JOB_ID, "{key}", Duplicate.REJECT, timedelta(hours=1)), duplicate=("409",)
    )
)
DOUBT = with_call(interrupted=True, attempts=2, first_sent_at=NOON)


def verbs(decision: OperationDecision) -> list[Verb]:
    """What the question of a decision offers."""
    assert decision.escalation is not None
    return [option.verb for option in decision.escalation.options]


def _settled(decision: OperationDecision) -> CallState:
    assert decision.call is not None
    return decision.call.state


# --- what is sent


def test_W31_a_queued_submit_is_sent_before_the_deadline() -> None:
    """No status request is reserved for it, and none is needed."""
    call = with_call()
    assert next_call(submitting(call), PLAIN, NOON) == Send(call, after(3600))


def test_W32_at_the_deadline_no_call_is_sent() -> None:
    """Neither a submit nor a cancel."""
    for operation in (submitting(), make_operation(call=with_call(CallKind.CANCEL), reserved=False)):
        close = next_call(operation, PLAIN, after(3600))
        assert isinstance(close, Close) and close.category is Category.DEADLINE_EXCEEDED


@pytest.mark.parametrize(
    ("contract", "at", "sent"),
    [(PLAIN, 1, False), (WITH_KEY, 1, True), (WITH_KEY, 1619.9, True), (WITH_KEY, 1620, False), (WITH_KEY, 1800, False)],
)
def test_W21_a_submit_in_doubt_is_sent_again_only_under_a_key_in_its_window(contract: Contract, at: float, sent: bool) -> None:
    """Thirty minutes less a tenth, counted from the first try that may have left; else a person is asked."""
    step = next_call(submitting(DOUBT), contract, after(at))
    if sent:
        assert step == Send(DOUBT, after(3600))
    else:
        assert isinstance(step, Close) and (step.event, step.category) == (Event.SAW_TROUBLE, Category.SUBMIT_UNKNOWN)


def test_W21_a_submit_in_doubt_at_the_deadline_is_submit_unknown() -> None:
    """The deadline alone would offer to send it again."""
    close = next_call(submitting(DOUBT), WITH_KEY, after(3600))
    assert isinstance(close, Close) and close.category is Category.SUBMIT_UNKNOWN and "the deadline" in close.reason
    decision = close_operation(submitting(DOUBT), WITH_KEY, close, after(3600), escalation_id="esc_1")
    assert decision.call is not None and decision.call.state is CallState.UNKNOWN
    assert verbs(decision) == [Verb.TREAT_AS_FAILED, Verb.STOP]


def test_W21_no_submit_is_tried_for_ever() -> None:
    """Whatever interrupts it: after twenty tries a person is asked."""
    close = next_call(submitting(replace(DOUBT, attempts=21)), WITH_KEY, after(1))
    assert isinstance(close, Close) and close.category is Category.SUBMIT_UNKNOWN


def test_W21_an_interrupted_submit_with_a_chosen_id_is_sent_again() -> None:
    """ "There is one already" then means that it is there."""
    assert next_call(submitting(DOUBT), REJECTS, after(1)) == Send(DOUBT, after(3600))
    decision = decide_answered(submitting(DOUBT), answered(O.DUPLICATE), contract=REJECTS)
    assert (decision.state, decision.event) == (S.WAITING, Event.SUBMITTED)
    assert decision.job == Job("job-9", "https://acme.example/jobs/job-9", {})


@pytest.mark.parametrize(
    ("contract", "attempts", "sent"), [(PLAIN, 2, False), (REPEATABLE, 2, True), (REPEATABLE, 3, True), (REPEATABLE, 4, False)]
)
def test_W24_an_interrupted_cancel_is_sent_again_only_where_that_does_no_harm(
    contract: Contract, attempts: int, sent: bool
) -> None:
    """Three times at most; else it is an ambiguous delivery."""
    call = with_call(CallKind.CANCEL, interrupted=True, attempts=attempts)
    step = next_call(make_operation(call=call, reserved=False), contract, NOON)
    assert isinstance(step, Send) is sent
    assert sent or (isinstance(step, Close) and step.category is Category.AMBIGUOUS_DELIVERY)


def test_a_submit_that_is_not_there_is_our_bug() -> None:
    """A claim hands the call out with its operation, and an answer belongs to a call."""
    with pytest.raises(InvariantBroken, match="holds no submit"):
        next_call(replace(submitting(), call=None), PLAIN, NOON)
    with pytest.raises(InvariantBroken, match="no open call"):
        decide_answered(replace(submitting(), call=None), answered(O.ACCEPTED))


# --- what a submit's answer amounts to


def test_W31_a_submit_that_was_taken_on_is_waited_for() -> None:
    """The job is stored, the call is done, the first look is planned by the contract; no status request is counted."""
    decision = decide_answered(submitting(), answered(O.ACCEPTED, parameters={"project": "p"}))
    assert (decision.state, decision.event) == (S.WAITING, Event.SUBMITTED)
    assert decision.job == Job("job-9", "https://acme.example/jobs/job-9", {"project": "p"})
    assert decision.call is not None and (decision.call.state, decision.call.call) == (CallState.DONE, "call_1")
    assert (decision.due, decision.delay_source) == (decision.next_poll_at, DelaySource.CONTRACT_SCHEDULE)
    assert decision.draw is not None and decision.due == NOON + first_delay(Delays(), decision.draw)
    assert decision.spend == Spend() and decision.effects == ()


def test_status_polling_6_the_first_look_honours_the_submits_retry_after() -> None:
    """status-polling §2 row 6: the wait of the initial 202 counts; it keeps its name, since nothing may shorten it."""
    contract = make_contract(submit=replace(SUBMIT, first=seconds(30)))
    late = decide_answered(submitting(), answered(O.ACCEPTED, hints=[retry_after(after(90))]), contract=contract)
    assert (late.due, late.delay_source) == (after(90), DelaySource.PROVIDER_RETRY_AFTER)
    early = decide_answered(submitting(), answered(O.ACCEPTED, hints=[retry_after(after(10))]), contract=contract)
    assert early.due is not None and after(30) <= early.due < after(32.5)
    assert early.delay_source is DelaySource.PROVIDER_RETRY_AFTER
    hinted = decide_answered(submitting(), answered(O.ACCEPTED, hints=[poll_hint(after(40))]), contract=contract)
    assert (hinted.due, hinted.delay_source) == (after(40), DelaySource.PROVIDER_POLL_HINT)
    beyond = decide_answered(submitting(), answered(O.ACCEPTED, hints=[retry_after(after(9000))]), contract=contract)
    assert (beyond.due, beyond.next_poll_at) == (after(3600), after(9000))


def test_W29_jobs_that_are_started_together_are_not_looked_at_together() -> None:
    """A hundred submits that are answered in one instant get a hundred instants for their first looks, none before the first delay."""
    dues = {decide_answered(submitting(), answered(O.ACCEPTED), seed=seed).due for seed in range(100)}
    assert len(dues) == 100 and all(due is not None and after(2) <= due < after(4.5) for due in dues)


def test_a_rejected_hint_of_a_submit_is_recorded() -> None:
    """As for every answer (W07)."""
    decision = decide_answered(submitting(), answered(O.ACCEPTED, hints=[retry_after(None, "not a number")]))
    assert decision.facts["rejected_hints"] == [{"source": "provider_retry_after", "raw": "raw", "why": "not a number"}]


def test_a_provider_that_calls_back_is_not_looked_at() -> None:
    """Nothing is due before the deadline."""
    decision = decide_answered(submitting(), answered(O.ACCEPTED), contract=make_contract(submit=SUBMIT, via=Via.PUSH))
    assert (decision.state, decision.due, decision.next_poll_at) == (S.WAITING, after(3600), None)


def test_W32_a_job_that_was_named_after_the_deadline_is_kept_and_asked_about() -> None:
    """The handle is never lost; the question speaks of the job and can look at it."""
    decision = decide_answered(submitting(), answered(O.ACCEPTED), after(3600))
    assert (decision.state, decision.category) == (S.ESCALATED, Category.DEADLINE_EXCEEDED)
    assert decision.job is not None and decision.call is not None and decision.call.state is CallState.DONE
    assert decision.escalation is not None and decision.escalation.statement["job"] == "job-9"
    assert verbs(decision) == [Verb.EXTEND, Verb.STOP]


@pytest.mark.parametrize("contract", [PLAIN, WITH_KEY])
def test_W31_what_did_not_leave_is_sent_again_later(contract: Contract) -> None:
    """The failure budget counts it, the delay grows with it, and nothing is in doubt."""
    operation, dues = submitting(), []
    for _ in range(2):
        decision = decide_answered(operation, answered(O.NOT_SENT), contract=contract)
        assert (decision.state, decision.event, decision.delay_source) == (
            S.SUBMITTING,
            Event.SUBMIT_AGAIN,
            DelaySource.LOCAL_BACKOFF,
        )
        assert decision.call is not None and decision.call.state is CallState.QUEUED
        dues.append(decision.due)
        operation = apply(operation, decision)
        assert isinstance(next_call(operation, contract, after(1)), Send)
    assert after(5) <= dues[0] <= after(10) < dues[1] <= after(20)
    decision = decide_answered(operation, answered(O.NOT_SENT), contract=contract)
    assert (decision.state, decision.category) == (S.ESCALATED, Category.PROVIDER_UNREACHABLE)
    assert decision.spend.transport_failures == 3 and verbs(decision) == [Verb.SUBMIT_AGAIN, Verb.STOP]


def test_W14_a_throttled_submit_waits_as_told_where_it_has_a_key() -> None:
    """Its own budget; without a key only a person sends it again."""
    told = answered(O.THROTTLED, hints=[retry_after(after(300))])
    again = decide_answered(submitting(), told, contract=WITH_KEY)
    assert (again.state, again.due, again.delay_source) == (S.SUBMITTING, after(300), DelaySource.PROVIDER_RETRY_AFTER)
    assert again.spend.throttles == 1 and again.call is not None and again.call.state is CallState.QUEUED
    steep = decide_answered(submitting(), answered(O.THROTTLED), contract=WITH_KEY)
    assert steep.due is not None and steep.due > after(10)
    asked = decide_answered(submitting(), told, contract=PLAIN)
    assert (asked.state, asked.category, asked.next_poll_at) == (S.ESCALATED, Category.RATE_LIMITED, after(300))
    assert verbs(asked) == [Verb.SUBMIT_AGAIN, Verb.STOP]
    spent = decide_answered(replace(submitting(), spend=Spend(throttles=2)), told, contract=WITH_KEY)
    assert spent.category is Category.RATE_LIMITED and "3 of 3" in spent.reason


def test_W17_a_denied_submit_is_sent_again_only_after_a_review() -> None:
    """It stays open under its key; the answer sends it, and nothing else does."""
    decision = decide_answered(submitting(), answered(O.DENIED, http_status=403), contract=WITH_KEY)
    assert (decision.state, decision.category) == (S.ESCALATED, Category.AUTHORIZATION_DENIED)
    assert decision.call is not None and decision.call.state is CallState.QUEUED
    assert verbs(decision) == [Verb.SUBMIT_AGAIN, Verb.STOP] and decision.escalation is not None
    answer = decide_answer(apply(submitting(), decision), decision.escalation, decision.escalation.options[0], after(9000))
    assert (answer.state, answer.event, answer.due) == (S.SUBMITTING, Event.ANSWERED_SUBMIT, after(9000))
    assert answer.allowance == replace(ALLOWANCE, deadline_at=after(9000) + timedelta(minutes=15))
    assert not answer.drop_call and answer.new_call is None


def test_W31_a_refused_submit_is_never_sent_again() -> None:
    """The provider does not want this request: a person closes it."""
    decision = decide_answered(submitting(), answered(O.REFUSED, http_status=422, error_text="bad input"), contract=WITH_KEY)
    assert (decision.state, decision.category) == (S.ESCALATED, Category.INTEGRATION_FAILURE)
    assert decision.call is not None and decision.call.state is CallState.REFUSED
    assert verbs(decision) == [Verb.TREAT_AS_FAILED, Verb.STOP]
    assert decision.escalation is not None and decision.escalation.statement["error_text"] == "bad input"


def test_status_polling_23_a_lost_answer_is_sent_again_only_under_a_key() -> None:
    """status-polling §2 row 23: without a documented key a submit is never repeated, or it would be billed twice."""
    lost = decide_answered(submitting(), answered(O.UNKNOWN), contract=PLAIN)
    assert (lost.state, lost.category) == (S.ESCALATED, Category.SUBMIT_UNKNOWN)
    assert lost.call is not None and lost.call.state is CallState.UNKNOWN and verbs(lost) == [Verb.TREAT_AS_FAILED, Verb.STOP]
    again = decide_answered(submitting(), answered(O.UNKNOWN), contract=WITH_KEY)
    assert (again.state, again.event) == (S.SUBMITTING, Event.SUBMIT_AGAIN)
    assert again.call is not None and again.call.state is CallState.SENDING
    assert apply(submitting(), again).call == replace(
        with_call(), attempts=2, interrupted=True, first_sent_at=NOON, state=CallState.SENDING
    )


@pytest.mark.parametrize("at", [1615, 1800])
def test_W21_no_retry_is_planned_past_the_key_window(at: float) -> None:
    """The next try would come after it: a person is asked now."""
    decision = decide_answered(submitting(DOUBT), answered(O.UNKNOWN), after(at), contract=WITH_KEY)
    assert decision.category is Category.SUBMIT_UNKNOWN


def test_W21_a_used_up_failure_budget_ends_the_retries_in_doubt() -> None:
    """Not as unreachable: a job may exist."""
    decision = decide_answered(
        replace(submitting(DOUBT), spend=Spend(transport_failures=2)), answered(O.UNKNOWN), contract=WITH_KEY
    )
    assert decision.category is Category.SUBMIT_UNKNOWN and "3 of 3 failed requests" in decision.reason


@pytest.mark.parametrize("outcome", [O.DENIED, O.REFUSED])
def test_W21_a_refusal_of_the_second_try_leaves_the_first_in_doubt(outcome: CallOutcome) -> None:
    """That this one was not taken on says nothing about the one before."""
    decision = decide_answered(submitting(DOUBT), answered(outcome), contract=WITH_KEY)
    assert decision.category is Category.SUBMIT_UNKNOWN and decision.call is not None
    assert decision.call.state is CallState.UNKNOWN


@pytest.mark.parametrize("outcome", [O.NOT_SENT, O.THROTTLED])
def test_W21_a_doubt_stays_when_the_second_try_was_not_taken_on(outcome: CallOutcome) -> None:
    """It is tried again under its key, and found in doubt."""
    decision = decide_answered(submitting(DOUBT), answered(outcome), contract=WITH_KEY)
    assert decision.state is S.SUBMITTING and decision.call is not None and decision.call.state is CallState.SENDING
    asked = decide_answered(submitting(DOUBT), answered(outcome), contract=PLAIN)
    assert asked.category is Category.SUBMIT_UNKNOWN


def test_W31_a_job_that_cannot_be_read_is_submit_unknown() -> None:
    """It exists, but its id is not known; sending again would answer the same or start another."""
    decision = decide_answered(submitting(), answered(O.UNREADABLE, reason="no job can be read"), contract=WITH_KEY)
    assert (decision.category, decision.reason) == (Category.SUBMIT_UNKNOWN, "no job can be read")


def test_W21_a_replayed_key_gives_its_job() -> None:
    """A duplicate that names the job is as good as the first answer."""
    decision = decide_answered(submitting(DOUBT), answered(O.DUPLICATE), contract=WITH_KEY)
    assert decision.state is S.WAITING and decision.job is not None and decision.job.job_id == "job-9"
    nameless = decide_answered(submitting(DOUBT), answered(O.DUPLICATE, job_id=None), contract=WITH_KEY)
    assert nameless.category is Category.SUBMIT_UNKNOWN


def test_W39_a_chosen_id_that_was_there_before_is_not_adopted() -> None:
    """The very first try is told "there is one already": that job is somebody else's."""
    decision = decide_answered(submitting(), answered(O.DUPLICATE), contract=REJECTS)
    assert (decision.state, decision.category, decision.job) == (S.ESCALATED, Category.CONTRADICTION, None)
    assert verbs(decision) == [Verb.TREAT_AS_FAILED, Verb.STOP]


def test_W39_a_job_that_another_operation_waits_for_is_not_adopted() -> None:
    """The store found it: the decision names no job of its own."""
    decision = decide_taken(submitting(), PLAIN, answered(O.ACCEPTED), NOON, escalation_id="esc_1")
    assert (decision.state, decision.category, decision.job) == (S.ESCALATED, Category.CONTRADICTION, None)
    assert "'job-9'" in decision.reason and decision.call is not None and decision.call.state is CallState.DONE


def test_W40_a_submit_that_was_given_up_is_dropped() -> None:
    """Stop, fail and silence leave no call behind that could still be sent."""
    decision = decide_answered(submitting(), answered(O.DENIED), contract=PLAIN)
    assert decision.escalation is not None
    operation = replace(apply(submitting(), decision), call=with_call(state=CallState.QUEUED))
    assert decide_answer(operation, decision.escalation, decision.escalation.options[-1], after(5)).drop_call
    close = next_call(operation, PLAIN, decision.escalation.answer_by)
    assert isinstance(close, Close) and close.event is Event.SILENCE
    silent = close_operation(operation, PLAIN, close, decision.escalation.answer_by, escalation_id="esc_2")
    assert silent.state is S.STOPPED and silent.call is not None and silent.call.state is CallState.DROPPED


def test_W40_a_submit_that_missed_its_deadline_can_be_sent_by_a_person() -> None:
    """It certainly was not sent: it stays queued, and the question offers to send it."""
    close = next_call(submitting(), PLAIN, after(3600))
    assert isinstance(close, Close)
    decision = close_operation(submitting(), PLAIN, close, after(3600), escalation_id="esc_1")
    assert decision.call is not None and decision.call.state is CallState.QUEUED
    assert verbs(decision) == [Verb.SUBMIT_AGAIN, Verb.STOP]


# --- what a cancel's answer amounts to


def cancelling(call: ProviderCall | None = None, **other: object) -> Operation:
    """A waiting operation whose cancel is sent by this step."""
    return make_operation(call=call or with_call(CallKind.CANCEL), reserved=False, last_checked_at=after(-30), **other)  # type: ignore[arg-type]


def decide_cancelled(outcome: CallOutcome, contract: Contract = PLAIN, at: datetime = NOON, **other: object) -> OperationDecision:
    """The decision on a cancel's answer."""
    hints = other.pop("hints", ())
    return decide_answered(cancelling(**other), answered(outcome, hints=hints, job_id=None), at, contract=contract)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (O.ACCEPTED, CallState.DONE),
        (O.TOO_LATE, CallState.REFUSED),
        (O.REFUSED, CallState.REFUSED),
        (O.DENIED, CallState.REFUSED),
    ],
)
def test_W24_a_cancel_never_ends_the_wait(outcome: CallOutcome, state: CallState) -> None:
    """It is recorded, and the next look, soon, tells what became of the job."""
    decision = decide_cancelled(outcome)
    assert (decision.state, decision.event, _settled(decision)) == (S.WAITING, Event.SAW_PENDING, state)
    assert after(1) <= decision.due <= after(5) and decision.due == decision.next_poll_at
    assert decision.spend == cancelling().spend and decision.effects == ()


def test_W35_a_cancel_shortens_no_wait_of_the_provider() -> None:
    """Neither one that its own answer asks for, nor one that was there before (incident 16)."""
    told = decide_cancelled(O.ACCEPTED, hints=[retry_after(after(60))])
    assert (told.due, told.delay_source) == (after(60), DelaySource.PROVIDER_RETRY_AFTER)
    before = decide_cancelled(O.ACCEPTED, next_poll_at=after(90), delay_source=DelaySource.PROVIDER_RETRY_AFTER)
    assert (before.due, before.delay_source) == (after(90), DelaySource.PROVIDER_RETRY_AFTER)


def test_I4_a_wait_that_a_refused_cancel_brought_outlives_the_deadline_though_our_own_backoff_is_longer() -> None:
    """The next try would come after the end, so a person is asked there, and is told of the wait."""
    slow = replace(PLAIN, delays=replace(PLAIN.delays, base=timedelta(seconds=60)))
    ends = replace(cancelling().allowance, deadline_at=after(10))
    decision = decide_cancelled(O.THROTTLED, slow, hints=[retry_after(after(20))], allowance=ends)
    assert (decision.state, decision.due, decision.next_poll_at) == (S.WAITING, after(10), after(20))
    operation = apply(cancelling(allowance=ends), decision)
    close = next_call(operation, slow, after(10))
    assert isinstance(close, Close)
    asked = close_operation(operation, slow, close, after(10), escalation_id="esc_1").escalation
    assert asked is not None and asked.statement["provider_wait_until"] == after(20).isoformat()


@pytest.mark.parametrize(("outcome", "failures", "throttles"), [(O.NOT_SENT, 1, 0), (O.THROTTLED, 0, 1)])
def test_W24_a_cancel_that_was_not_taken_is_sent_again_inside_its_budget(
    outcome: CallOutcome, failures: int, throttles: int
) -> None:
    """Nothing was done, so nothing can be done twice; a used-up budget asks."""
    decision = decide_cancelled(outcome)
    assert (decision.state, _settled(decision)) == (S.WAITING, CallState.QUEUED)
    assert (decision.spend.transport_failures, decision.spend.throttles) == (failures, throttles)
    last = decide_cancelled(outcome, spend=Spend(1, 2, 2))
    assert last.state is S.ESCALATED and _settled(last) is CallState.DROPPED


@pytest.mark.parametrize(
    ("contract", "attempts", "again"), [(PLAIN, 1, False), (REPEATABLE, 1, True), (REPEATABLE, 2, True), (REPEATABLE, 3, False)]
)
def test_W24_a_cancel_in_doubt_is_repeated_only_where_that_does_no_harm(contract: Contract, attempts: int, again: bool) -> None:
    """Else it is an ambiguous delivery: one look tells, or a person cancels again with the effects in sight."""
    call = with_call(CallKind.CANCEL, attempts=attempts)
    decision = decide_cancelled(O.UNKNOWN, contract, call=call)
    if again:
        assert (decision.state, _settled(decision)) == (S.WAITING, CallState.SENDING)
    else:
        assert (decision.state, decision.category) == (S.ESCALATED, Category.AMBIGUOUS_DELIVERY)
        assert verbs(decision) == [Verb.CHECK_AGAIN, Verb.CANCEL, Verb.STOP]


def test_a_cancel_is_of_a_job_that_is_waited_for() -> None:
    """The answer to one of an operation that is not waiting is our bug."""
    with pytest.raises(InvariantBroken, match="was to be cancelled"):
        decide_answered(submitting(with_call(CallKind.CANCEL)), answered(O.ACCEPTED))


def test_W40_the_answer_cancel_queues_one_with_room_to_see_it_end() -> None:
    """Offered with the documented effects; fifteen minutes, four checks, and the call itself."""
    contract = make_contract(cancel=Cancel(CANCEL.call, "ends as canceled; what ran is billed."))
    operation = make_operation(Spend(12))
    decision = decide(operation, saw(KIND.PENDING), contract=contract)
    assert decision.escalation is not None
    option = next(option for option in decision.escalation.options if option.verb is Verb.CANCEL)
    assert "ends as canceled; what ran is billed" in option.says
    answer = decide_answer(apply(operation, decision), decision.escalation, option, after(10))
    assert (answer.state, answer.new_call, answer.due) == (S.WAITING, CallKind.CANCEL, after(10))
    assert answer.allowance.max_status_requests == 16


def test_replay_a_decision_on_a_call_draws_once() -> None:
    """The recorded draw decides the same."""
    first = decide_answered(submitting(), answered(O.NOT_SENT), seed=3)
    assert first.draw == Random(3).random()
    assert decide_answered(submitting(), answered(O.NOT_SENT), seed=3) == first
    # Whether the next try would come inside the key's window depends on the draw: it is recorded there too.
    late = decide_answered(submitting(DOUBT), answered(O.UNKNOWN), after(1608), contract=WITH_KEY, seed=3)
    assert late.draw == first.draw


@pytest.mark.parametrize(
    ("kind", "cancelled_at", "ends_as", "state"),
    [
        (KIND.FAILURE, after(-30), "failed", S.CANCELLED),
        (KIND.FAILURE, None, "failed", S.FAILED),
        (KIND.FAILURE, after(-30), "aborted", S.FAILED),
        (KIND.FAILURE, after(-30), None, S.FAILED),
        (KIND.EXPIRED, after(-30), "failed", S.CANCELLED),
        (KIND.EXPIRED, None, "failed", S.EXPIRED),
        (KIND.NEEDS_INPUT, after(-30), "failed", S.CANCELLED),
        (KIND.NEEDS_INPUT, None, "failed", S.ESCALATED),
        (KIND.SUCCESS, after(-30), "failed", S.SUCCEEDED),
        (KIND.PARTIAL, after(-30), "failed", S.ESCALATED),
    ],
)
def test_W24_a_cancelled_job_may_end_with_another_word(
    kind: ObservationKind, cancelled_at: datetime | None, ends_as: str | None, state: OperationState
) -> None:
    """Where the contract says so (AWS Batch: FAILED; Speechmatics: deleted; LangGraph: interrupted), and only after a cancel that was
    taken on; never where there is a result, or a part of one."""
    contract = make_contract(cancel=replace(CANCEL, ends_as=ends_as))
    seen = Observation(kind, state="failed", http_status=200)
    assert decide(make_operation(cancelled_at=cancelled_at), seen, contract=contract).state is state
