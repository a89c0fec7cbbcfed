"""Reading what format 1 can say: tests, conditions, aliases, counts, expiry, pins, hand-overs; each on first sight or by its own count."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sereno.core.contract import FieldTest, JudgeBy, Meaning, Signature
from sereno.core.observation import Asked, Observation, ObservationKind, Reply, read_observation, read_pushed
from sereno.core.reading.answer import holds
from sereno.core.values import Json
from tests.core.test_observation_read import ACME, GOOD, HTTP, K, contract_of, http, job
from tests.core.waiting import Dotted

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
URL = "https://api.acme.example/jobs/j1"
ASKED = Asked("j1", NOW - timedelta(hours=1), url=URL)


def read(reply: Reply, contract: object = ACME, **asked: object) -> Observation:
    """Reads at noon what was asked for j1."""
    return read_observation(contract, replace(ASKED, **asked), reply, received_at=NOW)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "value", "met", "not_met"),
    [
        (JudgeBy.PRESENT, None, [0, "", [], False], [None]),
        (JudgeBy.ABSENT, None, [None], [0, "", False]),
        (JudgeBy.EQUALS, 1, [1, 1.0], [True, "1", None, 2]),
        (JudgeBy.EQUALS, True, [True], [1, "true"]),
        (JudgeBy.DIFFERS, "a", ["b", 1, [], False], ["a", None]),
        (JudgeBy.ABOVE, 0, [1, 0.5], [0, -1, "1", True, None, [1]]),
        (JudgeBy.BELOW, 0, [-1, -0.5], [0, 1, "-1", False, None]),
        (JudgeBy.AMONG, ["a", 1], ["a", 1, 1.0], ["b", True, None, ["a"]]),
        (JudgeBy.EMPTY, None, ["", [], {}], [0, False, None, " ", [None]]),
    ],
)
def test_each_kind_of_test(kind: JudgeBy, value: Json, met: list[Json], not_met: list[Json]) -> None:
    """Compares as JSON does; null is absent; what is no number is neither above nor below one."""
    test = FieldTest(Dotted("f"), kind, value)
    assert [holds(test, {"f": found}) for found in met] == [True] * len(met)
    assert [holds(test, {"f": found}) for found in not_met] == [False] * len(not_met)
    assert holds(test, None) is (kind is JudgeBy.ABSENT)


def test_every_kind_of_test_is_covered() -> None:
    """A new kind needs its row above."""
    assert len(JudgeBy) == 8


@pytest.mark.parametrize("meaning", [meaning for meaning in Meaning if meaning not in (Meaning.SUCCESS, Meaning.UNKNOWN_STATE)])
def test_a_signature_can_mean_all_but_success(meaning: Meaning) -> None:
    """Each meaning becomes the observation of that name, whatever the body says."""
    contract = replace(ACME, signatures=[Signature("2xx", meaning, grace=timedelta(hours=2))])
    seen = read(http(200, GOOD), contract)
    assert (seen.kind.value, seen.state) == (meaning.value, None)


def test_a_signature_needs_all_its_tests() -> None:
    """GraphQL: HTTP 200 with errors is what its tests say, and only where all of them hold."""
    tests: list[Json] = [{"path": "errors", "empty": False}, {"path": "errors"}, {"path": "data.job", "absent": True}]
    contract = contract_of(http=[{"status": "200", "tests": tests[1:], "meaning": "unknown_operation"}])
    assert read(http(200, {"errors": [1]}), contract).kind is K.UNKNOWN_OPERATION
    assert read(http(200, {**GOOD, "errors": [1], "data": {"job": 1}}), contract).kind is K.SUCCESS


CONDITIONS = contract_of(
    state={"from": "conditions"},
    states={"pending": ["working"], "success": ["succeeded"], "failure": ["broken"], "expired": ["gone"]},
    conditions=[
        {"word": "gone", "http": "404", "path": "error.code", "value": "NoSuchJob"},
        {"word": "broken", "tests": [{"path": "done", "value": True}, {"path": "error"}]},
        {"word": "succeeded", "path": "done", "value": True},
        {"word": "succeeded", "http": "204"},
        {"word": "working"},
    ],
    rules=[],
    result={},
    job={},
    http=[],
)


@pytest.mark.parametrize(
    ("reply", "kind", "state"),
    [
        (http(200, {"done": True, "error": {"code": 5}}), K.FAILURE, "broken"),
        (http(200, {"done": True}), K.SUCCESS, "succeeded"),
        (http(200, {"done": False}), K.PENDING, "working"),
        (http(200, {}), K.PENDING, "working"),
        (http(204), K.SUCCESS, "succeeded"),
        (http(404, {"error": {"code": "NoSuchJob"}}), K.EXPIRED, "gone"),
        (http(404, {"error": {"code": "Other"}}), K.UNKNOWN_OPERATION, None),
        (http(404, b"<html>no</html>", type_="text/html"), K.UNKNOWN_OPERATION, None),
        (http(401, {"error": {"code": "NoSuchJob"}}), K.AUTHORIZATION_DENIED, None),
        (http(429, {"done": True}), K.THROTTLED, None),
        (http(500, {"done": True}), K.TRANSPORT, None),
        (http(200, b"<html>working</html>", type_="text/html"), K.INTEGRATION_FAILURE, None),
        (http(200, b"{broken"), K.INTEGRATION_FAILURE, None),
        (http(200), K.INTEGRATION_FAILURE, None),
        (http(206, {"done": True}), K.INTEGRATION_FAILURE, None),
    ],
)
def test_conditions_give_the_word(reply: Reply, kind: ObservationKind, state: str | None) -> None:
    """The first that holds, also on a status that would decide alone, but never on 401, 403 and 429, nor from a body that is none."""
    seen = read(reply, CONDITIONS)
    assert (seen.kind, seen.state) == (kind, state)


def test_without_a_condition_that_holds_nothing_is_guessed() -> None:
    """No catch-all, no state."""
    contract = replace(CONDITIONS, state=replace(CONDITIONS.state, conditions=CONDITIONS.state.conditions[:3]))
    assert read(http(200, {"done": False}), contract).kind is K.INTEGRATION_FAILURE


@pytest.mark.parametrize("word", ["cancelled", "CANCELLED", "canceled"])
def test_an_alias_is_another_spelling(word: str) -> None:
    """It is recorded as sent and means what its word means; the case counts unless the contract says otherwise."""
    contract = contract_of(state={"from": "path", "path": "status", "aliases": {"cancelled": "canceled"}, "caseless": True})
    seen = read(job(word), contract)
    assert (seen.kind, seen.state) == (K.CANCELLED, word)
    exact = contract_of(state={"from": "path", "path": "status", "aliases": {"cancelled": "canceled"}})
    assert read(job(word), exact).kind is (K.UNKNOWN_STATE if word == "CANCELLED" else K.CANCELLED)


def test_a_rule_needs_all_its_tests_and_the_first_that_holds_decides() -> None:
    """Anthropic's `ended`: all failed, some failed, else success."""
    rules: list[Json] = [
        {"word": "succeeded", "tests": [{"path": "failed", "above": 0}, {"path": "ok", "value": 0}], "meaning": "failure"},
        {"word": "succeeded", "path": "failed", "above": 0, "meaning": "partial"},
    ]
    contract = contract_of(rules=rules, result={})
    assert read(job("succeeded", failed=2, ok=0), contract).kind is K.FAILURE
    assert read(job("succeeded", failed=2, ok=1), contract).kind is K.PARTIAL
    assert read(job("succeeded", failed=0, ok=1), contract).kind is K.SUCCESS


@pytest.mark.parametrize(
    ("before", "kind", "tolerated"), [(0, K.PENDING, True), (1, K.PENDING, True), (2, K.UNKNOWN_STATE, False)]
)
def test_W38_a_rule_with_a_count_holds_that_often(before: int, kind: ObservationKind, tolerated: bool) -> None:
    """Afterwards the word means what the contract says then."""
    rules: list[Json] = [{"word": "running", "path": "stuck", "meaning": "pending", "checks": 2, "then": "unknown_state"}]
    seen = read(job("running", stuck=1), contract_of(rules=rules), tolerated=before)
    assert (seen.kind, seen.tolerated) == (kind, tolerated)
    assert read(job("running"), contract_of(rules=rules), tolerated=9).tolerated is False


@pytest.mark.parametrize(("before", "kind"), [(0, K.PENDING), (1, K.PENDING), (2, K.CONTRADICTION), (3, K.CONTRADICTION)])
def test_W38_success_without_result_settles_for_a_count(before: int, kind: ObservationKind) -> None:
    """status-polling §1.3: only a window that the contract documents lets it pass; each such answer says its number."""
    contract = contract_of(result={**ACME.document["result"], "settle_checks": 2})  # type: ignore[dict-item]
    seen = read(job("succeeded"), contract, tolerated=before)
    assert (seen.kind, seen.tolerated, seen.state) == (kind, kind is K.PENDING, "succeeded")
    assert "success without its result" in seen.reason
    assert read(job("succeeded"), ACME).kind is K.CONTRADICTION


@pytest.mark.parametrize(("before", "kind"), [(0, K.PENDING), (1, K.CONTRADICTION)])
def test_I16_W38_pending_after_expiry_settles_for_a_count(before: int, kind: ObservationKind) -> None:
    """The same for a job that outlives its own end."""
    contract = contract_of(expiry={"path": "expires_at", "settle_checks": 1})
    assert read(job("running", expires_at="2026-03-01T11:59:59Z"), contract, tolerated=before).kind is kind


@pytest.mark.parametrize(
    ("created", "ttl", "kind"),
    [
        ("2026-03-01T11:00:00Z", 3_599_999, K.CONTRADICTION),
        ("2026-03-01T11:00:00Z", 3_600_000, K.CONTRADICTION),
        ("2026-03-01T11:00:00Z", 3_600_001, K.PENDING),
        ("2026-03-01T11:00:00Z", None, K.PENDING),
        ("2026-03-01T11:00:00Z", 10**30, K.PENDING),
        (None, 5, K.PENDING),
        ("soon", 5, K.INTEGRATION_FAILURE),
        ("2026-03-01T11:00:00Z", -1, K.INTEGRATION_FAILURE),
        ("2026-03-01T11:00:00Z", True, K.INTEGRATION_FAILURE),
        ("2026-03-01T11:00:00Z", "long", K.INTEGRATION_FAILURE),
    ],
)
def test_W04_expiry_from_creation_and_ttl(created: Json, ttl: Json, kind: ObservationKind) -> None:
    """MCP tasks: createdAt + ttl in milliseconds; a null ttl is no limit."""
    contract = contract_of(expiry={"created": "created_at", "ttl": "ttl", "ttl_unit": "milliseconds"})
    seen = read(job("running", created_at=created, ttl=ttl), contract)
    assert seen.kind is kind
    if ttl == 3_600_001:
        assert seen.expires_at == NOW + timedelta(milliseconds=1)


def test_a_result_field_can_be_required_only_sometimes() -> None:
    """Shopify: a null address is legal for an empty result."""
    field: Json = {"path": "output", "when": {"path": "count", "above": 0}}
    contract = contract_of(result={"fields": [field]})
    assert read(job("succeeded", count=0), contract).kind is K.SUCCESS
    assert read(job("succeeded", count=2), contract).kind is K.CONTRADICTION
    assert read(job("succeeded", count=2, output="x"), contract).kind is K.SUCCESS


PINNED = contract_of(job={"id": "id", "pins": ["uid", "attempt"]})


def test_W05_pins_are_read_and_compared() -> None:
    """The first answer is remembered, a change is a contradiction, a field that is not there says nothing."""
    assert read(job("running", uid="u1", attempt=1), PINNED).pins == {"uid": "u1", "attempt": "1"}
    assert read(job("running"), PINNED, pins={"uid": "u1"}).kind is K.PENDING
    again = read(job("succeeded", uid="u1", attempt=2), PINNED, pins={"uid": "u1", "attempt": "1"})
    assert again.kind is K.CONTRADICTION and "attempt was '1' and is now '2'" in again.reason


def test_W05_the_id_may_be_part_of_a_longer_name() -> None:
    """`id_is` is filled with the caller's parameters."""
    contract = replace(ACME, job_id_is="projects/{project}/jobs/{job_id}", parameters=("project",))
    body: dict[str, Json] = {"id": "projects/p1/jobs/j1", "status": "running"}
    assert read(http(200, body), contract, parameters={"project": "p1"}).kind is K.PENDING
    assert read(http(200, body), contract, parameters={"project": "p2"}).kind is K.CONTRADICTION
    assert read(http(200, {**body, "id": "j1"}), contract, parameters={"project": "p1"}).kind is K.CONTRADICTION


QUEUE = contract_of(handover=[{"path": "executable.number", "url": "https://api.acme.example/build/{value}"}])
MOVES = contract_of(handover=[{"header": "Location"}])


def test_a_job_goes_on_under_another_address() -> None:
    """Jenkins: queue item → build, once the number is there; `base` replaces the contract's own address."""
    assert read(job("queued"), QUEUE).next_url is None
    assert read(job("queued", executable={"number": 7}), QUEUE).next_url == "https://api.acme.example/build/7"
    moved = read(
        job("queued", executable={"number": 7}),
        QUEUE,
        url="http://127.0.0.1:9/x/jobs/j1",
        parameters={"base": "http://127.0.0.1:9/x"},
    )
    assert moved.next_url == "http://127.0.0.1:9/x/build/7"


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("https://api.acme.example/ops/9", "https://api.acme.example/ops/9"),
        ("/ops/9?v=1", "https://api.acme.example/ops/9?v=1"),
        ("9", "https://api.acme.example/jobs/9"),
        (URL, None),
        ("https://API.acme.example/ops/9", "https://API.acme.example/ops/9"),
    ],
)
def test_W15_a_location_that_changes_is_followed_within_its_origin(location: str, url: str | None) -> None:
    """Relative ones are made whole; the same address is no move."""
    seen = read(http(200, {"id": "j1", "status": "running"}, location=location), MOVES)
    assert (seen.kind, seen.next_url) == (K.PENDING, url)


@pytest.mark.parametrize(
    "location",
    [
        "https://evil.example/ops/9",
        "//evil.example/ops/9",
        "http://api.acme.example/ops/9",
        "https://api.acme.example:444/ops/9",
        "https://api.acme.example.evil.example/ops/9",
        "https://user:pw@api.acme.example/ops/9",
        "https://api.acme.example/../admin",
        "../admin",
        "/ops/%2e%2e/admin",
        "/ops/..%2fadmin",
        "/ops/..%5Cadmin",
        "/ops/9#frag",
        "javascript:alert(1)",
        "http://[",
        "/ops/ 9",
        "/" + "x" * 5000,
    ],
)
def test_status_polling_24_a_location_elsewhere_is_a_contradiction(location: str) -> None:
    """status-polling §2 row 24: the key would go along: another origin, a path that climbs, or what is no address stops on first sight."""
    seen = read(http(200, {"id": "j1", "status": "running"}, location=location), MOVES)
    assert (seen.kind, seen.next_url) == (K.CONTRADICTION, None)
    assert "hands the job over" in seen.reason and len(seen.reason) < 500


def test_a_hand_over_to_a_listed_origin_is_allowed() -> None:
    """The contract may name more than one."""
    contract = replace(MOVES, origins=("https://api.acme.example", "https://eu.acme.example"))
    reply = http(200, {"id": "j1", "status": "running"}, location="https://eu.acme.example/jobs/j1")
    assert read(reply, contract).next_url == "https://eu.acme.example/jobs/j1"


@pytest.mark.parametrize("word", ["succeeded", "failed"])
def test_only_a_pending_job_is_handed_over(word: str) -> None:
    """At the end a Location names the result, not the next look."""
    seen = read(http(200, {**GOOD, "status": word}, location="https://evil.example/r"), MOVES)
    assert seen.kind in (K.SUCCESS, K.FAILURE) and seen.next_url is None


def test_W35_a_call_back_is_read_like_an_answer_that_cost_nothing() -> None:
    """Success needs its result there too; what is no JSON cannot be read."""
    body = b'{"id":"j1","status":"succeeded","output":"https://x.example/o","size":3}'
    seen = read_pushed(ACME, ASKED, body=body, content_type="application/json", received_at=NOW)
    assert (seen.kind, seen.requests, seen.http_status) == (K.SUCCESS, 0, None)
    nowhere = contract_of(result={}, job={})
    assert (
        read_pushed(nowhere, replace(ASKED, url=""), body=body, content_type="application/json", received_at=NOW).result_ref
        is None
    )
    bad = read_pushed(ACME, ASKED, body=b"<p>done</p>", content_type="text/html", received_at=NOW)
    assert (bad.kind, bad.requests) == (K.INTEGRATION_FAILURE, 0)


def test_a_head_request_has_no_body_to_read() -> None:
    """Where the status is the state and the call is HEAD, 200 without a body is no broken answer."""
    contract = replace(HTTP, status=replace(HTTP.status, method="HEAD"))
    assert read(http(200), contract).kind is K.SUCCESS
    assert read(http(200), HTTP).kind is K.INTEGRATION_FAILURE


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("Sun, 01 Mar 2026 12:02:00 GMT", None),
        ("Sun, 01 Mar 2026 11:59:00 GMT", "lies in the past"),
        ("Sun, 01 Mar 2026 23:00:00 GMT", "beyond the contract's cap"),
        ("soon", "is not an HTTP date"),
        (120, "is not an HTTP date"),
    ],
)
def test_W07_a_hint_as_http_date(value: Json, says: str | None) -> None:
    """Read like Retry-After's dates, judged like every hint."""
    hint = read(job("running", at=value), contract_of(hints=[{"path": "at", "unit": "http_date"}])).hints[0]
    if says is None:
        assert hint.until == NOW + timedelta(minutes=2)
    else:
        assert hint.until is None and hint.rejected is not None and says in hint.rejected


@pytest.mark.parametrize(
    ("values", "minutes"),
    [
        (["60", "300"], 5),
        (["300", "60"], 5),
        (["soon", "120"], 2),
        (["60", "Sun, 01 Mar 2026 12:09:00 GMT"], 9),
        (["soon", "-1"], None),
    ],
)
def test_W13_the_longest_of_several_retry_after_headers_counts(values: list[str], minutes: int | None) -> None:
    """Whatever their order; what cannot be read is passed over where another can."""
    reply = http(503, {})
    reply = replace(reply, headers=[*reply.headers, *(("Retry-After", value) for value in values)])
    (hint,) = read(reply).hints
    assert hint.until == (None if minutes is None else NOW + timedelta(minutes=minutes))
    assert (hint.rejected is not None) is (minutes is None)


def test_result_expired_is_a_word_of_its_own() -> None:
    """The job succeeded and what it made is gone: no success, no failure."""
    contract = contract_of(states={**ACME.document["states"], "result_expired": ["purged"]})  # type: ignore[dict-item]
    assert read(job("purged"), contract).kind is K.RESULT_EXPIRED
