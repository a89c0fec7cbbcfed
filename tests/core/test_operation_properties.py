"""Properties of deciding: whatever the record, the answer, the instants and the dice."""

import json
from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from sereno.core.budget import Spend
from sereno.core.contract import Delays
from sereno.core.observation import Observation, ObservationKind
from sereno.core.operation import (
    Ask,
    Close,
    Grant,
    Operation,
    OperationState,
    close_operation,
    decide_answer,
    move,
    next_call,
)
from sereno.core.values import canonical
from tests.core.waiting import (
    ALLOWANCE,
    KIND,
    NOON,
    after,
    apply,
    decide,
    make_contract,
    make_operation,
    poll_hint,
    reserve,
    retry_after,
    saw,
)

LIMIT = st.integers(0, 6)
INSTANT = st.floats(-100, 10_000).map(after)
HINTS = st.lists(
    st.one_of(
        INSTANT.map(retry_after),
        INSTANT.map(poll_hint),
        st.just(retry_after(None, "not a number")),
        st.just(retry_after(after(250_000_000_000 / 10))),
    ),
    max_size=3,
)
DELAYS = st.builds(
    Delays,
    base=st.floats(0.1, 600).map(lambda value: timedelta(seconds=value)),
    maximum=st.floats(0.1, 7200).map(lambda value: timedelta(seconds=value)),
    min_gap=st.floats(1, 900).map(lambda value: timedelta(seconds=value)),
    jitter=st.sampled_from(["half", "full"]),
    typical=st.one_of(st.none(), st.floats(1, 9000).map(lambda value: timedelta(seconds=value))),
)
OBSERVATIONS = st.builds(
    lambda kind, hints, requests, status: saw(
        kind, *hints, requests=0 if kind is KIND.NOT_SENT else requests, http_status=status
    ),
    st.sampled_from(list(ObservationKind)),
    HINTS,
    st.integers(1, 4),
    st.sampled_from([None, 200, 404, 429, 503]),
)
OPERATIONS = st.builds(
    lambda used, room, failures, throttles, deadline, business, granted: make_operation(
        Spend(used, failures, throttles, answered=used, not_found=1),
        replace(
            ALLOWANCE,
            deadline_at=deadline,
            business_deadline_at=business,
            max_status_requests=used + room,
            max_transport_failures=failures + room,
            max_throttles=throttles + room,
        ),
        grants=(Grant("running", granted),),
    ),
    st.integers(1, 40),
    LIMIT,
    LIMIT,
    LIMIT,
    st.floats(0.001, 9000).map(after),
    st.one_of(st.none(), st.floats(0.001, 9000).map(after)),
    st.integers(0, 2),
)
SEEDS = st.integers(0, 2**32)


@given(operation=OPERATIONS, observation=OBSERVATIONS, delays=DELAYS, at=st.floats(0, 9500), seed=SEEDS)
def test_a_planned_look_keeps_every_rule(
    operation: Operation, observation: Observation, delays: Delays, at: float, seed: int
) -> None:
    """Never under the gap, never at or after the end, never before a provider's wait; else the end itself is due."""
    received_at = after(at)
    decision = decide(operation, observation, received_at, contract=make_contract(delays), seed=seed)
    if decision.state is not OperationState.WAITING:
        return
    stops_at = operation.allowance.stops_at()[0]
    assert decision.due is not None and received_at < decision.due <= stops_at
    waits = [hint.until for hint in observation.hints if hint.until is not None]
    floor = max([received_at + delays.min_gap, *waits])
    if decision.due < stops_at:
        assert decision.due >= floor and decision.next_poll_at == decision.due
    elif decision.next_poll_at is not None:
        assert decision.next_poll_at >= stops_at
    if waits and max(waits) >= stops_at:
        assert decision.due == stops_at


@given(operation=OPERATIONS, observation=OBSERVATIONS, at=st.floats(0, 9500), seed=SEEDS)
def test_counters_never_go_back(operation: Operation, observation: Observation, at: float, seed: int) -> None:
    """Except for the one reservation of a request that certainly did not leave."""
    before, after_ = operation.spend, decide(operation, observation, after(at), seed=seed).spend
    given_back = 1 if observation.kind is KIND.NOT_SENT else 0
    assert after_.status_requests == before.status_requests - given_back
    assert 0 <= after_.transport_failures - before.transport_failures <= 1
    assert 0 <= after_.throttles - before.throttles <= 1
    assert 0 <= after_.answered - before.answered <= 1


@given(operation=OPERATIONS, observation=OBSERVATIONS, at=st.floats(0, 9500), seed=SEEDS)
def test_I12_every_decision_is_a_legal_move_and_writable(
    operation: Operation, observation: Observation, at: float, seed: int
) -> None:
    """The state is the table's; a question has its category, options and deadline; everything noted is JSON."""
    decision = decide(operation, observation, after(at), seed=seed)
    assert decision.state is move(operation.state, decision.event)
    canonical(dict(decision.facts))
    assert (decision.escalation is not None) == (decision.state is OperationState.ESCALATED)
    if decision.escalation is not None:
        assert decision.escalation.category is decision.category
        assert json.loads(canonical(dict(decision.escalation.statement))) == decision.escalation.statement
        assert decision.due == decision.escalation.answer_by > decision.received_at
    assert (decision.due is None) == (decision.state not in (OperationState.WAITING, OperationState.ESCALATED))
    assert len({effect.dedupe_key for effect in decision.effects}) == len(decision.effects)


@given(operation=OPERATIONS, observation=OBSERVATIONS, at=st.floats(0, 9500), wait=st.floats(0, 80_000), data=st.data())
def test_I22_an_answer_stays_within_its_option(
    operation: Operation, observation: Observation, at: float, wait: float, data: st.DataObject
) -> None:
    """No limit rises by more than the option says, and a look that is granted is possible and not too early."""
    decision = decide(operation, observation, after(at))
    if decision.escalation is None:
        return
    asked, now = decision.escalation, after(at + wait)
    option = data.draw(st.sampled_from(list(asked.options)))
    answer = decide_answer(apply(operation, decision), asked, option, now)
    old, new = operation.allowance, answer.allowance
    latest = max(old.deadline_at, now) + timedelta(minutes=option.minutes)
    assert new.deadline_at <= latest
    assert new.business_deadline_at is None or old.business_deadline_at is not None
    assert new.business_deadline_at is None or new.business_deadline_at <= max(old.business_deadline_at or latest, latest)
    assert new.max_status_requests <= max(old.max_status_requests, decision.spend.status_requests + option.checks)
    if answer.state is OperationState.WAITING:
        assert answer.due is not None and answer.due >= now
        waits = [hint.until for hint in observation.hints if hint.until is not None]
        assert answer.due >= min(new.stops_at()[0], max([now, *waits]))
        assert isinstance(
            next_call(reserve(replace(apply(operation, decision), state=answer.state, allowance=new)), make_contract(), now), Ask
        )


@settings(max_examples=60)
@given(kinds=st.lists(OBSERVATIONS, min_size=1, max_size=60), seed=SEEDS)
def test_I10_every_wait_ends_within_its_limits(kinds: list[Observation], seed: int) -> None:
    """Steps in a row, each at its due instant: never more requests than allowed, never closer than the gap, and always an end."""
    operation, now, sent = make_operation(Spend(0)), NOON, []
    for step in range(100):
        operation = reserve(operation)
        call = next_call(operation, make_contract(), now)
        if isinstance(call, Close):
            decision = close_operation(operation, make_contract(), call, now, escalation_id="esc_1")
        else:
            observation = kinds[step % len(kinds)]
            observation = replace(observation, requests=min(1, observation.requests))
            if observation.kind is not KIND.NOT_SENT:
                sent.append(now)
            decision = decide(operation, observation, now, seed=seed + step)
        operation = apply(operation, decision)
        if operation.state is not OperationState.WAITING:
            break
        assert decision.due is not None and decision.due > now
        now = decision.due
    assert operation.state is not OperationState.WAITING
    assert len(sent) == operation.spend.status_requests <= 12
    assert all(later - earlier >= timedelta(seconds=1) for earlier, later in zip(sent, sent[1:], strict=False))
    assert now <= ALLOWANCE.deadline_at
