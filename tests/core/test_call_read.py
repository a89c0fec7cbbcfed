"""Reading answers to submits and cancels: what was taken on, which job it is, and what says that nothing was done."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sereno.core.call import CallAnswer, CallKind, CallOutcome
from sereno.core.contract import (
    Call,
    Cancel,
    Contract,
    Duplicate,
    FieldTest,
    Idempotency,
    JudgeBy,
    KeyForm,
    KeyPlace,
    Meaning,
    Signature,
    Submit,
    Via,
)
from sereno.core.observation import HttpReply, NoReply, NoReplyKind, Reply
from sereno.core.operation import read_call
from sereno.core.values import Json
from tests.core.test_observation_read import http
from tests.core.waiting import CANCEL, KEYED, NOON, SUBMIT, Dotted, after, make_contract, submitting, with_call

O = CallOutcome  # noqa: E741
PLAIN = make_contract(submit=SUBMIT, cancel=CANCEL, error_code=Dotted("error.code"), error_text=Dotted("error.message"))


def told(status: int, body: Json | bytes = b"", *, url: str = "https://acme.example/jobs", **headers: str) -> HttpReply:
    """An answer of the submit address."""
    return replace(http(status, body, **headers), url=url)


def submitted(reply: Reply, contract: Contract = PLAIN, **operation: object) -> CallAnswer:
    """Reads the answer to a submit at noon."""
    call = with_call()
    return read_call(contract, submitting(call, **operation), call, reply, received_at=NOON)


def cancelled(reply: Reply, cancel: Cancel = CANCEL) -> CallAnswer:
    """Reads the answer to a cancel at noon."""
    call = with_call(CallKind.CANCEL)
    contract = replace(PLAIN, cancel=cancel)
    return read_call(contract, replace(submitting(call), job_id="job-7"), call, reply, received_at=NOON)


def submit(**fields: object) -> Contract:
    """The plain contract with another submit."""
    return replace(PLAIN, submit=replace(SUBMIT, **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, O.ACCEPTED), (201, O.ACCEPTED), (202, O.ACCEPTED), (400, O.REFUSED), (401, O.DENIED), (402, O.REFUSED), (403, O.DENIED),
        (404, O.REFUSED), (408, O.UNKNOWN), (409, O.REFUSED), (422, O.REFUSED), (429, O.THROTTLED), (301, O.UNKNOWN), (303, O.UNKNOWN),
        (500, O.UNKNOWN), (502, O.UNKNOWN), (503, O.UNKNOWN), (100, O.UNKNOWN),
    ],
)  # fmt: skip
def test_W31_what_each_status_says_about_a_submit(status: int, outcome: CallOutcome) -> None:
    """Only what is listed was taken on; 4xx says that nothing was done; all else may have been."""
    answer = submitted(told(status, {"id": "j9"}))
    assert (answer.outcome, answer.http_status, answer.requests) == (outcome, status, 1)
    assert (answer.job_id == "j9") is (outcome is O.ACCEPTED)


def test_W31_a_2xx_that_is_not_listed_may_have_been_done() -> None:
    """The contract said 201."""
    assert submitted(told(200, {"id": "j9"}), submit(accepts=("201",))).outcome is O.UNKNOWN


@pytest.mark.parametrize(
    ("reply", "outcome", "requests"),
    [
        (NoReply(NoReplyKind.DNS, "no name", sent=False), O.NOT_SENT, 0),
        (NoReply(NoReplyKind.CONNECT, "refused", sent=False), O.NOT_SENT, 0),
        (NoReply(NoReplyKind.NO_CREDENTIAL, "missing", sent=False), O.DENIED, 0),
        (NoReply(NoReplyKind.REFUSED_ADDRESS, "private", sent=False), O.REFUSED, 0),
        (NoReply(NoReplyKind.TIMEOUT, "slow", sent=True, hops=1), O.UNKNOWN, 1),
        (NoReply(NoReplyKind.RESET, "reset", sent=True), O.UNKNOWN, 1),
        (NoReply(NoReplyKind.TOO_LARGE, "big", sent=True, status=200), O.UNKNOWN, 1),
        (NoReply(NoReplyKind.TOO_LARGE, "big", sent=True, status=401), O.DENIED, 1),
        (NoReply(NoReplyKind.TOO_LARGE, "big", sent=True, status=429), O.THROTTLED, 1),
        (NoReply(NoReplyKind.TOO_LARGE, "big", sent=True, status=422), O.REFUSED, 1),
        (NoReply(NoReplyKind.REDIRECT, "off", sent=True, status=302), O.UNKNOWN, 1),
    ],
)
def test_W31_no_complete_answer(reply: NoReply, outcome: CallOutcome, requests: int) -> None:
    """Certain that nothing left, or it may have been done, unless headers had come that say it was not."""
    answer = submitted(reply)
    assert (answer.outcome, answer.requests) == (outcome, requests) and reply.message in answer.reason


@pytest.mark.parametrize(
    ("fields", "reply", "job_id", "url"),
    [
        ({}, told(201, {"id": "j9"}), "j9", "https://acme.example/jobs/j9"),
        ({}, told(201, {"id": 17}), "17", "https://acme.example/jobs/17"),
        ({}, told(201, {"id": "a/b?c"}), "a/b?c", "https://acme.example/jobs/a%2Fb%3Fc"),
        ({"job_id": None, "job_id_header": "X-Job"}, told(201, b"", x_job=" j9 "), "j9", "https://acme.example/jobs/j9"),
        (
            {"job_id": None, "status_url_header": "Operation-Location"},
            told(202, b"", operation_location="https://acme.example/ops/9?api=2"),
            "https://acme.example/ops/9?api=2",
            "https://acme.example/ops/9?api=2",
        ),
        (
            {"job_id": None, "status_url_header": "Location"},
            told(202, b"", url="https://acme.example/v1/jobs", location="/ops/9"),
            "https://acme.example/ops/9",
            "https://acme.example/ops/9",
        ),
        (
            {"status_url": Dotted("links.self")},
            told(201, {"id": "j9", "links": {"self": "s/9"}}),
            "j9",
            "https://acme.example/s/9",
        ),
    ],
)
def test_W15_the_job_is_named_by_the_answer(fields: dict[str, object], reply: HttpReply, job_id: str, url: str) -> None:
    """By a field, a header, or its address, which is taken or filled in, never guessed from the submit's."""
    answer = submitted(reply, submit(**fields))
    assert (answer.outcome, answer.job_id, answer.url) == (O.ACCEPTED, job_id, url), answer.reason


@pytest.mark.parametrize(
    ("fields", "reply"),
    [
        ({}, told(201, b"")),
        ({}, told(201, {"id": None})),
        ({}, told(201, {"id": ""})),
        ({}, told(201, {"id": {"x": 1}})),
        ({}, told(201, {"id": ".."})),
        ({}, told(201, {"id": "x" * 3000})),
        ({}, told(201, b"<html>ok</html>", type_="text/html")),
        ({}, told(201, b'{"id":')),
        ({"job_id": None, "job_id_header": "X-Job"}, told(201, {"id": "j9"})),
        ({"job_id": None, "status_url_header": "Location"}, told(202, b"", location="https://evil.example/ops/9")),
        ({"job_id": None, "status_url_header": "Location"}, told(202, b"", location="//evil.example/ops/9")),
        ({"job_id": None, "status_url_header": "Location"}, told(202, b"", location="../../admin")),
        ({"job_id": None, "status_url_header": "Location"}, told(202, b"", location="http://acme.example/ops/9")),
        ({"parameters": {"project": Dotted("project.id")}}, told(201, {"id": "j9"})),
    ],
)
def test_status_polling_24_taken_on_without_a_readable_job(fields: dict[str, object], reply: HttpReply) -> None:
    """status-polling §2 row 24: a job exists and cannot be looked at: no id, an unreadable one, or an address elsewhere."""
    answer = submitted(reply, submit(**fields))
    assert (answer.outcome, answer.job_id, answer.url) == (O.UNREADABLE, None, None)
    assert "no job can be read" in answer.reason and len(answer.reason) < 500


def test_an_answer_gives_parameters_of_the_status_call() -> None:
    """What only the answer knows goes into the address and is kept with what the caller gave."""
    contract = replace(
        submit(parameters={"project": Dotted("project.id")}),
        status=Call("GET", "https://acme.example/{region}/{project}/{job_id}"),
        parameters=("region", "project"),
    )
    answer = submitted(told(201, {"id": "j9", "project": {"id": 4}}), contract, parameters={"region": "eu"})
    assert (answer.url, answer.parameters) == ("https://acme.example/eu/4/j9", {"region": "eu", "project": "4"})


def test_a_replaced_base_stays_with_the_job() -> None:
    """A self-hosted provider: the address is filled under the base, which the next looks keep."""
    base = "http://127.0.0.1:9/api"
    answer = submitted(told(201, {"id": "j9"}, url=f"{base}/jobs"), parameters={"base": base})
    assert (answer.outcome, answer.url, answer.parameters) == (O.ACCEPTED, f"{base}/jobs/j9", {"base": base})


def test_a_status_url_as_job_id() -> None:
    """Where the job id is the address, the header's value is both, made whole and kept to its origin."""
    contract = replace(submit(job_id=None, job_id_header="Location"), status=Call("GET", "{job_id}"), origins=())
    answer = submitted(told(202, b"", location="/status/9"), contract)
    assert (answer.job_id, answer.url) == ("https://acme.example/status/9",) * 2
    assert submitted(told(202, b"", location="https://evil.example/9"), contract).outcome is O.UNREADABLE


def test_a_provider_that_calls_back_has_no_address() -> None:
    """The id is all there is."""
    contract = replace(submit(), via=Via.PUSH, status=Call("GET", ""))
    answer = submitted(told(200, {"id": "r1"}), contract)
    assert (answer.outcome, answer.job_id, answer.url) == (O.ACCEPTED, "r1", "")


REJECTS = Idempotency(KeyPlace.JOB_ID, "{key}", Duplicate.REJECT, timedelta(days=1))
CHOSEN: dict[str, object] = {"job_id": None, "idempotency": REJECTS, "duplicate": ("409",)}


def test_W21_the_caller_may_choose_the_id() -> None:
    """The key is the job's id, whether it is new or there already."""
    for status, outcome in ((201, O.ACCEPTED), (409, O.DUPLICATE)):
        answer = submitted(told(status, {"error": {"code": "exists"}}), submit(**CHOSEN))
        assert (answer.outcome, answer.job_id, answer.url) == (outcome, "key-1", "https://acme.example/jobs/key-1")


def test_W21_a_duplicate_may_be_told_by_its_body() -> None:
    """Ray: 500 that is really "there is one already"; another 500 is in doubt."""
    tests = (FieldTest(Dotted("error.code"), JudgeBy.EQUALS, "exists"),)
    contract = submit(**{**CHOSEN, "duplicate": ("500",), "duplicate_tests": tests})
    assert submitted(told(500, {"error": {"code": "exists"}}), contract).outcome is O.DUPLICATE
    assert submitted(told(500, {"error": {"code": "else"}}), contract).outcome is O.UNKNOWN


def test_W21_a_duplicate_that_names_no_job_says_so() -> None:
    """The provider rejects the key and keeps the id to itself."""
    keyed = Idempotency(KeyPlace.HEADER, "Idempotency-Key", Duplicate.REJECT, timedelta(days=1))
    answer = submitted(told(409, {}), submit(idempotency=keyed, duplicate=("409",)))
    assert (answer.outcome, answer.job_id) == (O.DUPLICATE, None) and "does not say which" in answer.reason


@pytest.mark.parametrize(("status", "outcome"), [(201, O.ACCEPTED), (409, O.DUPLICATE)])
def test_W21_the_request_may_name_the_job(status: int, outcome: CallOutcome) -> None:
    """Where the answer does not repeat what was asked for: the key as it was sent, or a part of the input."""
    keyed = Idempotency(KeyPlace.BODY, "name", Duplicate.REJECT, timedelta(days=1), KeyForm.DASHED)
    named = {"job_id": None, "idempotency": keyed, "duplicate": ("409",)}
    for path, key, input_, job_id in (
        ("key", "key-1", None, "key-1"),
        ("key", "key_1", None, "key-1-0c08dbd4adb6"),
        ("input.run.name", "key-1", {"run": {"name": "mine"}}, "mine"),
    ):
        contract, call = submit(**named, job_id_from=Dotted(path)), replace(with_call(), key=key, input=input_)
        answer = read_call(contract, submitting(call), call, told(status, b"there is one"), received_at=NOON)
        assert (answer.outcome, answer.job_id, answer.url) == (outcome, job_id, f"https://acme.example/jobs/{job_id}")


def test_W05_what_the_answer_names_wins_over_the_request() -> None:
    """A provider that did not take the key has made another job; one that names none is asked by the key."""
    contract = submit(job_id_from=Dotted("key"))
    assert submitted(told(201, {"id": "other"}), contract).job_id == "other"
    assert submitted(told(201, {}), contract).job_id == "key-1"


def test_W31_a_request_that_names_no_job_is_not_guessed() -> None:
    """Taken on, and no job can be read."""
    answer = submitted(told(201, {}), submit(job_id=None, job_id_from=Dotted("input.name")))
    assert (answer.outcome, answer.job_id) == (O.UNREADABLE, None) and "not at input.name" in answer.reason


@pytest.mark.parametrize(
    ("address", "segment", "job_id"),
    [
        ("http://ci.example/queue/item/12/", -1, "12"),
        ("/queue/item/12", -1, "12"),
        ("https://ci.example/a/b%20c/12/?q=/x/y", 1, "b c"),
        ("12", 0, "12"),
        ("https://ci.example/", -1, None),
        ("https://ci.example/queue", 3, None),
        ("https://ci.example/queue/..", -1, None),
        ("https://[broken/queue", -1, None),
    ],
)
def test_W15_the_id_may_be_a_segment_of_an_address(address: str, segment: int, job_id: str | None) -> None:
    """Jenkins: Location names the queue item's page, not its number; a segment that could leave its place is refused."""
    for fields, reply in (
        ({"job_id": None, "job_id_header": "Location"}, told(201, b"", location=address)),
        ({"job_id": Dotted("self")}, told(201, {"self": address})),
    ):
        answer = submitted(reply, submit(**fields, job_id_segment=segment))
        assert answer.job_id == job_id
        assert answer.outcome is (O.UNREADABLE if job_id is None else O.ACCEPTED)


def test_W17_a_refusal_may_be_told_by_its_body() -> None:
    """AWS says with 400 that access is denied, or that it were too many requests; nothing was done either way, so no more is read."""
    signatures = [
        Signature("400", Meaning.AUTHORIZATION_DENIED, [FieldTest(Dotted("code"), JudgeBy.EQUALS, "AccessDenied")]),
        Signature("4xx", Meaning.THROTTLED, [FieldTest(Dotted("code"), JudgeBy.EQUALS, "Throttling")]),
        Signature("5xx", Meaning.THROTTLED, [FieldTest(Dotted("code"), JudgeBy.EQUALS, "Throttling")]),
        Signature("422", Meaning.PENDING),
    ]
    contract = replace(PLAIN, signatures=signatures)
    for status, code, outcome in (
        (400, "AccessDenied", O.DENIED),
        (400, "Throttling", O.THROTTLED),
        (403, "Throttling", O.THROTTLED),
        (403, "else", O.DENIED),
        (422, "else", O.REFUSED),
        (400, "else", O.REFUSED),
        (500, "Throttling", O.UNKNOWN),
    ):
        assert submitted(told(status, {"code": code}), contract).outcome is outcome


@pytest.mark.parametrize("status", [202, 429, 503])
def test_status_polling_6_retry_after_of_the_submit_is_read(status: int) -> None:
    """On any status, seconds and dates."""
    answer = submitted(told(status, {"id": "j9"}, retry_after="120"))
    assert [hint.until for hint in answer.hints] == [after(120)]


def test_what_the_provider_says_is_kept_and_cut() -> None:
    """Error code and text of a refusal, its request id; nothing of them where the job was taken on."""
    body: Json = {"id": "j9", "error": {"code": "quota", "message": "no\x00" + "y" * 5000}}
    refused = submitted(told(422, body, x_request_id="r-1"))
    assert (refused.error_code, refused.provider_request_id) == ("quota", "r-1")
    assert refused.error_text is not None and len(refused.error_text) == 2000 and "\x00" not in refused.error_text
    assert submitted(told(201, body)).error_code is None


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, O.ACCEPTED), (204, O.ACCEPTED), (404, O.TOO_LATE), (409, O.TOO_LATE), (400, O.REFUSED), (401, O.DENIED),
        (429, O.THROTTLED), (500, O.UNKNOWN), (302, O.UNKNOWN),
    ],
)  # fmt: skip
def test_W24_what_each_status_says_about_a_cancel(status: int, outcome: CallOutcome) -> None:
    """As the contract lists it; a cancel names no job."""
    answer = cancelled(told(status))
    assert (answer.outcome, answer.job_id) == (outcome, None)


def test_a_call_that_the_contract_does_not_have_is_in_doubt() -> None:
    """It cannot be said what its answer means."""
    call = with_call(CallKind.CANCEL)
    answer = read_call(replace(PLAIN, cancel=None), submitting(call), call, told(200), received_at=NOON)
    assert answer.outcome is O.UNKNOWN


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=80) | st.sampled_from([b'{"id":"j9"}', b'{"id":[]}', b"[]", b'{"id":"../x"}']),
    st.integers(100, 599),
    st.text(st.characters(exclude_characters="\n\r"), max_size=40),
    st.sampled_from([SUBMIT, KEYED, replace(SUBMIT, job_id=None, status_url_header="Location"), replace(SUBMIT, **CHOSEN)]),  # type: ignore[arg-type]
)
def test_W31_nothing_a_provider_sends_makes_reading_raise(body: bytes, status: int, text: str, form: Submit) -> None:
    """Any bytes, status and header give one answer; a job is named only by what took it on, at the provider's own origin."""
    answer = submitted(told(status, body, location=text, retry_after=text), replace(PLAIN, submit=form))
    assert len(answer.reason) < 1000
    if answer.job_id is not None:
        assert answer.outcome in (O.ACCEPTED, O.DUPLICATE)
        assert answer.url is not None and answer.url.lower().startswith("https://acme.example/")
