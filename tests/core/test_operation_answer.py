"""What a person's answer changes: exactly what the option said, and never a wait the provider asked for."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from sereno.core.budget import Spend
from sereno.core.errors import InvariantBroken, NotAllowed, NotNow
from sereno.core.escalation import Category, Escalation, Option, Verb, at_text
from sereno.core.observation import DelaySource
from sereno.core.operation import (
    AnswerDecision,
    Ask,
    Close,
    Event,
    Grant,
    Operation,
    OperationState,
    close_operation,
    decide_answer,
    next_call,
)
from tests.core.waiting import (
    ALLOWANCE,
    KIND,
    NOON,
    after,
    apply,
    decide,
    escalated,
    make_contract,
    make_operation,
    poll_hint,
    reserve,
    retry_after,
    saw,
    seconds,
)

S = OperationState
QUARTER = timedelta(minutes=15)


def choose(operation: Operation, asked: Escalation, key: str, at: datetime = NOON) -> AnswerDecision:
    """Answers with the option of that key."""
    return decide_answer(operation, asked, next(option for option in asked.options if option.key == key), at)


def went_on(operation: Operation, answer: AnswerDecision) -> Operation:
    """Does to the record what a store does with an answer."""
    return replace(
        operation,
        state=answer.state,
        allowance=answer.allowance,
        next_poll_at=answer.next_poll_at,
        delay_source=answer.delay_source,
        grants=answer.grants,
        open_escalation=None,
    )


def test_W20_extend_after_12_of_12_allows_exactly_four_more_looks() -> None:
    """The fourth pending answer asks again; the sentence that was shown is the reason on the record."""
    operation, asked = escalated(Category.REQUEST_BUDGET_EXHAUSTED, spend=Spend(12))
    answer = choose(operation, asked, "extend", after(5))
    assert (answer.state, answer.event, answer.due) == (S.WAITING, Event.ANSWERED_GO_ON, after(5))
    assert answer.delay_source is DelaySource.MANUAL_EXTENSION
    assert answer.allowance == replace(ALLOWANCE, deadline_at=ALLOWANCE.deadline_at + QUARTER, max_status_requests=16)
    assert answer.reason == f"a person chose extend: {asked.options[0].says}"
    operation, looks, at = went_on(operation, answer), 0, after(5)
    while operation.state is S.WAITING:
        operation, looks, at = reserve(operation), looks + 1, at + seconds(10)
        assert isinstance(next_call(operation, make_contract(), at), Ask)
        operation = apply(operation, decide(operation, saw(KIND.PENDING), at))
    assert (looks, operation.category) == (4, Category.REQUEST_BUDGET_EXHAUSTED)


def test_W20_extend_of_a_passed_deadline_counts_from_the_answer() -> None:
    """Hours later the fifteen minutes start; a success read inside them is success."""
    operation, asked = escalated(Category.DEADLINE_EXCEEDED)
    answer = choose(operation, asked, "extend", after(10_000))
    assert answer.allowance.deadline_at == after(10_000) + QUARTER
    again = reserve(went_on(operation, answer))
    assert next_call(again, make_contract(), after(10_000)) == Ask(after(10_000) + QUARTER)
    assert decide(again, saw(KIND.SUCCESS), after(10_010)).state is S.SUCCEEDED


def test_W10_extend_moves_the_business_deadline_that_stopped() -> None:
    """And the option had said so."""
    operation, asked = escalated(
        Category.BUSINESS_DEADLINE_EXCEEDED, allowance=replace(ALLOWANCE, business_deadline_at=after(30))
    )
    assert "A business deadline (2026-11-30 12:00:30 UTC) that has passed when you answer moves" in asked.options[0].says
    answer = choose(operation, asked, "extend", after(40))
    assert answer.allowance.stops_at() == (after(40) + QUARTER, "business_deadline_exceeded")


@pytest.mark.parametrize(
    ("category", "spend", "kind"),
    [
        (Category.RATE_LIMITED, Spend(5, throttles=2), KIND.THROTTLED),
        (Category.PROVIDER_UNREACHABLE, Spend(5, transport_failures=2), KIND.TRANSPORT),
    ],
)
def test_W14_extend_gives_two_more_of_what_was_used_up(category: Category, spend: Spend, kind: str) -> None:
    """The first one more is waited out, the second asks again."""
    operation, asked = escalated(category, spend=spend)
    assert "2 more" in asked.options[0].says
    operation = went_on(operation, choose(operation, asked, "extend"))
    first = decide(reserve(operation), saw(KIND(kind)), after(10))
    assert first.state is S.WAITING
    second = decide(reserve(apply(operation, first)), saw(KIND(kind)), after(20))
    assert second.category is category


def test_W35_no_answer_shortens_a_providers_wait() -> None:
    """Ten minutes of Retry-After stay ten minutes, however fast the person is."""
    operation = make_operation(Spend(5, throttles=2))
    decision = decide(operation, saw(KIND.THROTTLED, retry_after(after(600))))
    assert decision.escalation is not None and "No look before 2026-11-30 12:10:00 UTC" in decision.escalation.options[0].says
    answer = choose(apply(operation, decision), decision.escalation, "extend", after(3))
    assert (answer.due, answer.next_poll_at, answer.delay_source) == (after(600), after(600), DelaySource.MANUAL_EXTENSION)


def test_W35_a_poll_hint_is_a_providers_wait_too() -> None:
    """Only local waits may be shortened by a person."""
    decision = decide(make_operation(Spend(12)), saw(KIND.PENDING, poll_hint(after(50))))
    assert decision.escalation is not None
    assert choose(apply(make_operation(Spend(12)), decision), decision.escalation, "extend", after(3)).due == after(50)


def test_W13_a_wait_that_outlasts_the_extension_is_kept_for_the_next_question() -> None:
    """Retry-After of two hours: the extended deadline closes without a request, twice, and the wait is never forgotten."""
    soon = make_operation(allowance=replace(ALLOWANCE, deadline_at=after(10)))
    operation = apply(soon, decide(soon, saw(KIND.PENDING, retry_after(after(7200)))))
    for at in (10, 1000):
        close = next_call(operation, make_contract(), after(at))
        assert isinstance(close, Close)
        decision = close_operation(operation, make_contract(), close, after(at), escalation_id="esc_1")
        assert decision.escalation is not None and decision.next_poll_at == after(7200)
        operation = apply(operation, decision)
        answer = choose(operation, decision.escalation, "extend", after(at))
        assert answer.due == after(at) + QUARTER and answer.delay_source is DelaySource.PROVIDER_RETRY_AFTER
        operation = went_on(operation, answer)
    answer = choose(apply(operation, decision), decision.escalation, "extend", after(7000))
    assert (answer.due, answer.delay_source) == (after(7200), DelaySource.MANUAL_EXTENSION)


def test_I6_a_quick_answer_keeps_the_minimum_gap() -> None:
    """The question states the earliest look; the record has no contract at hand to ask."""
    slow = make_contract(replace(make_contract().delays, min_gap=seconds(30)))
    operation = make_operation(Spend(12))
    decision = decide(operation, saw(KIND.PENDING), contract=slow)
    assert decision.escalation is not None
    assert choose(apply(operation, decision), decision.escalation, "extend", after(1)).due == after(30)


def test_I6_a_close_without_request_keeps_the_gap_to_the_last_one() -> None:
    """The gap counts from the last look before the deadline."""
    slow = make_contract(replace(make_contract().delays, min_gap=seconds(30)))
    operation = make_operation(last_checked_at=after(3590), reserved=False)
    close = next_call(operation, make_contract(), after(3600))
    assert isinstance(close, Close)
    decision = close_operation(operation, slow, close, after(3600), escalation_id="esc_1")
    assert decision.escalation is not None
    assert choose(apply(operation, decision), decision.escalation, "extend", after(3601)).due == after(3620)


def test_W40_treat_as_pending_grants_the_word_of_the_question() -> None:
    """Five sights of it wait on inside the old limits, the sixth asks again."""
    operation = make_operation(Spend(2))
    decision = decide(operation, saw(KIND.UNKNOWN_STATE, state="Queued2"))
    assert decision.escalation is not None
    answer = choose(apply(operation, decision), decision.escalation, "treat_as_pending", after(60))
    assert answer.grants == (Grant("Queued2", 5),) and answer.allowance == ALLOWANCE
    operation, sights = went_on(apply(operation, decision), answer), 0
    while operation.state is S.WAITING:
        operation, sights = reserve(operation), sights + 1
        operation = apply(operation, decide(operation, saw(KIND.UNKNOWN_STATE, state="Queued2"), after(60 + sights)))
    assert (sights, operation.category) == (6, Category.UNKNOWN_STATE)


def test_W40_treat_as_pending_makes_the_room_it_states() -> None:
    """On the last request and past the deadline: five checks and fifteen minutes, as the sentence said; a renewed grant replaces."""
    operation = make_operation(Spend(12), grants=(Grant("running", 0), Grant("else", 2)))
    decision = decide(operation, saw(KIND.UNKNOWN_STATE))
    assert decision.escalation is not None
    pending = next(option for option in decision.escalation.options if option.key == "treat_as_pending")
    assert (
        "Requests used: 12 of 12; the limit is then 17." in pending.says
        and "moves to 15 minutes after your answer" in pending.says
    )
    answer = choose(apply(operation, decision), decision.escalation, "treat_as_pending", after(7200))
    assert answer.grants == (Grant("else", 2), Grant("running", 5))
    assert answer.allowance == replace(ALLOWANCE, deadline_at=after(7200) + QUARTER, max_status_requests=17)


def test_W17_one_look_after_a_review() -> None:
    """check_again stays inside the old limits where they have room, and a second denial asks again."""
    operation, asked = escalated(Category.AUTHORIZATION_DENIED)
    answer = choose(operation, asked, "check_again", after(60))
    assert (answer.state, answer.due, answer.allowance) == (S.WAITING, after(60), ALLOWANCE)
    again = decide(reserve(went_on(operation, answer)), saw(KIND.AUTHORIZATION_DENIED), after(61))
    assert again.category is Category.AUTHORIZATION_DENIED and again.escalation is not None


@pytest.mark.parametrize(
    ("category", "key", "state"),
    [
        (Category.UNKNOWN_STATE, "treat_as_failed", S.FAILED),
        (Category.PARTIAL_RESULT, "accept_partial", S.SUCCEEDED),
        (Category.DEADLINE_EXCEEDED, "stop", S.STOPPED),
    ],
)
def test_W20_answers_that_end(category: Category, key: str, state: OperationState) -> None:
    """They change no limit, plan nothing and tell each action once."""
    operation, asked = escalated(category)
    answer = choose(operation, asked, key)
    assert (answer.state, answer.due, answer.next_poll_at, answer.allowance) == (state, None, None, ALLOWANCE)
    assert [effect.dedupe_key for effect in answer.effects] == [f"main:op_1:{state}:tell"]
    assert answer.reason.startswith(f"a person chose {key}: ")


@pytest.mark.parametrize("bounds", [{"minutes": 9000}, {"checks": 400}, {"says": "more"}, {"verb": Verb.ACCEPT_PARTIAL}])
def test_I22_only_an_option_that_was_shown_counts(bounds: dict[str, int]) -> None:
    """The same key with other bounds is another option, and none of this question."""
    operation, asked = escalated()
    with pytest.raises(NotAllowed, match="not an option of this question"):
        decide_answer(operation, asked, replace(asked.options[0], **bounds), NOON)  # type: ignore[arg-type]


def test_W40_an_option_of_another_category_or_operation_does_not_count() -> None:
    """Extending is no answer to a denied access, and a question speaks of one operation."""
    operation, asked = escalated(Category.AUTHORIZATION_DENIED)
    _, other = escalated(Category.DEADLINE_EXCEEDED)
    with pytest.raises(NotAllowed):
        decide_answer(operation, asked, other.options[0], NOON)
    with pytest.raises(NotAllowed):
        decide_answer(replace(operation, id="op_2"), asked, asked.options[0], NOON)


@pytest.mark.parametrize("state", ["answered", "expired"])
def test_W20_an_answer_counts_once(state: str) -> None:
    """A question that is answered or expired takes no more."""
    operation, asked = escalated()
    with pytest.raises(NotNow):
        choose(operation, replace(asked, state=state), "stop")


def test_W19_an_answer_at_its_deadline_is_too_late() -> None:
    """From that instant silence has decided."""
    operation, asked = escalated()
    assert choose(operation, asked, "stop", asked.answer_by - timedelta(microseconds=1)).state is S.STOPPED
    with pytest.raises(NotNow):
        choose(operation, asked, "stop", asked.answer_by)


def test_I12_an_answer_to_an_operation_that_waits_is_our_bug() -> None:
    """The store loads both in one transaction; a mismatch is never applied."""
    operation, asked = escalated()
    with pytest.raises(InvariantBroken):
        choose(replace(operation, state=S.WAITING), asked, "extend")
    with pytest.raises(InvariantBroken):
        choose(replace(operation, state=S.SUCCEEDED), asked, "stop")


def test_every_verb_has_an_effect() -> None:
    """Each verb, on a question that shows it, moves the operation out of its question."""
    operation, asked = escalated()
    for verb in Verb:
        option = Option(verb.value, verb, "says", 15, 2)
        answer = decide_answer(operation, replace(asked, options=(option,)), option, NOON)
        assert answer.state is not S.ESCALATED


def test_I4_a_wait_that_an_answer_took_over_outlives_a_deadline_that_the_clock_steps_past() -> None:
    """The plan carries the name of the answer, and the next question and the next answer keep it all the same."""
    operation = make_operation(Spend(5, throttles=2))
    decision = decide(operation, saw(KIND.THROTTLED, retry_after(after(600))))
    assert decision.escalation is not None
    answer = choose(apply(operation, decision), decision.escalation, "extend", after(3))
    planned, deadline = answer.next_poll_at, answer.allowance.deadline_at
    assert planned == after(600) and answer.delay_source is DelaySource.MANUAL_EXTENSION
    # The clock is set forward: the wait keeps its length, the deadline is an instant that somebody was told.
    step = deadline - after(60)
    operation = replace(went_on(apply(operation, decision), answer), next_poll_at=planned + step)
    close = next_call(operation, make_contract(), deadline)
    assert isinstance(close, Close)
    decision = close_operation(operation, make_contract(), close, deadline, escalation_id="esc_2")
    assert decision.escalation is not None and decision.next_poll_at == planned + step
    says = decision.escalation.options[0].says
    assert f"No look before {at_text(planned + step)}: an earlier answer planned it for then." in says
    assert "the provider asked to wait" not in says
    again = choose(apply(operation, decision), decision.escalation, "extend", deadline + seconds(1))
    assert again.next_poll_at == planned + step and again.due is not None
    assert again.due == min(planned + step, again.allowance.stops_at()[0])
