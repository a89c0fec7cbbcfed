"""Cases of contracts: what a file of them may hold, what differs, which words nothing shows; saved answers and what comes next."""

import json
import tomllib
from datetime import UTC, datetime, timedelta

import pytest

from sereno.builtin.contracts.paths import compile_path
from sereno.core.contract import Contract, parse_contract
from sereno.core.errors import SetupError
from sereno.core.values import Json
from sereno.service.contracting.answers import MAX_ANSWER, read_answer
from sereno.service.contracting.cases import read_cases, run_cases
from sereno.service.contracting.foreseen import Asking, foresee

NOW = datetime(2026, 11, 30, 15, tzinfo=UTC)
TEXT = """
format = 1
contract = "acme"
version = 1
title = "Acme"
source = "a test"
verified = "verified: all"
[status]
url = "{base}/jobs/{job_id}"
observational = "reads"
[state]
path = "status"
[states]
pending = ["queued", "running"]
success = ["done"]
failure = ["failed"]
[job]
id = "id"
[[result.fields]]
path = "url"
[delays]
base = "4s"
max = "1m"
[limits]
deadline = "1h"
requests = 50
transport_failures = 2
throttles = 2
"""
SUBMIT = """
[submit]
url = "{base}/jobs"
effects = "starts a job"
job_id = "id"
"""
CASE = """
[[case]]
name = "running"
[case.answer]
status = 200
json = { id = "job-1", status = "running" }
[case.expect]
kind = "pending"
state = "running"
"""


def contract(text: str = TEXT) -> Contract:
    """The contract of this module."""
    found = parse_contract(tomllib.loads(text), compile_path)
    assert isinstance(found, Contract), found
    return found


def tried(cases: str, text: str = TEXT) -> dict[str, list[str]]:
    """What differs in each case."""
    return {one.name: list(one.differences) for one in run_cases(contract(text), read_cases(cases, "cases.toml")).tried}


def test_W03_a_case_that_is_read_as_it_says_is_silent_and_another_says_what_differs() -> None:
    """Kind, state and a part of the reason; the reason of the reading stands beside."""
    assert tried(CASE) == {"running": []}
    wrong = CASE.replace('kind = "pending"', 'kind = "success"\nreason = "never said"\nwait = "30s"')
    found = tried(wrong)["running"]
    assert found[0].startswith("kind: 'pending' instead of 'success' (the state 'running'")
    assert found[1].startswith("reason: 'never said' is no part of")
    assert found[2] == "wait: None instead of 30s"


def test_W03_a_word_without_a_case_is_named() -> None:
    """Only what a case shows counts as shown, whatever its kind."""
    trial = run_cases(contract(TEXT + SUBMIT), read_cases(CASE, "cases.toml"))
    assert trial.missing == ["queued", "done", "failed"]
    assert trial.untried_submit


def test_W31_an_answer_to_a_submit_is_a_case_too() -> None:
    """Taken on under the id that the answer names; a contract without submit says so."""
    submit = '[[submit]]\nname = "taken on"\n[submit.answer]\nstatus = 201\njson = { id = "j-9" }\n[submit.expect]\noutcome = "accepted"\n'
    assert tried(submit + 'job_id = "j-9"', TEXT + SUBMIT) == {"taken on": []}
    assert tried(submit + 'job_id = "j-8"', TEXT + SUBMIT)["taken on"][0].startswith("job_id: 'j-9' instead of 'j-8'")
    assert tried(submit) == {"taken on": ["the contract has no [submit]"]}


CANCEL = """
[cancel]
method = "DELETE"
url = "{base}/jobs/{job_id}"
body = { why = "asked" }
effects = "ends it"
"""
CANCELLED = """
[[cancel]]
name = "the request"
job_id = "j-9"
[cancel.request]
method = "DELETE"
url = "https://service.example/jobs/j-9"
body = { why = "asked" }
[cancel.answer]
status = 409
[cancel.expect]
outcome = "too_late"
"""


def test_W24_a_cancel_is_a_case_too() -> None:
    """Its request is compared whole, its answer read; a contract without cancel says so."""
    assert tried(CANCELLED, TEXT + CANCEL) == {"the request": []}
    other = tried(CANCELLED.replace('j-9"\nbody', 'j-8"\nbody'), TEXT + CANCEL)["the request"]
    assert len(other) == 1 and other[0].startswith("request: {") and "jobs/j-9" in other[0] and "jobs/j-8" in other[0]
    bare = tried(CANCELLED.replace('body = { why = "asked" }\n', ""), TEXT + CANCEL)["the request"]
    assert len(bare) == 1, "a body that the case does not name is none"
    assert tried(CANCELLED.replace("too_late", "accepted"), TEXT + CANCEL)["the request"][0].startswith("outcome: 'too_late'")
    assert tried(CANCELLED) == {"the request": ["cannot be tried: the contract has no [cancel]"]}


def test_W24_a_cancel_without_a_case_is_named_and_one_that_says_nothing_is_a_fault() -> None:
    """What must be sent, or what an answer means."""
    assert run_cases(contract(TEXT + CANCEL), read_cases(CASE, "cases.toml")).untried_cancel
    assert not run_cases(contract(TEXT + CANCEL), read_cases(CASE + CANCELLED, "cases.toml")).untried_cancel
    with pytest.raises(SetupError) as found:
        read_cases('[[cancel]]\nname = "empty"\n', "cases.toml")
    assert any("what must be sent?" in str(fault) for fault in found.value.faults)


def test_a_case_that_cannot_be_asked_says_why() -> None:
    """A parameter that the contract does not take."""
    given = CASE.replace("[case.answer]", 'parameters = { project = "x" }\n[case.answer]')
    assert tried(given) == {"running": ["cannot be tried: acme takes no parameter 'project'"]}


def test_what_is_still_to_be_decided_differs() -> None:
    """And says what the contract makes of it as it is."""
    found = tried(CASE.replace('kind = "pending"', 'kind = "TODO: pending, success, …"'))["running"]
    assert found == ["kind is still to be decided: Sereno reads 'pending' (the state 'running' means pending)"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('name = "running"', 'name = ""'), "case[0].name: must be a text"),
        (("status = 200", 'status = "200"'), "case[0].answer.status: must be a whole number"),
        (("status = 200\n", ""), "case[0].answer.status: is missing"),
        (('kind = "pending"', 'kin = "pending"'), "case[0].expect.kin: is not known here — did you mean 'kind'?"),
        (("[case.answer]", 'afer = "3s"\n[case.answer]'), "case[0].afer: is not known here — did you mean 'after'?"),
        (("[case.answer]", 'after = "3x"\n[case.answer]'), "case[0].after: '3x' is not a duration"),
        (("[[case]]", "[[cases]]"), "cases: is not known here"),
        (("json =", "body ="), "case[0].answer.body: must be a text"),
        (("[[case]]", "[[case"), "is not TOML"),
        (('kind = "pending"\nstate = "running"\n', ""), "case[0].expect: is missing: what must be made of this answer?"),
    ],
)
def test_a_faulty_file_of_cases_is_refused_with_its_place(change: tuple[str, str], says: str) -> None:
    """Unknown keys with the nearest, wrong types, what is missing."""
    with pytest.raises(SetupError) as caught:
        read_cases(CASE.replace(*change), "cases.toml")
    assert says in str(caught.value)


def test_two_cases_of_one_name_are_refused() -> None:
    """A name says which case went wrong."""
    with pytest.raises(SetupError, match="'running' is there already"):
        read_cases(CASE + CASE, "cases.toml")


CURL = b"""HTTP/1.1 301 Moved\r\nLocation: /x\r\n\r\nHTTP/2 202 \r\ncontent-type: application/json\r
date: Mon, 30 Nov 2026 12:00:00 GMT\r\nRetry-After: 30\r\nset-cookie: a=b\r\n\r\n{"id": "j-1", "status": "running"}"""


def test_what_curl_printed_is_the_last_answer() -> None:
    """Redirects and `100 Continue` come before it; what a case keeps of the headers holds no cookie."""
    found = read_answer(CURL, "a.txt")
    assert (found.status, found.json) == (202, {"id": "j-1", "status": "running"})
    assert found.kept_headers == {
        "content-type": "application/json",
        "date": "Mon, 30 Nov 2026 12:00:00 GMT",
        "retry-after": "30",
    }
    assert read_answer(b"HTTP/1.1 100 Continue\n\n" + CURL, "a.txt").status == 202
    assert (read_answer(b'{"a": 1}', "a.json").status, read_answer(b"HTTP/1.1 204 \r\n\r\n", "b").body) == (200, "")


@pytest.mark.parametrize("content", [b"<html>", b"", b"\xff{}", b"{" * 70 + b"}" * 70, b"1" * (MAX_ANSWER + 1)])
def test_what_is_no_answer_is_refused(content: bytes) -> None:
    """Neither JSON nor headers."""
    with pytest.raises(SetupError, match="the answer cannot be read"):
        read_answer(content, "a.txt")


def seen(
    body: Json, asking: Asking | None = None, text: str = TEXT
) -> tuple[str, timedelta | None, timedelta | None, str | None]:
    """Kind, bounds of the next look, category of one answer."""
    answer = read_answer(json.dumps(body).encode(), "a.json")
    found = foresee(contract(text), answer, asking or Asking(), now=NOW)
    return found.observation.kind.value, found.earliest, found.latest, found.decision.category


def test_W06_a_saved_answer_says_when_the_next_look_would_be() -> None:
    """50 to 100 % of the backoff after one answer: base doubled once; nothing after an end or a question."""
    kind, early, late, category = seen({"id": "j-1", "status": "running"})
    assert (kind, early, category) == ("pending", timedelta(seconds=4), None)
    assert late is not None and timedelta(seconds=7.9) < late <= timedelta(seconds=8)
    assert seen({"id": "j-1", "status": "done", "url": "https://x.example/a"}) == ("success", None, None, None)
    assert seen({"id": "j-1", "status": "done"}) == ("contradiction", None, None, "contradiction")
    assert seen({"id": "j-1", "status": "odd"})[3] == "unknown_state"


def test_W05_the_job_of_a_saved_answer_is_the_one_it_names_or_yours() -> None:
    """With --job-id an answer about another job contradicts."""
    body: Json = {"id": "j-1", "status": "running"}
    assert seen(body, Asking(job_id="j-2"))[0] == "contradiction"
    assert seen(body, Asking(job_id="j-1"))[0] == "pending"
    with pytest.raises(ValueError, match="base URL has no query"):
        seen(body, Asking(parameters={"base": "https://x.example/?a"}))


def test_W13_a_saved_answer_came_at_its_own_date() -> None:
    """So that Retry-After and instants in the body mean what they meant; without a date it came now."""
    found = foresee(contract(), read_answer(CURL, "a.txt"), Asking(), now=NOW)
    assert found.received_at == datetime(2026, 11, 30, 12, tzinfo=UTC)
    assert (found.earliest, found.latest) == (timedelta(seconds=30), timedelta(seconds=30))
    assert foresee(contract(), read_answer(b'{"id": "1"}', "a"), Asking(), now=NOW).received_at == NOW


def test_W09_the_limits_of_the_contract_hold_for_a_saved_answer() -> None:
    """An answer after the deadline is recorded and asks."""
    assert (
        seen({"id": "j-1", "status": "done", "url": "https://x.example/a"}, Asking(after=timedelta(hours=2)))[3]
        == "deadline_exceeded"
    )


def test_W16_a_job_that_should_not_be_found_yet_says_when_it_was_asked() -> None:
    """Without `after` an answer comes at 60 s, when a short grace is over: the difference names the key."""
    text = TEXT + '[[http]]\nstatus = "404"\nmeaning = "not_found_yet"\ngrace = "30s"\n'
    case = '[[case]]\nname = "new"\nanswer = { status = 404, json = {} }\nexpect = { kind = "not_found_yet" }\n'
    assert 'add after = "5s"' in tried(case, text)["new"][-1]
    assert tried(case + 'after = "5s"\n', text) == {"new": []}
