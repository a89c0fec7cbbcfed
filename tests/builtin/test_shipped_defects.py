"""What waiters that ship today do wrong, met with the shipped contracts: one test or more for each row of status-polling §0."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest

from sereno.builtin.providers.catalogue import Catalogue
from sereno.core.budget import Spend
from sereno.core.call import CallOutcome
from sereno.core.contract import Contract, Meaning, Via, with_states
from sereno.core.escalation import Category
from sereno.core.observation import Asked, DelaySource, HttpReply, ObservationKind, read_observation, read_pushed
from sereno.core.operation import (
    TERMINAL,
    Close,
    Operation,
    OperationDecision,
    OperationState,
    decide_call,
    decide_operation,
    next_call,
)
from sereno.core.values import Json
from tests.core.waiting import ALLOWANCE, NOON, after, answered, apply, make_operation, reserve, submitting

S = OperationState
CATALOGUE = Catalogue()


def shipped(name: str) -> Contract:
    """A contract as it ships."""
    return CATALOGUE.contract(CATALOGUE.document(name))


def worded(words: Mapping[str, list[str]]) -> Contract:
    """The generic contract with a caller's words."""
    return CATALOGUE.contract(with_states(CATALOGUE.document("generic-status"), words, "status"))


def http(status: int, body: Json | bytes = b"", **headers: str) -> HttpReply:
    """A reply; a document is sent as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return HttpReply(status, list(sent.items()), content, "https://api.example/jobs/job-7", timedelta(0))


def look(
    contract: Contract, reply: HttpReply, operation: Operation | None = None, *, at: datetime = NOON, seed: int = 1
) -> OperationDecision:
    """One look at job-7, read through the contract and decided on."""
    operation = operation or make_operation(contract=contract.name)
    asked = Asked(
        operation.job_id, operation.started_at, operation.url, operation.parameters, not_found=operation.spend.not_found
    )
    seen = read_observation(contract, asked, reply, received_at=at)
    return decide_operation(operation, contract, seen, at, Random(seed), escalation_id="esc_1")


def walk(contract: Contract, reply: HttpReply, limit: timedelta) -> tuple[Category | None, int, datetime]:
    """Looks when it is due until the wait stops; the category, the number of looks, and the instant of the last one."""
    allowance = replace(ALLOWANCE, deadline_at=NOON + limit, max_status_requests=100_000)
    operation, at, looks = make_operation(Spend(), allowance, created_at=NOON, reserved=False), NOON, 0
    while operation.state is S.WAITING:
        step = next_call(reserve(operation), contract, at)
        if isinstance(step, Close):
            return step.category, looks, at
        decision = look(contract, reply, reserve(operation), at=at)
        operation, looks = apply(operation, decision), looks + 1
        assert looks < 10_000, "it goes on for ever"
        if operation.state is S.WAITING:
            assert decision.due is not None and decision.due > at
            at = decision.due
    return operation.category, looks, at


def test_W06_no_answer_makes_a_tight_loop() -> None:
    """status-polling §0 airflow HttpSensorTrigger: whatever the status, it stops or waits at least the minimum gap."""
    contract = shipped("generic-202")
    for status in range(200, 600):
        for body in (b"", b"<html>", json.dumps({"error": "no"}).encode()):
            decision = look(contract, http(status, body))
            pause = (decision.next_poll_at or NOON) - NOON
            assert decision.state is not S.WAITING or pause >= contract.delays.min_gap, (status, body)


@pytest.mark.parametrize("word", ["Failed", "Canceled"])
@pytest.mark.parametrize("name", ["generic-202", "azure-arm"])
def test_W01_a_200_that_says_failed_is_no_success(name: str, word: str) -> None:
    """status-polling §0 azure-core LocationPolling: the body of the final answer is read before it counts, and is no result."""
    bare = look(shipped(name), http(200, {"status": word}))
    assert bare.state is (S.FAILED if word == "Failed" else S.CANCELLED), "the word alone is enough"
    decision = look(shipped(name), http(200, {"status": word, "error": {"code": "Broken", "message": "out of paper"}}))
    assert decision.state is (S.FAILED if word == "Failed" else S.CANCELLED)
    assert decision.observation is not None and decision.observation.result_ref is None
    assert decision.observation.error_text == "out of paper"


def test_W03_an_unknown_word_is_asked_for_once_and_a_deadline_ends_the_looking() -> None:
    """status-polling §0 azure-core LROPoller: `Banana` stops after one look; after the deadline no look is made by anybody."""
    contract = shipped("azure-operation-location")
    decision = look(contract, http(200, {"status": "Banana"}))
    assert (decision.state, decision.category, decision.next_poll_at) == (S.ESCALATED, Category.UNKNOWN_STATE, None)
    waiting = make_operation(Spend(), replace(ALLOWANCE, deadline_at=NOON))
    assert isinstance(next_call(waiting, contract, NOON), Close)


@pytest.mark.parametrize(
    "raw", ["inf", "nan", "soon", "5, 10", "Tue, 01 Jan 2999 00:00:00 GMT", "99999999999", "-1", "1e400", "0x10"]
)
def test_W13_a_broken_retry_after_makes_no_endless_and_no_empty_pause(raw: str) -> None:
    """status-polling §0 azure-core Retry-After: what is no number of seconds is refused on the record, and what is beyond all measure
    sleeps nobody past the deadline."""
    contract = shipped("azure-operation-location")
    operation = make_operation(Spend(1), url="https://api.example/jobs/job-7")
    decision = look(contract, http(200, {"status": "Running"}, retry_after=raw), operation)
    far = "2999" in raw or raw.startswith("999")
    if far:
        assert decision.due is not None and decision.due <= ALLOWANCE.deadline_at
        return
    assert (decision.state, decision.delay_source) == (S.WAITING, DelaySource.LOCAL_BACKOFF)
    assert decision.next_poll_at is not None and after(5) <= decision.next_poll_at <= after(10)
    assert "rejected_hints" in decision.facts


def test_W13_a_retry_after_of_nought_is_no_request_to_wait_half_a_minute() -> None:
    """status-polling §0 azure-core Retry-After: nought asks for no pause, and Sereno's own small one is what is kept."""
    decision = look(shipped("azure-operation-location"), http(200, {"status": "Running"}, retry_after="0"))
    assert decision.next_poll_at is not None and after(1) <= decision.next_poll_at <= after(10)


@pytest.mark.parametrize("word", ["PartiallySucceeded", "NotSucceeded", "succeeded-with-errors", "Unsucceeded"])
def test_W03_a_word_that_holds_succeeded_is_no_success(word: str) -> None:
    """status-polling §0 @azure/core-lro contains: words are compared whole, and what is in no table stops."""
    decision = look(shipped("azure-operation-location"), http(200, {"status": word}))
    assert (decision.state, decision.category) == (S.ESCALATED, Category.UNKNOWN_STATE)


@pytest.mark.parametrize("minutes", [15, 120])
def test_W09_a_limit_of_time_fires_at_its_time(minutes: int) -> None:
    """status-polling §0 google-genai t_resolve_operation: the wait ends at its deadline, and no look is planned behind it."""
    category, looks, last = walk(shipped("google-lro"), http(200, {"name": "job-7"}), timedelta(minutes=minutes))
    assert category is Category.DEADLINE_EXCEEDED
    assert NOON + timedelta(minutes=minutes) * 0.9 < last <= NOON + timedelta(minutes=minutes) and looks > 5


@pytest.mark.parametrize(
    ("name", "body", "category"),
    [
        ("vertex-batch", {"state": "JOB_STATE_PARTIALLY_SUCCEEDED"}, Category.PARTIAL_RESULT),
        ("vertex-batch", {"state": "JOB_STATE_PAUSED"}, Category.NEEDS_INPUT),
        ("gemini-batch", {"metadata": {"state": "BATCH_STATE_PARTIALLY_SUCCEEDED"}}, Category.UNKNOWN_STATE),
        ("gemini-batch", {"metadata": {"state": "BATCH_STATE_PAUSED"}}, Category.UNKNOWN_STATE),
    ],
)
def test_W03_a_partial_or_paused_batch_is_no_endless_loop(name: str, body: dict[str, Json], category: Category) -> None:
    """status-polling §0 google-genai BatchJob.done: neither is polled on; a person is asked."""
    decision = look(shipped(name), http(200, {"name": "job-7", **body}))
    assert (decision.state, decision.category, decision.next_poll_at) == (S.ESCALATED, category, None)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("replicate", {"aborted": S.EXPIRED, "canceled": S.CANCELLED, "failed": S.FAILED}),
        ("runway-task", {"CANCELLED": S.CANCELLED, "FAILED": S.FAILED}),
        ("runpod", {"CANCELLED": S.CANCELLED, "TIMED_OUT": S.EXPIRED, "FAILED": S.FAILED}),
    ],
)
def test_W04_every_documented_end_ends(name: str, words: Mapping[str, OperationState]) -> None:
    """status-polling §0 replicate aborted, status-polling §0 runwayml CANCELLED and status-polling §0 runpod stream: one look."""
    for word, state in words.items():
        decision = look(shipped(name), http(200, {"id": "job-7", "status": word}))
        assert (decision.state, decision.next_poll_at) == (state, None) and state in TERMINAL


@pytest.mark.parametrize("name", ["runpod", "runway-task"])
def test_W03_there_is_one_table_of_ends(name: str) -> None:
    """status-polling §0 runpod stream: a look and a call-back read every word of the contract alike."""
    contract = shipped(name)
    for word, meaning in contract.states.items():
        body = {"id": "job-7", "status": word}
        asked = Asked("job-7", NOON)
        seen = read_observation(contract, asked, http(200, body), received_at=NOON)
        told = read_pushed(contract, asked, body=json.dumps(body).encode(), content_type="application/json", received_at=NOON)
        assert seen.kind is told.kind
        assert seen.meaning is meaning or (meaning is Meaning.SUCCESS and seen.kind is ObservationKind.CONTRADICTION)


def test_W03_a_paused_endpoint_is_no_endless_loop() -> None:
    """status-polling §0 huggingface_hub InferenceEndpoint.wait: unnamed words stop; named as waiting for a person, they ask one."""
    words = {"success": ["running"], "failure": ["failed"], "pending": ["pending", "initializing", "updating"]}
    for word in ("paused", "scaledToZero"):
        reply = http(200, {"status": word})
        assert look(worded(words), reply).category is Category.UNKNOWN_STATE
        assert look(worded({**words, "needs_input": ["paused", "scaledToZero"]}), reply).category is Category.NEEDS_INPUT


def test_W13_a_videos_hint_is_read_anew_in_each_answer() -> None:
    """status-polling §0 openai videos.poll: the next look follows the latest answer, not the first."""
    contract, operation = shipped("openai-video"), make_operation(Spend(1))
    for seconds in (12, 45, 20):
        reply = http(200, {"id": "job-7", "status": "in_progress"}, openai_poll_after_ms=str(seconds * 1000))
        decision = look(contract, reply, operation)
        assert decision.next_poll_at is not None and decision.next_poll_at >= after(seconds)
        assert decision.delay_source is DelaySource.PROVIDER_POLL_HINT and decision.next_poll_at < after(seconds + 35)
        operation = apply(operation, decision)


def test_W03_a_video_has_a_limit_and_only_its_own_word_finishes_it() -> None:
    """status-polling §0 openai videos.poll: an endless one ends at the contract's own deadline; `cancelled` is no finished video."""
    contract = shipped("openai-video")
    assert contract.limits is not None
    limit = timedelta(seconds=contract.limits.deadline_s)
    category, _, last = walk(contract, http(200, {"id": "job-7", "status": "in_progress"}), limit)
    assert category is Category.DEADLINE_EXCEEDED and last <= NOON + limit
    decision = look(contract, http(200, {"id": "job-7", "status": "cancelled"}))
    assert (decision.state, decision.category) == (S.ESCALATED, Category.UNKNOWN_STATE)


@pytest.mark.parametrize(
    ("result", "state", "category"),
    [
        ("SUCCESS", S.SUCCEEDED, None),
        ("FAILED", S.FAILED, Category.PROVIDER_FAILURE),
        ("TIMEDOUT", S.EXPIRED, Category.PROVIDER_EXPIRED),
        ("CANCELED", S.CANCELLED, Category.PROVIDER_CANCELLED),
        ("SUCCESS_WITH_FAILURES", S.ESCALATED, Category.PARTIAL_RESULT),
        ("SOMETHING_NEW", S.ESCALATED, Category.UNKNOWN_STATE),
        (None, S.ESCALATED, Category.CONTRADICTION),
    ],
)
def test_W04_terminated_alone_says_nothing(result: str | None, state: OperationState, category: Category | None) -> None:
    """status-polling §0 databricks-sdk result_state: the second field decides, and without it there is no success."""
    states: dict[str, Json] = {"life_cycle_state": "TERMINATED", **({"result_state": result} if result else {})}
    body: dict[str, Json] = {"run_id": "job-7", "state": states, "run_page_url": "https://api.example/run"}
    decision = look(shipped("databricks-run"), http(200, body))
    assert (decision.state, decision.category) == (state, category)


LOOKED_AT = [name for name in CATALOGUE.names() if CATALOGUE.document(name)["status"].get("via", "http") == "http"]  # type: ignore[union-attr]


@pytest.mark.parametrize("name", LOOKED_AT)
def test_W17_a_403_stops_at_the_first(name: str) -> None:
    """status-polling §0 @smithy/core 403: no shipped contract asks again after a plain one; a person is asked instead."""
    document = CATALOGUE.document(name)
    contract = worded({"success": ["done"], "failure": ["failed"]}) if document.get("states_from_caller") else shipped(name)
    decision = look(contract, http(403))
    assert (decision.state, decision.category, decision.next_poll_at) == (S.ESCALATED, Category.AUTHORIZATION_DENIED, None)


def test_W21_a_failed_job_is_not_made_again() -> None:
    """status-polling §0 airbyte-cdk resubmit: failure is an end; nothing is submitted by itself, then or after a lost answer."""
    contract = shipped("airbyte-job")
    decision = look(contract, http(200, {"jobId": "job-7", "status": "failed"}))
    assert (decision.state, decision.call, decision.job, decision.next_poll_at) == (S.FAILED, None, None, None)
    lost = decide_call(submitting(), contract, answered(CallOutcome.UNKNOWN), NOON, Random(1), escalation_id="esc_1")
    assert (lost.state, lost.category) == (S.ESCALATED, Category.SUBMIT_UNKNOWN)


@pytest.mark.parametrize("looks", [0, 1, 5])
def test_W07_a_servers_interval_is_a_floor(looks: int) -> None:
    """status-polling §0 fastmcp-tasks pollIntervalMs: from the first look on it is never asked sooner than the server said."""
    body = {"result": {"taskId": "job-7", "status": "working", "createdAt": "2026-11-30T11:59:00Z", "pollIntervalMs": 9000}}
    operation = make_operation(Spend(looks + 1, answered=looks))
    for seed in range(50):
        decision = look(shipped("mcp-task-extension"), http(200, body), operation, seed=seed)
        assert decision.next_poll_at is not None and decision.next_poll_at >= after(9)


def test_the_carrier_of_what_is_looked_at_is_known() -> None:
    """The list of contracts that are asked over HTTP is not empty, and none of another carrier is in it."""
    assert len(LOOKED_AT) > 40 and all(
        CATALOGUE.document(name).get("states_from_caller") or shipped(name).via is Via.HTTP for name in LOOKED_AT
    )
