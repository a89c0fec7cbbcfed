"""Looks: reads the answer to a status request through the contract, in the one order that W01 to W18 ask for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sereno.core.contract import Contract, Meaning, fill_text, word_of
from sereno.core.delay import SPANS, read_span
from sereno.core.observing.hints import read_hints, request_id
from sereno.core.observing.moving import next_address, without_base
from sereno.core.observing.seen import Asked, HttpReply, NoReply, NoReplyKind, Observation, ObservationKind, Reply
from sereno.core.reading.answer import (
    STATE_CHARS,
    TEXT_CHARS,
    Body,
    classify,
    clean,
    find_condition,
    find_signature,
    read_body,
    read_instant,
    reference,
    result_problem,
    settle_signature,
    state_word,
    text_at,
)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What one stage of reading concluded."""

    kind: ObservationKind
    reason: str
    state: str | None = None
    tolerated: bool = False


@dataclass(frozen=True, slots=True)
class _Case:
    """One answer with all that its reading depends on."""

    contract: Contract
    asked: Asked
    reply: HttpReply
    body: Body
    received_at: datetime


def read_observation(contract: Contract, asked: Asked, reply: Reply, *, received_at: datetime) -> Observation:
    """Reads a reply through the contract: order = no reply, contract signatures, 401/403, 429, conditions on the status, 404/410,
    5xx, other 4xx, 3xx, body parse, identity (W05), state, rules, result fields (W04), expiry, hand-over. Never raises for anything
    a provider can send.

    Retry-After is read on any status (W13). `requests` of the observation is what really left: 0 gives the reservation back (W33).
    """
    if isinstance(reply, NoReply):
        return _without_reply(contract, reply)
    case = _Case(contract, asked, reply, read_body(reply.body, reply.content_type), received_at)
    verdict = _by_signature(case) or _by_status(case) or _by_body(case)
    return _observed(case, verdict)


def read_pushed(contract: Contract, asked: Asked, *, body: bytes, content_type: str, received_at: datetime) -> Observation:
    """Reads what a provider called back with, as if it were a 200 answer that cost no request (for a contract without a status call)."""
    reply = HttpReply(200, [("content-type", content_type)], body, asked.url, timedelta(0))
    return replace(read_observation(contract, asked, reply, received_at=received_at), http_status=None, requests=0)


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
    return Observation(kind, http_status=reply.status, reason=missing(reply), requests=requests)


def missing(reply: NoReply) -> str:
    """Says why there is no complete answer, and whether anything left."""
    sent = "" if reply.sent else "; nothing was sent"
    return f"no complete answer ({reply.kind.value}): {clean(reply.message, 500)}{sent}"


def _by_signature(case: _Case) -> _Verdict | None:
    found = find_signature(case.contract, case.reply.status, case.reply.header, case.body.value)
    if found is None:
        return None
    meaning = settle_signature(found, waited=case.received_at - case.asked.started_at, not_found=case.asked.not_found)
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
    if _state_of_status(case):
        return None
    if status in (404, 410):
        return _Verdict(ObservationKind.UNKNOWN_OPERATION, f"HTTP {status}: the provider does not know this job")
    if status >= 500 or status in (408, 425):
        return _Verdict(ObservationKind.TRANSPORT, f"HTTP {status}: no answer about the job" + _page(case.body))
    if not 200 <= status < 300:
        says = "a redirect that the contract does not follow" if 300 <= status < 400 else "the contract does not name this answer"
        return _Verdict(ObservationKind.INTEGRATION_FAILURE, f"HTTP {status}: {says}")
    return None


def _state_of_status(case: _Case) -> bool:
    """True where the contract itself reads a state out of this status, other than a plain 2xx."""
    if case.contract.state.kind == "http":
        return str(case.reply.status) in case.contract.states
    met = find_condition(case.contract, case.reply.status, case.body)
    return met is not None and met.http is not None


def _page(body: Body) -> str:
    return " (an HTML page)" if body.html else ""


def _by_body(case: _Case) -> _Verdict:
    status = case.reply.status
    if problem := _body_problem(case):
        return _Verdict(ObservationKind.INTEGRATION_FAILURE, f"HTTP {status}, but {problem}")
    if other := _identity(case) or _pinned(case):
        return other
    word = state_word(case.contract, status, case.body)
    if word is None:
        return _Verdict(ObservationKind.INTEGRATION_FAILURE, f"HTTP {status}, but no state where the contract names it")
    state = clean(word, STATE_CHARS)
    meaning, counted = classify(case.contract, word, case.body.value, tolerated=case.asked.tolerated)
    if meaning is None:
        return _Verdict(ObservationKind.UNKNOWN_STATE, f"the contract does not know the state {state!r}", state)
    return replace(_judged(case, meaning, f"the state {state!r} means {meaning.value}", counted), state=state)


def _body_problem(case: _Case) -> str | None:
    """Why the body cannot be read (W37). Where the HTTP status is the state, a body that is not JSON may be the result itself."""
    body, status = case.body, case.reply.status
    if status == 206:
        return "it is only a part of the answer"
    if case.contract.state.kind == "path" or (case.contract.state.kind == "conditions" and not _state_of_status(case)):
        return body.problem
    if status >= 300 or case.contract.status.method == "HEAD":
        return None
    if body.empty:
        return body.problem if status == 200 else None
    broken = body.problem is not None and "json" in case.reply.content_type
    return body.problem if broken or body.html else None


def _identity(case: _Case) -> _Verdict | None:
    """An answer about another job is a contradiction, one that does not name its job cannot be used (W05); where the status itself is
    the state, there may be no body to name it."""
    path, asked = case.contract.job_id, case.asked
    if path is None or (case.body.value is None and _state_of_status(case)):
        return None
    named = word_of(path.search(case.body.value))
    if named is None:
        if not 200 <= case.reply.status < 300:
            return None
        return _Verdict(ObservationKind.INTEGRATION_FAILURE, f"the answer does not say which job it is about ({path.expression})")
    if named != fill_text(case.contract.job_id_is, {**without_base(asked.parameters), "job_id": asked.job_id}):
        return _Verdict(ObservationKind.CONTRADICTION, f"the answer is about another job: {clean(named, STATE_CHARS)!r}")
    return None


def _pinned(case: _Case) -> _Verdict | None:
    """A pinned field that is not what it was: another attempt, or another thing under the same name."""
    found = _pins(case)
    for name, was in case.asked.pins.items():
        if name in found and found[name] != was:
            says = f"{name} was {was!r} and is now {found[name]!r}: this is not the same job any more"
            return _Verdict(ObservationKind.CONTRADICTION, says)
    return None


def _pins(case: _Case) -> Mapping[str, str]:
    found = {path.expression: text_at(path, case.body.value, STATE_CHARS) for path in case.contract.pins}
    return {name: text for name, text in found.items() if text is not None}


def _judged(case: _Case, meaning: Meaning, says: str, counted: bool) -> _Verdict:
    """Success without its result, and pending after the job's own expiry, contradict themselves (W04), unless the contract's count
    still lets them pass; pending may hand the job over to another address."""
    contract, before = case.contract, case.asked.tolerated
    if meaning is Meaning.SUCCESS and (problem := result_problem(contract, case.body.value)):
        return _counted(f"success without its result: {problem}", before, contract.settle_checks)
    if meaning is Meaning.PENDING:
        until, problem = _expiry(case)
        if problem is not None:
            return _Verdict(ObservationKind.INTEGRATION_FAILURE, problem)
        if until is not None and until <= case.received_at:
            return _counted(f"still pending after its own expiry {until.isoformat()}", before, contract.expiry_checks)
        if problem := _next(case)[1]:
            return _Verdict(ObservationKind.CONTRADICTION, problem)
        return _Verdict(ObservationKind.PENDING, says, tolerated=counted)
    return _Verdict(ObservationKind(meaning.value), says)


def _counted(says: str, before: int, allowed: int) -> _Verdict:
    if before < allowed:
        shown = f"{says}; the contract lets that pass {allowed} times in a row, this is number {before + 1}"
        return _Verdict(ObservationKind.PENDING, shown, tolerated=True)
    return _Verdict(ObservationKind.CONTRADICTION, says)


def _expiry(case: _Case) -> tuple[datetime | None, str | None]:
    """When the job itself ends: as the answer says it, or created + ttl (a null ttl is no limit); or why that cannot be read."""
    contract, body = case.contract, case.body.value
    if contract.expires is not None:
        named = contract.expires.search(body)
        until = read_instant(named)
        if named is not None:
            return until, None if until is not None else f"{contract.expires.expression} is not an instant"
    if contract.created is None or contract.ttl is None:
        return None, None
    born, lasts = contract.created.search(body), contract.ttl.search(body)
    if born is None or lasts is None:
        return None, None
    created, span = read_instant(born), read_span(lasts, SPANS[contract.ttl_unit])
    if created is None:
        return None, f"{contract.created.expression} is not an instant"
    if span is None:
        return None, f"{contract.ttl.expression} is not a duration"
    try:
        return created + span, None
    except OverflowError:
        return None, None


def _next(case: _Case) -> tuple[str | None, str | None]:
    """The address of the next looks, or why the one that the answer names is refused."""
    try:
        return next_address(case.contract, case.asked, case.reply, case.body.value), None
    except ValueError as error:
        return None, f"the answer hands the job over, but {clean(str(error), 300)}"


def _observed(case: _Case, verdict: _Verdict) -> Observation:
    contract, reply, body = case.contract, case.reply, case.body.value
    good = verdict.kind in (ObservationKind.SUCCESS, ObservationKind.PENDING)
    return Observation(
        verdict.kind,
        state=verdict.state,
        http_status=reply.status,
        reason=verdict.reason,
        hints=read_hints(contract, reply, body, verdict.kind.value, case.received_at),
        result_ref=_result_ref(case) if verdict.kind in (ObservationKind.SUCCESS, ObservationKind.PARTIAL) else None,
        error_code=None if good else text_at(contract.error_code, body, STATE_CHARS),
        error_text=None if good else text_at(contract.error_text, body, TEXT_CHARS),
        progress=text_at(contract.progress, body, STATE_CHARS),
        provider_request_id=request_id(reply),
        expires_at=_expiry(case)[0],
        requests=max(1, reply.hops),
        tolerated=verdict.tolerated,
        pins=_pins(case) if verdict.state is not None else {},
        next_url=_next(case)[0] if verdict.kind is ObservationKind.PENDING else None,
    )


def _result_ref(case: _Case) -> str | None:
    """The place of the result: the contract's field, else its header, else the address that answered, where there is one."""
    named = text_at(case.contract.result_ref, case.body.value, TEXT_CHARS)
    header = case.reply.header(case.contract.result_header) if case.contract.result_header else None
    found = named or header or case.reply.url or case.asked.url
    return reference(found) if found else None
