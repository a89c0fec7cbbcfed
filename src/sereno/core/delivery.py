"""Deliveries: one execution of an action with attempts, backoff, dead letters and visible ambiguity (§3.2 of the reliability spec)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from random import Random

from sereno.core.effect import Effect


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
    """The attempt before this one was claimed and never settled: its outcome is unknown."""


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
    """The one thing to write down about an attempt."""

    state: DeliveryState
    due: datetime | None
    outcome: Outcome
    reason: str


def before_send(delivery: Delivery, now: datetime) -> DeliveryDecision | None:
    """Decides without sending where sending is not allowed: an interrupted at-most-once attempt (→ ambiguous), keyed retries past
    `keep_trying` (→ ambiguous), no attempts left (→ dead). None = go on and send."""
    raise NotImplementedError


def decide_delivery(delivery: Delivery, outcome: Outcome, received_at: datetime, rng: Random) -> DeliveryDecision:
    """Turns an outcome into done, again later, dead or ambiguous, by the action's policy. Backoff 10 s · 2^n to 1 h, 50–100 % jitter."""
    raise NotImplementedError
