"""Escalations: a question to a person with bounded options, a deadline and what silence means (W19, W20, W40)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sereno.core.values import Json


class Category(StrEnum):
    """The closed list of W19."""

    DEADLINE_EXCEEDED = "deadline_exceeded"
    REQUEST_BUDGET_EXHAUSTED = "request_budget_exhausted"
    RATE_LIMITED = "rate_limited"
    UNKNOWN_STATE = "unknown_state"
    CONTRADICTION = "contradiction"
    AUTHORIZATION_DENIED = "authorization_denied"
    PROVIDER_FAILURE = "provider_failure"
    PROVIDER_UNREACHABLE = "provider_unreachable"
    INTEGRATION_FAILURE = "integration_failure"
    BUSINESS_DEADLINE_EXCEEDED = "business_deadline_exceeded"
    AMBIGUOUS_DELIVERY = "ambiguous_delivery"
    SUBMIT_UNKNOWN = "submit_unknown"
    PROVIDER_CANCELLED = "provider_cancelled"
    PROVIDER_EXPIRED = "provider_expired"
    UNKNOWN_OPERATION = "unknown_operation"
    RESULT_EXPIRED = "result_expired"
    NEEDS_INPUT = "needs_input"
    PARTIAL_RESULT = "partial_result"


class Verb(StrEnum):
    """What a person can choose; each changes bounded things only."""

    EXTEND = "extend"
    """Stated minutes and checks, once; a second extension is a new decision."""
    TREAT_AS_PENDING = "treat_as_pending"
    """This word counts as pending for n checks of this operation."""
    TREAT_AS_FAILED = "treat_as_failed"
    CHECK_AGAIN = "check_again"
    """One more look after the cause was mended (access reviewed, contract updated), inside the old limits."""
    ACCEPT_PARTIAL = "accept_partial"
    STOP = "stop"
    """Stop waiting and keep the handle: the safe default of every category."""


@dataclass(frozen=True, slots=True)
class Option:
    """One allowed answer: a short key to type, its verb, its bounds, and the sentence that shows its effect."""

    key: str
    verb: Verb
    says: str
    minutes: int = 0
    checks: int = 0


OPTIONS: Mapping[Category, Sequence[Option]] = {}
"""The tested table of W40: what may be answered to what. Every category has STOP."""


@dataclass(frozen=True, slots=True)
class Escalation:
    """A question that waits for a person.

    `statement` is exactly what was shown (state, elapsed, calls, extra budget, effect; never a secret); `digest` covers statement,
    options and subject; `answer_by` is when silence counts as `stop`.
    """

    id: str
    workspace: str
    operation: str
    category: Category
    statement: Mapping[str, Json]
    options: Sequence[Option]
    digest: str
    created_at: datetime
    answer_by: datetime
    state: str = "open"
    """open, answered, expired"""
    answer: Mapping[str, Json] | None = None


def escalation_digest(operation: str, statement: Mapping[str, Json], options: Sequence[Option], answer_by: datetime) -> str:
    """SHA-256 over the canonical JSON of everything a person decides on."""
    raise NotImplementedError
