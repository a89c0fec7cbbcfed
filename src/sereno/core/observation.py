"""Observations: what came back, read through a contract. Facts of the transport and facts of the job are kept apart (W01)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from sereno.core.contract import Contract, Meaning, word_of
from sereno.core.delay import read_hint, read_retry_after
from sereno.core.quick import quick
from sereno.core.reading.answer import (
    STATE_CHARS,
    TEXT_CHARS,
    Body,
    classify,
    clean,
    find_signature,
    read_body,
    read_instant,
    reference,
    result_problem,
    settle_signature,
    state_word,
    text_at,
)
from sereno.core.values import canonical


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


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What one stage of reading concluded."""

    kind: ObservationKind
    reason: str
    state: str | None = None


@dataclass(frozen=True, slots=True)
class _Case:
    """One answer with all that its reading depends on."""

    contract: Contract
    job_id: str
    reply: HttpReply
    body: Body
    received_at: datetime
    started_at: datetime
    not_found: int


def read_observation(
    contract: Contract, job_id: str, reply: Reply, *, received_at: datetime, started_at: datetime, not_found: int
) -> Observation:
    """Reads a reply through the contract: order = no reply, contract signatures, 401/403, 429, 404/410, 5xx, other 4xx, 3xx,
    body parse, identity (W05), state, rules, result fields (W04), expiry. Never raises for anything a provider can send.

    `started_at` is the operation's registration and `not_found` the 404s in a row before this one (for grace). Retry-After is
    read on any status (W13). `requests` of the observation is what really left: 0 gives the reservation back (W33).
    """
    if isinstance(reply, NoReply):
        return _without_reply(contract, reply)
    case = _Case(contract, job_id, reply, read_body(reply.body, reply.content_type), received_at, started_at, not_found)
    verdict = _by_signature(case) or _by_status(case) or _by_body(case)
    return _observed(case, verdict)


_SET_UP: Mapping[NoReplyKind, ObservationKind] = {
    # Looping cannot mend these: a person has to change the set-up.
    NoReplyKind.REFUSED_ADDRESS: ObservationKind.INTEGRATION_FAILURE,
    NoReplyKind.NO_CREDENTIAL: ObservationKind.AUTHORIZATION_DENIED,
}
_HEADERS_SAY: Mapping[int, ObservationKind] = {
    401: ObservationKind.AUTHORIZATION_DENIED,
    403: ObservationKind.AUTHORIZATION_DENIED,
    429: ObservationKind.THROTTLED,
}


def _without_reply(contract: Contract, reply: NoReply) -> Observation:
    """Classifies a missing answer. Where nothing left (DNS, connect, TLS), `requests` is 0 and the reservation is given back (W33)."""
    requests = max(1, reply.hops) if reply.sent else 0
    kind = _SET_UP.get(reply.kind, ObservationKind.TRANSPORT if reply.sent else ObservationKind.NOT_SENT)
    if reply.kind is NoReplyKind.REDIRECT and not contract.redirects:
        kind = ObservationKind.INTEGRATION_FAILURE
    elif reply.status is not None:
        kind = _HEADERS_SAY.get(reply.status, kind)
    sent = "" if reply.sent else "; nothing was sent"
    reason = f"no complete answer ({reply.kind.value}): {clean(reply.message, 500)}{sent}"
    return Observation(kind, http_status=reply.status, reason=reason, requests=requests)


def _by_signature(case: _Case) -> _Verdict | None:
    found = find_signature(case.contract, case.reply.status, case.reply.header, case.body.value)
    if found is None:
        return None
    meaning = settle_signature(found, waited=case.received_at - case.started_at, not_found=case.not_found)
    says = f"HTTP {case.reply.status} is {meaning.value} by the contract"
    if found.meaning is Meaning.NOT_FOUND_YET and meaning is not found.meaning:
        says += ", since the time in which a new job may not be found is over"
    return _Verdict(ObservationKind(meaning.value), says)


def _by_status(case: _Case) -> _Verdict | None:
    """What the HTTP status alone decides; None where the body (or the contract's own table of statuses) has to be read."""
    status = case.reply.status
    if status in _HEADERS_SAY:
        says = "the request was refused" if status != 429 else "too many requests"
        return _Verdict(_HEADERS_SAY[status], f"HTTP {status}: {says}")
    if case.contract.state.kind == "http" and str(status) in case.contract.states:
        return None
    if status in (404, 410):
        return _Verdict(ObservationKind.UNKNOWN_OPERATION, f"HTTP {status}: the provider does not know this job")
    if status >= 500 or status in (408, 425):
        return _Verdict(ObservationKind.TRANSPORT, f"HTTP {status}: no answer about the job" + _page(case.body))
    if not 200 <= status < 300:
        says = "a redirect that the contract does not follow" if 300 <= status < 400 else "the contract does not name this answer"
        return _Verdict(ObservationKind.INTEGRATION_FAILURE, f"HTTP {status}: {says}")
    return None


def _page(body: Body) -> str:
    return " (an HTML page)" if body.html else ""


def _by_body(case: _Case) -> _Verdict:
    status = case.reply.status
    if problem := _body_problem(case):
        return _Verdict(ObservationKind.INTEGRATION_FAILURE, f"HTTP {status}, but {problem}")
    if other := _identity(case):
        return other
    word = state_word(case.contract.state, status, case.body.value)
    if word is None:
        return _Verdict(ObservationKind.INTEGRATION_FAILURE, f"HTTP {status}, but no state where the contract names it")
    state = clean(word, STATE_CHARS)
    meaning = classify(case.contract, word, case.body.value)
    if meaning is None:
        return _Verdict(ObservationKind.UNKNOWN_STATE, f"the contract does not know the state {state!r}", state)
    if against := _contradiction(case, meaning):
        return replace(against, state=state)
    return _Verdict(ObservationKind(meaning.value), f"the state {state!r} means {meaning.value}", state)


def _body_problem(case: _Case) -> str | None:
    """Why the body cannot be read (W37). Where the HTTP status is the state, a body that is not JSON may be the result itself."""
    body, status = case.body, case.reply.status
    if status == 206:
        return "it is only a part of the answer"
    if case.contract.state.kind == "path":
        return body.problem
    if status >= 300 or case.contract.method == "HEAD":
        return None
    if body.empty:
        return body.problem if status == 200 else None
    broken = body.problem is not None and "json" in case.reply.content_type
    return body.problem if broken or body.html else None


def _identity(case: _Case) -> _Verdict | None:
    path = case.contract.job_id
    if path is None or (case.contract.state.kind == "http" and case.body.value is None):
        return None
    named = word_of(path.search(case.body.value))
    if named is None:
        return _Verdict(ObservationKind.INTEGRATION_FAILURE, f"the answer does not say which job it is about ({path.expression})")
    if named != case.job_id:
        return _Verdict(ObservationKind.CONTRADICTION, f"the answer is about another job: {clean(named, STATE_CHARS)!r}")
    return None


def _contradiction(case: _Case, meaning: Meaning) -> _Verdict | None:
    """Success without its result, or pending after the job's own expiry (W04)."""
    if meaning is Meaning.SUCCESS and (problem := result_problem(case.contract, case.body.value)):
        return _Verdict(ObservationKind.CONTRADICTION, f"success without its result: {problem}")
    if meaning is not Meaning.PENDING or case.contract.expires is None:
        return None
    named = case.contract.expires.search(case.body.value)
    until = read_instant(named)
    if named is not None and until is None:
        return _Verdict(ObservationKind.INTEGRATION_FAILURE, f"{case.contract.expires.expression} is not an instant")
    if until is not None and until <= case.received_at:
        return _Verdict(ObservationKind.CONTRADICTION, f"still pending after its own expiry {until.isoformat()}")
    return None


REQUEST_ID_HEADERS = (
    "x-request-id",
    "request-id",
    "x-github-request-id",
    "x-amzn-requestid",
    "x-amz-request-id",
    "x-ms-request-id",
    "apim-request-id",
    "x-goog-request-id",
    "x-correlation-id",
    "x-trace-id",
    "cf-ray",
)


def _observed(case: _Case, verdict: _Verdict) -> Observation:
    contract, reply, body = case.contract, case.reply, case.body.value
    good = verdict.kind in (ObservationKind.SUCCESS, ObservationKind.PENDING)
    request_id = next((found for name in REQUEST_ID_HEADERS if (found := reply.header(name))), None)
    return Observation(
        verdict.kind,
        state=verdict.state,
        http_status=reply.status,
        reason=verdict.reason,
        hints=_hints(case, verdict.kind),
        result_ref=_result_ref(case) if verdict.kind in (ObservationKind.SUCCESS, ObservationKind.PARTIAL) else None,
        error_code=None if good else text_at(contract.error_code, body, STATE_CHARS),
        error_text=None if good else text_at(contract.error_text, body, TEXT_CHARS),
        progress=text_at(contract.progress, body, STATE_CHARS),
        provider_request_id=clean(request_id, STATE_CHARS) if request_id else None,
        expires_at=read_instant(contract.expires.search(body)) if contract.expires is not None else None,
        requests=max(1, reply.hops),
    )


def _result_ref(case: _Case) -> str:
    """The place of the result: the contract's field, else its header, else the address that answered."""
    named = text_at(case.contract.result_ref, case.body.value, TEXT_CHARS)
    header = case.reply.header(case.contract.result_header) if case.contract.result_header else None
    return reference(named or header or case.reply.url)


def _hints(case: _Case, kind: ObservationKind) -> Sequence[ReadHint]:
    """Retry-After on any status, then the contract's own hints that count in an answer of this kind (W07, W13)."""
    found = []
    raw = case.reply.header("retry-after")
    if raw is not None:
        until = read_retry_after(raw, received_at=case.received_at, date_header=case.reply.header("date"))
        found.append(_hint(DelaySource.PROVIDER_RETRY_AFTER, raw, until))
    for hint in case.contract.hints:
        value = case.reply.header(hint.header) if hint.header else hint.path.search(case.body.value) if hint.path else None
        if value is None or (hint.only is not None and hint.only.value != kind.value):
            continue
        until = read_hint(value, hint.unit, received_at=case.received_at, cap=case.contract.hint_cap)
        found.append(_hint(DelaySource.PROVIDER_POLL_HINT, word_of(value) or canonical(value).decode(), until))
    return found


def _hint(source: DelaySource, raw: str, until: datetime | str) -> ReadHint:
    shown = clean(raw, STATE_CHARS)
    return ReadHint(source, shown, None, clean(until, STATE_CHARS)) if isinstance(until, str) else ReadHint(source, shown, until)
