"""Terms: the types a contract is made of (W03). Import them from `sereno.core.contract`, which also reads documents.

Path expressions are JMESPath; compiling them is handed in, since the core knows only the standard library.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from sereno.core.budget import Limits
from sereno.core.values import Json

FORMAT = 0


class Path(Protocol):
    """A compiled path expression over JSON."""

    @property
    def expression(self) -> str:
        """The text it was compiled from."""
        ...

    def search(self, value: Json) -> Json:
        """Finds the value, or None where there is none."""
        ...


CompilePath = Callable[[str], Path]
"""Raises ValueError with the reason for a bad expression."""


class Meaning(StrEnum):
    """What a state word or an HTTP signature means."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    NEEDS_INPUT = "needs_input"
    PARTIAL = "partial"
    # never a word of the state table, only from rules:
    CONTRADICTION = "contradiction"
    # only from HTTP signatures:
    NOT_FOUND_YET = "not_found_yet"
    UNKNOWN_OPERATION = "unknown_operation"
    THROTTLED = "throttled"
    TRANSPORT = "transport"
    INTEGRATION_FAILURE = "integration_failure"


STATE_MEANINGS = (
    Meaning.PENDING,
    Meaning.SUCCESS,
    Meaning.FAILURE,
    Meaning.CANCELLED,
    Meaning.EXPIRED,
    Meaning.NEEDS_INPUT,
    Meaning.PARTIAL,
)
"""What a word of the state table can mean."""

RULE_MEANINGS = (*STATE_MEANINGS, Meaning.CONTRADICTION)
"""What a rule can make of a word."""

SIGNATURE_MEANINGS = tuple(meaning for meaning in Meaning if meaning not in (Meaning.SUCCESS, Meaning.CONTRADICTION))
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


@dataclass(frozen=True, slots=True)
class Signature:
    """What an HTTP status (or a class like `5xx`) means, optionally only where `path` or `header` is there, or equals `value`."""

    status: str
    meaning: Meaning
    path: Path | None = None
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
    """Where the state comes from: a path; two paths (`path` + `second`, joined as `first/second`); or the HTTP status.

    A boolean or number is written as JSON writes it (`true`, `10`); an absent field is `absent` when `absent_is` says so.
    """

    kind: str
    """`path`, or `http`: the status is the word (`202`)."""
    path: Path | None = None
    second: Path | None = None
    absent: str | None = None
    """The word an absent or null `path` counts as (e.g. `false` for Google's `done`); None = a missing state stops."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Classifies further after a word: if `path` is present (and equals `value` where given), the word means `meaning`."""

    word: str
    path: Path
    meaning: Meaning
    value: Json = None
    has_value: bool = False
    absent: bool = False
    """True: the rule holds when the path is absent or null."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """How the provider documents cancelling, and what it does."""

    method: str
    url: str
    effects: str


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
    method: str
    url: str
    """URL template of the status call; `{job_id}` and named parameters, each percent-encoded when filled."""
    headers: Mapping[str, str]
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

    @property
    def takes_states(self) -> bool:
        """True for a generic contract whose states the caller gives."""
        return bool(self.document.get("states_from_caller"))
