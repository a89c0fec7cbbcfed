"""Calls: the requests a contract describes (status, submit, cancel, result) as templates, and who carries them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from sereno.core.reading.judging import FieldTest, Path
from sereno.core.values import Json


class Via(StrEnum):
    """Who carries the status call."""

    HTTP = "http"
    """One HTTP request, as the contract writes it."""
    AWS = "aws"
    """An operation of an AWS service: botocore builds, signs and parses, the gate sends. The answer is read as JSON."""
    MCP = "mcp"
    """`tasks/get` of an MCP server over streamable HTTP. The answer is the JSON-RPC response."""
    PUSH = "push"
    """There is no status call: the provider calls back. Zero requests, a deadline only."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request as a template. In `url` each `{name}` is percent-encoded as one piece; in header and body texts it is put in as it
    is. Names: `job_id`, the contract's parameters; in a submit `key` and, as a whole text, `{input}`; where stated `value`.

    `body` is JSON whose texts are templates; None sends none. For `via = "aws"` it is the operation's input.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Json = None
    service: str | None = None
    """AWS: the service's botocore name, e.g. `athena`."""
    operation: str | None = None
    """AWS: the operation's name, e.g. `GetQueryExecution`; MCP: the method, e.g. `tasks/get`."""
    era: str | None = None
    """MCP: `2025-11-25`, or `extension` for `io.modelcontextprotocol/tasks`."""


class Duplicate(StrEnum):
    """What a provider does with a submit whose idempotency key it has seen."""

    REPLAY = "replay"
    """Answers as the first time."""
    REJECT = "reject"
    """Answers that there is one already (`Submit.duplicate`)."""


class KeyPlace(StrEnum):
    """Where a submit carries its idempotency key."""

    HEADER = "header"
    BODY = "body"
    JOB_ID = "job_id"
    """The caller chooses the job's id: the key is the id."""


class KeyForm(StrEnum):
    """How a key has to be written. It follows from our key, so that the same key is always sent as the same text."""

    PLAIN = "plain"
    """As it is: 1 to 200 letters, digits and `. _ : / -`."""
    UUID = "uuid"
    """36 characters."""
    DASHED = "dashed"
    """1 to 63 lower-case letters, digits and inner hyphens: a name, such as those of Kubernetes."""
    HEX32 = "hex32"
    """32 hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class Idempotency:
    """How the provider honours a key (W21). `window` is how long it keeps keys: nothing is sent again after it."""

    place: KeyPlace
    name: str
    """Header name; or dotted place in the body (`parameters.idempotency_key`); for `job_id` the template `{key}` says where."""
    duplicate: Duplicate
    window: timedelta
    form: KeyForm = KeyForm.PLAIN


@dataclass(frozen=True, slots=True)
class Submit:
    """How a job is started (W31)."""

    call: Call
    accepts: Sequence[str]
    """HTTP statuses that say: taken on (`200`, `2xx`)."""
    effects: str
    """What submitting does and may cost, for the person who reads it."""
    job_id: Path | None = None
    """Where the answer names the job; one of the four, or `Idempotency` with place `job_id`."""
    job_id_header: str | None = None
    """A header whose whole value is the job id, or (where `status.url` is the job id) the status URL."""
    job_id_segment: int | None = None
    """Where set: `job_id` or `job_id_header` gives an address, and this segment of its path is the id; -1 is the last."""
    job_id_from: Path | None = None
    """Where the request itself says the id, in `{"key": …, "input": …}`: for answers that do not name it. The key is as it was sent."""
    status_url: Path | None = None
    """Where the answer names the status address itself (W15)."""
    status_url_header: str | None = None
    parameters: Mapping[str, Path] = field(default_factory=dict)
    """Parameters of the status call that only the answer knows."""
    idempotency: Idempotency | None = None
    duplicate: Sequence[str] = ()
    """HTTP statuses that say: this key or id was taken on before; may be narrowed by `duplicate_tests`."""
    duplicate_tests: Sequence[FieldTest] = ()
    first: timedelta | None = None
    """First look after the submit's answer; None = `Delays.first`."""


class KeepFrom(StrEnum):
    """Where the result that matters is."""

    ANSWER = "answer"
    """In the status answer itself; `path` picks a part."""
    URL = "url"
    """At one or more addresses that the status answer names at `path`."""
    CALL = "call"
    """Behind a second call."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Which result is copied to own storage on success (W30). The status is read anew for it, so that short-lived addresses are
    fresh and none is ever stored."""

    source: KeepFrom
    path: Path | None = None
    call: Call | None = None
    """For CALL: may use `{value}`, which is what `path` finds."""
    max_bytes: int = 100_000_000
    types: Sequence[str] = ()
    """Accepted media types (`image/png`, `image/*`); empty = any."""
    credential: bool = False
    """Send the account's credential along; only ever to the status call's origin or `origins` of the contract."""


@dataclass(frozen=True, slots=True)
class Handover:
    """Where an answer says that the job goes on under another status address (Jenkins queue item → build, a `Location` that changes).

    The new address must be of the same origin or one of the contract's. The hand-over holds for the looks after this answer.
    """

    path: Path | None = None
    header: str | None = None
    url: str | None = None
    """Template with `{value}`; None = the value is the whole address."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """How the provider documents cancelling, and what it does (W24, W40)."""

    call: Call
    effects: str
    accepts: Sequence[str] = ("2xx",)
    """HTTP statuses that say: taken on."""
    too_late: Sequence[str] = ("404", "409")
    """HTTP statuses that say: it has ended, or cannot be cancelled any more. The next look tells."""
    repeatable: bool = False
    """True where the provider documents that asking twice does no harm: only then is it sent again after a lost answer."""
    ends_as: str | None = None
    """The word that a cancelled job ends with, where it is not of the cancelled words (AWS Batch: FAILED). Once a cancel was taken on,
    this word means cancelled."""
