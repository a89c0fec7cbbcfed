"""What one section cannot show: words, names in templates, origins, carriers, submits and sums; each fault at its place."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sereno.core.contract import Contract, parse_contract
from sereno.core.values import Json
from tests.core.contract_documents import (
    API,
    AWS,
    CONDITIONS,
    DOCUMENTS,
    HTTP,
    MCP,
    NO_FAILURE,
    PUSH,
    Place,
    changed,
    dotted,
    faults,
    read,
)

Fault = tuple[dict[str, object], str, object, str, str]

KEY = {"place": "header", "name": "Idempotency-Key", "duplicate": "replay", "window": "1h"}


def at(text: str) -> Place:
    """`rules.0.word` as a place."""
    return tuple(int(part) if part.isdecimal() else part for part in text.split("."))


HEADS_AND_ADDRESSES: list[Fault] = [
    (HTTP, "format", 2, "format", "from 0 to 1"),
    (HTTP, "status.via", "grpc", "status.via", "'grpc' is not valid"),
    (HTTP, "status.method", "GET", "status.body", "cannot go with GET"),
    (HTTP, "status.method", "PUT", "status.method", "not valid"),
    (HTTP, "status.service", "ecs", "status.service", 'means nothing with via = "http"'),
    (HTTP, "status.era", "extension", "status.era", 'means nothing with via = "http"'),
    (HTTP, "status.credential", "sk live", "status.credential", "never its value"),
    (HTTP, "status.headers.x-zone", "{zon}", "status.headers.x-zone", "did you mean 'zone'?"),
    (HTTP, "status.headers.Authorization", "{zone}", "status.headers.Authorization", "carries a secret"),
    (HTTP, "status.body.variables.id", "{job}", "status.body.variables.id", "write { name } where braces"),
    (HTTP, "status.body.variables.id", "{input}", "status.body.variables.id", "{input} is not a parameter"),
    (HTTP, "status.body.{input}", True, "status.body", "only in a submit"),
    (HTTP, "status.url", API + "/{job_id}?g={value}", "status.url", "{value} is not a parameter"),
    (HTTP, "status.parameters", ["zone", "group", "spare"], "status.url", "{spare} does not occur"),
    (HTTP, "status.parameters", ["zone", "group", "zone"], "status.parameters[2]", "is there already"),
    (HTTP, "status.parameters", ["zone", "group", "key"], "status.parameters[2]", "neither job_id"),
    (HTTP, "status.parameters", ["zone", "group", "null"], "status.parameters[2]", "nor null"),
    (HTTP, "status.origins", ["https://api.acme.example"], "status.origins", "https://files.acme.example, where result.keep.url"),
    (HTTP, "cancel.url", "https://other.example/{job_id}", "status.origins", "https://other.example, where cancel.url"),
    (HTTP, "handover.0.url", "https://o.example/{value}", "status.origins", "https://o.example, where handover[0].url"),
    (HTTP, "handover.0.url", API + "/{job_id}", "handover[0].url", "{value} does not occur"),
    (HTTP, "handover.0.url", API + "/{valu}", "handover[0].url", "did you mean 'value'?"),
    (HTTP, "handover.0.header", "Location", "handover[0].header", "exactly one"),
    (HTTP, "job.id_is", "{jobid}", "job.id_is", "did you mean 'job_id'?"),
    (HTTP, "job.id", ..., "job.id", "what must equal id_is"),
    (HTTP, "job.pins.1", "a b", "job.pins[1]", "is not a path"),
    (CONDITIONS, "status.url", "{base}/jobs", "status.url", "{job_id} does not occur"),
    (CONDITIONS, "status.method", "HEAD", "status.method", "brings no body"),
    (AWS, "status.parameters", ..., "status.parameters", 'must hold "region"'),
    (AWS, "status.service", ..., "status.service", "is missing"),
    (AWS, "status.operation", ..., "status.operation", "is missing"),
    (AWS, "status.body", ..., "status.body", "the input of the operation"),
    (AWS, "status.body", {"Id": "x"}, "status.body", "{job_id} does not occur"),
    (AWS, "status.url", "https://x.example/{job_id}", "status.url", 'means nothing with via = "aws"'),
    (AWS, "state", {"from": "http"}, "state.from", 'says nothing with via = "aws"'),
    (AWS, "cancel.operation", ..., "cancel.operation", "is missing"),
    (AWS, "cancel.body", ..., "cancel.body", "the input of the operation"),
    (AWS, "submit.url", "https://x.example/", "submit.url", 'means nothing with via = "aws"'),
    (MCP, "status.url", ..., "status.url", "is missing"),
    (MCP, "status.url", "{job_id}", "status.url", "is the address of the server"),
    (MCP, "status.era", ..., "status.era", "is missing"),
    (MCP, "status.era", "2024", "status.era", "not valid"),
    (MCP, "status.method", "POST", "status.method", 'means nothing with via = "mcp"'),
    (MCP, "submit.headers", {"x": "y"}, "submit.headers", 'means nothing with via = "mcp"'),
    (PUSH, "status.url", "{base}/{job_id}", "status.url", 'means nothing with via = "push"'),
    (PUSH, "result.keep", {"from": "answer"}, "result.keep", 'means nothing with via = "push"'),
    (PUSH, "limits.requests", 5, "limits.requests", 'means nothing with via = "push"'),
    (PUSH, "limits.deadline", ..., "limits.deadline", "is missing"),
]

WORDS: list[Fault] = [
    (HTTP, "rules.0.word", "dine", "rules[0].word", "did you mean 'done'?"),
    (HTTP, "states.no_failure", "why", "states.no_failure", "no word means failure, and one does"),
    (HTTP, "states.TODO_words", ["odd", 1], "states.TODO_words", "is still to be decided: odd, 1"),
    (HTTP, "title", "TODO: say what it is", "title", "is still to be decided: say what it is"),
    (NO_FAILURE, "states.no_failure", ..., "states.failure", "names no word"),
    (NO_FAILURE, "states.no_failure", " ", "states.no_failure", "must be a text"),
    (HTTP, "rules.2.checks", ..., "rules[2].then", "means nothing without checks"),
    (HTTP, "rules.0.path", ..., "rules[0].path", "the table of [states] says the same"),
    (HTTP, "rules.0.tests", [], "rules[0].tests", "at least one"),
    (HTTP, "rules.0.tests", [{"path": "x"}], "rules[0].path", "and tests exclude each other"),
    (HTTP, "rules.1.tests.0.below", 5, "rules[1].tests[0].below", "and above exclude each other"),
    (HTTP, "rules.1.tests.0.path", ..., "rules[1].tests[0].path", "is missing"),
    (HTTP, "rules.3.path", ..., "rules[3].below", "needs the path it judges"),
    (HTTP, "rules.1.tests.0.among", [], "rules[1].tests[0].among", "at least one value"),
    (HTTP, "state.absent", "nil", "state.absent", "not a word of [states]"),
    (HTTP, "state.aliases.abandoned", "stopped", "state.aliases.abandoned", "not a word of [states]"),
    (HTTP, "state.aliases.done", "queued", "state.aliases.done", "is a word of [states] already"),
    (HTTP, "state.steady", 11, "state.steady", "from 1 to 10"),
    (HTTP, "cancel.ends_as", "stopped", "cancel.ends_as", "not a word of [states]"),
    (
        HTTP,
        "cancel.ends_as",
        "queued",
        "cancel.ends_as",
        "'queued' means pending; the end of a cancelled job is a word of failure",
    ),
    (HTTP, "cancel.ends_as", "canceled", "cancel.ends_as", "leave it out"),
    (HTTP, "conditions", [{"word": "done", "path": "x"}], "conditions[0]", 'needs from = "conditions"'),
    (CONDITIONS, "conditions", ..., "state.from", "there is no [[conditions]]"),
    (CONDITIONS, "conditions.1.tests", ..., "conditions[1].path", "only the last condition"),
    (CONDITIONS, "conditions.0.word", "gone", "conditions[0].word", "not a word of [states]"),
    (CONDITIONS, "conditions.0.word", ..., "conditions[0].word", "is missing"),
    (CONDITIONS, "conditions.0.http", "403", "conditions[0].http", "never a state"),
    (CONDITIONS, "conditions.0.http", "40", "conditions[0].http", "must be a status"),
    (CONDITIONS, "state.path", "status", "state.from", "is conditions, so path"),
    (CONDITIONS, "states.failure", ..., "states.failure", "names no word"),
    (HTTP, "http.0.then", "not_found_yet", "http[0].then", "would never end"),
    (HTTP, "http.1.path", "x", "http[1].header", "and path exclude each other"),
    (HTTP, "http.2.meaning", "unknown_state", "http[2].meaning", "not valid"),
    (HTTP, "http.2.grace", "5s", "http[2].meaning", "mean nothing"),
]

TIMES_AND_RESULTS: list[Fault] = [
    (HTTP, "result.settle_checks", 4, "result.settle_checks", "from 0 to 3"),
    (HTTP, "expiry.settle_checks", 4, "expiry.settle_checks", "from 0 to 3"),
    (HTTP, "result.fields.0.when", {"above": 1}, "result.fields[0].when.path", "is missing"),
    (HTTP, "result.keep.from", "url", "result.keep.url", 'means nothing without from = "call"'),
    (HTTP, "result.keep.url", ..., "result.keep.url", "is missing"),
    (HTTP, "result.keep.path", ..., "result.keep.url", "{value} is not a parameter"),
    (HTTP, "result.keep.method", "GET", "result.keep.body", "cannot go with GET"),
    (HTTP, "result.keep.max_bytes", 0, "result.keep.max_bytes", "whole number from 1"),
    (HTTP, "result.keep.types.0", "png", "result.keep.types[0]", "must be a media type"),
    (CONDITIONS, "result.keep.path", ..., "result.keep.path", "where does the answer name"),
    (CONDITIONS, "result.keep", {"credential": True}, "result.keep.credential", "nothing is fetched"),
    (HTTP, "delays.answer_within", "0s", "delays.answer_within", "more than 0"),
    (HTTP, "delays.hint_cap", "0s", "delays.hint_cap", "more than 0"),
    (HTTP, "expiry.retention", "2s", "delays.min_gap", "not shorter than expiry.retention 2s"),
    (HTTP, "expiry.retention", "0s", "expiry.retention", "more than 0"),
    (HTTP, "expiry.retention", "30m", "limits.deadline", "later than the provider keeps it: 30m from creation"),
    (HTTP, "expiry.ttl", ..., "expiry.ttl", "created is given"),
    (HTTP, "expiry.created", ..., "expiry.created", "ttl is given"),
    (HTTP, "expiry.ttl_unit", "at", "expiry.ttl_unit", "not valid"),
    (CONDITIONS, "expiry", {"ttl_unit": "seconds"}, "expiry.ttl_unit", "means nothing without ttl"),
    (HTTP, "limits.requests", 5000, "limits.requests", "5000 requests at least 2s apart"),
]

CALLS: list[Fault] = [
    (HTTP, "submit.effects", ..., "submit.effects", "is missing"),
    (HTTP, "submit.method", "GET", "submit.method", "not valid"),
    (HTTP, "submit.url", ..., "submit.url", "is missing"),
    (HTTP, "submit.url", API + "/{job_id}/{key}", "submit.url", "{job_id} is not a parameter"),
    (HTTP, "submit.url", API + "/{group}/{key}", "submit.url", "{group} is not a parameter"),
    (HTTP, "submit.url", API, "submit.url", "where does the caller say the id?"),
    (HTTP, "submit.body.hook", "x {input}", "submit.body.hook", "{input} is not a parameter"),
    (HTTP, "submit.body.{input}", "x", "submit.body", "the fields of the input"),
    (HTTP, "submit.accepts", [], "submit.accepts", "at least one status"),
    (HTTP, "submit.accepts.0", "ok", "submit.accepts[0]", "must be a status"),
    (HTTP, "submit.job_id", "id", "submit.job_id", "the caller chooses the id"),
    (HTTP, "submit.status_url_header", "Location", "submit.status_url_header", "and status_url exclude"),
    (HTTP, "submit.parameters.region", "x", "submit.parameters.region", "not one of status.parameters"),
    (HTTP, "submit.parameters.group", "a b", "submit.parameters.group", "is not a path"),
    (HTTP, "submit.job_id_from", "key", "submit.job_id_from", "the caller chooses the id"),
    (HTTP, "submit.job_id_segment", 1, "submit.job_id_segment", "which give the address"),
    (CONDITIONS, "submit.job_id_segment", 99, "submit.job_id_segment", "from -50 to 50"),
    (HTTP, "submit.idempotency.form", "uid", "submit.idempotency.form", "did you mean 'uuid'?"),
    (HTTP, "submit.body.when", "x{null}", "submit.body.when", "{null} is not a parameter"),
    (HTTP, "submit.headers.x-region", "{null}", "submit.headers.x-region", "{null} is not a parameter"),
    (HTTP, "submit.first", "0s", "submit.first", "more than 0"),
    (HTTP, "submit.idempotency", ..., "submit.idempotency", "{key} is used"),
    (HTTP, "submit.idempotency.name", "x", "submit.idempotency.name", "from {key}"),
    (HTTP, "submit.idempotency.name", "{key}{group}", "submit.idempotency.name", "{group} is not a parameter"),
    (HTTP, "submit.idempotency.window", ..., "submit.idempotency.window", "is missing"),
    (HTTP, "submit.idempotency.window", "0s", "submit.idempotency.window", "more than 0"),
    (HTTP, "submit.idempotency.place", "query", "submit.idempotency.place", "not valid"),
    (HTTP, "submit.idempotency.duplicate", "replay", "submit.duplicate", "means nothing without"),
    (HTTP, "submit.duplicate", ..., "submit.duplicate", "there is one already"),
    (HTTP, "submit.duplicate.status", ..., "submit.duplicate.status", "is missing"),
    (CONDITIONS, "submit.idempotency.name", "Authorization", "submit.idempotency.name", "may carry a key"),
    (CONDITIONS, "submit.idempotency", {**KEY, "place": "body", "name": "a b"}, "submit.idempotency.name", "dotted place"),
    (CONDITIONS, "submit.job_id", "id", "submit.job_id_header", "and job_id exclude"),
    (CONDITIONS, "submit", {"url": "{base}/jobs", "effects": "x"}, "submit.job_id", "say where the answer names the job"),
    (CONDITIONS, "http", [{"status": "400", "meaning": "success"}], "http[0].meaning", "not valid"),
    (HTTP, "cancel.effects", ..., "cancel.effects", "is missing"),
    (HTTP, "cancel.url", API + "/{key}", "cancel.url", "{key} is not a parameter"),
    (HTTP, "cancel.too_late.0", "9xx", "cancel.too_late[0]", "must be a status"),
    (HTTP, "cancel.body.why", "{reason}", "cancel.body.why", "is not a parameter"),
]
ALL = [*HEADS_AND_ADDRESSES, *WORDS, *TIMES_AND_RESULTS, *CALLS]


@pytest.mark.parametrize(("document", "place", "value", "where", "says"), ALL, ids=[f"{n}-{one[1]}" for n, one in enumerate(ALL)])
def test_W03_a_fault_is_named_with_its_place(
    document: dict[str, object], place: str, value: object, where: str, says: str
) -> None:
    """One thing wrong gives a fault at its dotted path that says what would be right."""
    found = [str(fault) for fault in faults(changed(document, at(place), value)) if fault.where == where]
    assert any(says in text for text in found), found or [str(one) for one in faults(changed(document, at(place), value))]


def test_W09_the_longest_gap_follows_what_the_provider_keeps() -> None:
    """Half of a retention that counts from completion; one that counts from creation, or none, leaves `max`."""
    kept = changed(changed(HTTP, at("expiry.retention"), "1m"), at("expiry.counted_from"), "completion")
    assert read(kept).longest_gap.total_seconds() == 30
    assert read(HTTP).longest_gap.total_seconds() == read(CONDITIONS).longest_gap.total_seconds() == 120


def test_a_parameter_of_the_submit_alone_is_no_fault() -> None:
    """It occurs in a call, so it is no mistake."""
    document = changed(CONDITIONS, at("status.parameters"), ["queue"])
    assert read(changed(document, at("submit.url"), "{base}/{queue}/jobs")).parameters == ["queue"]


_leaves = (
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8) | st.sampled_from(["path", "30s", "404", "{key}", "aws"])
)
_trees = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=8
)
_inner = st.sampled_from([(name, key, inner) for name, whole in DOCUMENTS.items() for key, table in whole.items()
                          if isinstance(table, dict) for inner in table])  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(_inner, _trees)
def test_no_document_makes_the_reader_raise(place: tuple[str, str, str], value: Json) -> None:
    """Whatever stands at a key, the answer is a contract or a list of faults with places."""
    name, key, inner = place
    found = parse_contract(changed(DOCUMENTS[name], (key, inner), value), dotted)
    assert isinstance(found, Contract) or all(fault.where and fault.message for fault in found)
