"""An operation and its life: what is stored of one wait, and the table of legal moves that the docs are drawn from (I11, I12)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from sereno.core.budget import Allowance, Spend
from sereno.core.call import ProviderCall
from sereno.core.effect import ActionRef
from sereno.core.errors import InvariantBroken
from sereno.core.escalation import Category, Escalation
from sereno.core.observing.seen import DelaySource


class OperationState(StrEnum):
    SUBMITTING = "submitting"
    """The job is to be started, or its start was not answered yet: there is no job id."""
    WAITING = "waiting"
    ESCALATED = "escalated"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    STOPPED = "stopped"
    """Closed by a person or by silence; the provider may still be at it, the handle is kept."""


LIVE = (OperationState.SUBMITTING, OperationState.WAITING)
"""States in which a claim may send something."""
TERMINAL = frozenset(OperationState) - {*LIVE, OperationState.ESCALATED}


class Event(StrEnum):
    """What moves an operation."""

    SUBMITTED = "submitted"
    SUBMIT_AGAIN = "submit_again"
    """The submit is to be sent again: nothing left, or the provider honours its key (W21)."""
    SAW_PENDING = "saw_pending"
    SAW_SUCCESS = "saw_success"
    SAW_FAILURE = "saw_failure"
    SAW_CANCELLED = "saw_cancelled"
    SAW_EXPIRED = "saw_expired"
    HIT_LIMIT = "hit_limit"
    SAW_TROUBLE = "saw_trouble"
    ANSWERED_GO_ON = "answered_go_on"
    ANSWERED_SUBMIT = "answered_submit"
    """A person lets a submit that certainly was not taken on be sent again."""
    ANSWERED_FAILED = "answered_failed"
    ANSWERED_ACCEPT = "answered_accept"
    ANSWERED_STOP = "answered_stop"
    SILENCE = "silence"
    CHANGED = "changed"
    """What comes next was changed (a cancel, a call-back, another contract): the state stays."""


_S, _W, _E = OperationState.SUBMITTING, OperationState.WAITING, OperationState.ESCALATED

TRANSITIONS: Mapping[tuple[OperationState, Event], OperationState] = {
    (_S, Event.SUBMITTED): _W,
    (_S, Event.SUBMIT_AGAIN): _S,
    (_S, Event.SAW_TROUBLE): _E,
    (_S, Event.HIT_LIMIT): _E,
    # A person gives a submit up that certainly was not sent.
    (_S, Event.ANSWERED_STOP): OperationState.STOPPED,
    (_S, Event.CHANGED): _S,
    (_W, Event.SAW_PENDING): _W,
    (_W, Event.SAW_SUCCESS): OperationState.SUCCEEDED,
    (_W, Event.SAW_FAILURE): OperationState.FAILED,
    (_W, Event.SAW_CANCELLED): OperationState.CANCELLED,
    (_W, Event.SAW_EXPIRED): OperationState.EXPIRED,
    (_W, Event.HIT_LIMIT): _E,
    (_W, Event.SAW_TROUBLE): _E,
    (_W, Event.CHANGED): _W,
    # Facts that arrive while a person is asked are recorded; only the answer, or silence, moves on.
    (_E, Event.SAW_PENDING): _E,
    (_E, Event.SAW_SUCCESS): _E,
    (_E, Event.SAW_FAILURE): _E,
    (_E, Event.SAW_CANCELLED): _E,
    (_E, Event.SAW_EXPIRED): _E,
    (_E, Event.HIT_LIMIT): _E,
    (_E, Event.SAW_TROUBLE): _E,
    (_E, Event.CHANGED): _E,
    (_E, Event.ANSWERED_GO_ON): _W,
    (_E, Event.ANSWERED_SUBMIT): _S,
    (_E, Event.ANSWERED_FAILED): OperationState.FAILED,
    (_E, Event.ANSWERED_ACCEPT): OperationState.SUCCEEDED,
    (_E, Event.ANSWERED_STOP): OperationState.STOPPED,
    (_E, Event.SILENCE): OperationState.STOPPED,
}
"""Every legal move; a pair that is missing is illegal and raises InvariantBroken. Terminal states have no moves."""


def move(state: OperationState, event: Event) -> OperationState:
    """The state after an event. Raises InvariantBroken for a move that the table does not hold."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise InvariantBroken(f"an operation that is {state} cannot take {event}") from None


def diagram() -> str:
    """Draws the table as a Mermaid state diagram; moves between the same two states share one arrow."""
    arrows: dict[tuple[OperationState, OperationState], list[str]] = {}
    for (before, event), after in TRANSITIONS.items():
        arrows.setdefault((before, after), []).append(event.value)
    lines = ["stateDiagram-v2", *(f"    [*] --> {state}" for state in LIVE)]
    lines += [f"    {before} --> {after}: {', '.join(events)}" for (before, after), events in arrows.items()]
    lines += [f"    {state} --> [*]" for state in OperationState if state in TERMINAL]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Grant:
    """What a person granted, e.g. a state word to treat as pending for `checks_left` more checks."""

    word: str
    checks_left: int


@dataclass(frozen=True, slots=True)
class Pushed:
    """An authenticated call-back: its body (≤ 1 MB) and when it came. It is read through the contract like an answer; it wakes a look
    elsewhere and never decides there (W35)."""

    body: bytes
    content_type: str
    received_at: datetime


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
    """The caller's values by name; `base` among them where the contract's own address was replaced."""
    fingerprint: str
    """SHA-256 of what identifies the original request: contract name, account, job and url; for a submit its input and key (W05, W39)."""
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
    call: ProviderCall | None = None
    """The submit or cancel that this step has to make; then no status request is reserved."""
    pins: Mapping[str, str] = field(default_factory=dict)
    """Fields that no later answer may change, by path expression."""
    pushed: Pushed | None = None
    """What the provider called back with, for a contract without a status call."""
    previous: str | None = None
    """The operation that this one was submitted anew for, on a person's request (W21)."""
    submitted_at: datetime | None = None
    """When the submit was answered; None where the job was there before."""
    cancelled_at: datetime | None = None
    """When the provider took on a cancel that a person asked for."""

    @property
    def started_at(self) -> datetime:
        """From when the provider has known the job, as far as we know."""
        return self.submitted_at or self.created_at
