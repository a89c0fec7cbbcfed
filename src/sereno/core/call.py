"""Calls at a provider that are not status looks: submitting a job and cancelling one. Each is its own record with its own key (W24)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from sereno.core.observing.seen import ReadHint
from sereno.core.values import Json


class CallKind(StrEnum):
    SUBMIT = "submit"
    CANCEL = "cancel"


class CallState(StrEnum):
    """Where a call stands. `sending` is committed before the first byte: found so by a later claim it may have been sent (W31)."""

    QUEUED = "queued"
    SENDING = "sending"
    DONE = "done"
    """The provider took it on (or had before, under the same key)."""
    REFUSED = "refused"
    """Answered, and certain that nothing was done."""
    UNKNOWN = "unknown"
    """It may have been done: never sent again by itself."""
    DROPPED = "dropped"
    """Given up before anything was sent."""


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """One submit or cancel of an operation, as loaded with its claim; `attempts` already counts this one."""

    id: str
    kind: CallKind
    dedupe_key: str
    """Unique in the workspace: `op_x:submit`, `op_x:cancel-1`."""
    key: str
    """The idempotency key that is sent where the contract says how; also the job id where the caller chooses it. Never changes."""
    input: Json
    """What a submit was given; None for a cancel."""
    state: CallState
    created_at: datetime
    attempts: int = 0
    first_sent_at: datetime | None = None
    """The claim instant of the first attempt that may have sent: the provider's key window counts from here."""
    interrupted: bool = False
    """An attempt before this one was claimed and never settled: whether it was sent is not known."""
    statement: Mapping[str, Json] = field(default_factory=dict)
    """What the person saw who asked for it, and who that was."""


class CallOutcome(StrEnum):
    """What an answer to a call amounts to."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    """The provider says that this key or id was taken on before."""
    TOO_LATE = "too_late"
    """A cancel that came after the end."""
    DENIED = "denied"
    """401 or 403: nothing was done."""
    THROTTLED = "throttled"
    """429: nothing was done."""
    REFUSED = "refused"
    """Any other 4xx: the provider does not want this request; nothing was done."""
    UNREADABLE = "unreadable"
    """Taken on, but the answer does not name the job."""
    UNKNOWN = "unknown"
    """5xx, a lost or broken answer: it may have been done."""
    NOT_SENT = "not_sent"
    """Certain that nothing left."""


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """A submit's or cancel's answer read through the contract. Texts are cleaned and cut (error ≤ 2,000 characters)."""

    outcome: CallOutcome
    reason: str = ""
    http_status: int | None = None
    job_id: str | None = None
    url: str | None = None
    """The status address, where the answer or the contract gives one."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    hints: Sequence[ReadHint] = ()
    error_code: str | None = None
    error_text: str | None = None
    provider_request_id: str | None = None
    requests: int = 1


@dataclass(frozen=True, slots=True)
class CallSettled:
    """What a decision writes down about the call of its step."""

    call: str
    state: CallState
    """`queued`: nothing is in doubt, and it is to be sent again. `sending`: it may have been done, and may be sent again all the
    same; the next claim finds it interrupted. Both stay this operation's open call."""
    answer: CallAnswer | None
    """None where the call was dropped or closed without an answer."""
