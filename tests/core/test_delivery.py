"""Deliveries: attempts and waits, and that an unclear outcome is never hidden (I17–I19, reliability rules of actions)."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sereno.core.delivery import (
    Delivery,
    DeliveryDecision,
    DeliveryState,
    Outcome,
    OutcomeKind,
    before_send,
    decide_delivery,
)
from sereno.core.effect import ActionRef, Effect, Policy

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
QUEUED, SENDING, DELIVERED = DeliveryState.QUEUED, DeliveryState.SENDING, DeliveryState.DELIVERED
DEAD, AMBIGUOUS = DeliveryState.DEAD, DeliveryState.AMBIGUOUS
KEYED, ONCE, LEAST = Policy.KEYED, Policy.AT_MOST_ONCE, Policy.AT_LEAST_ONCE
DONE, RETRY, REFUSED, UNKNOWN = OutcomeKind.DONE, OutcomeKind.RETRY, OutcomeKind.REFUSED, OutcomeKind.UNKNOWN


def delivery(policy: Policy = KEYED, attempts: int = 1, *, interrupted: bool = False, age: timedelta = timedelta(0)) -> Delivery:
    effect = Effect("key", ActionRef("a", "webhook", {}, policy), "local", "t", "b", {}, "poll_1")
    return Delivery("dlv_1", "main", effect, SENDING, attempts, 8, NOW - age, interrupted)


def decide(sent: Delivery, kind: OutcomeKind, not_before: datetime | None = None, seed: int = 1) -> DeliveryDecision:
    return decide_delivery(sent, Outcome(kind, "said so", not_before), NOW, Random(seed))


@pytest.mark.parametrize(
    ("policy", "interrupted", "kind", "state"),
    [
        (KEYED, False, DONE, DELIVERED),
        (KEYED, True, DONE, DELIVERED),
        (KEYED, False, RETRY, QUEUED),
        (KEYED, True, RETRY, SENDING),
        (KEYED, False, REFUSED, DEAD),
        (KEYED, True, REFUSED, AMBIGUOUS),
        (KEYED, False, UNKNOWN, SENDING),
        (KEYED, True, UNKNOWN, SENDING),
        (ONCE, False, DONE, DELIVERED),
        (ONCE, False, RETRY, QUEUED),
        (ONCE, False, REFUSED, DEAD),
        (ONCE, False, UNKNOWN, AMBIGUOUS),
        (LEAST, False, DONE, DELIVERED),
        (LEAST, True, DONE, DELIVERED),
        (LEAST, False, RETRY, QUEUED),
        (LEAST, True, RETRY, SENDING),
        (LEAST, False, REFUSED, DEAD),
        (LEAST, True, REFUSED, AMBIGUOUS),
        (LEAST, False, UNKNOWN, SENDING),
        (LEAST, True, UNKNOWN, AMBIGUOUS),
    ],
)
def test_I19_each_outcome_under_each_policy(policy: Policy, interrupted: bool, kind: OutcomeKind, state: DeliveryState) -> None:
    """The whole table: what is written down, and that only waiting states have a due instant."""
    decision = decide(delivery(policy, 2, interrupted=interrupted), kind)
    assert decision.state is state
    assert (decision.due is not None) == (state in (QUEUED, SENDING))
    assert decision.reason and decision.outcome.kind is kind


def test_the_wait_doubles_to_an_hour_with_jitter() -> None:
    """After n attempts the wait lies in 50–100 % of 10 s · 2^(n-1), at most an hour."""
    for attempts in range(1, 8):
        raw = min(3600.0, 10.0 * 2 ** (attempts - 1))
        waits = [
            (due - NOW).total_seconds() for seed in range(30) if (due := decide(delivery(LEAST, attempts), RETRY, seed=seed).due)
        ]
        assert raw / 2 <= min(waits) < max(waits) <= raw
        assert max(waits) - min(waits) > raw / 10


def test_the_receivers_own_instant_is_obeyed_within_a_week() -> None:
    """A Retry-After is a minimum; an absurd one does not bury the delivery."""
    assert decide(delivery(LEAST), RETRY, NOW + timedelta(hours=3)).due == NOW + timedelta(hours=3)
    assert decide(delivery(LEAST), RETRY, datetime(9990, 1, 1, tzinfo=UTC)).due == NOW + timedelta(days=7)


def test_out_of_attempts_is_dead_or_ambiguous() -> None:
    """After the last attempt: dead where nothing happened for certain, else ambiguous."""
    assert decide(delivery(KEYED, 8), RETRY).state is DEAD
    assert decide(delivery(KEYED, 8), UNKNOWN).state is AMBIGUOUS
    assert decide(delivery(KEYED, 8, interrupted=True), RETRY).state is AMBIGUOUS


def test_I17_keyed_retries_end_before_the_receiver_forgets() -> None:
    """A retry that would come after `keep_trying` is not planned, nor sent when it comes late."""
    late = timedelta(hours=20, minutes=59, seconds=59)
    assert decide(delivery(KEYED, 2, age=late), UNKNOWN).state is AMBIGUOUS
    assert decide(delivery(KEYED, 2, age=late), RETRY).state is DEAD
    asleep = timedelta(hours=22)
    assert before_state(delivery(KEYED, 2, interrupted=True, age=asleep)) is AMBIGUOUS
    assert before_state(delivery(KEYED, 2, age=asleep)) is DEAD
    assert before_state(delivery(KEYED, 1, age=asleep)) is None
    assert before_state(delivery(LEAST, 2, age=asleep)) is None


def before_state(sent: Delivery) -> DeliveryState | None:
    decision = before_send(sent, NOW)
    return decision.state if decision is not None else None


@pytest.mark.parametrize(
    ("sent", "state"),
    [
        (delivery(ONCE), None),
        (delivery(ONCE, 2, interrupted=True), AMBIGUOUS),
        (delivery(KEYED, 2, interrupted=True), None),
        (delivery(LEAST, 2, interrupted=True), None),
        (delivery(LEAST, 8), None),
        (delivery(LEAST, 9), DEAD),
        (delivery(LEAST, 9, interrupted=True), AMBIGUOUS),
    ],
)
def test_I19_what_may_be_sent(sent: Delivery, state: DeliveryState | None) -> None:
    """An interrupted at-most-once attempt is never repeated; without attempts left nothing is sent."""
    assert before_state(sent) is state


SCRIPT = st.lists(
    st.sampled_from(["done", "retry", "refused", "lost", "vanished", "crash before", "crash after"]), min_size=1, max_size=20
)


@given(st.sampled_from(list(Policy)), SCRIPT, st.integers(0, 99))
def test_I17_I19_over_any_history(policy: Policy, script: list[str], seed: int) -> None:
    """The receiver keeps its own books: at most once acts at most once, nothing that may have arrived ends as dead, each end is bounded.

    `lost` arrived without an answer, `vanished` looked the same but never arrived; a crash leaves the row as the claim made it.
    """
    arrived, attempts, unknown, state, now = 0, 0, 0, QUEUED, NOW
    for step in script:
        attempts += 1
        effect = delivery(policy).effect
        sent = Delivery("dlv_1", "main", effect, SENDING, attempts, 8, NOW, interrupted=state is SENDING)
        decision = before_send(sent, now)
        if decision is None:
            arrived += step in ("done", "lost", "crash after")
            unknown += step in ("lost", "vanished", "crash before", "crash after")
            if step.startswith("crash"):
                state, now = SENDING, now + timedelta(minutes=1)
                continue
            kind = {"done": DONE, "retry": RETRY, "refused": REFUSED}.get(step, UNKNOWN)
            decision = decide_delivery(sent, Outcome(kind), now, Random(seed))
        state = decision.state
        if decision.due is None:
            break
        assert decision.due > now
        now = decision.due
    assert attempts <= 9 + 1
    if policy is ONCE:
        assert arrived <= 1
    if state is DEAD:
        assert unknown == 0
    if policy is LEAST and not any(step.startswith("crash") for step in script):
        assert arrived <= 2
    if state is AMBIGUOUS:
        assert unknown > 0
