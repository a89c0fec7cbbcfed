"""Work: what the store hands out whole under a lease, and what both sides of the store agree on."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sereno.core.delivery import Delivery
from sereno.core.operation import Operation
from sereno.core.poll import Poll
from sereno.core.quick import quick

DEFAULT_WORKSPACE = "main"


class Kind(StrEnum):
    """The kinds of claimable work."""

    POLL = "poll"
    DELIVERY = "delivery"
    OPERATION = "operation"


class RunStatus(StrEnum):
    """How a run ended; `running` until it is closed (P06)."""

    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"
    ABANDONED = "abandoned"
    RELEASED = "released"
    """Given back unperformed (drain, lease doubt): nothing was sent."""


@quick
@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on one subject until `until`; `run` is the fence that a commit must match."""

    run: int
    worker: str
    claimed_at: datetime
    """The database's instant of the claim."""
    until: datetime
    revision: int
    """The definition's revision at the claim; a commit under another one creates no effects and decides again."""
    moved: int = 0
    """By how much steps of the database's clock had moved the open waits by then, in microseconds: a commit moves its plan by what
    was added since."""


@quick
@dataclass(frozen=True, slots=True)
class PollWork:
    """One due poll; `attempt` counts the runs this due instant has had (1 = first)."""

    lease: Lease
    poll: Poll
    scheduled_for: datetime
    attempt: int


@dataclass(frozen=True, slots=True)
class DeliveryWork:
    """One due delivery; the attempt is already counted."""

    lease: Lease
    delivery: Delivery


@dataclass(frozen=True, slots=True)
class OperationWork:
    """One due operation step; where it will ask, the request is already counted (`operation.reserved`)."""

    lease: Lease
    operation: Operation


Work = PollWork | DeliveryWork | OperationWork


def subject_of(work: Work) -> str:
    """The id of what the work is about."""
    match work:
        case PollWork():
            return work.poll.id
        case DeliveryWork():
            return work.delivery.id
        case OperationWork():
            return work.operation.id


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """The lease arithmetic of one deployment. `lease >= total_deadline + guard + commit_time` (checked by settings)."""

    lease: timedelta = timedelta(seconds=60)
    total_deadline: timedelta = timedelta(seconds=30)
    guard: timedelta = timedelta(seconds=1)
    commit_time: timedelta = timedelta(seconds=5)
    tick: timedelta = timedelta(seconds=1)

    def problem(self) -> str | None:
        """Says which rule the numbers break, with the arithmetic, or None."""
        need = self.total_deadline + self.guard + self.commit_time
        if self.lease >= need:
            return None
        return (
            f"lease {self.lease.total_seconds():g}s is shorter than total_deadline {self.total_deadline.total_seconds():g}s"
            f" + guard {self.guard.total_seconds():g}s + commit_time {self.commit_time.total_seconds():g}s"
            f" = {need.total_seconds():g}s"
        )


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: taken from the credential or the local shell, never from input."""

    workspace: str = DEFAULT_WORKSPACE
    user: str = "local"
    kind: str = "human"
    """`human`, `agent` or `system`. Only a human grants what W20 lists."""
    scopes: frozenset[str] = frozenset({"*"})
