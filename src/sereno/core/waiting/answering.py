"""Calls: reads the answer to a submit or a cancel through the contract: was it taken on, and which job is it (W15, W24, W31)?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import unquote, urlsplit

from sereno.core.call import CallAnswer, CallKind, CallOutcome, ProviderCall
from sereno.core.contract import (
    Contract,
    KeyPlace,
    Meaning,
    Path,
    Submit,
    fill_text,
    origin_of,
    sent_key,
    status_url,
    word_of,
)
from sereno.core.observing.hints import read_hints, request_id
from sereno.core.observing.look import missing
from sereno.core.observing.moving import BASE, allowed_address, without_base
from sereno.core.observing.seen import HttpReply, NoReply, NoReplyKind, Reply
from sereno.core.reading.answer import STATE_CHARS, TEXT_CHARS, Body, all_hold, clean, find_signature, fits, read_body, text_at
from sereno.core.reading.templates import CALLER_URL
from sereno.core.waiting.lifecycle import Operation


@dataclass(frozen=True, slots=True)
class _Named:
    """The job as an answer names it."""

    job_id: str
    url: str
    parameters: Mapping[str, str]


def read_call(contract: Contract, operation: Operation, call: ProviderCall, reply: Reply, *, received_at: datetime) -> CallAnswer:
    """Reads a reply to a submit or a cancel. Never raises for anything a provider can send.

    Only what the contract lists says that it was taken on. 401, 403, 429 and every other 4xx but 408 say that nothing was done; all
    that is left (5xx, 408, 3xx, a 2xx that is not listed, no complete answer) may have been done.
    """
    if isinstance(reply, NoReply):
        return _without_reply(reply)
    body = read_body(reply.body, reply.content_type)
    answer = _outcome(contract, call, reply, body)
    if call.kind is CallKind.SUBMIT and answer.outcome in (CallOutcome.ACCEPTED, CallOutcome.DUPLICATE):
        answer = _with_job(contract, operation, call, answer, reply, body)
    taken = answer.outcome in (CallOutcome.ACCEPTED, CallOutcome.DUPLICATE)
    kind = "throttled" if answer.outcome is CallOutcome.THROTTLED else "pending"
    return replace(
        answer,
        http_status=reply.status,
        hints=read_hints(contract, reply, body.value, kind, received_at),
        error_code=None if taken else text_at(contract.error_code, body.value, STATE_CHARS),
        error_text=None if taken else text_at(contract.error_text, body.value, TEXT_CHARS),
        provider_request_id=request_id(reply),
        requests=max(1, reply.hops),
    )


def _without_reply(reply: NoReply) -> CallAnswer:
    """No complete answer: certain that nothing left, or it may have been done, unless headers had come that say it was not."""
    outcome = CallOutcome.UNKNOWN
    if not reply.sent:
        set_up = {NoReplyKind.NO_CREDENTIAL: CallOutcome.DENIED, NoReplyKind.REFUSED_ADDRESS: CallOutcome.REFUSED}
        outcome = set_up.get(reply.kind, CallOutcome.NOT_SENT)
    elif reply.status is not None:
        outcome = _by_status(reply.status)
    return CallAnswer(outcome, missing(reply), reply.status, requests=max(1, reply.hops) if reply.sent else 0)


def _by_status(status: int) -> CallOutcome:
    """What a status says that the contract does not list."""
    if status in (401, 403):
        return CallOutcome.DENIED
    if status == 429:
        return CallOutcome.THROTTLED
    return CallOutcome.REFUSED if 400 <= status < 500 and status != 408 else CallOutcome.UNKNOWN


_SAYS = {
    CallOutcome.DENIED: "the request was refused",
    CallOutcome.THROTTLED: "too many requests",
    CallOutcome.REFUSED: "the provider does not want this request; nothing was done",
    CallOutcome.UNKNOWN: "whether it was done is not known",
}


def _outcome(contract: Contract, call: ProviderCall, reply: HttpReply, body: Body) -> CallAnswer:
    submit, cancel, status = contract.submit, contract.cancel, reply.status
    accepts: Sequence[str]
    too_late: Sequence[str]
    if call.kind is CallKind.SUBMIT and submit is not None:
        if any(fits(status, one) for one in submit.duplicate) and all_hold(submit.duplicate_tests, body.value):
            return CallAnswer(CallOutcome.DUPLICATE, f"HTTP {status}: there is one already")
        accepts, too_late = submit.accepts, ()
    elif call.kind is CallKind.CANCEL and cancel is not None:
        accepts, too_late = cancel.accepts, cancel.too_late
    else:
        return CallAnswer(CallOutcome.UNKNOWN, f"HTTP {status}: the contract has no [{call.kind}]")
    if any(fits(status, one) for one in accepts):
        return CallAnswer(CallOutcome.ACCEPTED, f"HTTP {status}: taken on")
    if any(fits(status, one) for one in too_late):
        return CallAnswer(CallOutcome.TOO_LATE, f"HTTP {status}: it has ended, or cannot be cancelled any more")
    outcome = _by_signature(contract, reply, body, _by_status(status))
    return CallAnswer(outcome, f"HTTP {status}: {_SAYS[outcome]}")


_REFUSALS = {Meaning.THROTTLED: CallOutcome.THROTTLED, Meaning.AUTHORIZATION_DENIED: CallOutcome.DENIED}


def _by_signature(contract: Contract, reply: HttpReply, body: Body, outcome: CallOutcome) -> CallOutcome:
    """Which kind of refusal it is, as `[[http]]` tells it; only where the status says already that nothing was done."""
    if outcome not in (CallOutcome.REFUSED, CallOutcome.DENIED):
        return outcome
    found = find_signature(contract, reply.status, reply.header, body.value)
    return outcome if found is None else _REFUSALS.get(found.meaning, outcome)


def _with_job(
    contract: Contract, operation: Operation, call: ProviderCall, answer: CallAnswer, reply: HttpReply, body: Body
) -> CallAnswer:
    """Adds the job to an answer that took the submit on. Without a job that can be looked at, it cannot be waited for."""
    assert contract.submit is not None, "only a contract with [submit] is submitted"
    try:
        job = _job(contract, contract.submit, operation, call, reply, body)
    except ValueError as error:
        why = clean(str(error), 300)
        if answer.outcome is CallOutcome.DUPLICATE:
            return replace(answer, reason=f"{answer.reason}, but the answer does not say which: {why}")
        return replace(answer, outcome=CallOutcome.UNREADABLE, reason=f"{answer.reason}, but no job can be read: {why}")
    return replace(answer, job_id=job.job_id, url=job.url, parameters=job.parameters)


def _job(contract: Contract, submit: Submit, operation: Operation, call: ProviderCall, reply: HttpReply, body: Body) -> _Named:
    """The job that an answer names. Raises ValueError saying what is missing or not allowed."""
    caller = operation.parameters
    learned = {name: _found(path, body, f"the parameter {name}") for name, path in submit.parameters.items()}
    parameters = {**without_base(caller), **learned}
    kept = {BASE: caller[BASE]} if BASE in caller else {}
    address, job_id = _address(submit, reply, body), _job_id(submit, call, parameters, reply, body)
    if address is None and job_id is not None and contract.status.url == CALLER_URL and BASE not in caller:
        address = job_id
    if address is not None:
        url = allowed_address(contract, address, reply.url)
        named = url if job_id is None or job_id == address else job_id
        return _Named(named, url, {**parameters, **kept})
    if job_id is None:
        raise ValueError("the contract does not say where the job is named")
    url = status_url(contract, job_id=job_id, parameters=parameters, base=caller.get(BASE))
    if url and origin_of(url) not in (origin_of(reply.url), *contract.origins, *map(origin_of, kept.values())):
        raise ValueError(f"the status address is of another origin: {origin_of(url)}")
    return _Named(job_id, url, {**parameters, **kept})


def _address(submit: Submit, reply: HttpReply, body: Body) -> str | None:
    if submit.status_url_header is not None:
        return _header(reply, submit.status_url_header)
    return _found(submit.status_url, body, "the status address") if submit.status_url is not None else None


def _job_id(submit: Submit, call: ProviderCall, parameters: Mapping[str, str], reply: HttpReply, body: Body) -> str | None:
    """The job's id as named in the body or a header, else in the request, or as the caller chose it."""
    idempotency, key = submit.idempotency, sent_key(submit.idempotency, call.key)
    if idempotency is not None and idempotency.place is KeyPlace.JOB_ID:
        return fill_text(idempotency.name, {**parameters, "key": key})
    try:
        return _named_by_answer(submit, reply, body)
    except ValueError:
        if submit.job_id_from is None:
            raise
    asked: dict[str, object] = {"key": key, "input": call.input}
    return _found(submit.job_id_from, Body(asked), "the job id")


def _named_by_answer(submit: Submit, reply: HttpReply, body: Body) -> str | None:
    """The job's id as the answer names it; None where it is said to name none. Raises ValueError."""
    if submit.job_id is not None:
        found = _found(submit.job_id, body, "the job id")
    elif submit.job_id_header is not None:
        found = _header(reply, submit.job_id_header)
    elif submit.job_id_from is not None:
        raise ValueError("only the request names the job")
    else:
        return None
    return found if submit.job_id_segment is None else _segment(found, submit.job_id_segment)


def _segment(address: str, place: int) -> str:
    """One segment of an address's path, decoded; empty ones do not count."""
    segments = [unquote(segment) for segment in urlsplit(address).path.split("/") if segment]
    try:
        return segments[place]
    except IndexError:
        raise ValueError(f"there is no path segment {place} in {clean(address, STATE_CHARS)!r}") from None


def _found(path: Path, body: Body, what: str) -> str:
    found = word_of(path.search(body.value))
    if not found or len(found) > TEXT_CHARS:
        where = f"{what} is not at {path.expression}"
        raise ValueError(f"{where}: {body.problem}" if body.problem else where)
    return found


def _header(reply: HttpReply, name: str) -> str:
    found = reply.header(name)
    if not found or not found.strip() or len(found) > TEXT_CHARS:
        raise ValueError(f"there is no header {name}")
    return found.strip()
