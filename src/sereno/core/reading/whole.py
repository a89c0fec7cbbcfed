"""The whole: checks what one section of a contract alone cannot show: words, names in templates, origins, and arithmetic."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sereno.core.budget import Limits
from sereno.core.errors import Fault
from sereno.core.reading.address import origin_or_none, templates_of
from sereno.core.reading.calls import Call, KeyPlace, Submit, Via
from sereno.core.reading.document import Table, nearest
from sereno.core.reading.sections import NEVER_STATES
from sereno.core.reading.templates import CALLER_URL, INPUT, NULL, merges_in, names_in, text_problem, texts_in, url_problem
from sereno.core.reading.terms import CANCELLED_ENDS, Contract, Meaning
from sereno.core.values import format_duration

_PARAMETER = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
RESERVED = ("job_id", "base", "key", "value", "input", "null")
"""Names that templates give a meaning of their own."""
_NO_PARAMETER = re.compile(r"\{([a-z][a-z0-9_]*)\} is not a parameter", re.ASCII)
_HTTP_WORD = re.compile(r"[2-5]\d\d", re.ASCII)


def check_whole(contract: Contract, top: Table) -> None:
    """Notes what contradicts something elsewhere in the document."""
    _check_parameters(contract, top)
    _check_templates(contract, top)
    _check_origins(contract, top)
    _check_carrier(contract, top)
    _check_words(contract, top)
    _check_submit(contract, top)
    if contract.keep is not None and contract.via is Via.PUSH:
        top.fault("result.keep", 'means nothing with via = "push": what calls back cannot be read anew')
    retention = contract.retention
    if retention is not None and contract.delays.min_gap >= retention:
        says = f"is not shorter than expiry.retention {format_duration(retention)}: a result could be gone between two looks"
        top.fault("delays.min_gap", says)
    if contract.limits is not None:
        top.faults.extend(check_limits(contract, contract.limits))


@dataclass(frozen=True, slots=True)
class _Used:
    """A call, where it stands, and the names its templates may use."""

    where: str
    call: Call
    names: Sequence[str]


def _calls(contract: Contract) -> Iterator[_Used]:
    known = ("job_id", *contract.parameters)
    if contract.via is not Via.PUSH:
        yield _Used("status", contract.status, known)
    if contract.submit is not None:
        before = [name for name in contract.parameters if name not in contract.submit.parameters]
        yield _Used("submit", contract.submit.call, (*before, "key"))
    if contract.cancel is not None:
        yield _Used("cancel", contract.cancel.call, known)
    if contract.keep is not None and contract.keep.call is not None:
        yield _Used("result.keep", contract.keep.call, (*known, *(["value"] if contract.keep.path is not None else [])))


def _check_parameters(contract: Contract, top: Table) -> None:
    for index, name in enumerate(contract.parameters):
        if not _PARAMETER.fullmatch(name) or name in RESERVED:
            says = f"must be lower-case letters, digits and _, and neither {', '.join(RESERVED[:-1])} nor {RESERVED[-1]}"
            top.fault(f"status.parameters[{index}]", says)
        elif name in contract.parameters[:index]:
            top.fault(f"status.parameters[{index}]", f"{name!r} is there already")


def _check_templates(contract: Contract, top: Table) -> None:
    known = ("job_id", *contract.parameters)
    problems = [problem for used in _calls(contract) for problem in _call_problems(used)]
    problems.append(("job.id_is", text_problem(contract.job_id_is, known)))
    for index, handover in enumerate(contract.handovers):
        if handover.url is None:
            continue
        where = f"handover[{index}].url"
        problems.append((where, url_problem(handover.url, ("value", *known))))
        if "value" not in names_in(handover.url):
            problems.append((where, "{value} does not occur in it"))
    for where, problem in problems:
        if problem is not None:
            top.fault(where, problem, _listing(problem))
    _check_occurrence(contract, top)


def _listing(problem: str) -> str | None:
    """What helps where a template names no parameter: a name of the contract's own can become one."""
    named = _NO_PARAMETER.match(problem)
    return "list it in status.parameters" if named is not None and named[1] not in RESERVED else None


def _call_problems(used: _Used) -> Iterator[tuple[str, str | None]]:
    if used.call.url:
        yield f"{used.where}.url", url_problem(used.call.url, used.names)
    for name, text in used.call.headers.items():
        yield f"{used.where}.headers.{name}", text_problem(text, used.names)
    for where, text in texts_in(used.call.body, f"{used.where}.body"):
        if text != NULL and (used.where != "submit" or text != INPUT):
            yield where, text_problem(text, used.names)
    for where, given in merges_in(used.call.body, f"{used.where}.body"):
        if used.where != "submit" or given is not True:
            yield where, 'the key "{input}" is true, and only in a submit: the fields of the input go there'


_CARRIED: Mapping[Via, frozenset[str]] = {Via.AWS: frozenset({"region"}), Via.MCP: frozenset({"session"})}
"""Parameters that the carrier itself uses."""


def _check_occurrence(contract: Contract, top: Table) -> None:
    """A job id that the status call does not send would ask about some other job; a parameter that nothing uses is a mistake."""
    if contract.via is Via.PUSH or (contract.via is not Via.AWS and not contract.status.url):
        return
    status = contract.status
    named = {name for text in templates_of(status) for name in names_in(text)}
    everywhere = set(named) | _CARRIED.get(contract.via, frozenset())
    for used in _calls(contract):
        everywhere |= {name for text in templates_of(used.call) for name in names_in(text)}
    everywhere |= set(names_in(contract.job_id_is)) | {name for one in contract.handovers for name in names_in(one.url or "")}
    where = "status.body" if contract.via is Via.AWS else "status.url"
    if any(fault.where == where for fault in top.faults):
        return
    if "job_id" not in named and contract.via is not Via.MCP:
        top.fault(where, "{job_id} does not occur in it")
    for name in contract.parameters:
        if name not in everywhere:
            top.fault(where, f"{{{name}}} does not occur in it")


def _check_origins(contract: Contract, top: Table) -> None:
    for index, origin in enumerate(contract.origins):
        if origin_or_none(origin) != origin or not origin.startswith("https://"):
            top.fault(f"status.origins[{index}]", "must be an origin such as https://api.example.com, without path")
    addresses = [(f"{used.where}.url", used.call.url) for used in _calls(contract)]
    addresses += [(f"handover[{index}].url", one.url or "") for index, one in enumerate(contract.handovers)]
    told: set[str] = set()
    for where, url in addresses:
        if not url.startswith("https://"):
            continue
        own = origin_or_none(url.split("{")[0])
        if own is not None and own not in contract.origins and own not in told:
            told.add(own)
            top.fault("status.origins", f"does not list {own}, where {where} goes")


def _check_carrier(contract: Contract, top: Table) -> None:
    if contract.via is Via.AWS and "region" not in contract.parameters:
        top.fault("status.parameters", 'must hold "region", which says where AWS is asked')
    if contract.via is Via.MCP and contract.status.url == CALLER_URL:
        top.fault("status.url", 'is the address of the server: starts with "https://host/", or is "{base}"')
    if contract.status.method == "HEAD" and contract.state.kind != "http":
        top.fault("status.method", 'HEAD brings no body, so it needs from = "http" in [state]')
    if contract.via is not Via.HTTP and contract.state.kind == "http":
        top.fault("state.from", f'is http, which says nothing with via = "{contract.via}"')


def _check_words(contract: Contract, top: Table) -> None:
    open_table, states = contract.takes_states, top.table("states")
    meanings = {*contract.states.values(), *(rule.meaning for rule in contract.rules)}
    needed = [] if open_table else [Meaning.SUCCESS]
    if "no_failure" in states.values and Meaning.FAILURE in meanings:
        states.fault("no_failure", "says that no word means failure, and one does")
    if "states_from_caller" not in contract.document and "no_failure" not in states.values:
        needed.append(Meaning.FAILURE)
    for meaning in needed:
        if meaning not in meanings:
            hint = "where no word means failure, write no_failure with the reason" if meaning is Meaning.FAILURE else None
            top.fault(f"states.{meaning.value}", f"names no word: a contract says what {meaning.value} looks like", hint)
    if contract.state.kind == "http":
        _check_http_words(contract.states, top)
    for spelling in contract.state.aliases:
        if spelling in contract.states:
            top.fault(f"state.aliases.{spelling}", "is a word of [states] already")
    for where, word in _words(contract):
        if word not in contract.states and not open_table:
            top.fault(where, f"{word!r} is not a word of [states]", nearest(word, contract.states))
    _check_ends_as(contract, top)


def _check_ends_as(contract: Contract, top: Table) -> None:
    word = contract.cancel.ends_as if contract.cancel is not None else None
    if word is None or word not in contract.states:
        return
    meanings = {contract.states[word], *(rule.meaning for rule in contract.rules if rule.word == word)}
    if meanings.isdisjoint(CANCELLED_ENDS):
        says = (
            f"{word!r} means {contract.states[word].value}; the end of a cancelled job is a word of {', '.join(CANCELLED_ENDS)}"
        )
        top.fault("cancel.ends_as", says, "leave it out where a cancelled job ends with a word of cancelled")


def _words(contract: Contract) -> Iterator[tuple[str, str]]:
    """Every word outside `[states]`, with its place."""
    for index, rule in enumerate(contract.rules):
        yield f"rules[{index}].word", rule.word
    for index, condition in enumerate(contract.state.conditions):
        yield f"conditions[{index}].word", condition.word
    for spelling, word in contract.state.aliases.items():
        yield f"state.aliases.{spelling}", word
    if contract.state.absent is not None:
        yield "state.absent", contract.state.absent
    if contract.cancel is not None and contract.cancel.ends_as is not None:
        yield "cancel.ends_as", contract.cancel.ends_as


def _check_http_words(words: Iterable[str], top: Table) -> None:
    for word in words:
        if not _HTTP_WORD.fullmatch(word) or word in NEVER_STATES:
            top.fault("states", f"{word!r} is not an HTTP status that can be a state (401, 403 and 429 never are)")


def _check_submit(contract: Contract, top: Table) -> None:
    submit = contract.submit
    if submit is None:
        return
    for name in submit.parameters:
        if name not in contract.parameters:
            top.fault(f"submit.parameters.{name}", "is not one of status.parameters", nearest(name, contract.parameters))
    used = {name for text in templates_of(submit.call) for name in names_in(text)}
    key = submit.idempotency
    if "key" in used and key is None:
        top.fault("submit.idempotency", "is missing: {key} is used, so say what the provider does with it")
    if key is not None and key.place is KeyPlace.JOB_ID:
        _check_chosen(contract, submit, used, top)


def _check_chosen(contract: Contract, submit: Submit, used: set[str], top: Table) -> None:
    if "key" not in used:
        top.fault("submit.url", "{key} does not occur in it, nor in the body: where does the caller say the id?")
    before = [name for name in contract.parameters if name not in submit.parameters]
    if submit.idempotency is not None and (problem := text_problem(submit.idempotency.name, ("key", *before))):
        top.fault("submit.idempotency.name", problem)


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
