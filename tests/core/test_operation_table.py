"""The table of moves, cell by cell, and what may be sent in which state."""

from dataclasses import replace
from datetime import timedelta

import pytest

from sereno.core.budget import Spend
from sereno.core.errors import InvariantBroken, NotNow
from sereno.core.escalation import Category
from sereno.core.operation import (
    TERMINAL,
    TRANSITIONS,
    Ask,
    Close,
    Event,
    OperationState,
    close_operation,
    diagram,
    fingerprint,
    move,
    next_call,
    ready_result,
)
from tests.core.waiting import ALLOWANCE, KIND, NOON, after, decide, escalated, make_contract, make_operation, saw

ILLEGAL = "-"
CELLS = """
event            submitting waiting    escalated  succeeded failed cancelled expired stopped
submitted        waiting    -          -          -         -      -         -       -
submit_again     submitting -          -          -         -      -         -       -
saw_pending      -          waiting    escalated  -         -      -         -       -
saw_success      -          succeeded  escalated  -         -      -         -       -
saw_failure      -          failed     escalated  -         -      -         -       -
saw_cancelled    -          cancelled  escalated  -         -      -         -       -
saw_expired      -          expired    escalated  -         -      -         -       -
hit_limit        escalated  escalated  escalated  -         -      -         -       -
saw_trouble      escalated  escalated  escalated  -         -      -         -       -
answered_go_on   -          -          waiting    -         -      -         -       -
answered_submit  -          -          submitting -         -      -         -       -
answered_failed  -          -          failed     -         -      -         -       -
answered_accept  -          -          succeeded  -         -      -         -       -
answered_stop    stopped    -          stopped    -         -      -         -       -
silence          -          -          stopped    -         -      -         -       -
changed          submitting waiting    escalated  -         -      -         -       -
"""


def _cells() -> dict[tuple[str, str], str]:
    head, *rows = [line.split() for line in CELLS.strip().splitlines()]
    return {(state, row[0]): cell for row in rows for state, cell in zip(head[1:], row[1:], strict=True)}


def test_I12_every_cell_is_listed() -> None:
    """The list above names each state with each event, so that a new one cannot slip in unseen."""
    assert set(_cells()) == {(state.value, event.value) for state in OperationState for event in Event}


@pytest.mark.parametrize(("state", "event"), [(state, event) for state in OperationState for event in Event])
def test_I12_each_cell_moves_or_raises(state: OperationState, event: Event) -> None:
    """A legal cell gives its state; an illegal one is our bug and says so."""
    cell = _cells()[state.value, event.value]
    if cell == ILLEGAL:
        with pytest.raises(InvariantBroken, match=f"{state} cannot take {event}"):
            move(state, event)
    else:
        assert move(state, event) == cell


def test_I11_terminal_states_have_no_moves() -> None:
    """Five states are final."""
    assert TERMINAL == {"succeeded", "failed", "cancelled", "expired", "stopped"}
    assert not [pair for pair in TRANSITIONS if pair[0] in TERMINAL]


def test_the_diagram_is_drawn_from_the_table() -> None:
    """Each move of the table is in the drawing once, and the drawing has nothing else."""
    drawn = set()
    for line in diagram().splitlines()[1:]:
        before, _, rest = line.strip().partition(" --> ")
        after_, _, events = rest.partition(": ")
        drawn |= {(before, event, after_) for event in events.split(", ")}
    ends = {(state.value, "", "[*]") for state in TERMINAL}
    assert drawn == {(b.value, e.value, a.value) for (b, e), a in TRANSITIONS.items()} | ends | {
        ("[*]", "", "submitting"),
        ("[*]", "", "waiting"),
    }
    assert diagram().startswith(
        "stateDiagram-v2\n    [*] --> submitting\n    [*] --> waiting\n    submitting --> waiting: submitted\n"
    )


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_I11_an_ended_operation_is_never_decided_again(state: OperationState) -> None:
    """Neither an answer, nor a limit, nor a claim moves it: a regress of the provider is not followed."""
    ended = make_operation(state=state)
    with pytest.raises(InvariantBroken):
        decide(ended, saw(KIND.PENDING))
    with pytest.raises(InvariantBroken):
        close_operation(
            ended, make_contract(), Close(Event.HIT_LIMIT, Category.DEADLINE_EXCEEDED, ""), NOON, escalation_id="esc_1"
        )
    with pytest.raises(InvariantBroken):
        next_call(ended, make_contract(), NOON)


def test_W33_a_claimed_look_asks_until_the_deadline() -> None:
    """With time, budget and a reservation one request may be sent, to be received before the deadline."""
    assert next_call(make_operation(), make_contract(), NOON) == Ask(after(3600))
    assert next_call(make_operation(), make_contract(), after(3599.999999)) == Ask(after(3600))


def test_W33_the_last_allowed_request_is_sent() -> None:
    """The reservation of this step is in the count already: 12 of 12 may leave."""
    assert isinstance(next_call(make_operation(Spend(status_requests=12)), make_contract(), NOON), Ask)


@pytest.mark.parametrize("reserved", [True, False])
def test_W08_the_deadline_is_checked_before_everything_else(reserved: bool) -> None:
    """At the deadline itself nothing is sent, even with a reservation in hand and budgets used up."""
    close = next_call(make_operation(Spend(12, 3, 3), reserved=reserved), make_contract(), after(3600))
    assert isinstance(close, Close)
    assert (close.event, close.category) == (Event.HIT_LIMIT, Category.DEADLINE_EXCEEDED)
    assert close.reason == "the deadline 2026-11-30 13:00:00 UTC passed without a final state"


def test_W10_the_business_deadline_is_named() -> None:
    """The earlier business deadline closes under its own category."""
    close = next_call(make_operation(allowance=replace(ALLOWANCE, business_deadline_at=after(5))), make_contract(), after(5))
    assert isinstance(close, Close) and close.category is Category.BUSINESS_DEADLINE_EXCEEDED
    assert close.reason.startswith("the business deadline 2026-11-30 12:00:05 UTC")


@pytest.mark.parametrize(
    ("spend", "reserved", "category"),
    [
        (Spend(12), False, Category.REQUEST_BUDGET_EXHAUSTED),
        (Spend(13), True, Category.REQUEST_BUDGET_EXHAUSTED),
        (Spend(2, transport_failures=3), True, Category.PROVIDER_UNREACHABLE),
        (Spend(2, throttles=3), True, Category.RATE_LIMITED),
    ],
)
def test_W33_without_budget_nothing_is_sent(spend: Spend, reserved: bool, category: Category) -> None:
    """Each used-up budget closes the step before a request."""
    close = next_call(make_operation(spend, reserved=reserved), make_contract(), NOON)
    assert isinstance(close, Close) and close.category is category


def test_W33_a_look_without_reservation_is_our_bug() -> None:
    """A step that passes every check but was not counted must not send."""
    with pytest.raises(InvariantBroken, match="reserved"):
        next_call(make_operation(reserved=False), make_contract(), NOON)


def test_a_failure_limit_of_zero_allows_the_first_look() -> None:
    """Zero tolerated failures is a strict limit, not a ban on asking."""
    strict = replace(ALLOWANCE, max_transport_failures=0, max_throttles=0)
    assert isinstance(next_call(make_operation(allowance=strict), make_contract(), NOON), Ask)
    assert decide(make_operation(allowance=strict), saw(KIND.TRANSPORT)).category is Category.PROVIDER_UNREACHABLE


def test_W35_an_open_question_sends_nothing() -> None:
    """Until the answer deadline the step only notes that it waits; the question stays as it is."""
    operation, asked = escalated()
    early = asked.answer_by - timedelta(seconds=1)
    close = next_call(operation, make_contract(), early)
    assert isinstance(close, Close) and close.event is Event.HIT_LIMIT
    decision = close_operation(operation, make_contract(), close, early, escalation_id="esc_2")
    assert (decision.state, decision.due, decision.escalation) == (OperationState.ESCALATED, asked.answer_by, None)
    assert decision.effects == () and decision.category is Category.DEADLINE_EXCEEDED
    assert decision.spend == operation.spend


def test_W19_silence_stops_and_keeps_the_handle() -> None:
    """At the answer deadline the operation is stopped by the safe default, and its actions are told."""
    operation, asked = escalated()
    close = next_call(operation, make_contract(), asked.answer_by)
    assert isinstance(close, Close) and close.event is Event.SILENCE
    decision = close_operation(operation, make_contract(), close, asked.answer_by, escalation_id="esc_2")
    assert (decision.state, decision.due, decision.escalation) == (OperationState.STOPPED, None, None)
    assert decision.category is Category.DEADLINE_EXCEEDED
    assert [effect.dedupe_key for effect in decision.effects] == ["main:op_1:stopped:tell"]


def test_an_escalated_operation_without_question_is_our_bug() -> None:
    """It could never be answered."""
    with pytest.raises(InvariantBroken, match="without an open question"):
        next_call(make_operation(state=OperationState.ESCALATED), make_contract(), NOON)


def test_W33_closing_gives_a_reservation_back() -> None:
    """Nothing left, so the request that was set aside for this step is not spent; without one nothing is given back."""
    close = next_call(make_operation(Spend(status_requests=5)), make_contract(), after(3600))
    assert isinstance(close, Close)
    for reserved, left in ((True, 4), (False, 5)):
        operation = make_operation(Spend(status_requests=5, answered=4), reserved=reserved)
        decision = close_operation(operation, make_contract(), close, after(3600), escalation_id="esc_1")
        assert decision.spend == Spend(status_requests=left, answered=4)
        assert decision.escalation is not None and decision.escalation.statement["requests_used"] == left


def test_W02_the_result_is_refused_until_success() -> None:
    """Every state but succeeded refuses with a typed error."""
    for state in set(OperationState) - {OperationState.SUCCEEDED}:
        with pytest.raises(NotNow, match=f"is {state}, not succeeded"):
            ready_result(make_operation(state=state, result_ref="https://acme.example/r/7"))
    assert ready_result(make_operation(state=OperationState.SUCCEEDED, result_ref="r-7")) == "r-7"


def test_W05_the_fingerprint_tells_requests_apart() -> None:
    """Contract, account, job and address are each part of it, and moving a character between them is seen."""
    prints = {
        fingerprint("acme", "key", "job", "https://a/job"),
        fingerprint("acm", "ekey", "job", "https://a/job"),
        fingerprint("acme", "key2", "job", "https://a/job"),
        fingerprint("acme", "key", "job2", "https://a/job"),
        fingerprint("acme", "key", "job", "https://b/job"),
    }
    assert len(prints) == 5 and all(len(each) == 64 for each in prints)
    assert fingerprint("acme", "key", "job", "https://a/job") in prints
