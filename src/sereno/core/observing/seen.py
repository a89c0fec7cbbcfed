"""Seen: replies of the transport, and what they amount to once read. Import them from `sereno.core.observation`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from sereno.core.contract import Meaning
from sereno.core.quick import quick


@quick
@dataclass(frozen=True, slots=True)
class HttpReply:
    """A complete HTTP answer, within all caps. `body` is decoded (content encoding removed), ≤ the size cap.

    `url` is the address that answered, without query and credentials; `hops` counts the requests that left (≥ 1).
    """

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes
    url: str
    elapsed: timedelta
    hops: int = 1

    def header(self, name: str) -> str | None:
        """The first header of that name, any case, or None."""
        wanted = name.lower()
        length = len(name)
        for key, value in self.headers:  # a plain loop: asked for several headers of each reply
            if len(key) == length and key.lower() == wanted:
                return value
        return None

    @property
    def content_type(self) -> str:
        """The media type in lower case without parameters, or an empty text."""
        return (self.header("content-type") or "").split(";")[0].strip().lower()


class NoReplyKind(StrEnum):
    """Why there is no complete answer."""

    REFUSED_ADDRESS = "refused_address"
    """The egress gate refused: nothing left."""
    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    RESET = "reset"
    TIMEOUT = "timeout"
    TOO_LARGE = "too_large"
    TOO_SLOW = "too_slow"
    BAD_ENCODING = "bad_encoding"
    PROTOCOL = "protocol"
    REDIRECT = "redirect"
    """A redirect that was not allowed, too many of them, or a hop that no budget was left for."""
    NO_CREDENTIAL = "no_credential"
    """The credential is missing, unreadable, or bound to another origin: nothing left."""
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class NoReply:
    """No complete answer. `sent` is False only where it is certain that no byte of a request left (W33); `status` is the HTTP
    status where headers had come (a redirect, a body over the cap)."""

    kind: NoReplyKind
    message: str
    sent: bool
    elapsed: timedelta = timedelta(0)
    status: int | None = None
    hops: int = 0


Reply = HttpReply | NoReply


class DelaySource(StrEnum):
    """Where the next planned time came from (W26)."""

    PROVIDER_RETRY_AFTER = "provider_retry_after"
    PROVIDER_POLL_HINT = "provider_poll_hint"
    LOCAL_BACKOFF = "local_backoff"
    CONTRACT_SCHEDULE = "contract_schedule"
    MANUAL_EXTENSION = "manual_extension"


@dataclass(frozen=True, slots=True)
class ReadHint:
    """A hint as found: the instant it asks for, or why it was rejected (recorded either way, W07)."""

    source: DelaySource
    raw: str
    until: datetime | None
    rejected: str | None = None


class ObservationKind(StrEnum):
    """What an answer amounts to, before limits are looked at."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    NEEDS_INPUT = "needs_input"
    PARTIAL = "partial"
    RESULT_EXPIRED = "result_expired"
    UNKNOWN_STATE = "unknown_state"
    CONTRADICTION = "contradiction"
    INTEGRATION_FAILURE = "integration_failure"
    AUTHORIZATION_DENIED = "authorization_denied"
    THROTTLED = "throttled"
    TRANSPORT = "transport"
    NOT_FOUND_YET = "not_found_yet"
    UNKNOWN_OPERATION = "unknown_operation"
    NOT_SENT = "not_sent"
    """Certain that nothing left: the reservation is given back."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A status answer read through the contract. All texts are redacted and cut (state ≤ 200, error ≤ 2,000 characters)."""

    kind: ObservationKind
    state: str | None = None
    http_status: int | None = None
    reason: str = ""
    """One sentence: why this kind."""
    hints: Sequence[ReadHint] = ()
    result_ref: str | None = None
    error_code: str | None = None
    error_text: str | None = None
    progress: str | None = None
    provider_request_id: str | None = None
    expires_at: datetime | None = None
    requests: int = 1
    tolerated: bool = False
    """Counts as pending only because the contract's own count allows it (`settle_checks`, `expiry_checks`, `Rule.checks`)."""
    pins: Mapping[str, str] = field(default_factory=dict)
    """The pinned fields as this answer has them, by path expression."""
    next_url: str | None = None
    """The status address of the next looks, where this answer hands the job over."""

    @property
    def meaning(self) -> Meaning | None:
        """The contract's word where the kind is one of its words."""
        return Meaning(self.kind.value) if self.kind.value in Meaning._value2member_map_ else None


@dataclass(frozen=True, slots=True)
class Asked:
    """What the reading of an answer depends on besides the answer: what was asked, and what earlier answers left behind."""

    job_id: str
    started_at: datetime
    """The operation's registration, or its accepted submit."""
    url: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    not_found: int = 0
    """404s in a row before this one (for grace)."""
    tolerated: int = 0
    """Answers in a row before this one that a count of the contract let pass."""
    pins: Mapping[str, str] = field(default_factory=dict)
