"""Deliveries: one execution of an action with attempts, backoff, dead letters and visible ambiguity (I17–I19)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from random import Random

from sereno.core.effect import Effect, Policy


class DeliveryState(StrEnum):
    QUEUED = "queued"
    SENDING = "sending"
    DELIVERED = "delivered"
    DEAD = "dead"
    """Refused or out of attempts; `delivery retry` queues it again."""
    AMBIGUOUS = "ambiguous"
    """It may have happened; never repeated by itself."""
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery as loaded with its claim. `attempts` counts this one too (committed by the claim)."""

    id: str
    workspace: str
    effect: Effect
    state: DeliveryState
    attempts: int
    max_attempts: int
    created_at: datetime
    interrupted: bool = False
    """An attempt before this one has an unknown outcome: the row was still `sending` when this attempt claimed it, because the
    attempt was never settled (crash) or was settled as `sending` (may have happened, to be repeated)."""
    moved: timedelta = timedelta(0)
    """How far the host's clock was set since `created_at`, which is told and stays: the receiver's key ages by time, not by clocks."""


class OutcomeKind(StrEnum):
    DONE = "done"
    RETRY = "retry"
    """It certainly did not happen, or the receiver asked to try later."""
    REFUSED = "refused"
    """It will never be taken (4xx, bad address)."""
    UNKNOWN = "unknown"
    """It may have happened: the answer was lost after bytes left."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an `Action.perform` learned; `message` is one line without secrets."""

    kind: OutcomeKind
    message: str = ""
    not_before: datetime | None = None
    receipt: str | None = None


@dataclass(frozen=True, slots=True)
class DeliveryDecision:
    """The one thing to write down about an attempt.

    `due` is set for `queued` and `sending`. `sending` with a due = it may have happened and is tried again then; the row keeps
    that state, so that the next attempt is `interrupted` and no later refusal can hide that something may have arrived (I19).
    """

    state: DeliveryState
    due: datetime | None
    outcome: Outcome
    reason: str


FIRST_RETRY = timedelta(seconds=10)
LONGEST_RETRY = timedelta(hours=1)
LONGEST_WAIT = timedelta(days=7)
"""A receiver's wish to wait is obeyed up to this."""


def before_send(delivery: Delivery, now: datetime) -> DeliveryDecision | None:
    """Decides without sending where sending is not allowed: an interrupted at-most-once attempt (→ ambiguous), keyed retries
    past `keep_trying` (→ ambiguous after an unknown outcome, else dead), no attempts left (→ the same). None = go on and send."""
    policy = delivery.effect.action.policy
    if delivery.interrupted and policy is Policy.AT_MOST_ONCE:
        cut_off = Outcome(OutcomeKind.UNKNOWN, "interrupted")
        return _close(delivery, cut_off, "an interrupted attempt may have happened; at most once means it is not repeated")
    if delivery.attempts > delivery.max_attempts:
        return _close(delivery, Outcome(OutcomeKind.RETRY, "not sent"), f"no attempts left of {delivery.max_attempts}")
    if policy is Policy.KEYED and delivery.attempts > 1 and now > _keys_end(delivery):
        return _close(delivery, Outcome(OutcomeKind.RETRY, "not sent"), "the receiver may have forgotten the key by now")
    return None


def decide_delivery(delivery: Delivery, outcome: Outcome, received_at: datetime, rng: Random) -> DeliveryDecision:
    """Turns an outcome into done, again later, dead or ambiguous, by the action's policy.

    Backoff 10 s · 2^n to 1 h (n = attempts before), 50–100 % jitter, never before the receiver's own instant. An unknown
    outcome is repeated for keyed receivers while they keep the key, once where *at least once* was chosen, never where
    *at most once* was.
    """
    match outcome.kind:
        case OutcomeKind.DONE:
            return DeliveryDecision(DeliveryState.DELIVERED, None, outcome, "delivered")
        case OutcomeKind.REFUSED:
            return _close(delivery, outcome, "refused")
        case OutcomeKind.RETRY:
            return _again(delivery, outcome, received_at, rng)
        case OutcomeKind.UNKNOWN:
            reason = _why_not_repeat(delivery)
            return _close(delivery, outcome, reason) if reason else _again(delivery, outcome, received_at, rng)


def _why_not_repeat(delivery: Delivery) -> str | None:
    match delivery.effect.action.policy:
        case Policy.AT_MOST_ONCE:
            return "it may have happened; at most once means it is not repeated"
        case Policy.AT_LEAST_ONCE if delivery.interrupted:
            return "it may have happened; it was repeated once already"
        case _:
            return None


def _again(delivery: Delivery, outcome: Outcome, received_at: datetime, rng: Random) -> DeliveryDecision:
    due = _retry_at(delivery, outcome, received_at, rng)
    if delivery.attempts >= delivery.max_attempts:
        return _close(delivery, outcome, f"no attempts left of {delivery.max_attempts}")
    if delivery.effect.action.policy is Policy.KEYED and due > _keys_end(delivery):
        return _close(delivery, outcome, "the receiver may have forgotten the key by the next attempt")
    doubtful = delivery.interrupted or outcome.kind is OutcomeKind.UNKNOWN
    state = DeliveryState.SENDING if doubtful else DeliveryState.QUEUED
    reason = "it may have happened; tried again under the same key" if doubtful else "tried again later"
    return DeliveryDecision(state, due, outcome, reason)


def _close(delivery: Delivery, outcome: Outcome, reason: str) -> DeliveryDecision:
    """Ends it as dead, or as ambiguous where this or an earlier attempt may have happened."""
    doubtful = delivery.interrupted or outcome.kind is OutcomeKind.UNKNOWN
    return DeliveryDecision(DeliveryState.AMBIGUOUS if doubtful else DeliveryState.DEAD, None, outcome, reason)


def _retry_at(delivery: Delivery, outcome: Outcome, received_at: datetime, rng: Random) -> datetime:
    raw = min(LONGEST_RETRY, FIRST_RETRY * (1 << min(max(delivery.attempts - 1, 0), 20)))
    later = received_at + raw * (0.5 + rng.random() / 2)
    if outcome.not_before is None:
        return later
    return max(later, min(outcome.not_before, received_at + LONGEST_WAIT))


def _keys_end(delivery: Delivery) -> datetime:
    return delivery.created_at + delivery.moved + delivery.effect.keep_trying
