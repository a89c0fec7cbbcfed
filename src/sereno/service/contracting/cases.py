"""Contract cases: recorded or scripted answers with what a contract must make of them, run through the reader that real waits use.

A cases file is TOML: `[[case]]` for answers to looks, `[[submit]]` for answers to submits, `[[cancel]]` for the request of a cancel and
answers to it. docs/how-to/contracts.md describes it.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import cast

from sereno.core.budget import Allowance, Spend
from sereno.core.call import CallAnswer, CallKind, CallState, ProviderCall
from sereno.core.contract import Contract, Meaning, fill_body, fill_call, status_url
from sereno.core.errors import Fault, SetupError
from sereno.core.observation import Asked, DelaySource, HttpReply, Observation, read_observation
from sereno.core.operation import Operation, OperationState
from sereno.core.reading.document import UNDECIDED, Table
from sereno.core.values import Json, canonical, format_duration, parse_duration
from sereno.core.waiting.answering import read_call

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
"""When every answer of a case arrives, so that instants in it can be written down."""
HOST = "https://service.example"
"""Stands in for the host of a service that has no fixed address."""
JOB = "job-1"
"""The job id of a case that names none."""
AFTER = timedelta(seconds=60)
"""How long after its start a case's job is looked at, where the case does not say."""
_ALL_KEYS = ("name", "parameters", "answer", "expect")
_KEYS = {
    "case": (*_ALL_KEYS, "job_id", "url", "after", "not_found", "tolerated", "pins"),
    "submit": (*_ALL_KEYS, "key", "input"),
    "cancel": (*_ALL_KEYS, "job_id", "request"),
}
_SHOWN = {
    "case": (
        *("kind", "state", "reason", "wait", "result_ref", "error_code", "error_text", "next_url", "tolerated", "expires_at"),
        "requests",
    ),
    "submit": ("outcome", "job_id", "url", "reason"),
    "cancel": ("outcome", "reason"),
}
"""What `expect` may name."""

Case = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases of one file."""

    looks: Sequence[Case]
    submits: Sequence[Case]
    caller: Mapping[str, Json]
    """`[caller]`: the states (and `state`, the path) with which a contract is tried whose states the caller gives."""
    cancels: Sequence[Case] = ()


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of one case: what it expects and the reading does not show; none = as expected."""

    name: str
    part: str
    """`case`, `submit` or `cancel`."""
    kind: str
    state: str | None
    reason: str
    differences: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of a file of cases."""

    tried: Sequence[Tried]
    missing: Sequence[str]
    """Words of the contract that no case shows: claims that nothing tests."""
    untried_submit: bool
    """The contract says how to submit, and no case shows an answer to it."""
    untried_cancel: bool = False
    """The contract says how to cancel, and no case shows the request."""


def read_cases(text: str, file: str) -> Cases:
    """Reads a cases file. Raises SetupError with every fault: no TOML, a case without a name, answer or expectation, an unknown key."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SetupError("the cases cannot be read", [Fault(file, f"is not TOML: {str(error)[:300]}")]) from None
    top = Table(document)
    found = {part: _read_part(top, part) for part in ("case", "submit", "cancel")}
    top.json("caller")
    top.finish()
    if top.faults:
        faults = [Fault(f"{file}: {fault.where}", fault.message, fault.hint) for fault in top.faults]
        raise SetupError(f"{file} has faults", faults)
    caller = document.get("caller", {})
    given = cast(Mapping[str, Json], caller if isinstance(caller, dict) else {})
    return Cases(found["case"], found["submit"], given, found["cancel"])


def _read_part(top: Table, part: str) -> Sequence[Case]:
    names: list[str] = []
    tables = top.tables(part)
    for table in tables:
        names.append(name := table.text("name"))
        if name and name in names[:-1]:
            table.fault("name", f"{name[:80]!r} is there already")
        for key in _KEYS[part]:
            table.has(key)
        if "after" in table.values:
            table.duration("after")
        for key in ("parameters", "pins"):
            table.texts_of(key)
        if part == "cancel":
            _read_request(table)
        if part != "cancel" or table.has("answer") or table.has("expect"):
            _read_answer(table.table("answer"))
            _read_expected(table.table("expect"), part)
    return [cast(Case, table.values) for table in tables]


def _read_request(case: Table) -> None:
    """What a cancel sends, whole; or what its answer means; or both."""
    request = case.table("request")
    for key in ("method", "url", "operation"):
        request.optional_text(key)
    request.json("body")
    if not any(case.has(key) for key in ("request", "answer", "expect")):
        case.fault(
            "request", "is missing: what must be sent?", "name method, url and body, or operation and body; or give an answer"
        )


def _read_answer(answer: Table) -> None:
    if answer.whole("status", least=100, most=599) is None and "status" not in answer.values:
        answer.fault("status", "is missing: the HTTP status of the answer")
    answer.texts_of("headers")
    if answer.has("json") and answer.has("body"):
        answer.fault("body", "and json exclude each other")
    if answer.has("body") and not isinstance(answer.values["body"], str):
        answer.fault("body", "must be a text: the body as it was sent")


def _read_expected(expect: Table, part: str) -> None:
    for key in _SHOWN[part]:
        expect.has(key)
    if not expect.values:
        expect.fault("", "is missing: what must be made of this answer?", f"name one or more of {', '.join(_SHOWN[part])}")


def run_cases(contract: Contract, cases: Cases) -> Trial:
    """Reads the answer of every case through the contract, and says what differs from what it expects."""
    looks = [_tried_look(contract, case) for case in cases.looks]
    submits = [_tried_submit(contract, case) for case in cases.submits]
    cancels = [_tried_cancel(contract, case) for case in cases.cancels]
    shown = {(tried.state or "").lower() if contract.caseless else tried.state for tried in looks}
    missing = [word for word in contract.states if word not in shown]
    untried = contract.submit is not None and not submits, contract.cancel is not None and not cancels
    return Trial([*looks, *submits, *cancels], missing, *untried)


def _tried_look(contract: Contract, case: Case) -> Tried:
    name = str(case["name"])
    try:
        seen = look(contract, case)
    except ValueError as error:
        return Tried(name, "case", "", None, "", [f"cannot be tried: {error}"])
    return Tried(
        name,
        "case",
        seen.kind.value,
        seen.state,
        seen.reason,
        [*differences(seen, case["expect"]), *_too_late(contract, case, seen)],
    )


def _too_late(contract: Contract, case: Case, seen: Observation) -> Iterator[str]:
    """Says why a case that wants a job not to be found yet is not read so: without `after` it comes when the grace may be over."""
    wanted = cast(Mapping[str, Json], case["expect"]).get("kind")
    if wanted != Meaning.NOT_FOUND_YET.value or wanted == seen.kind.value or "after" in case:
        return
    grace = [one.grace for one in contract.signatures if one.meaning is Meaning.NOT_FOUND_YET and one.grace is not None]
    if grace and max(grace) <= AFTER:
        yield f'the answer comes {format_duration(AFTER)} after the start where the case does not say: add after = "5s" to the case'


def _tried_submit(contract: Contract, case: Case) -> Tried:
    name = str(case["name"])
    if contract.submit is None:
        return Tried(name, "submit", "", None, "", ["the contract has no [submit]"])
    try:
        seen = submitted(contract, case)
    except ValueError as error:
        return Tried(name, "submit", "", None, "", [f"cannot be tried: {error}"])
    return Tried(name, "submit", seen.outcome.value, None, seen.reason, list(submit_differences(seen, case["expect"])))


def _tried_cancel(contract: Contract, case: Case) -> Tried:
    name = str(case["name"])
    try:
        request, seen = cancelled(contract, case)
    except ValueError as error:
        return Tried(name, "cancel", "", None, "", [f"cannot be tried: {error}"])
    found = list(cancel_differences(request, seen, case))
    return Tried(name, "cancel", "" if seen is None else seen.outcome.value, None, "" if seen is None else seen.reason, found)


def texts(table: Json) -> dict[str, str]:
    """A table of texts, numbers written as JSON writes them; None is an empty one."""
    return {key: str(value) for key, value in table.items()} if isinstance(table, dict) else {}


def address(contract: Contract, case: Case) -> str:
    """What was asked: the case's own address, or the contract's. Raises ValueError where a value is missing."""
    if "url" in case:
        return str(case["url"])
    parameters = texts(case.get("parameters"))
    base = parameters.pop("base", HOST if contract.status.url.startswith("{base}") else None)
    return status_url(contract, job_id=str(case.get("job_id", JOB)), parameters=parameters, base=base)


def reply_of(answer: Json, url: str) -> HttpReply:
    """The answer as it came. A body without a content type is JSON."""
    given = cast(Mapping[str, Json], answer)
    body = canonical(given["json"]) if "json" in given else str(given.get("body", "")).encode()
    headers = texts(given.get("headers"))
    if body and all(name.lower() != "content-type" for name in headers):
        headers["content-type"] = "application/json"
    return HttpReply(cast(int, given["status"]), list(headers.items()), body, url, timedelta(seconds=1))


def look(contract: Contract, case: Case) -> Observation:
    """Reads the answer of a case. Raises ValueError where the case leaves out a value that the address needs."""
    url = address(contract, case)
    asked = Asked(
        job_id=str(case.get("job_id", JOB)),
        started_at=NOW - parse_duration(str(case.get("after", format_duration(AFTER)))),
        url=url,
        parameters=texts(case.get("parameters")),
        not_found=int(str(case.get("not_found", 0))),
        tolerated=int(str(case.get("tolerated", 0))),
        pins=texts(case.get("pins")),
    )
    return read_observation(contract, asked, reply_of(case["answer"], url), received_at=NOW)


def submitted(contract: Contract, case: Case) -> CallAnswer:
    """Reads the answer to a submit. Raises ValueError where the contract has none, or a value is missing."""
    if contract.submit is None:
        raise ValueError("the contract has no [submit]")
    template, key, parameters = contract.submit.call.url, str(case.get("key", "sub_01")), texts(case.get("parameters"))
    if template.startswith("{base}"):
        parameters.setdefault("base", HOST)
    values = {"key": key, **{name: value for name, value in parameters.items() if name != "base"}}
    url = fill_call(contract, contract.submit.call, values, base=parameters.get("base")).url if template else HOST
    call = ProviderCall("op_1:submit", CallKind.SUBMIT, "op_1:submit", key, case.get("input"), CallState.SENDING, NOW)
    operation = waiting(contract, parameters, call=call)
    return read_call(contract, operation, call, reply_of(case["answer"], url), received_at=NOW)


def cancelled(contract: Contract, case: Case) -> tuple[Case, CallAnswer | None]:
    """The request of a cancel, and how its answer is read where the case has one. Raises ValueError where the contract has no cancel, or
    a value is missing.
    """
    if contract.cancel is None:
        raise ValueError("the contract has no [cancel]")
    job_id, parameters, template = str(case.get("job_id", JOB)), texts(case.get("parameters")), contract.cancel.call
    if template.url.startswith("{base}"):
        parameters.setdefault("base", HOST)
    values = {"job_id": job_id, **{name: value for name, value in parameters.items() if name != "base"}}
    request: dict[str, Json] = {} if template.operation is None else {"operation": template.operation}
    filled = fill_call(contract, template, values, base=parameters.get("base")) if template.url else None
    if filled is not None:
        request |= {"url": filled.url} if template.operation is not None else {"method": filled.method, "url": filled.url}
    if template.body is not None:
        request["body"] = fill_body(template, values, None)
    if "answer" not in case:
        return request, None
    call = ProviderCall("op_1:cancel-1", CallKind.CANCEL, "op_1:cancel-1", "op_1:cancel-1", None, CallState.SENDING, NOW)
    operation = replace(waiting(contract, parameters, job_id=job_id), call=call)
    reply = reply_of(case["answer"], HOST if filled is None else filled.url)
    return request, read_call(contract, operation, call, reply, received_at=NOW)


def cancel_differences(request: Case, seen: CallAnswer | None, case: Case) -> Iterator[str]:
    """What a case expects of a cancel, and is not so. A request is compared whole: a body that the case does not name is none."""
    if "request" in case and request != case["request"]:
        yield f"request: {canonical(cast(Json, request)).decode()} instead of {canonical(case['request']).decode()}"
    if seen is not None:
        yield from submit_differences(seen, case["expect"])


def waiting(
    contract: Contract,
    parameters: Mapping[str, str],
    *,
    started_at: datetime = NOW,
    job_id: str = "",
    call: ProviderCall | None = None,
) -> Operation:
    """A wait as it would be stored, under the contract's limits; with a call, one that is to be submitted."""
    limits = contract.limits
    usual = Allowance(started_at + timedelta(hours=1), None, 10, 3, 3)
    return Operation(
        id="op_1",
        workspace="main",
        contract=contract.name,
        contract_digest=contract.digest,
        account="",
        job_id=job_id,
        url="",
        parameters=parameters,
        fingerprint="f" * 64,
        state=OperationState.WAITING if call is None else OperationState.SUBMITTING,
        revision=1,
        allowance=usual if limits is None else limits.starting(started_at),
        spend=Spend(status_requests=1 if call is None else 0),
        pool="",
        created_at=started_at,
        next_poll_at=started_at,
        delay_source=DelaySource.CONTRACT_SCHEDULE,
        call=call,
    )


def wait(seen: Observation) -> str | None:
    """The longest wait that the answer asks for."""
    spans = [hint.until - NOW for hint in seen.hints if hint.until is not None]
    return f"{max(spans).total_seconds():g}s" if spans else None


def differences(seen: Observation, wanted: Json) -> Iterator[str]:
    """What a case expects and the reading does not show."""
    shown: Mapping[str, Json] = {
        "kind": seen.kind.value,
        "state": seen.state,
        "result_ref": seen.result_ref,
        "error_code": seen.error_code,
        "error_text": seen.error_text,
        "next_url": seen.next_url,
        "tolerated": seen.tolerated,
        "expires_at": seen.expires_at.isoformat() if seen.expires_at else None,
        "requests": seen.requests,
    }
    for key, value in cast(Mapping[str, Json], wanted).items():
        if key == "wait":
            if parse_duration(str(value)) != parse_duration(wait(seen) or "0s"):
                yield f"wait: {wait(seen)} instead of {value}"
        else:
            yield from _difference(key, value, shown.get(key), seen.reason)


def submit_differences(seen: CallAnswer, wanted: Json) -> Iterator[str]:
    """The same for the answer to a submit or cancel."""
    shown: Mapping[str, Json] = {"outcome": seen.outcome.value, "job_id": seen.job_id, "url": seen.url}
    for key, value in cast(Mapping[str, Json], wanted).items():
        yield from _difference(key, value, shown.get(key), seen.reason)


def _difference(key: str, wanted: Json, shown: Json, reason: str) -> Iterator[str]:
    if isinstance(wanted, str) and wanted.startswith(UNDECIDED):
        yield f"{key} is still to be decided: Sereno reads {shown!r} ({reason})"
    elif key == "reason":
        if str(wanted) not in reason:
            yield f"reason: {wanted!r} is no part of {reason!r}"
    elif shown != wanted:
        yield f"{key}: {shown!r} instead of {wanted!r} ({reason})"
