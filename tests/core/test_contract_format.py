"""The contract format: every key arrives, is refused with a wrong type or an unknown neighbour, by the parser and by the schema."""

import re
import tomllib
from copy import deepcopy
from datetime import timedelta
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from sereno.core.budget import Limits
from sereno.core.contract import (
    Call,
    Condition,
    Contract,
    Duplicate,
    FieldTest,
    Handover,
    HintUnit,
    Idempotency,
    JudgeBy,
    KeepFrom,
    KeyForm,
    KeyPlace,
    Meaning,
    Via,
)
from sereno.core.reading.schema import contract_schema
from tests.core.contract_documents import (
    API,
    AWS,
    CONDITIONS,
    DOCUMENTS,
    FREE,
    HTTP,
    MCP,
    PUSH,
    Dotted,
    Place,
    changed,
    faults,
    places,
    read,
)

SCHEMA = contract_schema()
VALIDATOR = Draft202012Validator(SCHEMA)  # type: ignore[arg-type]
ROOT = Path(__file__).parents[2]


def test_W03_every_key_of_an_http_contract_arrives() -> None:
    """One document with everything in it: calls, tests, words without case, times and counts."""
    found = read(HTTP)
    assert (found.via, found.status.method, found.credential) == (Via.HTTP, "POST", "acme")
    assert found.status.body == HTTP["status"]["body"]  # type: ignore[index]
    assert found.status.headers == {"accept": "application/json", "x-zone": "{zone}"}
    assert found.state.aliases == {"cancelled": "canceled"} and found.state.steady == 2 and found.state.absent == "none"
    assert found.states["purged"] is Meaning.RESULT_EXPIRED and found.states["queued"] is Meaning.PENDING
    assert [rule.word for rule in found.rules] == ["done", "done", "paused", "half"]
    assert found.rules[1].tests == [FieldTest(Dotted("a"), JudgeBy.ABOVE, 0), FieldTest(Dotted("b"), JudgeBy.ABSENT)]
    assert (found.rules[2].checks, found.rules[2].then, found.rules[2].tests) == (24, Meaning.NEEDS_INPUT, [])
    assert found.rules[0].then is Meaning.UNKNOWN_STATE
    assert (found.job_id_is, [path.expression for path in found.pins]) == ("{zone}/{job_id}", ["uid", "attempt"])
    assert found.handovers == [Handover(Dotted("next"), None, API + "/{value}?g={group}"), Handover(None, "Location")]
    assert found.answer_within == timedelta(seconds=20) and found.hint_cap == timedelta(minutes=30)
    assert (found.settle_checks, found.expiry_checks, found.ttl_unit) == (2, 3, HintUnit.MILLISECONDS)
    assert found.created == Dotted("created") and found.ttl == Dotted("ttl") and found.expires == Dotted("expires")
    assert (found.allows, found.decides_next, found.result_header) == ("publish", "workflow", "Location")
    assert found.result[0].when == FieldTest(Dotted("count"), JudgeBy.ABOVE, 0)
    assert found.limits == Limits(3600.0, 60, 0, 4)


def test_W03_every_kind_of_test_arrives() -> None:
    """Tests of the body and of a header, in `[[http]]`."""
    late, left, gone, empty, denied = read(HTTP).signatures
    assert late.tests == [FieldTest(Dotted("code"), JudgeBy.EQUALS, "lag")]
    assert (late.grace, late.grace_checks, late.then, late.has_value) == (timedelta(seconds=30), 3, Meaning.EXPIRED, False)
    assert (left.header, left.value, left.has_value) == ("x-left", "0", True)
    assert left.tests == [FieldTest(Dotted("code"), JudgeBy.DIFFERS, 1)]
    assert gone.tests == [FieldTest(Dotted("code"), JudgeBy.AMONG, ["gone", 2])] and gone.status == "410"
    assert denied.meaning is Meaning.AUTHORIZATION_DENIED
    assert empty.tests == [FieldTest(Dotted("items"), JudgeBy.EMPTY)]


def test_W31_every_key_of_a_submit_a_cancel_and_a_kept_result_arrives() -> None:
    """The three calls beside the status call."""
    found = read(HTTP)
    assert found.submit is not None and found.cancel is not None and found.keep is not None
    assert found.submit.call.url == API + "/{key}" and found.submit.accepts == ["201", "202", "2xx"]
    assert found.submit.idempotency == Idempotency(
        KeyPlace.JOB_ID, "{zone}-{key}", Duplicate.REJECT, timedelta(days=1), KeyForm.DASHED
    )
    assert found.submit.duplicate == ["409"]
    assert found.submit.duplicate_tests == [FieldTest(Dotted("code"), JudgeBy.EQUALS, "exists")]
    assert found.submit.parameters == {"group": Dotted("group.id")} and found.submit.first == timedelta(seconds=3)
    assert found.submit.status_url == Dotted("links.self") and found.submit.job_id is None
    assert (found.cancel.call.method, found.cancel.ends_as, found.cancel.repeatable) == ("DELETE", "failed", True)
    assert found.cancel.too_late == ["404", "409"]
    assert found.keep.source is KeepFrom.CALL and found.keep.call is not None and found.keep.call.method == "POST"
    assert (found.keep.max_bytes, found.keep.types, found.keep.credential) == (5, ["image/*", "application/json"], True)


def test_W03_conditions_give_the_word() -> None:
    """In their order; the last one catches the rest."""
    found = read(CONDITIONS)
    assert found.state.kind == "conditions"
    assert found.state.conditions == [
        Condition("broken", "404", [FieldTest(Dotted("error.code"), JudgeBy.EQUALS, "x")]),
        Condition("done", None, [FieldTest(Dotted("a"), JudgeBy.EMPTY), FieldTest(Dotted("b"), JudgeBy.AMONG, [1, "x", True])]),
        Condition("busy", None, []),
    ]
    assert found.keep is not None and found.keep.source is KeepFrom.URL and found.keep.max_bytes == 100_000_000
    assert found.submit is not None and found.submit.call == Call("POST", "{base}/jobs", {}, "{input}")
    assert (found.submit.job_id_segment, found.submit.job_id_from) == (-2, Dotted("input.name"))


def test_other_carriers_have_calls_of_their_own() -> None:
    """AWS and MCP name an operation; a push has no call, and a deadline alone."""
    aws, mcp, push = read(AWS), read(MCP), read(PUSH)
    assert aws.status == Call("POST", "", {}, {"QueryExecutionId": "{job_id}"}, "athena", "GetQueryExecution")
    assert aws.submit is not None and aws.cancel is not None
    assert aws.submit.call == Call("POST", "", {}, "{input}", "athena", "StartQueryExecution")
    assert aws.cancel.call == Call("POST", "", {}, {"QueryExecutionId": "{job_id}"}, "athena", "StopQueryExecution")
    assert mcp.status == Call("POST", "{base}", {}, None, None, "tasks/get", "extension")
    assert mcp.submit is not None and mcp.submit.call.operation == "tools/call" and mcp.submit.call.url == "{base}"
    assert mcp.cancel is not None and mcp.cancel.call.operation == "tasks/cancel" and mcp.cancel.call.era == "extension"
    assert (push.via, push.status.url, push.limits) == (Via.PUSH, "", Limits(3600.0, 0, 0, 0))


CASES = [(name, at, value) for name, document in DOCUMENTS.items() for at, value in places(document)]


def _name(case: tuple[str, Place, object]) -> str:
    return f"{case[0]}:{'.'.join(map(str, case[1]))}"


def _any(at: Place) -> bool:
    return at[-1] == "body"


@pytest.mark.parametrize("case", [case for case in CASES if case[1] and not _any(case[1])], ids=_name)
def test_a_wrong_type_is_refused_by_parser_and_schema(case: tuple[str, Place, object]) -> None:
    """Each value of each document, replaced by one of another type."""
    name, at, value = case
    wrong = changed(DOCUMENTS[name], at, 17.5 if isinstance(value, dict) else {"zz": 1})
    where = re.sub(r"\.(\d+)", r"[\1]", ".".join(map(str, at)))
    assert any(fault.where.startswith(where) for fault in faults(wrong)), where
    assert not VALIDATOR.is_valid(wrong)


TABLES = [case for case in CASES if isinstance(case[2], dict) and (not case[1] or case[1][-1] not in FREE)]


@pytest.mark.parametrize("case", TABLES, ids=_name)
def test_an_unknown_key_is_refused_by_parser_and_schema(case: tuple[str, Place, object]) -> None:
    """Each table of each document, with a key that means nothing; its fault is at the key."""
    name, at, _ = case
    wrong = changed(DOCUMENTS[name], (*at, "zz_nobody"), 1)
    where = re.sub(r"\.(\d+)", r"[\1]", ".".join(map(str, (*at, "zz_nobody"))))
    assert where in [fault.where for fault in faults(wrong)]
    assert not VALIDATOR.is_valid(wrong)


def test_the_schema_is_one_and_accepts_what_the_parser_accepts() -> None:
    """A schema by its own meta schema; every document here fits it."""
    Draft202012Validator.check_schema(SCHEMA)  # type: ignore[arg-type]
    for document in DOCUMENTS.values():
        assert [error.message for error in VALIDATOR.iter_errors(document)] == []


def _properties(schema: object, at: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Every key of the schema, as a path without list places."""
    assert isinstance(schema, dict)
    if "$ref" in schema:
        return _properties(SCHEMA["$defs"]["test"], at)  # type: ignore[call-overload,index]
    if "items" in schema:
        return _properties(schema["items"], at)
    inner = schema.get("properties", {})
    return {at, *(found for key, one in inner.items() for found in _properties(one, (*at, key)))}


def test_every_key_of_the_schema_is_used_by_a_document_here() -> None:
    """No key of the schema stays untried, but the kinds of a test, which are tried where they first stand."""
    used = {tuple(part for part in at if isinstance(part, str)) for _, at, _ in CASES}
    judges = {"absent", "value", "differs", "above", "below", "among", "empty", "path", "tests"}
    left = {found for found in _properties(SCHEMA) - used if found[-1] not in judges}
    assert left == set()
    assert judges <= {found[-1] for found in used if found}


def test_every_example_of_the_format_page_is_a_part_of_a_contract() -> None:
    """The examples together hold only what parser and schema know; the words are those of several providers."""
    page = (ROOT / "docs/reference/contract-format.md").read_text()
    whole: dict[str, object] = {}
    for block in re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        whole.update(tomllib.loads(block))
    assert set(whole) == set(SCHEMA["properties"]) - {"states_from_caller"}  # type: ignore[call-overload,index,arg-type]
    assert [error.json_path for error in VALIDATOR.iter_errors(whole)] == []
    whole["status"]["method"] = "POST"  # type: ignore[index]  # the example shows a body beside GET
    whole.pop("conditions")
    whole["rules"][0]["word"] = "done"  # type: ignore[index]
    del whole["result"]["keep"]["url"]  # type: ignore[attr-defined,index]
    whole["cancel"]["ends_as"] = "failed"  # type: ignore[index]
    whole["state"]["absent"] = "queued"  # type: ignore[index]
    read(whole)


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_a_document_of_format_0_means_the_same(name: str) -> None:
    """Nothing but the digest follows the number (an operation that pins an old one goes on)."""
    old, new = read({**DOCUMENTS[name], "format": 0}), read(DOCUMENTS[name])
    assert isinstance(old, Contract) and old.digest != new.digest
    assert {key: getattr(old, key) for key in ("status", "states", "rules", "signatures", "submit", "cancel", "limits")} == {
        key: getattr(new, key) for key in ("status", "states", "rules", "signatures", "submit", "cancel", "limits")
    }


def test_reading_changes_no_document() -> None:
    """The documents are stored as they came."""
    before = deepcopy(DOCUMENTS)
    for document in DOCUMENTS.values():
        read(document)
    assert before == DOCUMENTS
