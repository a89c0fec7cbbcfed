"""Operations: one job at a provider that we wait for; the state machine is a table from which the docs draw their diagram."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from random import Random

from sereno.core.budget import Allowance, Spend
from sereno.core.contract import Contract
from sereno.core.effect import ActionRef, Effect
from sereno.core.escalation import Category, Escalation, Option
from sereno.core.observation import DelaySource, Observation
from sereno.core.values import Json


class OperationState(StrEnum):
    WAITING = "waiting"
    ESCALATED = "escalated"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    STOPPED = "stopped"
    """Closed by a person or by silence; the provider may still be at it, the handle is kept."""


TERMINAL = frozenset(OperationState) - {OperationState.WAITING, OperationState.ESCALATED}


class Event(StrEnum):
    """What moves an operation."""

    SAW_PENDING = "saw_pending"
    SAW_SUCCESS = "saw_success"
    SAW_FAILURE = "saw_failure"
    SAW_CANCELLED = "saw_cancelled"
    SAW_EXPIRED = "saw_expired"
    HIT_LIMIT = "hit_limit"
    SAW_TROUBLE = "saw_trouble"
    ANSWERED_GO_ON = "answered_go_on"
    ANSWERED_FAILED = "answered_failed"
    ANSWERED_ACCEPT = "answered_accept"
    ANSWERED_STOP = "answered_stop"
    SILENCE = "silence"


TRANSITIONS: Mapping[tuple[OperationState, Event], OperationState] = {}
"""Every legal move; a pair that is missing is illegal and raises InvariantBroken. Filled below."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a person granted, e.g. a state word to treat as pending for `checks_left` more checks."""

    word: str
    checks_left: int


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation as loaded with its claim; `spend` already counts the request reserved for this step."""

    id: str
    workspace: str
    contract: str
    contract_digest: str
    account: str
    """The provider account context: credential name, or '' where none."""
    job_id: str
    url: str
    """The filled status URL (no secret in it)."""
    parameters: Mapping[str, str]
    fingerprint: str
    """SHA-256 of contract name, account, job, url and headers that identify the original request (W05, W39)."""
    state: OperationState
    revision: int
    allowance: Allowance
    spend: Spend
    pool: str
    created_at: datetime
    next_poll_at: datetime | None
    delay_source: DelaySource
    user: str = "local"
    assistant_task_id: str | None = None
    actions: Sequence[ActionRef] = ()
    last_state: str | None = None
    last_http_status: int | None = None
    last_checked_at: datetime | None = None
    result_ref: str | None = None
    category: Category | None = None
    error_code: str | None = None
    error_text: str | None = None
    expires_at: datetime | None = None
    regressions: int = 0
    grants: Sequence[Grant] = ()
    escalations: int = 0
    """How many escalations it has had: makes the dedupe key of each distinct."""
    open_escalation: Escalation | None = None
    reserved: bool = True
    """A status request was reserved by this claim: only then may one be sent."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Send one status request, to be received before `deadline_at`."""

    deadline_at: datetime


@dataclass(frozen=True, slots=True)
class Close:
    """Send nothing: a limit, a deadline or an answer ends it here."""

    event: Event
    category: Category | None
    reason: str


def next_call(operation: Operation, now: datetime) -> Ask | Close:
    """Order of W33: terminal/escalated → deadline → budget. `now` is the database's instant."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class OperationDecision:
    """The one thing to write down about a step (W26)."""

    state: OperationState
    event: Event
    due: datetime | None
    """The next planned look (WAITING), the answer deadline (ESCALATED), else None."""
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
    """Extra facts for the journal: rejected hints, late answers, clipped delays."""


def decide_operation(
    operation: Operation,
    contract: Contract,
    observation: Observation,
    received_at: datetime,
    rng: Random,
    *,
    escalation_id: str,
    answer_within_s: float = 86_400.0,
) -> OperationDecision:
    """Turns one observation into the one thing to write down.

    The deadline is judged before the state: an answer received at or after it is recorded and reported, and using it is a person's
    decision (W32). Then: trouble stops on first sight (W38), budgets before planning (W34), then the next look: Retry-After ≥ hint ≥
    backoff, never under `min_gap`, and where it passes the deadline `due` is the deadline itself and no further request is planned (W13).
    """
    raise NotImplementedError


def close_operation(operation: Operation, contract: Contract, close: Close, now: datetime, *, escalation_id: str, answer_within_s: float = 86_400.0) -> OperationDecision:
    """Writes down an end that needs no request: deadline, budget, silence."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class AnswerDecision:
    """What a person's answer changes, bounded by the option shown (W20)."""

    state: OperationState
    event: Event
    allowance: Allowance
    due: datetime | None
    next_poll_at: datetime | None
    delay_source: DelaySource
    grants: Sequence[Grant]
    reason: str


def decide_answer(operation: Operation, escalation: Escalation, option: Option, now: datetime) -> AnswerDecision:
    """Applies an option: extends by stated minutes and checks, grants a word, fails, accepts or stops. The next look has delay source
    `manual_extension` and is never sooner than a provider's own wait (`operation.next_poll_at` from provider_retry_after)."""
    raise NotImplementedError


def fingerprint(contract: str, account: str, job_id: str, url: str) -> str:
    """SHA-256 over the canonical JSON of what identifies the original request (W05)."""
    raise NotImplementedError
