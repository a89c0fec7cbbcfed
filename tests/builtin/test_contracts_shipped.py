"""The shipped contracts: every documented state, the traps of each provider, and nothing inferred."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sereno.builtin.providers.catalogue import Catalogue
from sereno.core.contract import FORMAT, Contract, Via, status_url, with_states
from sereno.core.observation import Asked, HttpReply, Observation, ObservationKind
from sereno.core.observing.look import read_observation
from sereno.core.reading.schema import contract_schema
from sereno.core.values import Json

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
K = ObservationKind
CATALOGUE = Catalogue()
EVERY = CATALOGUE.names()
SCHEMA = Draft202012Validator(contract_schema())  # type: ignore[arg-type]
NAMES = ("generic-202", "generic-status", "github-actions-run", "google-lro", "openai-responses", "replicate")


def contract(name: str) -> Contract:
    document = CATALOGUE.document(name)
    if name == "generic-status":
        document = with_states(document, {"pending": ["busy"], "success": ["done"], "failure": ["broken"]}, "job.state")
    return CATALOGUE.contract(document)


def read(name: str, status: int, body: Json | None, job_id: str = "j1", *, age: int = 3600, **headers: str) -> Observation:
    content = b"" if body is None else json.dumps(body).encode()
    named = [("Content-Type", "application/json"), *((key.replace("_", "-"), value) for key, value in headers.items())]
    reply = HttpReply(status, named, content, "https://provider.example/j1", timedelta(seconds=1))
    asked = Asked(job_id, NOW - timedelta(seconds=age), "https://provider.example/j1")
    return read_observation(contract(name), asked, reply, received_at=NOW)


def replicate(status: Json, **more: Json) -> Json:
    return {
        "id": "j1",
        "status": status,
        "output": None,
        "error": None,
        "urls": {"get": "https://api.replicate.com/v1/predictions/j1"},
        **more,
    }


def openai(status: Json, **more: Json) -> Json:
    return {"id": "j1", "object": "response", "status": status, "background": True, "error": None, "output": [], **more}


def google(**more: Json) -> Json:
    return {"name": "j1", "metadata": {"@type": "t", "progressPercent": 40}, **more}


def github(status: Json, conclusion: Json = None, **more: Json) -> Json:
    return {
        "id": 7,
        "status": status,
        "conclusion": conclusion,
        "run_attempt": 2,
        "html_url": "https://github.com/o/r/actions/runs/7",
        **more,
    }


STATES: list[tuple[str, Json, ObservationKind]] = [
    ("replicate", replicate("starting"), K.PENDING),
    ("replicate", replicate("processing", logs="50%"), K.PENDING),
    ("replicate", replicate("succeeded", output=["https://replicate.delivery/x.png"]), K.SUCCESS),
    ("replicate", replicate("succeeded", output="hello"), K.SUCCESS),
    ("replicate", replicate("failed", error="CUDA out of memory"), K.FAILURE),
    ("replicate", replicate("canceled"), K.CANCELLED),
    ("replicate", replicate("aborted"), K.EXPIRED),
    ("replicate", replicate("succeeded"), K.CONTRADICTION),
    ("replicate", replicate("succeeded", output="x", error="late"), K.CONTRADICTION),
    ("replicate", replicate("succeeded", data_removed=True), K.RESULT_EXPIRED),
    ("replicate", replicate("succeeded", output="x", data_removed=False), K.SUCCESS),
    ("openai-responses", openai("queued"), K.PENDING),
    ("openai-responses", openai("in_progress"), K.PENDING),
    ("openai-responses", openai("completed", output=[{"type": "message"}]), K.SUCCESS),
    ("openai-responses", openai("failed", error={"code": "server_error", "message": "m"}), K.FAILURE),
    ("openai-responses", openai("cancelled"), K.CANCELLED),
    ("openai-responses", openai("incomplete", incomplete_details={"reason": "max_output_tokens"}), K.PARTIAL),
    ("openai-responses", openai("completed"), K.CONTRADICTION),
    ("openai-responses", openai("completed", output=[{}], error={"code": "x"}), K.CONTRADICTION),
    ("google-lro", google(), K.PENDING),
    ("google-lro", google(done=False), K.PENDING),
    ("google-lro", google(response={"early": 1}), K.PENDING),
    ("google-lro", google(done=True, response={"@type": "t"}), K.SUCCESS),
    ("google-lro", google(done=True, response={}), K.SUCCESS),
    ("google-lro", google(done=True, error={"code": 3, "message": "bad"}), K.FAILURE),
    ("google-lro", google(done=True, error={"code": 1, "message": "cancelled"}), K.CANCELLED),
    ("google-lro", google(done=True), K.CONTRADICTION),
    ("google-lro", google(done=True, error={"code": 3}, response={"x": 1}), K.CONTRADICTION),
    ("google-lro", google(done="true", response={"x": 1}), K.SUCCESS),
    ("google-lro", google(done=1, response={"x": 1}), K.UNKNOWN_STATE),
    ("google-lro", google(done={}), K.INTEGRATION_FAILURE),
    ("generic-status", {"job": {"state": "busy"}}, K.PENDING),
    ("generic-status", {"job": {"state": "done"}}, K.SUCCESS),
    ("generic-status", {"job": {"state": "broken"}}, K.FAILURE),
    ("generic-status", {"job": {"state": "Done"}}, K.UNKNOWN_STATE),
    ("generic-status", {"state": "done"}, K.INTEGRATION_FAILURE),
    ("generic-202", {"result": 1}, K.SUCCESS),
    ("generic-202", {"status": "Failed", "error": {"code": "c", "message": "m"}}, K.FAILURE),
    ("generic-202", {"status": "Canceled"}, K.CANCELLED),
    ("generic-202", {"status": "Running"}, K.CONTRADICTION),
    ("generic-202", {"runtimeStatus": "Failed", "output": "x"}, K.FAILURE),
    ("generic-202", {"runtimeStatus": "Terminated"}, K.CANCELLED),
    ("generic-202", {"runtimeStatus": "Completed", "output": 1}, K.SUCCESS),
    ("generic-202", {"error": {"code": "c"}}, K.FAILURE),
    ("generic-202", {"error": None, "value": 1}, K.SUCCESS),
    ("github-actions-run", github("queued"), K.PENDING),
    ("github-actions-run", github("in_progress"), K.PENDING),
    ("github-actions-run", github("requested"), K.PENDING),
    ("github-actions-run", github("waiting"), K.PENDING),
    ("github-actions-run", github("pending"), K.PENDING),
    ("github-actions-run", github("completed", "success"), K.SUCCESS),
    ("github-actions-run", github("completed", "failure"), K.FAILURE),
    ("github-actions-run", github("completed", "cancelled"), K.CANCELLED),
    ("github-actions-run", github("completed", "timed_out"), K.EXPIRED),
    ("github-actions-run", github("completed", "stale"), K.EXPIRED),
    ("github-actions-run", github("completed", "action_required"), K.NEEDS_INPUT),
    ("github-actions-run", github("completed", "neutral"), K.PARTIAL),
    ("github-actions-run", github("completed", "skipped"), K.PARTIAL),
    ("github-actions-run", github("completed"), K.CONTRADICTION),
    ("github-actions-run", github("completed", "startup_failure"), K.UNKNOWN_STATE),
    ("github-actions-run", github("in_progress", "success"), K.UNKNOWN_STATE),
]


@pytest.mark.parametrize(("name", "body", "kind"), STATES, ids=[f"{n}-{name}" for n, (name, _, _) in enumerate(STATES)])
def test_W03_every_documented_state(name: str, body: Json, kind: ObservationKind) -> None:
    """Each state of each contract, and each contradiction its provider can send (W04)."""
    seen = read(name, 200, body, "7" if name.startswith("github") else "j1")
    assert seen.kind is kind, seen


def test_every_word_of_every_contract_is_tested_above() -> None:
    """A word added to a table needs a line in this file."""
    tested: dict[str, set[str]] = {name: set() for name in NAMES}
    for name, body, _ in STATES:
        seen = read(name, 200, body, "7" if name.startswith("github") else "j1")
        tested[name].add(seen.state or "")
    for name in set(NAMES) - {"generic-202"}:
        assert set(contract(name).states) <= tested[name], name


@pytest.mark.parametrize("status", [202, 201, 204])
def test_generic_202_reads_the_status(status: int) -> None:
    """202 waits, 201 and 204 are done; an empty 200 cannot be read (W37)."""
    assert read("generic-202", status, None).kind is (K.PENDING if status == 202 else K.SUCCESS)
    assert read("generic-202", 200, None).kind is K.INTEGRATION_FAILURE


@pytest.mark.parametrize("name", ["replicate", "openai-responses", "github-actions-run", "generic-status"])
@pytest.mark.parametrize(
    "word",
    [
        "paused",
        "awaiting_review",
        "needs_payment",
        "manual_review",
        "blocked",
        "Succeeded",
        " succeeded",
        "SUCCEEDED",
        "complete",
        "finished",
    ],
)
def test_W03_no_contract_guesses(name: str, word: str) -> None:
    """Words that sound like an answer are unknown in every contract."""
    bodies: Mapping[str, Json] = {
        "replicate": replicate(word, output="x"),
        "openai-responses": openai(word, output=[1]),
        "github-actions-run": github(word, "success"),
        "generic-status": {"job": {"state": word}},
    }
    seen = read(name, 200, bodies[name], "7" if name.startswith("github") else "j1")
    assert seen.kind is K.UNKNOWN_STATE


@pytest.mark.parametrize("name", ["replicate", "openai-responses", "google-lro", "github-actions-run"])
def test_W05_another_job_is_a_contradiction(name: str) -> None:
    """Each contract that names the id compares it."""
    bodies = {"replicate": replicate("starting"), "openai-responses": openai("queued"), "google-lro": google()}
    bodies["github-actions-run"] = github("queued")
    assert read(name, 200, bodies[name], "other").kind is K.CONTRADICTION


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, K.AUTHORIZATION_DENIED),
        (403, K.AUTHORIZATION_DENIED),
        (429, K.THROTTLED),
        (503, K.TRANSPORT),
        (410, K.UNKNOWN_OPERATION),
    ]
    + [(404, K.UNKNOWN_OPERATION), (302, K.INTEGRATION_FAILURE), (400, K.INTEGRATION_FAILURE)],
)
def test_W17_http_answers_mean_the_same_everywhere(name: str, status: int, kind: ObservationKind) -> None:
    """Refused, throttled, unreachable, unknown, after any window."""
    assert read(name, status, {"message": "x"}).kind is kind


@pytest.mark.parametrize("name", ["replicate", "openai-responses", "google-lro"])
def test_W16_a_new_job_may_not_be_found_yet(name: str) -> None:
    """Inside the window that the contract gives."""
    assert read(name, 404, {}, age=5).kind is K.NOT_FOUND_YET


def test_github_rate_limits_come_as_403() -> None:
    """Primary: remaining 0 and a reset instant; secondary: retry-after. Any other 403 is a refusal."""
    reset = str(int(NOW.timestamp()) + 1800)
    primary = read("github-actions-run", 403, {}, "7", x_ratelimit_remaining="0", x_ratelimit_reset=reset)
    assert primary.kind is K.THROTTLED and primary.hints[0].until == NOW + timedelta(minutes=30)
    assert read("github-actions-run", 403, {}, "7", retry_after="60").kind is K.THROTTLED
    assert read("github-actions-run", 403, {}, "7", x_ratelimit_remaining="12").kind is K.AUTHORIZATION_DENIED
    assert read("github-actions-run", 200, github("queued"), "7", x_ratelimit_reset=reset).hints == []


def test_openai_an_empty_account_is_not_a_rate() -> None:
    """A 429 for spent quota stops at once; a rate waits."""
    spent: Json = {"error": {"type": "insufficient_quota", "code": "credit_balance_exhausted", "message": "add credits"}}
    seen = read("openai-responses", 429, spent)
    assert (seen.kind, seen.error_code) == (K.INTEGRATION_FAILURE, "credit_balance_exhausted")
    rate: Json = {"error": {"type": "requests", "code": "rate_limit_exceeded"}}
    waits = read("openai-responses", 429, rate, retry_after_ms="1500")
    assert waits.kind is K.THROTTLED and waits.hints[0].until == NOW + timedelta(milliseconds=1500)


def test_facts_beside_the_state_are_kept() -> None:
    """Result reference, error and attempt come from where each contract says."""
    assert read("replicate", 200, replicate("succeeded", output="x")).result_ref == "https://api.replicate.com/v1/predictions/j1"
    assert read("replicate", 200, replicate("failed", error="boom")).error_text == "boom"
    run = read("github-actions-run", 200, github("completed", "success"), "7")
    assert (run.progress, run.result_ref) == ("2", "https://github.com/o/r/actions/runs/7")
    cut = read("openai-responses", 200, openai("incomplete", incomplete_details={"reason": "content_filter"}))
    assert cut.error_code == "content_filter"


@pytest.mark.parametrize(
    ("name", "job_id", "parameters", "base", "url"),
    [
        ("replicate", "j1", {}, None, "https://api.replicate.com/v1/predictions/j1"),
        ("openai-responses", "resp_1", {}, None, "https://api.openai.com/v1/responses/resp_1"),
        ("github-actions-run", "7", {"owner": "o", "repo": "r"}, None, "https://api.github.com/repos/o/r/actions/runs/7"),
        (
            "google-lro",
            "projects/p/operations/o",
            {},
            "https://x.googleapis.com",
            "https://x.googleapis.com/v1/projects/p/operations/o",
        ),
        ("generic-202", "https://h.example/ops/1", {}, None, "https://h.example/ops/1"),
        ("generic-status", "1", {}, "http://127.0.0.1:9/jobs", "http://127.0.0.1:9/jobs/1"),
        ("replicate", "j1", {}, "http://127.0.0.1:9", "http://127.0.0.1:9/v1/predictions/j1"),
    ],
)
def test_status_urls(name: str, job_id: str, parameters: dict[str, str], base: str | None, url: str) -> None:
    """Each contract's address, and the same on a loopback stand-in."""
    assert status_url(contract(name), job_id=job_id, parameters=parameters, base=base) == url


@pytest.mark.parametrize("name", EVERY)
def test_every_contract_says_where_its_facts_come_from(name: str) -> None:
    """Source, evidence for a read-only status call (W12), what was and was not verified."""
    found = contract(name)
    assert found.source and (found.observational or found.via is Via.PUSH)
    assert found.verified.startswith(("verified", "unverified"))
    assert not found.redirects
    if found.limits is not None and found.via is not Via.PUSH:
        looks = found.delays.maximum.total_seconds() * 0.75 * found.limits.max_status_requests
        assert looks >= found.limits.deadline_s, "the requests run out long before the deadline"


@pytest.mark.parametrize("name", EVERY)
def test_every_contract_fits_the_schema_and_its_file(name: str) -> None:
    """The published schema accepts it, the file bears its name, and the format is the newest."""
    document = CATALOGUE.document(name)
    assert [error.message for error in SCHEMA.iter_errors(document)] == []
    assert (document["contract"], document["format"]) == (name, FORMAT)


_words = st.sampled_from(["j1", 7, "succeeded", "completed", "success", "done", True, False, None, "error", 1.0])
_json = st.recursive(
    _words | st.text(max_size=6) | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "name", "status", "conclusion", "done", "response", "error", "code", "job", "state", "output"]
            ),
            inner,
        )
    ),
    max_leaves=10,
)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(EVERY),
    st.sampled_from([200, 201, 202, 400, 403, 404, 429, 500]),
    _json.map(json.dumps) | st.text(max_size=60),
)
def test_W37_no_body_makes_a_shipped_contract_raise(name: str, status: int, text: str) -> None:
    """300 bodies, well formed and not: always one observation; a success names its state."""
    reply = HttpReply(status, [("content-type", "application/json")], text.encode(), "https://p.example", timedelta(0))
    asked = Asked("j1", NOW, "https://p.example", {parameter: "x" for parameter in contract(name).parameters})
    seen = read_observation(contract(name), asked, reply, received_at=NOW)
    assert seen.http_status == status
    words = {*contract(name).states, *contract(name).state.aliases}
    assert seen.kind is not K.SUCCESS or (seen.state or "").lower() in {word.lower() for word in words}
