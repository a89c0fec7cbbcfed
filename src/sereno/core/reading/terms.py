"""Terms: the types a contract is made of (W03). Import them from `sereno.core.contract`, which also reads documents.

The requests of a contract are in `calls`, its paths and tests in `judging`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from sereno.core.budget import Limits
from sereno.core.reading.calls import Call, Cancel, Handover, Keep, Submit, Via
from sereno.core.reading.judging import FieldTest, Path
from sereno.core.values import Json

FORMAT = 1
OLDEST_FORMAT = 0
"""Documents of format 0 mean the same in format 1, so an operation that pins one goes on."""


class Meaning(StrEnum):
    """What a state word or an HTTP signature means."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    NEEDS_INPUT = "needs_input"
    PARTIAL = "partial"
    RESULT_EXPIRED = "result_expired"
    """The job succeeded, but what it made is gone at the provider."""
    # never a word of the state table, only from rules:
    CONTRADICTION = "contradiction"
    UNKNOWN_STATE = "unknown_state"
    """What a word falls back to once a rule's own count is used up."""
    # only from HTTP signatures:
    NOT_FOUND_YET = "not_found_yet"
    UNKNOWN_OPERATION = "unknown_operation"
    THROTTLED = "throttled"
    TRANSPORT = "transport"
    INTEGRATION_FAILURE = "integration_failure"
    AUTHORIZATION_DENIED = "authorization_denied"
    """A refusal that comes with another status than 401 and 403 (AWS: `AccessDeniedException` with 400)."""


STATE_MEANINGS = (
    Meaning.PENDING,
    Meaning.SUCCESS,
    Meaning.FAILURE,
    Meaning.CANCELLED,
    Meaning.EXPIRED,
    Meaning.NEEDS_INPUT,
    Meaning.PARTIAL,
    Meaning.RESULT_EXPIRED,
)
"""What a word of the state table can mean."""

CANCELLED_ENDS = (Meaning.FAILURE, Meaning.EXPIRED, Meaning.NEEDS_INPUT)
"""What a word may mean that is the end of a cancelled job all the same (`Cancel.ends_as`)."""

RULE_MEANINGS = (*STATE_MEANINGS, Meaning.CONTRADICTION, Meaning.UNKNOWN_STATE)
"""What a rule can make of a word."""

SIGNATURE_MEANINGS = tuple(meaning for meaning in Meaning if meaning not in (Meaning.SUCCESS, Meaning.UNKNOWN_STATE))
"""What an HTTP signature can mean: never success, which needs a state and a result (W01)."""


@dataclass(frozen=True, slots=True)
class Delays:
    """Backoff of one contract (W06): `raw = min(max, base · 2^n)`; `min_gap` is never undercut (≥ 1 s)."""

    first: timedelta = timedelta(seconds=2)
    base: timedelta = timedelta(seconds=5)
    maximum: timedelta = timedelta(seconds=120)
    min_gap: timedelta = timedelta(seconds=1)
    jitter: str = "half"
    """`half`: uniform in [50 %, 100 %] of raw; `full`: [0, 100 %], still not below `min_gap`."""
    typical: timedelta | None = None


class HintUnit(StrEnum):
    SECONDS = "seconds"
    MILLISECONDS = "milliseconds"
    AT = "at"
    """RFC 3339 text or epoch seconds."""
    HTTP_DATE = "http_date"
    """Any of the three HTTP date forms."""


@dataclass(frozen=True, slots=True)
class Hint:
    """Where the provider says when to look again: a header name or a body path."""

    unit: HintUnit
    header: str | None = None
    path: Path | None = None
    only: Meaning | None = None
    """Where set: counts only in an answer of this meaning (a reset instant that is sent with every answer)."""


@dataclass(frozen=True, slots=True)
class ResultField:
    """A field that success requires: present, not null, not empty, and of the type; `any` accepts every JSON type.

    `alternative` names a group: of the fields in one group at least one must hold.
    """

    path: Path
    type: str = "any"
    """any, string, number, integer, boolean, object, array, url"""
    allow_empty: bool = False
    allow_null: bool = False
    alternative: str | None = None
    when: FieldTest | None = None
    """Where set: required only where this test holds (a null address is legal for an empty result)."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What an HTTP status (or a class like `5xx`) means, optionally only where all `tests` of the body hold, and where `header` is
    there or (`has_value`) equals `value`."""

    status: str
    meaning: Meaning
    tests: Sequence[FieldTest] = ()
    value: Json = None
    grace: timedelta | None = None
    """For not_found_yet: how long after the operation's start; afterwards `then`."""
    grace_checks: int | None = None
    """For not_found_yet: how many in a row."""
    then: Meaning = Meaning.UNKNOWN_OPERATION
    header: str | None = None
    has_value: bool = False


@dataclass(frozen=True, slots=True)
class StateSource:
    """Where the state comes from: a path; two paths (`path` + `second`, joined as `first/second`); the HTTP status; or conditions.

    A boolean or number is written as JSON writes it (`true`, `10`); an absent field is `absent` when `absent_is` says so.
    """

    kind: str
    """`path`; `http`: the status is the word (`202`); `conditions`: the first that holds gives the word."""
    path: Path | None = None
    second: Path | None = None
    absent: str | None = None
    """The word an absent or null `path` counts as (e.g. `false` for Google's `done`); None = a missing state stops."""
    conditions: Sequence["Condition"] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other spellings of words of the table (`cancelled` = "canceled")."""
    steady: int = 1
    """How many answers in a row must say success before it counts: the guard against a provider that flaps."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Gives `word` where the HTTP status fits `http` (None = any 2xx) and all tests hold. A condition with `http` is looked at before
    what the status alone would decide (401, 403 and 429 excepted)."""

    word: str
    http: str | None = None
    tests: Sequence[FieldTest] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """Classifies further after a word: where all tests hold, the word means `meaning`.

    With `checks`, that holds for so many answers in a row only; afterwards the word means `then`.
    """

    word: str
    meaning: Meaning
    tests: Sequence[FieldTest] = ()
    checks: int | None = None
    then: Meaning = Meaning.UNKNOWN_STATE


@dataclass(frozen=True, slots=True)
class Contract:
    """One provider's contract, immutable; an operation pins its `digest`."""

    name: str
    version: int
    digest: str
    title: str
    source: str
    """Where the facts come from (a public page or package version)."""
    verified: str
    """`verified` or `unverified: …` in words."""
    via: Via
    status: Call
    """The status call; `{job_id}` and named parameters are filled in."""
    parameters: Sequence[str]
    """Names that the caller must give beside the job id (for example `owner`, `repo`)."""
    origins: Sequence[str]
    """Allowed origins `https://host[:port]`; empty only for generic contracts: then the origin of the caller's URL."""
    observational: str | None
    """Evidence that the status call changes nothing (W12); None = each request needs a grant."""
    redirects: bool
    state: StateSource
    states: Mapping[str, Meaning]
    caseless: bool
    rules: Sequence[Rule]
    job_id: Path | None
    """Where an answer names its job; compared with `job_id_is` (W05)."""
    result: Sequence[ResultField]
    result_ref: Path | None
    """What to record as the place of the result."""
    error_code: Path | None
    error_text: Path | None
    signatures: Sequence[Signature]
    delays: Delays
    hints: Sequence[Hint]
    hint_cap: timedelta
    limits: Limits | None
    """Defaults; None = the caller must give them (W41)."""
    retention: timedelta | None
    expires: Path | None
    """Absolute expiry of the job itself in the answer."""
    progress: Path | None
    cancel: Cancel | None
    document: Mapping[str, Json] = field(default_factory=dict)
    """The parsed document as stored."""
    allows: str = "read_result"
    """The one action that success allows (W03)."""
    decides_next: str = "person"
    """Who decides when waiting ends without success: `person` or `workflow` (W03)."""
    result_header: str | None = None
    """A header that names the place of the result; it wins over the answer's own address (W15)."""
    retention_from: str = "completion"
    """Whether `retention` counts from the job's `completion` or its `creation`."""
    job_id_is: str = "{job_id}"
    """What an answer's job id must equal, as a template (`projects/{project}/jobs/{job_id}`)."""
    pins: Sequence[Path] = ()
    """Fields that are remembered from the first answer and must not change: attempt counters, unique ids of reused names."""
    handovers: Sequence[Handover] = ()
    submit: Submit | None = None
    keep: Keep | None = None
    settle_checks: int = 0
    """How many answers in a row may say success without the result before that is a contradiction: 0 to 3 (W38)."""
    expiry_checks: int = 0
    """The same for pending after the job's own expiry."""
    created: Path | None = None
    """With `ttl`: expiry = created + ttl, where the answer gives no absolute one."""
    ttl: Path | None = None
    ttl_unit: HintUnit = HintUnit.SECONDS
    credential: str | None = None
    """The NAME of the credential that this provider's accounts usually have here; used where the caller names none and it exists."""
    answer_within: timedelta = timedelta(seconds=10)
    """How long an answer may take at most, as planned: the last look goes out this long before the deadline."""

    @property
    def longest_gap(self) -> timedelta:
        """The longest local pause between two looks: half of what the provider keeps a finished job for, at most `delays.maximum`."""
        if self.retention is None or self.retention_from != "completion":
            return self.delays.maximum
        return max(self.delays.min_gap, min(self.delays.maximum, self.retention / 2))

    @property
    def takes_states(self) -> bool:
        """True for a generic contract whose states the caller gives."""
        return bool(self.document.get("states_from_caller"))
