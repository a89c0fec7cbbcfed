"""Records: rows as faces read them. Plain values; what is shown of a poll, run, operation, delivery, escalation or journal entry."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sereno.core.call import CallAnswer, ProviderCall
from sereno.core.delivery import Delivery
from sereno.core.escalation import Escalation, Option
from sereno.core.observation import Observation
from sereno.core.operation import Operation
from sereno.core.poll import Poll
from sereno.core.values import Json


@dataclass(frozen=True, slots=True)
class PollRecord:
    """A poll with its plan. `managed_by` is `user` or `file:PATH`; `known_objects` counts the snapshot."""

    poll: Poll
    due: datetime | None
    managed_by: str
    updated_at: datetime
    leased_until: datetime | None = None
    known_objects: int = 0


@dataclass(frozen=True, slots=True)
class OperationRecord:
    """An operation with its lease, if somebody holds it now."""

    operation: Operation
    due: datetime | None
    updated_at: datetime
    leased_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A submit or cancel with its answer, as stored: `answer` holds the facts of `CallAnswer`."""

    operation: str
    call: ProviderCall
    answer: Mapping[str, Json] | None
    answered_at: datetime | None


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One committed step of an operation as the journal holds it: what was known, what came back, what was decided (W28).

    `operation` is what the claim handed out, or None where an older version wrote too little of it: its actions by name alone, the key of
    its call, its input and the body of a call-back left out, its open question by id and end alone. `answer` is that of its call.
    """

    seq: int
    run: int
    operation: Operation | None
    claimed_at: datetime
    received_at: datetime
    observation: Observation | None
    answer: CallAnswer | None
    draw: float | None
    edited: bool
    """The operation was edited while the step was under way: it kept its state, whatever was decided."""
    decided: Mapping[str, Json]
    """The journal row of the decision; instants in microseconds."""
    hops: int = 0
    """Redirect hops that were counted in this step."""
    woken: bool = False
    """A call-back came while the step was under way, or waits unread: what comes next may have been put sooner than decided (W35)."""


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """One decision beside the steps of an operation, as the journal holds it: an answer, a cancel, a call-back, another contract.

    `operation` is what was found, as in `StepRecord`; None where an older version did not write it down. `escalation` and `option` are what
    an answer was given to.
    """

    seq: int
    run: int
    at: datetime
    word: str
    """`answered`, `cancel_requested`, `pushed`, `contract_changed`."""
    operation: Operation | None
    escalation: Escalation | None
    option: Option | None
    decided: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """A delivery with its plan and last outcome."""

    delivery: Delivery
    due: datetime | None
    updated_at: datetime
    delivered_at: datetime | None = None
    last_outcome: str | None = None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run (P06): `id` is `SUBJECT.NUMBER`; the fields after `status` are None while it runs."""

    id: str
    subject: str
    kind: str
    scheduled_for: datetime
    attempt: int
    claimed_by: str
    started_at: datetime
    finished_at: datetime | None
    status: str
    checked: int | None = None
    changed: int | None = None
    matched: int | None = None
    requests: int | None = None
    missed: int | None = None
    cursor_before: str | None = None
    cursor_after: str | None = None
    summary: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One appended fact: kind is `intent`, `result` or `decision`; `facts` are canonical JSON."""

    seq: int
    at: datetime
    subject: str
    run: int
    kind: str
    facts: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Counts:
    """What `doctor` and the live view count in one read."""

    polls: Mapping[str, int]
    operations: Mapping[str, int]
    deliveries: Mapping[str, int]
    open_escalations: int
    overdue: int
    """Due for longer than a lease and a minute: nobody works on it."""
    oldest_overdue_at: datetime | None
    suppressed_duplicates: int
    last_claim_at: datetime | None
