"""Steps: what one step of an operation does, and the one thing that is written down about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sereno.core.budget import Allowance, Spend, exhausted
from sereno.core.call import CallSettled, ProviderCall
from sereno.core.effect import Effect
from sereno.core.escalation import Category, Escalation
from sereno.core.observing.seen import DelaySource, Observation
from sereno.core.values import Json
from sereno.core.waiting.lifecycle import Event, Grant, OperationState, Pushed


@dataclass(frozen=True, slots=True)
class Ask:
    """Send one status request, to be received before `deadline_at`."""

    deadline_at: datetime


@dataclass(frozen=True, slots=True)
class Send:
    """Send the submit or cancel that `operation.call` holds; its answer is to be received before `deadline_at`."""

    call: ProviderCall
    deadline_at: datetime


@dataclass(frozen=True, slots=True)
class Read:
    """Send nothing: read what the provider called back with (`operation.pushed`), for a contract without a status call."""

    pushed: Pushed


@dataclass(frozen=True, slots=True)
class Close:
    """Send nothing: a limit, a deadline or an answer ends it here, or (`changed`) there is nothing to do yet."""

    event: Event
    category: Category | None
    reason: str


@dataclass(frozen=True, slots=True)
class Job:
    """The job at the provider that a submit started: what the looks ask for."""

    job_id: str
    url: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class OperationDecision:
    """The one thing to write down about a step (W26)."""

    state: OperationState
    event: Event
    due: datetime | None
    """The next planned look or call (WAITING, SUBMITTING), the answer deadline (ESCALATED), else None."""
    next_poll_at: datetime | None
    delay_source: DelaySource
    spend: Spend
    reason: str
    observation: Observation | None
    received_at: datetime
    draw: float | None
    """The random draw used, so that a replay decides the same."""
    category: Category | None = None
    escalation: Escalation | None = None
    """A new question, to be stored in the same transaction."""
    grants: Sequence[Grant] = ()
    effects: Sequence[Effect] = ()
    facts: Mapping[str, Json] = field(default_factory=dict)
    """Extra facts for the journal: rejected hints, late answers, clipped delays, a regression."""
    call: CallSettled | None = None
    """What became of the submit or cancel of this step."""
    job: Job | None = None
    """The job that a submit's answer named: stored as this operation's from now on."""
    pins: Mapping[str, str] = field(default_factory=dict)
    """The pinned fields from now on, whole."""
    url: str | None = None
    """The status address from now on, where an answer handed the job over; None = unchanged."""


def named_limit(limit: str) -> str:
    """The deadline of a category in words."""
    return "the business deadline" if limit == Category.BUSINESS_DEADLINE_EXCEEDED else "the deadline"


def used_up(allowance: Allowance, spend: Spend) -> tuple[Category, str] | None:
    """The first budget that leaves no room for another look, and the sentence that says so (W34)."""
    if exhausted(spend.throttles, allowance.max_throttles):
        return Category.RATE_LIMITED, f"{spend.throttles} of {allowance.max_throttles} rate-limit answers are used up"
    if exhausted(spend.transport_failures, allowance.max_transport_failures):
        used = f"{spend.transport_failures} of {allowance.max_transport_failures} failed requests are used up"
        return Category.PROVIDER_UNREACHABLE, f"{used}; what the job does is not known"
    if spend.status_requests >= allowance.max_status_requests:
        used = f"{spend.status_requests} of {allowance.max_status_requests} status requests are used"
        return Category.REQUEST_BUDGET_EXHAUSTED, f"{used} and there is no final state"
    return None
