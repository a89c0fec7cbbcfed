"""Contracts: how one provider behaves, as data (W03). docs/reference/contract-format.md describes the format.

A contract is a TOML document; `parse_contract` turns the parsed table into a `Contract` and lists every fault at once. Path
expressions are JMESPath; compiling them is handed in, since the core knows only the standard library.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite

from sereno.core.errors import Fault
from sereno.core.reading import requests, sections, timing
from sereno.core.reading.address import Filled, fill_body, fill_call, origin_of, status_url
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
from sereno.core.reading.judged import read_path, read_paths, word_of
from sereno.core.reading.judging import CompilePath, FieldTest, JudgeBy, Path
from sereno.core.reading.keyforms import sent_key
from sereno.core.reading.templates import fill_text
from sereno.core.reading.terms import (
    CANCELLED_ENDS,
    FORMAT,
    OLDEST_FORMAT,
    RULE_MEANINGS,
    SIGNATURE_MEANINGS,
    STATE_MEANINGS,
    Condition,
    Contract,
    Delays,
    Hint,
    HintUnit,
    Meaning,
    ResultField,
    Rule,
    Signature,
    StateSource,
)
from sereno.core.reading.whole import check_limits, check_whole
from sereno.core.values import Json, canonical, digest

__all__ = [
    "CANCELLED_ENDS",
    "FORMAT",
    "OLDEST_FORMAT",
    "RULE_MEANINGS",
    "SIGNATURE_MEANINGS",
    "STATE_MEANINGS",
    "Call",
    "Cancel",
    "CompilePath",
    "Condition",
    "Contract",
    "Delays",
    "Duplicate",
    "FieldTest",
    "Filled",
    "Handover",
    "Hint",
    "HintUnit",
    "Idempotency",
    "JudgeBy",
    "Keep",
    "KeepFrom",
    "KeyForm",
    "KeyPlace",
    "Meaning",
    "Path",
    "ResultField",
    "Rule",
    "Signature",
    "StateSource",
    "Submit",
    "Via",
    "check_limits",
    "fill_body",
    "fill_call",
    "fill_text",
    "origin_of",
    "parse_contract",
    "sent_key",
    "status_url",
    "with_states",
    "word_of",
]

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}", re.ASCII)
MOST_SETTLING = 3
"""Answers in a row that may wait for a late result, or live on after the expiry (W38)."""


def parse_contract(document: Mapping[str, Json], compile_path: CompilePath) -> Contract | Sequence[Fault]:
    """Reads a contract document, or lists all its faults with dotted paths (`states.pending[1]`) and the nearest valid word."""
    try:
        digested = digest(canonical(dict(document)))
    except (TypeError, ValueError, RecursionError):
        says = "holds something other than texts, numbers, booleans, lists and tables"
        hint = "write dates and durations as text"
        return [Fault(where, f"{what}; a contract holds none", hint) for where, what in _strange(document)] or [
            Fault("document", says, hint)
        ]
    top = Table(document)
    contract = replace(_read(top, compile_path), digest=digested, document=dict(document))
    contract = _read_calls(_read_ending(_read_identity(contract, top, compile_path), top, compile_path), top, compile_path)
    top.finish()
    check_whole(contract, top)
    return top.faults or contract


def _strange(document: Mapping[str, Json]) -> Sequence[tuple[str, str]]:
    """The values of a document that JSON does not have, each with its dotted path and what it is."""
    found: list[tuple[str, str]] = []
    waiting: list[tuple[str, object]] = [("", document)]
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [(f"{where}.{key}" if where else str(key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{where}[{index}]", inner) for index, inner in enumerate(value)]
        elif isinstance(value, float) and not isfinite(value):
            found.append((where, f"is {value}, not a number"))
        elif value is not None and not isinstance(value, str | int | float):
            found.append((where, "is a date or a time"))
    return found


def _read(top: Table, compile_path: CompilePath) -> Contract:
    """Reads what every contract needs; what is wrong is noted in `top.faults`."""
    _read_format(top)
    status, state, result, error = (top.table(key) for key in ("status", "state", "result", "error"))
    delays = top.table("delays")
    open_table, caseless = top.flag("states_from_caller"), state.flag("caseless")
    via, call = requests.read_status(status)
    return Contract(
        name=_matching(top, "contract", _NAME, "lower-case letters, digits and hyphens"),
        version=top.whole("version", least=1) or _missing(top, "version"),
        digest="",
        title=top.text("title"),
        source=top.text("source"),
        verified=top.text("verified"),
        via=via,
        status=call,
        parameters=status.texts("parameters"),
        origins=status.texts("origins"),
        observational=status.optional_text("observational"),
        redirects=status.flag("redirects"),
        state=sections.read_state(state, top.tables("conditions"), compile_path, path_required=not open_table),
        states=sections.read_states(top.table("states"), caseless=caseless),
        caseless=caseless,
        rules=sections.read_rules(top.tables("rules"), compile_path, caseless=caseless),
        job_id=None,
        result=sections.read_result(result, compile_path),
        result_ref=read_path(result, "ref", compile_path),
        error_code=read_path(error, "code", compile_path),
        error_text=read_path(error, "text", compile_path),
        signatures=sections.read_signatures(top.tables("http"), compile_path),
        delays=timing.read_delays(delays),
        hints=timing.read_hints(top.tables("hints"), compile_path),
        hint_cap=timing.read_span(delays, "hint_cap", timing.DEFAULT_HINT_CAP),
        limits=timing.read_limits(top.table("limits"), via, given="limits" in top.values),
        retention=None,
        expires=None,
        progress=None,
        cancel=None,
        credential=requests.read_credential(status),
        answer_within=timing.read_span(delays, "answer_within", timing.ANSWER_WITHIN),
    )


def _read_identity(contract: Contract, top: Table, compile_path: CompilePath) -> Contract:
    """Reads whose answer it is, and where the job moves to."""
    job = top.table("job")
    if job.has("id_is") and not job.has("id"):
        job.fault("id", "is missing: what must equal id_is?")
    return replace(
        contract,
        job_id=read_path(job, "id", compile_path),
        job_id_is=job.text("id_is", "{job_id}"),
        pins=read_paths(job, "pins", compile_path),
        progress=read_path(job, "progress", compile_path),
        handovers=requests.read_handovers(top.tables("handover"), compile_path),
    )


def _read_ending(contract: Contract, top: Table, compile_path: CompilePath) -> Contract:
    """Reads what holds once the wait is over, and how long."""
    result, expiry = top.table("result"), top.table("expiry")
    return replace(
        contract,
        allows=result.text("allows", "read_result"),
        decides_next=result.one_of("otherwise", ("person", "workflow"), "person"),
        result_header=result.optional_text("header"),
        settle_checks=result.whole("settle_checks", least=0, most=MOST_SETTLING) or 0,
        expires=read_path(expiry, "path", compile_path),
        created=read_path(expiry, "created", compile_path),
        ttl=read_path(expiry, "ttl", compile_path),
        ttl_unit=timing.read_ttl_unit(expiry),
        expiry_checks=expiry.whole("settle_checks", least=0, most=MOST_SETTLING) or 0,
        retention=timing.read_positive(expiry, "retention"),
        retention_from=expiry.one_of("counted_from", timing.COUNTED_FROM, "completion"),
    )


def _read_calls(contract: Contract, top: Table, compile_path: CompilePath) -> Contract:
    """Reads the requests beside the status call; each is optional."""
    via, status, result = contract.via, contract.status, top.table("result")
    if top.has("submit"):
        contract = replace(contract, submit=requests.read_submit(top.table("submit"), via, status, compile_path))
    if top.has("cancel"):
        cancel = requests.read_cancel(top.table("cancel"), via, status, caseless=contract.caseless)
        contract = replace(contract, cancel=cancel)
    if result.has("keep"):
        contract = replace(contract, keep=requests.read_keep(result.table("keep"), compile_path))
    return contract


def _read_format(top: Table) -> None:
    if "format" not in top.values:
        top.fault("format", "is missing", f"write format = {FORMAT}")
    top.whole("format", least=OLDEST_FORMAT, most=FORMAT)


def _missing(table: Table, key: str) -> int:
    if key not in table.values:
        table.fault(key, "is missing")
    return 1


def _matching(table: Table, key: str, pattern: re.Pattern[str], says: str) -> str:
    found = table.text(key)
    if found and not pattern.fullmatch(found):
        table.fault(key, f"must be made of {says}, at most 64")
    return found


def with_states(
    document: Mapping[str, Json],
    states: Mapping[str, Sequence[str]],
    state_path: str | None,
    *,
    error_path: str | None = None,
) -> dict[str, Json]:
    """Fills a generic contract (`states_from_caller = true`) with the caller's words, e.g. {"success": ["done"]}.

    `state_path` and `error_path` (where the provider says why a job failed) None keep the document's own. The filled document is
    complete: it must name success, and words it does not name are unknown. Raises ValueError for a contract that has its own states.
    """
    if document.get("states_from_caller") is not True:
        raise ValueError(f"the contract {document.get('contract')!r} has its own states; they cannot be given by the caller")
    filled: dict[str, Json] = {**document, "states_from_caller": False}
    filled["states"] = {meaning: list(words) for meaning, words in states.items()}
    if state_path is not None:
        own = document.get("state")
        filled["state"] = {**(own if isinstance(own, dict) else {}), "path": state_path}
    if error_path is not None:
        own = document.get("error")
        filled["error"] = {**(own if isinstance(own, dict) else {}), "text": error_path}
    return filled
