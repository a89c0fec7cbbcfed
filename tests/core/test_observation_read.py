"""Reading answers: the HTTP fact and the job fact apart, and every provider fault where it belongs."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sereno.core.contract import Contract, Meaning, parse_contract
from sereno.core.observation import (
    Asked,
    DelaySource,
    HttpReply,
    NoReply,
    NoReplyKind,
    Observation,
    ObservationKind,
    Reply,
    read_observation,
)
from sereno.core.values import Json
from tests.core.waiting import Dotted

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
K = ObservationKind


BASE: dict[str, Json] = {
    "format": 0,
    "contract": "acme",
    "version": 1,
    "title": "t",
    "source": "s",
    "verified": "v",
    "status": {"url": "https://api.acme.example/jobs/{job_id}", "origins": ["https://api.acme.example"]},
    "job": {"id": "id", "progress": "percent"},
    "state": {"from": "path", "path": "status"},
    "states": {
        "pending": ["queued", "running"],
        "success": ["succeeded"],
        "failure": ["failed"],
        "cancelled": ["canceled"],
        "expired": ["expired"],
        "partial": ["partly"],
        "needs_input": ["asks"],
    },
    "rules": [{"word": "succeeded", "path": "error.code", "meaning": "failure"}],
    "result": {"ref": "urls.get", "fields": [{"path": "output", "type": "url"}, {"path": "size", "type": "integer"}]},
    "error": {"code": "error.code", "text": "error.message"},
    "http": [
        {"status": "404", "meaning": "not_found_yet", "grace": "30s", "checks": 3},
        {"status": "400", "path": "error.code", "value": "slow_down", "meaning": "throttled"},
        {"status": "403", "header": "x-remaining", "value": "0", "meaning": "throttled"},
        {"status": "410", "path": "error.code", "meaning": "expired"},
    ],
    "hints": [{"path": "poll_after", "unit": "seconds"}, {"header": "x-reset", "unit": "at", "only": "throttled"}],
    "expiry": {"path": "expires_at"},
}


def contract_of(**sections: Json) -> Contract:
    found = parse_contract({**BASE, **sections}, Dotted)
    assert isinstance(found, Contract), found
    return found


ACME = contract_of()
HTTP = contract_of(
    state={"from": "http"},
    states={"pending": ["202"], "success": ["200", "201", "204"], "failure": ["422"]},
    rules=[{"word": "200", "path": "status", "value": "Failed", "meaning": "failure"}],
    job={},
    result={"header": "Location"},
)
GOOD = {
    "id": "j1",
    "status": "succeeded",
    "output": "https://x.example/o",
    "size": 3,
    "urls": {"get": "https://x.example/j1?sig=k"},
}


def http(status: int, body: Json | bytes = b"", *, type_: str = "application/json", **headers: str) -> HttpReply:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return HttpReply(status, [("Content-Type", type_), *named], content, "https://api.acme.example/jobs/j1", timedelta(seconds=1))


def read(reply: Reply, contract: Contract = ACME, *, age: float = 3600, not_found: int = 0) -> Observation:
    asked = Asked("j1", NOW - timedelta(seconds=age), url="https://api.acme.example/jobs/j1", not_found=not_found)
    return read_observation(contract, asked, reply, received_at=NOW)


def job(status: Json, **more: Json) -> HttpReply:
    return http(200, {"id": "j1", "status": status, **more})


@pytest.mark.parametrize(
    ("word", "kind"),
    [("queued", K.PENDING), ("running", K.PENDING), ("failed", K.FAILURE), ("canceled", K.CANCELLED), ("expired", K.EXPIRED)]
    + [("partly", K.PARTIAL), ("asks", K.NEEDS_INPUT)],
)
def test_W03_each_word_means_what_the_table_says(word: str, kind: ObservationKind) -> None:
    """A documented word is read as such, with the HTTP status beside it (W01)."""
    seen = read(job(word))
    assert (seen.kind, seen.state, seen.http_status, seen.requests) == (kind, word, 200, 1)
    assert seen.meaning is Meaning(kind.value)


@pytest.mark.parametrize(
    "word",
    [
        "paused",
        "awaiting_review",
        "needs_payment",
        "manual_review",
        "blocked",
        "Succeeded",
        "SUCCEEDED",
        " succeeded",
        "succeeded ",
    ]
    + [
        "succeeded\n",
        "success",
        "complete",
        "succeeded/x",
        "",
        "running?",
        "ｓucceeded",
        "succeeded\u0000",
        "null",
        0,
        True,
        1.5,
    ],
)
def test_W03_no_word_is_inferred(word: Json) -> None:
    """A word outside the table is unknown on first sight, however good it sounds (W38)."""
    seen = read(job(word, **{k: v for k, v in GOOD.items() if k not in ("id", "status")}))
    assert seen.kind is K.UNKNOWN_STATE
    assert seen.state != "succeeded"


def test_W03_caseless_only_where_the_contract_says_so() -> None:
    """The contract can allow other cases; blanks never."""
    contract = contract_of(state={"from": "path", "path": "status", "caseless": True})
    assert read(http(200, {**GOOD, "status": "SUCCeeded"}), contract).kind is K.SUCCESS
    assert read(http(200, {**GOOD, "status": " succeeded"}), contract).kind is K.UNKNOWN_STATE


def test_unknown_state_text_is_cut_and_cleaned() -> None:
    """A state of any length is stored as at most 200 harmless characters."""
    seen = read(job("\x1b[31m\u202e" + "x" * 5000))
    assert seen.kind is K.UNKNOWN_STATE
    assert seen.state is not None and len(seen.state) == 200
    assert "\x1b" not in seen.state + seen.reason and "\u202e" not in seen.state + seen.reason


def test_W11_success_brings_its_result() -> None:
    """Success validates every required field; the reference loses its query, which may be a key."""
    seen = read(http(200, GOOD))
    assert (seen.kind, seen.result_ref) == (K.SUCCESS, "https://x.example/j1")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"output": None}, "output is missing"),
        ({"output": ""}, "output is empty"),
        ({"output": "not a url"}, "output is not of type url"),
        ({"output": ["https://x.example"]}, "output is not of type url"),
        ({"size": "3"}, "size is not of type integer"),
        ({"size": True}, "size is not of type integer"),
        ({"size": 3.5}, "size is not of type integer"),
    ],
)
def test_W04_success_without_its_result_is_a_contradiction(change: dict[str, Json], says: str) -> None:
    """Each required field is checked by type, not only by presence."""
    seen = read(http(200, {**GOOD, **change}))
    assert seen.kind is K.CONTRADICTION
    assert says in seen.reason and seen.state == "succeeded" and seen.result_ref is None


def test_W04_one_alternative_is_enough() -> None:
    """Of the fields in one group at least one must hold."""
    fields: list[Json] = [{"path": "a", "alternative": "file"}, {"path": "b", "alternative": "file"}]
    contract = contract_of(result={"fields": fields})
    assert read(job("succeeded", b=1), contract).kind is K.SUCCESS
    assert "a is missing and b is missing" in read(job("succeeded"), contract).reason


def test_empty_and_null_only_where_the_contract_allows_them() -> None:
    """A legal empty result is success."""
    contract = contract_of(result={"fields": [{"path": "a", "allow_empty": True}, {"path": "b", "allow_null": True}]})
    assert read(job("succeeded", a=[], b=None), contract).kind is K.SUCCESS
    assert read(job("succeeded", a=None, b=None), contract).kind is K.CONTRADICTION


def test_a_rule_refines_a_word() -> None:
    """An error beside success is what the contract says it is, with code and text kept."""
    seen = read(http(200, {**GOOD, "error": {"code": 7, "message": "bad\x00thing " + "y" * 3000}}))
    assert (seen.kind, seen.error_code) == (K.FAILURE, "7")
    assert seen.error_text is not None and len(seen.error_text) == 2000 and "\x00" not in seen.error_text


@pytest.mark.parametrize(
    ("body", "kind"),
    [({"id": "j2", "status": "running"}, K.CONTRADICTION), ({"id": 1, "status": "running"}, K.CONTRADICTION)]
    + [({"status": "running"}, K.INTEGRATION_FAILURE), ({"id": None, "status": "running"}, K.INTEGRATION_FAILURE)]
    + [({"id": {"x": 1}, "status": "succeeded"}, K.INTEGRATION_FAILURE)],
)
def test_W05_the_answer_must_be_about_this_job(body: Json, kind: ObservationKind) -> None:
    """Another id is a contradiction, no id an answer we cannot read."""
    assert read(http(200, body)).kind is kind


@pytest.mark.parametrize(
    ("expires", "kind"),
    [
        ("2026-03-01T11:59:59Z", K.CONTRADICTION),
        ("2026-03-01T13:00:00+01:00", K.CONTRADICTION),
        (int(NOW.timestamp()) - 1, K.CONTRADICTION),
        ("2026-03-01T12:00:01.123456789z", K.PENDING),
        (NOW.timestamp() + 60, K.PENDING),
        (None, K.PENDING),
        ("soon", K.INTEGRATION_FAILURE),
        (10**30, K.INTEGRATION_FAILURE),
        (True, K.INTEGRATION_FAILURE),
        ("2026-02-30T00:00:00Z", K.INTEGRATION_FAILURE),
    ],
)
def test_W04_pending_after_its_own_expiry_is_a_contradiction(expires: Json, kind: ObservationKind) -> None:
    """The job's own end is compared with the time of receipt."""
    assert read(job("running", expires_at=expires)).kind is kind


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (http(401, {"id": "j1"}), K.AUTHORIZATION_DENIED),
        (http(403, b"<html>no</html>", type_="text/html"), K.AUTHORIZATION_DENIED),
        (http(403, {}, x_remaining="5"), K.AUTHORIZATION_DENIED),
        (http(403, {}, x_remaining="0"), K.THROTTLED),
        (http(429, b""), K.THROTTLED),
        (http(400, {"error": {"code": "slow_down"}}), K.THROTTLED),
        (http(400, {"error": {"code": "other"}}), K.INTEGRATION_FAILURE),
        (http(402, {}), K.INTEGRATION_FAILURE),
        (http(405), K.INTEGRATION_FAILURE),
        (http(418), K.INTEGRATION_FAILURE),
        (http(408), K.TRANSPORT),
        (http(425), K.TRANSPORT),
        (http(500, GOOD), K.TRANSPORT),
        (http(502, b"<html>Bad gateway</html>", type_="text/html"), K.TRANSPORT),
        (http(503, b"", retry_after="120"), K.TRANSPORT),
        (http(599), K.TRANSPORT),
        (http(410), K.UNKNOWN_OPERATION),
        (http(410, {"error": {"code": "gone"}}), K.EXPIRED),
        (http(301, b"", location="https://evil.example"), K.INTEGRATION_FAILURE),
        (http(304), K.INTEGRATION_FAILURE),
        (http(206, GOOD), K.INTEGRATION_FAILURE),
        (http(204), K.INTEGRATION_FAILURE),
        (http(201, GOOD), K.SUCCESS),
        (http(100), K.INTEGRATION_FAILURE),
    ],
    ids=lambda value: f"{value.status}" if isinstance(value, HttpReply) else None,
)
def test_W01_the_http_status_is_read_first(reply: HttpReply, kind: ObservationKind) -> None:
    """Contract signatures, then refusals (W17), throttles (W14), gone, transport (W18), and what the contract does not name."""
    seen = read(reply)
    assert (seen.kind, seen.http_status) == (kind, reply.status)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  ",
        b"{",
        b'{"id": "j1", "status": "succ',
        b"\xef\xbb\xbf{}",
        '{"id":"j1"}'.encode("utf-16"),
        b"null",
        b"[]",
        b'"running"',
    ]
    + [b'{"id":"j1","status":"failed","status":"succeeded"}', b'{"id":"j1","status":NaN}', b'{"id":"j1","status":1e400}']
    + [
        b'{"id":"j1","status":' + b"9" * 5000 + b"}",
        b'{"id":"j1","status":"\\ud800"}',
        b'{"id":"j1"}',
        b'{"id":"j1","status":null}',
    ]
    + [b'{"id":"j1","status":{"a":1}}', b'{"id":"j1","status":["running"]}', b"[" * 1000 + b"]" * 1000, b"status=running"]
    + [b"<!DOCTYPE html><p>running</p>"],
)
def test_W37_a_complete_answer_that_cannot_be_read_stops(body: bytes) -> None:
    """Bad JSON, wrong type, missing state or an empty 200 stops at once, without a guess."""
    seen = read(http(200, body))
    assert (seen.kind, seen.state) == (K.INTEGRATION_FAILURE, None)


@pytest.mark.parametrize("type_", ["text/html", "application/xml", "image/png", "application/xhtml+xml"])
def test_W37_another_media_type_is_not_json(type_: str) -> None:
    """Even where the bytes would parse."""
    assert read(http(200, GOOD, type_=type_)).kind is K.INTEGRATION_FAILURE


@pytest.mark.parametrize("type_", ["application/json; charset=utf-8", "application/problem+json", "text/plain", ""])
def test_json_under_its_usual_media_types(type_: str) -> None:
    """Sloppy servers that send text/plain or nothing are still read."""
    assert read(http(200, GOOD, type_=type_)).kind is K.SUCCESS


@pytest.mark.parametrize(
    ("age", "before", "kind"),
    [(0, 0, K.NOT_FOUND_YET), (29.9, 2, K.NOT_FOUND_YET), (30, 0, K.UNKNOWN_OPERATION), (1, 3, K.UNKNOWN_OPERATION)],
)
def test_W16_not_found_has_a_window(age: float, before: int, kind: ObservationKind) -> None:
    """Inside its seconds and its count a new job may not be found yet; afterwards the operation is unknown, never failed."""
    assert read(http(404), age=age, not_found=before).kind is kind


def test_W16_without_a_window_not_found_stops() -> None:
    """No contract signature, no grace."""
    assert read(http(404), contract_of(http=[]), age=0).kind is K.UNKNOWN_OPERATION


NO_REPLIES = [
    (NoReply(NoReplyKind.REFUSED_ADDRESS, "private", sent=False), K.INTEGRATION_FAILURE, 0),
    (NoReply(NoReplyKind.NO_CREDENTIAL, "missing", sent=False), K.AUTHORIZATION_DENIED, 0),
    (NoReply(NoReplyKind.CANCELLED, "lease", sent=False), K.NOT_SENT, 0),
    (NoReply(NoReplyKind.CANCELLED, "lease", sent=True, hops=1), K.TRANSPORT, 1),
    (NoReply(NoReplyKind.DNS, "no name", sent=False), K.NOT_SENT, 0),
    (NoReply(NoReplyKind.CONNECT, "refused", sent=False), K.NOT_SENT, 0),
    (NoReply(NoReplyKind.TLS, "expired", sent=False), K.NOT_SENT, 0),
    (NoReply(NoReplyKind.TIMEOUT, "no connection in time", sent=False), K.NOT_SENT, 0),
    (NoReply(NoReplyKind.RESET, "reset", sent=True), K.TRANSPORT, 1),
    (NoReply(NoReplyKind.TIMEOUT, "slow", sent=True, hops=2), K.TRANSPORT, 2),
    (NoReply(NoReplyKind.TOO_LARGE, "big", sent=True, hops=1, status=200), K.TRANSPORT, 1),
    (NoReply(NoReplyKind.TOO_LARGE, "big", sent=True, hops=1, status=401), K.AUTHORIZATION_DENIED, 1),
    (NoReply(NoReplyKind.TOO_SLOW, "slow", sent=True, hops=1, status=429), K.THROTTLED, 1),
    (NoReply(NoReplyKind.REDIRECT, "off", sent=True, hops=1, status=302), K.INTEGRATION_FAILURE, 1),
]


@pytest.mark.parametrize(
    ("reply", "kind", "requests"), NO_REPLIES, ids=lambda value: value.kind if isinstance(value, NoReply) else None
)
def test_W18_no_answer_says_nothing_about_the_job(reply: NoReply, kind: ObservationKind, requests: int) -> None:
    """Transport trouble spends its budget; a set-up problem stops; what never left is given back (requests = 0, W33)."""
    seen = read(reply)
    assert (seen.kind, seen.requests, seen.state, seen.http_status) == (kind, requests, None, reply.status)
    assert reply.message in seen.reason


def test_every_kind_of_missing_answer_is_classified() -> None:
    """A new kind must be thought about here."""
    assert {reply.kind for reply, _, _ in NO_REPLIES} | {NoReplyKind.BAD_ENCODING, NoReplyKind.PROTOCOL} == set(NoReplyKind)


def test_a_followed_redirect_that_fails_is_transport() -> None:
    """Where the contract follows redirects, a hop without budget or a loop is no set-up problem."""
    status: Json = {**BASE["status"], "redirects": True}  # type: ignore[dict-item]
    reply = NoReply(NoReplyKind.REDIRECT, "too many", sent=True, hops=4)
    seen = read(reply, contract_of(status=status))
    assert (seen.kind, seen.requests) == (K.TRANSPORT, 4)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (http(202), K.PENDING),
        (http(202, b"working", type_="text/plain"), K.PENDING),
        (http(200, {"a": 1}), K.SUCCESS),
        (http(200, b"%PDF", type_="application/pdf"), K.SUCCESS),
        (http(200, {"status": "Failed"}), K.FAILURE),
        (http(201), K.SUCCESS),
        (http(204), K.SUCCESS),
        (http(200), K.INTEGRATION_FAILURE),
        (http(200, b"<html>Sign in</html>", type_="text/html"), K.INTEGRATION_FAILURE),
        (http(200, b"{broken"), K.INTEGRATION_FAILURE),
        (http(206, {"a": 1}), K.INTEGRATION_FAILURE),
        (http(205), K.UNKNOWN_STATE),
        (http(303, b"", location="/login"), K.INTEGRATION_FAILURE),
        (http(422, b"<p>bad input</p>", type_="text/html"), K.FAILURE),
        (http(404), K.UNKNOWN_OPERATION),
        (http(500), K.TRANSPORT),
        (http(401), K.AUTHORIZATION_DENIED),
    ],
    ids=lambda value: f"{value.status}" if isinstance(value, HttpReply) else None,
)
def test_W15_the_http_status_as_state(reply: HttpReply, kind: ObservationKind) -> None:
    """Where the contract says so, the status is the word; a body that says otherwise wins."""
    assert read(reply, HTTP).kind is kind


def test_W15_the_place_of_the_result_comes_from_the_named_header() -> None:
    """Location where the contract names it, else the address that answered."""
    assert read(http(201, b"", location="https://x.example/r/1"), HTTP).result_ref == "https://x.example/r/1"
    assert read(http(204), HTTP).result_ref == "https://api.acme.example/jobs/j1"


@pytest.mark.parametrize("status", [200, 202, 304, 403, 404, 429, 500, 503])
def test_W13_retry_after_is_read_on_any_status(status: int) -> None:
    """Seconds and dates, whatever the answer means."""
    for raw, seconds in (("120", 120), ("Sun, 01 Mar 2026 12:02:00 GMT", 120), ("0", 0)):
        hint = read(http(status, b"", retry_after=raw)).hints[0]
        assert (hint.source, hint.raw) == (DelaySource.PROVIDER_RETRY_AFTER, raw)
        assert hint.until == NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "raw", ["soon", "inf", "1e400", "-5", "٣", "1_0", "12.5", "120, 240", "", "99999999999999999999", "\x00" * 900]
)
def test_W13_a_bad_retry_after_is_recorded_as_rejected(raw: str) -> None:
    """It is kept for the record and never obeyed."""
    hint = read(http(503, b"", retry_after=raw)).hints[0]
    assert hint.until is None and hint.rejected
    assert len(hint.raw) <= 200 and "\x00" not in hint.raw


@pytest.mark.parametrize(
    ("value", "good"), [(30, True), ("30", True), (-1, False), ("soon", False), (10**9, False), ([1], False), (True, False)]
)
def test_W07_a_body_hint_is_kept_or_rejected(value: Json, good: bool) -> None:
    """The contract names the field; what is not sane is recorded with the reason."""
    hint = read(job("running", poll_after=value)).hints[0]
    assert hint.source is DelaySource.PROVIDER_POLL_HINT
    assert (hint.until == NOW + timedelta(seconds=30)) is good
    assert bool(hint.rejected) is not good


def test_W07_a_hint_for_one_meaning_does_not_count_in_another() -> None:
    """A reset instant that is sent with every answer is a wait only when the limit was hit."""
    reset = str(int(NOW.timestamp()) + 90)
    assert read(http(200, {"id": "j1", "status": "running"}, x_reset=reset)).hints == []
    throttled = read(http(403, {}, x_remaining="0", x_reset=reset))
    assert [hint.until for hint in throttled.hints] == [NOW + timedelta(seconds=90)]


@pytest.mark.parametrize(
    "name", ["x_request_id", "Request_Id", "X_GitHub_Request_Id", "x_amzn_RequestId", "x_ms_request_id", "CF_Ray"]
)
def test_W18_the_providers_request_id_is_kept(name: str) -> None:
    """From the headers providers use, on any status."""
    seen = read(http(500, b"", **{name: "r-1\x07" + "z" * 500}))
    assert seen.provider_request_id is not None
    assert seen.provider_request_id.startswith("r-1\ufffd") and len(seen.provider_request_id) == 200


def test_progress_and_hops_are_recorded() -> None:
    """Facts that grant nothing: progress as text, requests as they left."""
    reply = HttpReply(200, [], b'{"id":"j1","status":"running","percent":40}', "https://x", timedelta(0), hops=3)
    seen = read(reply)
    assert (seen.progress, seen.requests, seen.error_text) == ("40", 3, None)


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["succeeded", "j1", "running"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "status", "error", "code", "output", "size", "expires_at", "poll_after", "x"]),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)
_bodies = (
    st.binary(max_size=200)
    | _json.map(lambda value: json.dumps(value).encode())
    | _json.map(lambda value: json.dumps(value).encode()[:-1])
)
_texts = st.text(st.characters(exclude_characters="\n\r"), max_size=40)


@settings(max_examples=300, deadline=None)
@given(
    _bodies, st.integers(100, 599), _texts, st.sampled_from(["application/json", "text/html", "text/plain", ""]), st.booleans()
)
@example(b'{"id":"j1","status":"succeeded","output":"http://[","size":1}', 200, "", "application/json", True)
@example(b'{"id":"j1","status":"running","expires_at":1e300}', 200, "9" * 400, "application/json", True)
def test_W37_nothing_a_provider_sends_makes_reading_raise(body: bytes, status: int, text: str, type_: str, by_path: bool) -> None:
    """Any bytes, status and header give one observation with bounded texts; success only with its word and result."""
    reply = http(status, body, type_=type_, retry_after=text, x_request_id=text, x_reset=text, location=text)
    seen = read(reply, ACME if by_path else HTTP)
    assert len(seen.state or "") <= 200 and len(seen.error_text or "") <= 2000 and len(seen.reason) < 1000
    assert seen.http_status == status
    if seen.kind is K.SUCCESS and by_path:
        parsed = json.loads(body)
        assert (parsed["id"], parsed["status"]) == ("j1", "succeeded") and parsed["output"].startswith("http")
