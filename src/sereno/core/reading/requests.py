"""Requests: reads the calls of a contract: status, submit, cancel, what is kept, and where a job moves to."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta

from sereno.core.reading.calls import (
    Call,
    Cancel,
    Duplicate,
    Handover,
    Idempotency,
    Keep,
    KeepFrom,
    KeyForm,
    KeyPlace,
    Submit,
    Via,
)
from sereno.core.reading.document import Table
from sereno.core.reading.judged import read_path, read_statuses, read_tests, word_of
from sereno.core.reading.judging import CompilePath, FieldTest
from sereno.core.reading.templates import INPUT
from sereno.core.reading.timing import read_positive

STATUS_METHODS = ("GET", "HEAD", "POST")
SEND_METHODS = ("POST", "PUT", "PATCH", "DELETE")
KEEP_METHODS = ("GET", "POST")
ERAS = ("2025-11-25", "extension")
SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token"})
MOST_KEPT = 1_000_000_000_000
"""Bytes: more than any result, fewer than any mistake."""
USUALLY_KEPT = 100_000_000
MOST_SEGMENTS = 50
"""Segments of an address's path that a job id may be behind."""

HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", re.ASCII)
HEADER_VALUE = re.compile(r"[\x20-\x7e]{0,1000}", re.ASCII)
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,100}/(?:\*|[a-z0-9!#$&^_.+-]{1,100})", re.ASCII)
_PLACE = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*", re.ASCII)
_CREDENTIAL = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)

_HTTP_KEYS = ("method", "url", "headers", "body", "redirects")
_FOREIGN: Mapping[Via, Sequence[str]] = {
    Via.HTTP: ("service", "operation", "era"),
    Via.AWS: ("method", "url", "headers", "redirects", "era"),
    Via.MCP: ("method", "headers", "body", "redirects", "service"),
    Via.PUSH: (*_HTTP_KEYS, "service", "operation", "era"),
}
"""What means nothing in the calls of each kind."""


def read_status(table: Table) -> tuple[Via, Call]:
    """Reads `[status]`: who carries the call, and the call."""
    via = Via(table.one_of("via", tuple(Via), Via.HTTP))
    method = table.one_of("method", STATUS_METHODS, "GET")
    call = _read_call(table, method, url_required=via in (Via.HTTP, Via.MCP))
    operation, service, era = call.operation, call.service, None
    if table.has("era") or via is Via.MCP:
        era = table.one_of("era", ERAS)
    if via is Via.AWS:
        service, operation = table.text("service"), table.text("operation")
        _check_input(table)
    if via is Via.MCP:
        operation = table.text("operation", "tasks/get")
    if via is Via.HTTP and call.body is not None and method != "POST":
        table.fault("body", f"cannot go with {method}", 'write method = "POST"')
    _refuse(table, _FOREIGN[via], via)
    method = method if via is Via.HTTP else "POST"
    return via, Call(method, call.url, call.headers, call.body, service, operation, era)


def _check_input(table: Table) -> None:
    if not isinstance(table.values.get("body"), dict):
        table.fault("body", "must be a table: the input of the operation")


def read_credential(table: Table) -> str | None:
    """Reads the usual name of the credential."""
    found = table.optional_text("credential")
    if found is not None and not _CREDENTIAL.fullmatch(found):
        table.fault("credential", "must be the name of a credential: letters, digits and _ . -, at most 64", "never its value")
        return None
    return found


def _read_call(table: Table, method: str, *, url_required: bool) -> Call:
    """Reads what all calls have, and leaves it to the caller to refuse the keys of other kinds."""
    url = table.text("url") if url_required else table.optional_text("url")
    headers = read_headers(table.table("headers"))
    body, operation, service = table.json("body"), table.optional_text("operation"), table.optional_text("service")
    return Call(method, url or "", headers, body, service, operation)


def _refuse(table: Table, keys: Sequence[str], via: Via) -> None:
    for key in keys:
        if table.has(key):
            table.fault(key, f'means nothing with via = "{via}"')


def read_headers(table: Table) -> Mapping[str, str]:
    """Reads a table of headers: plain texts; a header that carries a secret is refused."""
    found: dict[str, str] = {}
    for name in table.values:
        value = table.text(name)
        if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
            table.fault(name, "is not a header of plain ASCII text")
        elif name.lower() in SECRET_HEADERS:
            table.fault(name, "carries a secret", "leave it out and name a credential (account) when you wait")
        found[name] = value
    return found


def _read_sent(table: Table, via: Via, status: Call, usual: str) -> Call:
    """Reads the request of a submit or cancel. AWS and MCP name an `operation`; a job that calls back is started over HTTP."""
    carried = via if via in (Via.AWS, Via.MCP) else Via.HTTP
    call = _read_call(table, table.one_of("method", SEND_METHODS, "POST"), url_required=carried is Via.HTTP)
    foreign = _FOREIGN[carried] if carried is not Via.MCP else ("method", "headers", "era")
    _refuse(table, [key for key in foreign if key != "redirects"], carried)
    if carried is Via.AWS:
        return Call("POST", "", {}, call.body, call.service or status.service, table.text("operation"))
    if carried is Via.MCP:
        return Call("POST", call.url or status.url, {}, call.body, None, call.operation or usual, status.era)
    return call


def read_submit(table: Table, via: Via, status: Call, compile_path: CompilePath) -> Submit:
    """Reads `[submit]`: how a job is started, and where the answer names it (W31, W21)."""
    call = _read_sent(table, via, status, "tools/call")
    if not table.has("body"):
        call = Call(call.method, call.url, call.headers, INPUT, call.service, call.operation, call.era)
    inner = table.table("parameters")
    parameters = {name: path for name in inner.values if (path := read_path(inner, name, compile_path)) is not None}
    idempotency = _read_idempotency(table.table("idempotency")) if table.has("idempotency") else None
    duplicate, tests = _read_duplicate(table, idempotency, compile_path)
    submit = Submit(
        call=call,
        accepts=read_statuses(table, "accepts", ("2xx",)),
        effects=table.text("effects"),
        job_id=read_path(table, "job_id", compile_path),
        job_id_header=table.optional_text("job_id_header"),
        job_id_segment=table.whole("job_id_segment", least=-MOST_SEGMENTS, most=MOST_SEGMENTS),
        job_id_from=read_path(table, "job_id_from", compile_path),
        status_url=read_path(table, "status_url", compile_path),
        status_url_header=table.optional_text("status_url_header"),
        parameters=parameters,
        idempotency=idempotency,
        duplicate=duplicate,
        duplicate_tests=tests,
        first=read_positive(table, "first"),
    )
    _check_naming(table, idempotency)
    return submit


def _check_naming(table: Table, idempotency: Idempotency | None) -> None:
    """A job without a name cannot be waited for: exactly one place says its id, one its address."""
    chosen = idempotency is not None and idempotency.place is KeyPlace.JOB_ID
    ids = [key for key in ("job_id", "job_id_header") if key in table.values]
    addresses = [key for key in ("status_url", "status_url_header") if key in table.values]
    told = "job_id_from" in table.values
    if not ids and not addresses and not chosen and not told:
        says = "say where the answer names the job: job_id, job_id_header, status_url or status_url_header; or job_id_from"
        table.fault("job_id", "is missing", says)
    for pair in (ids, addresses):
        if len(pair) == 2:
            table.fault(pair[1], f"and {pair[0]} exclude each other")
    if "job_id_segment" in table.values and not ids:
        table.fault("job_id_segment", "means nothing without job_id or job_id_header, which give the address")
    for key in (*ids, *(["job_id_from"] if told else [])) if chosen else ():
        table.fault(key, 'means nothing with idempotency.place = "job_id": the caller chooses the id')


def _read_idempotency(table: Table) -> Idempotency:
    place = KeyPlace(table.one_of("place", tuple(KeyPlace)))
    name = table.text("name")
    if place is KeyPlace.HEADER and name and (not HEADER_NAME.fullmatch(name) or name.lower() in SECRET_HEADERS):
        table.fault("name", "is not the name of a header that may carry a key")
    if place is KeyPlace.BODY and name and not _PLACE.fullmatch(name):
        table.fault("name", "must be a dotted place in the body, such as parameters.key")
    if place is KeyPlace.JOB_ID and name and "{key}" not in name:
        table.fault("name", "must say how the answer's id is built from {key}")
    if not table.has("duplicate"):
        says = "is missing: what does the provider do with a key that it has seen?"
        table.fault(
            "duplicate", says, '"replay": it answers with the first job again; "reject": it refuses, as [submit.duplicate] says'
        )
    duplicate = Duplicate(table.one_of("duplicate", tuple(Duplicate), Duplicate.REPLAY))
    if not table.has("window"):
        table.fault("window", "is missing: how long the provider keeps keys")
    form = KeyForm(table.one_of("form", tuple(KeyForm), KeyForm.PLAIN))
    return Idempotency(place, name, duplicate, read_positive(table, "window") or timedelta(0), form)


def _read_duplicate(
    table: Table, idempotency: Idempotency | None, compile_path: CompilePath
) -> tuple[list[str], list[FieldTest]]:
    rejects = idempotency is not None and idempotency.duplicate is Duplicate.REJECT
    if not table.has("duplicate"):
        if rejects:
            table.fault("duplicate", 'is missing: how does the provider say "there is one already"?')
        return [], []
    inner = table.table("duplicate")
    if not rejects:
        table.fault("duplicate", 'means nothing without idempotency.duplicate = "reject"')
    if not inner.has("status"):
        inner.fault("status", "is missing")
    return read_statuses(inner, "status"), read_tests(inner, compile_path)


def read_cancel(table: Table, via: Via, status: Call, *, caseless: bool) -> Cancel:
    """Reads `[cancel]`: how the provider documents cancelling; nothing sends it by itself (W24)."""
    ends_as = word_of(table.scalar("ends_as"))
    if via is Via.AWS:
        _check_input(table)
    return Cancel(
        call=_read_sent(table, via, status, "tasks/cancel"),
        effects=table.text("effects"),
        accepts=read_statuses(table, "accepts", ("2xx",)),
        too_late=read_statuses(table, "too_late", ("404", "409")),
        repeatable=table.flag("repeatable"),
        ends_as=ends_as.lower() if caseless and ends_as is not None else ends_as,
    )


def read_keep(table: Table, compile_path: CompilePath) -> Keep:
    """Reads `[result.keep]`: what is copied to own storage on success (W30)."""
    source = KeepFrom(table.one_of("from", tuple(KeepFrom), KeepFrom.ANSWER))
    path = read_path(table, "path", compile_path)
    call = None
    method = table.one_of("method", KEEP_METHODS, "GET")
    if source is KeepFrom.CALL:
        call = _read_call(table, method, url_required=True)
        if call.body is not None and method != "POST":
            table.fault("body", f"cannot go with {method}", 'write method = "POST"')
    else:
        for key in ("method", "url", "headers", "body"):
            if table.has(key):
                table.fault(key, 'means nothing without from = "call"')
    if source is KeepFrom.URL and "path" not in table.values:
        table.fault("path", "is missing: where does the answer name the addresses?")
    most = table.whole("max_bytes", least=1, most=MOST_KEPT) or USUALLY_KEPT
    types = table.texts("types")
    for index, kind in enumerate(types):
        if kind.strip() and not _MEDIA_TYPE.fullmatch(kind):
            table.fault(f"types[{index}]", "must be a media type in lower case, such as application/json or image/*")
    credential = table.flag("credential")
    if credential and source is KeepFrom.ANSWER:
        table.fault("credential", 'means nothing with from = "answer": nothing is fetched')
    return Keep(source, path, call, most, types, credential)


def read_handovers(tables: Sequence[Table], compile_path: CompilePath) -> list[Handover]:
    """Reads `[[handover]]`: where an answer says that the job goes on under another address."""
    found = []
    for table in tables:
        path, header = read_path(table, "path", compile_path), table.optional_text("header")
        if ("header" in table.values) == ("path" in table.values):
            table.fault("header", "or path: give exactly one of them")
        found.append(Handover(path, header, table.optional_text("url")))
    return found
