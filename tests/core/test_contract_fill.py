"""Filled calls: values land in their places, headers and bodies are what was meant, and nothing changes where a request points."""

import json
from dataclasses import replace
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sereno.core.contract import Call, fill_body, fill_call, fill_text, status_url
from tests.core.contract_documents import API, AWS, CONDITIONS, HTTP, MCP, PUSH, changed, read

FULL = read(HTTP)
BASED = read(CONDITIONS)
VALUES = {"zone": "eu", "group": "g1", "job_id": "j/1", "key": "k-1", "value": "f 1"}


def test_a_status_call_is_filled() -> None:
    """URL encoded, header and body as they are, canonical JSON with its content type."""
    found = fill_call(FULL, FULL.status, VALUES)
    assert (found.method, found.url) == ("POST", "https://api.acme.example/v1/eu/jobs/j%2F1?group=g1")
    assert found.headers == {"accept": "application/json", "x-zone": "eu", "content-type": "application/json"}
    assert found.body == b'{"query":"query($id: ID!) { node(id: $id) { status } }","variables":{"id":"j/1","n":1}}'


def test_W31_the_input_lands_where_the_contract_says() -> None:
    """As a whole text, and as fields that the contract's own win over."""
    assert FULL.submit is not None and BASED.submit is not None
    found = fill_call(FULL, FULL.submit.call, VALUES, input={"prompt": "{zone}", "hook": "mine"})
    assert json.loads(found.body or b"") == {
        "prompt": "{zone}",
        "hook": "eu",
        "all": [{"prompt": "{zone}", "hook": "mine"}],
        "when": None,
    }, "an input is data: its braces are not filled"
    assert found.url == API.replace("{zone}", "eu") + "/k-1"
    whole = fill_call(BASED, BASED.submit.call, {}, base="https://h.example", input=[1, "é"])
    assert whole.body == '[1,"é"]'.encode() and whole.url == "https://h.example/jobs"
    none = fill_call(BASED, BASED.submit.call, {}, base="https://h.example")
    assert none.body is None and "content-type" not in none.headers
    with pytest.raises(ValueError, match="input must be an object"):
        fill_call(FULL, FULL.submit.call, VALUES, input="x")


def test_W31_a_null_is_sent_where_the_input_says_nothing() -> None:
    """TOML has no null: the text `{null}` is one; beside the input's fields it gives way to them, anywhere else it stays."""
    call = Call(
        "POST",
        "{base}/jobs",
        {},
        {"{input}": True, "when": "{null}", "deep": {"when": "{null}"}, "list": ["{null}", "x{ null }"]},
    )
    kept = {"deep": {"when": None}, "list": [None, "x{ null }"]}
    assert fill_body(call, {}, {}) == {"when": None, **kept}
    assert fill_body(call, {}, {"when": "2026-01-01", "deep": 1}) == {"when": "2026-01-01", **kept}
    assert fill_body(replace(call, body={"when": "{null}"}), {}, {"when": 1}) == {"when": None}


def test_a_key_header_is_added_and_wins() -> None:
    """Whatever the case of the contract's own; a content type that is given stays."""
    call = Call("POST", API + "/{job_id}", {"X-Key": "old", "Content-Type": "application/merge-patch+json"}, {"a": 1})
    found = fill_call(FULL, call, VALUES, extra={"x-key": "k-1"})
    assert found.headers == {"Content-Type": "application/merge-patch+json", "x-key": "k-1"}


def test_an_aws_input_is_filled() -> None:
    """The same texts; the carrier makes the request."""
    contract = read(AWS)
    assert contract.submit is not None
    assert fill_body(contract.status, {"job_id": "q1"}, None) == {"QueryExecutionId": "q1"}
    assert fill_body(contract.submit.call, {}, {"QueryString": "x"}) == {"QueryString": "x"}


def test_calls_without_an_address() -> None:
    """AWS and push have none; a server of MCP is its base."""
    assert status_url(read(AWS), job_id="q", parameters={"region": "eu-central-1"}) == ""
    assert status_url(read(PUSH), job_id="q", parameters={}) == ""
    assert status_url(read(MCP), job_id="t", parameters={}, base="http://127.0.0.1:9/mcp") == "http://127.0.0.1:9/mcp"
    with pytest.raises(ValueError, match="no fixed address"):
        status_url(read(MCP), job_id="t", parameters={})


def test_a_missing_value_is_named() -> None:
    """In URL, header and body."""
    for call in (Call("GET", API), replace(FULL.status, url=API.replace("{zone}", "x")), Call("POST", API[:-12], {}, "{zone}")):
        with pytest.raises(ValueError, match=r"\{(zone|job_id)\} has no value"):
            fill_call(FULL, call, {})
    assert fill_text("{a}-{ b }-{a}", {"a": "1"}) == "1-{ b }-1"


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "é", "\x00", "x" * 5000])
def test_a_value_cannot_add_a_header(value: str) -> None:
    """Line ends, other control characters and foreign ones are refused, in values and in what is added."""
    with pytest.raises(ValueError, match="plain ASCII"):
        fill_call(FULL, Call("GET", "https://api.acme.example/", {"x-zone": "{zone}"}), {"zone": value})
    with pytest.raises(ValueError, match="plain ASCII"):
        fill_call(FULL, Call("GET", "https://api.acme.example/"), {}, extra={"x-key": value})


def test_what_only_the_submit_uses_need_not_be_given_to_wait() -> None:
    """Everything else is asked for by name."""
    document = changed(CONDITIONS, ("status", "parameters"), ["queue", "team"])
    document = changed(changed(document, ("submit", "url"), "{base}/{queue}/jobs"), ("status", "url"), "{base}/{team}/{job_id}")
    contract = read(document)
    assert status_url(contract, job_id="1", parameters={"team": "t"}, base="https://h.example") == "https://h.example/t/1"
    with pytest.raises(ValueError, match="needs the parameters: team$"):
        status_url(contract, job_id="1", parameters={"queue": "q"}, base="https://h.example")


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_no_value_changes_where_a_call_points(zone: str, key: str, group: str) -> None:
    """For any texts: refused, or the same origin and the same number of pieces; bodies and headers cannot break out either."""
    assert FULL.submit is not None
    values = {"zone": zone, "key": key, "group": group, "job_id": key}
    for call, last in ((FULL.submit.call, key), (FULL.status, key)):
        try:
            found = fill_call(FULL, call, values, input={})
        except ValueError:
            continue
        parts = urlsplit(found.url)
        assert (parts.scheme, parts.netloc, parts.fragment) == ("https", "api.acme.example", "")
        assert [unquote(piece) for piece in parts.path.split("/")] == ["", "v1", zone, "jobs", last]
        assert all("\n" not in text and "\r" not in text for text in found.headers.values())
        assert isinstance(json.loads(found.body or b""), dict)
