"""The start of a contract: what is proposed from saved answers, what is left to a person, and that both files always parse."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sereno.builtin.contracts.paths import compile_path
from sereno.core.contract import Contract, Via, parse_contract
from sereno.core.errors import Fault, SetupError
from sereno.core.values import Json
from sereno.core.writing.toml import comment, toml_block, toml_text, toml_value
from sereno.service.contracting.answers import Answer, read_answer
from sereno.service.contracting.cases import read_cases
from sereno.service.contracting.proposals import propose
from sereno.service.contracting.template import Started, start_contract

URL = "https://api.acme.example/v1/jobs/J-1"
QUEUED: Json = {"job_id": "J-1", "status": "queued", "output": None, "error": None, "poll_after": 5}
DONE: Json = {"job_id": "J-1", "status": "done", "output": {"url": "https://x.example/a"}, "expires_at": "2026-12-01T00:00:00Z"}
FAILED: Json = {"job_id": "J-1", "status": "failed", "error": {"code": "E7", "message": "no disk"}}


def saved(*bodies: Json) -> list[Answer]:
    """Each body as it was saved."""
    return [read_answer(b"HTTP/1.1 200 OK\n\n" + json.dumps(body).encode(), f"{n}.json") for n, body in enumerate(bodies)]


def started(*bodies: Json, url: str | None = URL, via: Via = Via.HTTP) -> Started:
    """Both files."""
    return start_contract("acme", via, url, saved(*bodies))


def document(text: str) -> dict[str, Any]:
    """The contract as data."""
    return tomllib.loads(text)


def faults(found: Mapping[str, Any]) -> Sequence[Fault]:
    """What the check says."""
    read = parse_contract(found, compile_path)
    return [] if isinstance(read, Contract) else read


def test_places_are_proposed_and_meanings_are_not() -> None:
    """State, id, error and address come from the samples; each word waits for a person."""
    found = document(started(QUEUED, DONE, FAILED).contract)
    assert found["status"]["url"] == "https://api.acme.example/v1/jobs/{job_id}"
    assert found["status"]["origins"] == ["https://api.acme.example"]
    assert (found["state"]["path"], found["job"]["id"]) == ("status", "job_id")
    assert found["error"] == {"code": "error.code", "text": "error.message"}
    assert found["states"] == {"TODO_seen": ["queued", "done", "failed"], "pending": [], "success": [], "failure": []}


def test_W03_the_check_says_exactly_what_is_to_be_decided() -> None:
    """Nothing else is wrong with the start of a contract."""
    says = {fault.where: fault.message for fault in faults(document(started(QUEUED, DONE, FAILED).contract))}
    assert sorted(says) == [
        "result.TODO",
        "source",
        "states.TODO_seen",
        "states.failure",
        "states.success",
        "status.observational",
        "title",
        "verified",
    ]
    assert says["states.TODO_seen"] == "is still to be decided: queued, done, failed"
    assert "seen: output.url" in says["result.TODO"]


def decided(found: dict[str, Any]) -> dict[str, Any]:
    """What a person would decide."""
    found |= {"title": "Acme", "source": "the docs", "verified": "verified: words"}
    found["status"]["observational"] = "it reads"
    found["states"] = {"pending": ["queued"], "success": ["done"], "failure": ["failed"]}
    found["result"] = {"fields": [{"path": "output.url"}]}
    return found


def test_a_decided_start_is_a_contract() -> None:
    """With its own words sorted and nothing marked any more."""
    assert faults(decided(document(started(QUEUED, DONE, FAILED).contract))) == []


def test_the_cases_hold_the_answers_and_ask_what_they_mean() -> None:
    """Word and job are facts of the answer; the kind is a person's."""
    found = read_cases(started(QUEUED, DONE).cases, "acme.toml").looks
    assert [case["name"] for case in found] == ["0.json", "1.json"]
    assert found[0]["job_id"] == "J-1"
    expected = found[0]["expect"]
    assert isinstance(expected, dict) and expected["state"] == "queued"
    assert str(expected["kind"]).startswith("TODO: pending, success, failure")
    answer = found[1]["answer"]
    assert isinstance(answer, dict) and json.loads(str(answer["body"])) == DONE


def test_hints_and_expiry_are_only_mentioned() -> None:
    """As comments: whether they hold is for the documentation to say."""
    text = started(QUEUED, DONE).contract
    assert "# these may say when to ask again, in a [[hints]] with path and unit: poll_after (5)" in text
    assert '# seen: expires_at ("2026-12-01T00:00:00Z")' in text


@pytest.mark.parametrize(
    ("url", "template", "parameters"),
    [
        ("https://a.example/{project}/jobs/{job_id}", "https://a.example/{project}/jobs/{job_id}", ["project"]),
        ("https://a.example/jobs?id=J-1&x=J-12", "https://a.example/jobs?id={job_id}&x=J-12", None),
        ("http://127.0.0.1:8080/jobs/J-1", "{base}/jobs/{job_id}", None),
        ("{base}/jobs/{job_id}", "{base}/jobs/{job_id}", None),
        ("https://a.example/jobs", "https://a.example/jobs", None),
    ],
)
def test_the_address_becomes_a_template(url: str, template: str, parameters: list[str] | None) -> None:
    """The id of the samples is the job's; what is not https has no fixed address."""
    found = document(started(QUEUED, url=url).contract)["status"]
    assert (found["url"], found.get("parameters")) == (template, parameters)


@pytest.mark.parametrize("url", ["ftp://x", "not a url", "https://user:pw@a.example/", "https://a.example/ü"])
def test_what_is_no_address_is_refused(url: str) -> None:
    """Before anything is written."""
    with pytest.raises(SetupError, match="--url"):
        started(url=url)


@pytest.mark.parametrize("name", ["", "Acme", "a b", "-a", "a" * 65, "ä"])
def test_a_name_that_no_contract_can_have_is_refused(name: str) -> None:
    """With an example of one."""
    with pytest.raises(SetupError, match="acme-render"):
        start_contract(name, Via.HTTP, None, [])


WITHOUT = {
    Via.HTTP: {"status.url", "state.path", "states.TODO"},
    Via.AWS: {"status.service", "status.operation", "status.body", "state.path", "states.TODO"},
    Via.MCP: {"status.url", "status.era", "state.path", "states.TODO"},
    Via.PUSH: {"state.path", "states.TODO"},
}


@pytest.mark.parametrize("via", list(Via))
def test_without_samples_the_check_asks_for_more(via: Via) -> None:
    """Each carrier for what it needs; the cases file shows what a case looks like."""
    found = started(url=None, via=via)
    asked = {fault.where for fault in faults(document(found.contract))}
    always = {"title", "source", "verified", "states.success", "states.failure", "result.TODO"}
    assert asked == WITHOUT[via] | always | ({"status.observational"} if via is not Via.PUSH else set())
    assert tomllib.loads(found.cases) == {}
    example = "\n".join(line[2:] for line in found.cases.splitlines() if line.startswith("# ["))
    assert "[[case]]" in example


def test_every_section_in_a_comment_is_one_of_the_format() -> None:
    """A person who takes the hash away has a contract still."""
    text = decided(document(started(QUEUED, DONE).contract))
    commented: list[str] = []
    for line in started(QUEUED, DONE).contract.splitlines():
        body = line.removeprefix("# ")
        if line.startswith("# ") and (body.startswith("[") or " = " in body.split("#")[0]) and "typical" not in body:
            commented.append(body)
    whole = "\n".join(commented[commented.index("[[http]]") :])
    added = tomllib.loads(whole)
    assert faults({**text, **added}) == []
    assert {"http", "limits", "expiry", "submit", "cancel"} <= added.keys()


def test_fields_of_awkward_names_are_paths_still() -> None:
    """Quoted where JMESPath wants it."""
    seen = propose(saved({"data": {"x-meta.1": {"status": "busy", "id": 7}}}), None)
    assert seen.states[0].path == 'data."x-meta.1".status'
    assert compile_path(seen.states[0].path).search({"data": {"x-meta.1": {"status": "busy"}}}) == "busy"
    assert seen.words == ["busy"]
    for key in ("TODO_x", "a\x1fb", 'a"b', "ü", "a" * 600):
        places = propose(saved({key: {"error": {"message": "m"}, "id": 1}}), None)
        for place in (*places.ids, *places.texts):
            assert not place.path.startswith("TODO")
            assert compile_path(place.path).search({key: {"error": {"message": "m"}, "id": 1}}) in ("m", 1)
        assert len(places.ids) == (len(key) < 500)


def test_booleans_and_numbers_are_words_as_json_writes_them() -> None:
    """Google's `done`, and codes."""
    assert propose(saved({"done": True}, {"done": False}), None).words == ["true", "false"]
    assert propose(saved({"status": 3}), None).words == ["3"]


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.sampled_from(
        ["status", "id", "error", "message", "url", "done", "expires_at", "retry_after"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(_json, max_size=3), st.sampled_from(list(Via)), st.sampled_from([None, URL, "https://a.example/{x}/{job_id}"]))
def test_whatever_an_answer_holds_both_files_are_toml(bodies: list[Json], via: Via, url: str | None) -> None:
    """No value of a provider can break out of its place; the cases file is accepted, and every fault is one of ours to decide."""
    found = started(*bodies, url=url, via=via)
    read_cases(found.cases, "acme.toml")
    whole = document(found.contract)
    assert whole["contract"] == "acme"
    decisions = {"title", "source", "verified", "status", "state", "states", "result"}
    assert {fault.where.split(".")[0] for fault in faults(whole)} <= decisions


@given(_json)
def test_a_value_written_as_toml_is_the_value(value: Json) -> None:
    """But for nulls, which are left out."""

    def plain(one: Any) -> Any:
        if isinstance(one, dict):
            return {key: plain(inner) for key, inner in one.items() if inner is not None}
        return [plain(inner) for inner in one if inner is not None] if isinstance(one, list) else {} if one is None else one

    assert tomllib.loads(f"a = {toml_value(value)}")["a"] == plain(value)


@given(st.text())
def test_a_text_written_as_toml_is_the_text(text: str) -> None:
    """In quotes or as a block; a comment stays one line."""
    for wrote in (toml_text(text), toml_block(text)):
        assert tomllib.loads(f"a = {wrote}\nb = 1") == {"a": text, "b": 1}
    assert tomllib.loads(f"{comment(text)}\nb = 1") == {"b": 1}


MISSING = Answer("missing", 404, {}, '{"error": "no such job", "error_type": "lost"}')


def test_errors_are_those_of_a_failed_job_not_of_one_that_is_unknown() -> None:
    """The places come from an answer of 2xx that says why, and its case expects what it says; else they are to be reviewed."""
    failed = start_contract("acme", Via.HTTP, URL, [MISSING, *saved(QUEUED, FAILED)])
    assert document(failed.contract)["error"] == {"code": "error.code", "text": "error.message"}
    missing, queued, told = (case["expect"] for case in read_cases(failed.cases, "acme.toml").looks)
    assert isinstance(told, dict) and (told["error_code"], told["error_text"]) == ("E7", "no disk")
    assert isinstance(queued, dict) and isinstance(missing, dict) and not {"error_code", "error_text"} & {*queued, *missing}
    alone = start_contract("acme", Via.HTTP, URL, [MISSING, *saved({"job_id": "J-1", "status": "queued"})]).contract
    assert document(alone)["error"]["text"] == "error" and "# REVIEW: only answers other than 2xx" in alone


def test_a_result_is_what_a_pending_answer_does_not_have() -> None:
    """A field that all words show is not proposed; an address is one of type url."""
    pending: Json = {"status": "queued", "urls": ["https://x.example/self"]}
    done: Json = {"status": "done", "urls": ["https://x.example/self"], "output": {"url": "https://x.example/a"}}
    text = started(pending, done).contract
    assert '# path = "output.url"' in text and '# type = "url"' in text
