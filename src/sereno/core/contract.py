"""Contracts: how one provider behaves, as data (W03). Format 0: it may still change.

A contract is a TOML document; `parse_contract` turns the parsed table into a `Contract` and lists every fault at once. Path
expressions are JMESPath; compiling them is handed in, since the core knows only the standard library.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from sereno.core.budget import Limits
from sereno.core.errors import Fault
from sereno.core.reading import sections
from sereno.core.reading.address import CALLER_URL, origin_of, status_url, template_problem
from sereno.core.reading.document import Table
from sereno.core.reading.sections import read_path, word_of
from sereno.core.reading.terms import (
    FORMAT,
    RULE_MEANINGS,
    SIGNATURE_MEANINGS,
    STATE_MEANINGS,
    Cancel,
    CompilePath,
    Contract,
    Delays,
    Hint,
    HintUnit,
    Meaning,
    Path,
    ResultField,
    Rule,
    Signature,
    StateSource,
)
from sereno.core.values import Json, canonical, digest, format_duration

__all__ = [
    "FORMAT",
    "RULE_MEANINGS",
    "SIGNATURE_MEANINGS",
    "STATE_MEANINGS",
    "Cancel",
    "CompilePath",
    "Contract",
    "Delays",
    "Hint",
    "HintUnit",
    "Meaning",
    "Path",
    "ResultField",
    "Rule",
    "Signature",
    "StateSource",
    "check_limits",
    "origin_of",
    "parse_contract",
    "status_url",
    "with_states",
    "word_of",
]

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}", re.ASCII)
_PARAMETER = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_HTTP_WORD = re.compile(r"[2-5]\d\d", re.ASCII)


def parse_contract(document: Mapping[str, Json], compile_path: CompilePath) -> Contract | Sequence[Fault]:
    """Reads a contract document, or lists all its faults with dotted paths (`states.pending[1]`) and the nearest valid word."""
    try:
        digested = digest(canonical(dict(document)))
    except (TypeError, ValueError, RecursionError):
        says = "holds something other than texts, numbers, booleans, lists and tables"
        return [Fault("document", says, "write dates and durations as text")]
    top = Table(document)
    contract = replace(_read_ending(_read(top, compile_path), top), digest=digested, document=dict(document))
    top.finish()
    _check_whole(contract, top)
    return top.faults or contract


def _read(top: Table, compile_path: CompilePath) -> Contract:
    """Reads all sections; what is wrong is noted in `top.faults`."""
    _read_format(top)
    call, state, job, result, error = (top.table(key) for key in ("status", "state", "job", "result", "error"))
    delays, expiry = top.table("delays"), top.table("expiry")
    open_table, caseless = top.flag("states_from_caller"), state.flag("caseless")
    return Contract(
        name=_matching(top, "contract", _NAME, "lower-case letters, digits and hyphens"),
        version=top.whole("version", least=1) or _missing(top, "version"),
        digest="",
        title=top.text("title"),
        source=top.text("source"),
        verified=top.text("verified"),
        method=call.one_of("method", ("GET", "HEAD"), "GET"),
        url=call.text("url"),
        headers=sections.read_headers(call.table("headers")),
        parameters=call.texts("parameters"),
        origins=call.texts("origins"),
        observational=call.optional_text("observational"),
        redirects=call.flag("redirects"),
        state=sections.read_state(state, compile_path, path_required=not open_table),
        states=sections.read_states(top.table("states"), caseless=caseless),
        caseless=caseless,
        rules=sections.read_rules(top.tables("rules"), compile_path, caseless=caseless),
        job_id=read_path(job, "id", compile_path),
        result=sections.read_result(result, compile_path),
        result_ref=read_path(result, "ref", compile_path),
        error_code=read_path(error, "code", compile_path),
        error_text=read_path(error, "text", compile_path),
        signatures=sections.read_signatures(top.tables("http"), compile_path),
        delays=sections.read_delays(delays),
        hints=sections.read_hints(top.tables("hints"), compile_path),
        hint_cap=delays.duration("hint_cap") or sections.DEFAULT_HINT_CAP,
        limits=sections.read_limits(top.table("limits"), given="limits" in top.values),
        retention=expiry.duration("retention"),
        expires=read_path(expiry, "path", compile_path),
        progress=read_path(job, "progress", compile_path),
        cancel=sections.read_cancel(top.table("cancel"), given="cancel" in top.values),
    )


def _read_ending(contract: Contract, top: Table) -> Contract:
    """Reads what holds once the wait is over."""
    result, expiry = top.table("result"), top.table("expiry")
    return replace(
        contract,
        allows=result.text("allows", "read_result"),
        decides_next=result.one_of("otherwise", ("person", "workflow"), "person"),
        result_header=result.optional_text("header"),
        retention_from=expiry.one_of("counted_from", ("completion", "creation"), "completion"),
    )


def _read_format(top: Table) -> None:
    if "format" not in top.values:
        top.fault("format", "is missing", f"write format = {FORMAT}")
    top.whole("format", least=FORMAT, most=FORMAT)


def _missing(table: Table, key: str) -> int:
    if key not in table.values:
        table.fault(key, "is missing")
    return 1


def _matching(table: Table, key: str, pattern: re.Pattern[str], says: str) -> str:
    found = table.text(key)
    if found and not pattern.fullmatch(found):
        table.fault(key, f"must be made of {says}, at most 64")
    return found


def _check_whole(contract: Contract, top: Table) -> None:
    """Checks what one section alone cannot show."""
    _check_address(contract, top)
    _check_words(contract, top)
    retention = contract.retention
    if retention is not None and contract.delays.maximum >= retention:
        says = f"is not shorter than expiry.retention {format_duration(retention)}: a result could be gone between two looks"
        top.fault("delays.max", says)
    if contract.limits is not None:
        top.faults.extend(check_limits(contract, contract.limits))


def _check_address(contract: Contract, top: Table) -> None:
    for index, name in enumerate(contract.parameters):
        if not _PARAMETER.fullmatch(name) or name in ("job_id", "base"):
            top.fault(f"status.parameters[{index}]", "must be lower-case letters, digits and _, and neither job_id nor base")
    if not contract.url:
        return
    if problem := template_problem(contract.url, list(contract.parameters)):
        top.fault("status.url", problem)
        return
    for index, origin in enumerate(contract.origins):
        if _origin_or_none(origin) != origin or not origin.startswith("https://"):
            top.fault(f"status.origins[{index}]", "must be an origin such as https://api.example.com, without path")
    if contract.url == CALLER_URL or contract.url.startswith("{base}"):
        return
    own = _origin_or_none(contract.url.split("{")[0])
    if own not in contract.origins:
        top.fault("status.origins", f"does not list {own}, where status.url goes")


def _origin_or_none(url: str) -> str | None:
    try:
        return origin_of(url)
    except ValueError:
        return None


def _check_words(contract: Contract, top: Table) -> None:
    open_table = bool(contract.document.get("states_from_caller"))
    meanings = {*contract.states.values(), *(rule.meaning for rule in contract.rules)}
    needed = [] if open_table else [Meaning.SUCCESS]
    if "states_from_caller" not in contract.document:
        needed.append(Meaning.FAILURE)
    for meaning in needed:
        if meaning not in meanings:
            top.fault(f"states.{meaning.value}", f"names no word: a contract says what {meaning.value} looks like")
    for index, rule in enumerate(contract.rules):
        if rule.word not in contract.states:
            top.fault(f"rules[{index}].word", f"{rule.word!r} is not a word of [states]")
    absent = contract.state.absent
    if absent is not None and absent not in contract.states and not open_table:
        top.fault("state.absent", f"{absent!r} is not a word of [states]")
    if contract.state.kind == "http":
        _check_http_words(contract.states, top)


def _check_http_words(words: Iterable[str], top: Table) -> None:
    for word in words:
        if not _HTTP_WORD.fullmatch(word) or word in ("401", "403", "429"):
            top.fault("states", f"{word!r} is not an HTTP status that can be a state (401, 403 and 429 never are)")


def check_limits(contract: Contract, limits: Limits) -> Sequence[Fault]:
    """Lists limits that contradict the contract, with the arithmetic (W41); for contract defaults and for what a caller asks."""
    faults = []
    deadline = timedelta(seconds=limits.deadline_s)
    retention = contract.retention
    if retention is not None and contract.retention_from == "creation" and deadline > retention:
        says = f"{format_duration(deadline)} is later than the provider keeps it: {format_duration(retention)} from creation"
        faults.append(Fault("limits.deadline", says))
    gaps = contract.delays.min_gap * (limits.max_status_requests - 1)
    if gaps > deadline:
        says = (
            f"{limits.max_status_requests} requests at least {format_duration(contract.delays.min_gap)} apart take"
            f" {format_duration(gaps)}, and the deadline is {format_duration(deadline)}"
        )
        faults.append(Fault("limits.requests", says, "ask for fewer requests or a later deadline"))
    return faults


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
