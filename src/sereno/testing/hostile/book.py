"""The provider's book: every request that reached it, job by job and submit by submit. All instants are the provider's own clock."""

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(slots=True)
class Request:
    """One request that reached the provider, and what became of its answer."""

    number: int
    """Sent back as `x-request-id`; the journal keeps it as `provider_request_id` where the answer was committed."""
    kind: str
    """`look`, `submit` or `cancel`."""
    process: str
    """The life of the process that sent it; "" where there is but one."""
    at: datetime
    """When its first byte arrived."""
    host_at: datetime
    """The wall clock of the asker's database at that instant, which may be years away from true time."""
    ref: str
    """The operation it is about, as the provider knows it."""
    job: str = ""
    """The job that was asked for, or that the submit started or named."""
    fault: str | None = None
    """The fault that struck; None = the answer was honest."""
    stops: bool = False
    """After this answer nothing may be asked before a person has answered (W38)."""
    tolerable: bool = False
    """The contract lets an answer like this pass a few times in a row; then it stops."""
    ends_as: str | None = None
    """The true end of the job, where this answer told it whole."""
    doubt: bool = False
    """The answer leaves open whether a submit or cancel was taken on."""
    took: bool = False
    """A submit really started a job; a cancel really reached a job that was running."""
    key: str = ""
    """The idempotency key of a submit, as sent."""
    body: bytes = b""
    status: int | None = None
    """The HTTP status of the answer; None = there was no whole answer."""
    answered: datetime | None = None
    """When the answer, or the news that there is none, was there for the process; None = the process did not live to see it."""
    waits_until: datetime | None = None
    """No request about this before that instant: a Retry-After in the answer that can be believed (I4)."""
    wait: str | None = None
    """The kind of Retry-After in the answer, believable or not."""


Look = Request


@dataclass(slots=True)
class Job:
    """One job with its page in the book."""

    id: str
    ref: str
    ends_at: datetime
    word: str
    """The state it ends in; `running` = it never ends."""
    hostility: float
    """Share of its looks that are answered with a fault, where no plan says when faults strike."""
    started: datetime | None = None
    looks: list[Request] = field(default_factory=list)
    waits: list[tuple[datetime, datetime]] = field(default_factory=list)
    """(answered, until): a Retry-After that can be believed, and the instant before which no request may come."""
    cancels: list[Request] = field(default_factory=list)
    """Cancels that arrived, those that were refused with a 429 as well."""
    cancelled: list[datetime] = field(default_factory=list)
    """Cancels that may have been taken."""
    named_for: list[str] = field(default_factory=list)
    """References of other operations whose submit was answered with this job's id, against the truth (`job of another`): where the
    operation that had it is over by then, such an operation looks at it as well."""
    lasting: tuple[str, int] | None = None
    """A fault that goes on for so many looks more."""


@dataclass(slots=True)
class Ordered:
    """One operation's submits in the book."""

    ref: str
    keys: set[str] = field(default_factory=set)
    bodies: set[bytes] = field(default_factory=set)
    arrivals: list[datetime] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    """The jobs that were really started."""
    under: dict[str, list[str]] = field(default_factory=dict)
    """Those of them that were started under a key, by key: who submits anew does so under a new one."""
    doubt: datetime | None = None
    """When an answer was first lost: whoever honours no keys may not be asked again after it."""
    waits: list[tuple[datetime, datetime]] = field(default_factory=list)
    broke: bool = False
    """The provider itself started a second job under one key: no fault of the caller's."""
