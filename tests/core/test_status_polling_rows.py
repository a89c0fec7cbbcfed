"""What users of other waiters complain about, read and decided here: one test a row (status-polling §2)."""

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from sereno.core.budget import Spend
from sereno.core.contract import Contract, parse_contract
from sereno.core.escalation import Category, Verb
from sereno.core.observation import Asked, DelaySource, HttpReply, read_observation
from sereno.core.operation import (
    Close,
    Event,
    Operation,
    OperationDecision,
    OperationState,
    close_operation,
    decide_operation,
    next_call,
)
from sereno.core.values import Json
from tests.core.test_observation_read import BASE, contract_of, http
from tests.core.waiting import ALLOWANCE, CANCEL, NOON, Dotted, after, apply, make_operation, reserve

S = OperationState
ACME = contract_of(job={"id": "id"}, hints=[], expiry={}, result={"fields": [{"path": "output"}]})


def look(reply: HttpReply, operation: Operation | None = None, *, contract: Contract = ACME, seed: int = 1) -> OperationDecision:
    """One look: the reply is read through the contract and decided on, at noon."""
    operation = operation or make_operation(job_id="j1")
    asked = Asked(
        operation.job_id,
        operation.started_at,
        operation.url,
        not_found=operation.spend.not_found,
        tolerated=operation.spend.tolerated,
    )
    seen = read_observation(contract, asked, reply, received_at=NOON)
    return decide_operation(operation, contract, seen, NOON, Random(seed), escalation_id="esc_1")


def job(status: Json, **more: Json) -> HttpReply:
    """An answer about j1."""
    return http(200, {"id": "j1", "status": status, **more})


def test_W09_an_endless_pending_meets_its_limits() -> None:
    """status-polling §2 row 2: budget and deadline are checked on every look, also where each answer is a healthy "pending"."""
    operation, looks = make_operation(Spend(), job_id="j1", reserved=False), 0
    while operation.state is S.WAITING:
        operation, looks = apply(operation, look(job("running"), reserve(operation))), looks + 1
    assert (looks, operation.category) == (12, Category.REQUEST_BUDGET_EXHAUSTED)
    close = next_call(reserve(make_operation(Spend())), ACME, after(3600))
    assert isinstance(close, Close) and close.category is Category.DEADLINE_EXCEEDED


def test_W04_done_with_neither_result_nor_error_stops() -> None:
    """status-polling §2 row 3: the first such answer is a contradiction, not a hang."""
    assert look(job("succeeded")).category is Category.CONTRADICTION


@pytest.mark.parametrize("word", ["aborted", "scheduled", "Banana"])
def test_W03_a_word_that_the_provider_added_stops_after_one_request(word: str) -> None:
    """status-polling §2 row 4 and status-polling §2 row 5: never success, never polled on, never a crash."""
    decision = look(job(word, output="x"))
    assert (decision.state, decision.category, decision.next_poll_at) == (S.ESCALATED, Category.UNKNOWN_STATE, None)
    assert decision.spend.status_requests == 1 and decision.observation is not None and decision.observation.state == word


@pytest.mark.parametrize("raw", ["-5", "inf", "nan", "soon", "5, 10", "1e400", "Sun, 01 Mar 2020 12:02:00 GMT", "0"])
def test_W13_a_bad_retry_after_changes_nothing(raw: str) -> None:
    """status-polling §2 row 7: no crash, no tight loop, no endless sleep: the normal backoff, and a rejected one is on the record."""
    decision = look(http(200, {"id": "j1", "status": "running"}, retry_after=raw))
    assert decision.delay_source is DelaySource.LOCAL_BACKOFF and decision.due is not None
    assert after(5) <= decision.due <= after(10)
    assert ("rejected_hints" in decision.facts) is not (raw == "0" or "GMT" in raw)


def test_W16_a_404_right_after_the_start_has_its_grace() -> None:
    """status-polling §2 row 9: looked at again inside the window and the streak of the contract, then an unknown operation."""
    operation = make_operation(job_id="j1", created_at=after(-20))
    for count in (1, 2, 3):
        decision = look(http(404), operation)
        assert (decision.state, decision.spend.not_found) == (S.WAITING, count)
        operation = apply(operation, decision)
    assert look(http(404), operation).category is Category.UNKNOWN_OPERATION
    assert look(http(404), make_operation(job_id="j1", created_at=after(-31))).category is Category.UNKNOWN_OPERATION


def test_W16_a_job_that_is_gone_is_not_waited_for() -> None:
    """status-polling §2 row 11: `expired` ends as expired, a purged result asks, a 404 after the grace asks; none goes on to the limit."""
    purges = contract_of(states={**BASE["states"], "result_expired": ["purged"]})  # type: ignore[dict-item]
    assert look(job("expired")).state is S.EXPIRED
    assert look(job("purged"), contract=purges).category is Category.RESULT_EXPIRED
    assert look(http(404)).category is Category.UNKNOWN_OPERATION


def test_a_batch_that_completed_without_success_is_none() -> None:
    """status-polling §2 row 12: all lines failed is a failure, some failed is partial and asks, none failed is success."""
    rules: list[Json] = [
        {"word": "succeeded", "tests": [{"path": "ok", "value": 0}, {"path": "bad", "above": 0}], "meaning": "failure"},
        {"word": "succeeded", "path": "bad", "above": 0, "meaning": "partial"},
    ]
    batch = contract_of(job={"id": "id"}, expiry={}, rules=rules, result={"fields": [{"path": "output"}]})
    assert look(job("succeeded", ok=0, bad=3), contract=batch).state is S.FAILED
    assert look(job("succeeded", ok=2, bad=1, output="x"), contract=batch).category is Category.PARTIAL_RESULT
    assert look(job("succeeded", ok=3, bad=0, output="x"), contract=batch).state is S.SUCCEEDED


@pytest.mark.parametrize("reply", [http(502, b"<html>Bad gateway</html>", type_="text/html"), http(504), http(503, b"{")])
def test_W18_a_gateway_page_says_nothing_about_the_job(reply: HttpReply) -> None:
    """status-polling §2 row 14: it spends the transport budget and nothing else."""
    decision = look(reply)
    assert (decision.state, decision.spend.transport_failures, decision.spend.throttles) == (S.WAITING, 1, 0)


@pytest.mark.parametrize("status", [401, 403])
def test_W17_a_denied_request_is_not_repeated(status: int) -> None:
    """status-polling §2 row 15: one request, authorization_denied, no retry."""
    decision = look(http(status))
    assert (decision.category, decision.next_poll_at, decision.spend.status_requests) == (Category.AUTHORIZATION_DENIED, None, 1)


def test_W14_rate_limits_have_a_budget_of_their_own() -> None:
    """status-polling §2 row 17: 429s spend no failure; at the third of three they escalate as rate_limited."""
    operation = make_operation(job_id="j1")
    for count in (1, 2):
        operation = apply(operation, look(http(429), operation))
        assert (operation.state, operation.spend.throttles, operation.spend.transport_failures) == (S.WAITING, count, 0)
    assert look(http(429), operation).category is Category.RATE_LIMITED


@pytest.mark.parametrize("status", [200, 400, 412])
def test_W14_a_rate_limit_under_another_status(status: int) -> None:
    """status-polling §2 row 18: the contract names status and body; the throttle budget pays."""
    named: list[Json] = [{"status": str(status), "path": "error.code", "value": "slow_down", "meaning": "throttled"}]
    decision = look(http(status, {"error": {"code": "slow_down"}}), contract=contract_of(http=named))
    assert (decision.state, decision.spend.throttles) == (S.WAITING, 1)


def test_W29_waits_that_start_together_do_not_look_together() -> None:
    """status-polling §2 row 20: a hundred operations with the same history spread over half their delay."""
    dues = [look(job("running"), make_operation(Spend(5, answered=4), job_id="j1"), seed=seed).due for seed in range(100)]
    instants = sorted(due for due in dues if due is not None)
    assert len(set(instants)) == 100 and instants[-1] - instants[0] > timedelta(seconds=50)


@pytest.mark.parametrize("meaning", ["success", "failure"])
def test_W03_a_contract_names_success_and_failure(meaning: str) -> None:
    """status-polling §2 row 21: waiting for one of them alone would hang on the other."""
    states = {key: words for key, words in BASE["states"].items() if key != meaning}  # type: ignore[union-attr]
    faults = parse_contract({**BASE, "states": states, "rules": []}, Dotted)
    assert not isinstance(faults, Contract) and f"states.{meaning}" in [fault.where for fault in faults]


def test_W15_the_key_follows_no_location_to_another_host() -> None:
    """status-polling §2 row 24: a hand-over elsewhere stops, and the next look would still go to the old address."""
    moves = contract_of(job={"id": "id"}, expiry={}, handover=[{"header": "Location"}])
    decision = look(http(200, {"id": "j1", "status": "running"}, location="https://evil.example/x"), contract=moves)
    assert (decision.category, decision.url) == (Category.CONTRADICTION, None)


def test_W19_nobody_answers() -> None:
    """status-polling §2 row 33: the question has its own deadline and a safe default: stop, keep the handle, send nothing."""
    operation = apply(make_operation(job_id="j1"), look(job("Banana")))
    assert operation.open_escalation is not None
    answer_by = operation.open_escalation.answer_by
    close = next_call(operation, ACME, answer_by)
    assert isinstance(close, Close) and close.event is Event.SILENCE
    decision = close_operation(operation, ACME, close, answer_by, escalation_id="esc_2")
    assert decision.state is S.STOPPED and decision.job is None and decision.call is None


def test_W21_a_job_past_its_deadline_is_never_submitted_anew_by_itself() -> None:
    """status-polling §2 row 34 and status-polling §2 row 1: the handle is kept, and a person extends, cancels (where documented) or stops."""
    documented = replace(ACME, cancel=CANCEL)
    operation = make_operation(job_id="j1", allowance=replace(ALLOWANCE, deadline_at=NOON))
    decision = look(job("running"), operation, contract=documented)
    assert decision.category is Category.DEADLINE_EXCEEDED and decision.escalation is not None
    assert [option.verb for option in decision.escalation.options] == [Verb.EXTEND, Verb.CANCEL, Verb.STOP]
    assert decision.escalation.statement["job"] == "j1"
