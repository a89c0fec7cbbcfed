"""Submits, cancels and call-backs from claim to commit, on the real store (W21, W24, W31, W33, W39, W43)."""

import json
from datetime import timedelta
from typing import Any

import pytest

from sereno.core.errors import LeaseLost
from sereno.core.observation import HttpReply, NoReply, NoReplyKind, Reply
from sereno.core.values import to_micros
from sereno.testing.virtual import START
from tests.engine.desk import Desk, answer
from tests.engine.starting import KEYED, ORIGIN, REJECTS, call_back, cancel, document, pushed_document, says, submit

OPERATION = (
    "SELECT id, state, category, job_id, url, due, parked, status_requests_used AS used, transport_failures_used AS failed,"
    " last_state FROM operation"
)
CALL = "SELECT kind, state, attempts, first_sent_at FROM provider_call"
LOST = NoReply(NoReplyKind.RESET, "connection reset", sent=True)
NOT_SENT = NoReply(NoReplyKind.DNS, "no such host", sent=False)


async def wait_until_due(desk: Desk) -> None:
    """Moves the clock to when the operation falls due."""
    due = (await desk.one(OPERATION))["due"]
    desk.hand.advance(max(0.0, (due - to_micros(desk.hand.now())) / 1e6))


async def started(desk: Desk, found: Any) -> str:
    """A job whose submit was taken on, due for its first look."""
    operation = await submit(desk, found)
    desk.wire.gives = says()
    await desk.perform()
    desk.wire.sent.clear()
    return operation


async def test_W31_an_accepted_submit_is_waited_for() -> None:
    """One request with the input; the job it names is stored, and the next step looks at it."""
    desk, found = Desk(), document({"idempotency": KEYED})
    await submit(desk, found)
    desk.wire.gives = says()
    await desk.perform()
    (request,) = desk.wire.sent
    assert (request.method, request.url, json.loads(request.body or b"")) == ("POST", f"{ORIGIN}/jobs", {"n": 1})
    assert request.headers["Idempotency-Key"] == "key-1"
    row = await desk.one(OPERATION)
    assert (row["state"], row["job_id"], row["url"], row["used"]) == ("waiting", "job-1", f"{ORIGIN}/jobs/job-1", 0)
    assert (await desk.one(CALL))["state"] == "done"
    await wait_until_due(desk)
    desk.wire.gives = answer("running")
    await desk.perform()
    assert (desk.wire.sent[-1].method, desk.wire.sent[-1].url) == ("GET", f"{ORIGIN}/jobs/job-1")
    assert (await desk.one(OPERATION))["used"] == 1


async def test_W31_a_lost_answer_without_a_key_stops_as_submit_unknown() -> None:
    """It is never sent again by itself: a person is asked."""
    desk = Desk()
    await submit(desk, document())
    desk.wire.gives = LOST
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (row["state"], row["category"], len(desk.wire.sent)) == ("escalated", "submit_unknown", 1)
    assert (await desk.one(CALL))["state"] == "unknown"


async def test_W21_a_lost_answer_with_a_key_is_sent_again_under_it() -> None:
    """The same key and body, after a delay, and the replayed answer names the job."""
    desk = Desk()
    await submit(desk, document({"idempotency": KEYED}))
    desk.wire.gives = LOST
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (row["state"], row["due"] > to_micros(START)) == ("submitting", True)
    await wait_until_due(desk)
    desk.wire.gives = says()
    await desk.perform()
    first, second = desk.wire.sent
    assert (first.headers, first.body, first.url) == (second.headers, second.body, second.url)
    assert (await desk.one(OPERATION))["job_id"] == "job-1"
    assert (await desk.one(CALL))["attempts"] == 2


@pytest.mark.parametrize(("keyed", "state", "sent"), [(False, "escalated", 0), (True, "waiting", 1)])
async def test_W31_a_submit_that_a_dead_worker_may_have_sent(keyed: bool, state: str, sent: int) -> None:
    """Claimed and never committed: without a key nothing is sent and a person is asked, with one it goes again under it."""
    desk = Desk()
    await submit(desk, document({"idempotency": KEYED} if keyed else None))
    await desk.claim()
    desk.hand.advance(61)
    desk.wire.gives = says()
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (row["state"], len(desk.wire.sent)) == (state, sent)
    assert row["category"] == (None if keyed else "submit_unknown")


async def test_W21_a_duplicate_after_a_lost_answer_is_ours() -> None:
    """A provider that rejects a key it has seen says 409: the job that it names is this one."""
    desk = Desk()
    await submit(desk, document(REJECTS))
    desk.wire.gives = LOST
    await desk.perform()
    await wait_until_due(desk)
    desk.wire.gives = says(409, id="job-1")
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (row["state"], row["job_id"]) == ("waiting", "job-1")


async def test_W39_a_duplicate_at_the_first_try_is_somebody_elses() -> None:
    """Nothing of ours was sent before: the job is not adopted."""
    desk = Desk()
    await submit(desk, document(REJECTS))
    desk.wire.gives = says(409, id="job-1")
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (row["state"], row["category"], row["job_id"]) == ("escalated", "contradiction", "")


async def test_W39_a_job_that_another_operation_waits_for_is_not_taken() -> None:
    """The store refuses the first decision; the second says so to a person, and nothing is sent again."""
    desk, found = Desk(), document()
    first = await started(desk, found)
    second = await submit(desk, found, key="key-2")
    await desk.perform()
    rows = {row["id"]: row for row in await desk.sql(OPERATION)}
    assert (rows[first]["state"], rows[first]["job_id"]) == ("waiting", "job-1")
    assert (rows[second]["state"], rows[second]["category"], rows[second]["job_id"]) == ("escalated", "contradiction", "")
    assert len(desk.wire.sent) == 1


@pytest.mark.parametrize(
    ("reply", "category", "call"),
    [
        (says(422, error="no"), "integration_failure", "refused"),
        (says(401, error="no"), "authorization_denied", "queued"),
        (says(201, other="no id"), "submit_unknown", "unknown"),
        (says(500, error="oops"), "submit_unknown", "unknown"),
    ],
)
async def test_W31_what_a_submits_answer_ends_in(reply: HttpReply, category: str, call: str) -> None:
    """Refused is certain, an internal error and an answer without a name are not."""
    desk = Desk()
    await submit(desk, document())
    desk.wire.gives = reply
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (row["state"], row["category"], (await desk.one(CALL))["state"]) == ("escalated", category, call)


@pytest.mark.parametrize("gives", [NOT_SENT, RuntimeError("in the middle")])
async def test_W31_only_what_certainly_did_not_leave_is_sent_again_without_a_key(gives: Reply | BaseException) -> None:
    """No address was found: again later. The carrier raised after the request left: only "unknown" is honest."""
    desk = Desk()
    await submit(desk, document())
    desk.wire.gives = gives
    await desk.perform()
    row = await desk.one(OPERATION)
    certain = gives is NOT_SENT
    assert (row["state"], row["category"]) == (("submitting", None) if certain else ("escalated", "submit_unknown"))
    assert (await desk.one(CALL))["state"] == ("queued" if certain else "unknown")


async def test_W33_a_submit_that_may_not_be_sent_is_given_back() -> None:
    """The lease went by before the first byte: the call is as it was, and nothing is in doubt."""
    desk = Desk()
    await submit(desk, document())
    desk.wire.seconds_before = 59.5
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (len(desk.wire.sent), row["state"], row["due"]) == (0, "submitting", to_micros(START))
    desk.wire.seconds_before, desk.wire.gives = 0.0, says()
    await desk.perform()
    assert (len(desk.wire.sent), (await desk.one(OPERATION))["state"]) == (1, "waiting")


async def test_W32_a_submit_is_never_sent_after_the_deadline() -> None:
    """Connecting took until then: nothing left, and the next step closes it."""
    desk = Desk()
    await submit(desk, document(), deadline=timedelta(seconds=20))
    desk.wire.seconds_before = 21
    await desk.perform()
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (len(desk.wire.sent), row["state"], row["category"]) == (0, "escalated", "deadline_exceeded")


async def test_W33_a_calls_redirects_and_counts_are_its_own() -> None:
    """No hop may be asked for by a submit, and it uses no status request."""
    desk = Desk()
    await submit(desk, document(status={**document()["status"], "redirects": True}))  # type: ignore[dict-item]
    desk.wire.gives = says()
    await desk.perform()
    assert desk.wire.sent[0].before_hop is None
    assert (await desk.one(OPERATION))["used"] == 0


async def test_W24_a_cancel_is_its_own_call_and_the_look_tells() -> None:
    """It is sent to the contract's address, ends nothing by itself, and a look follows."""
    desk, found = Desk(), document()
    operation = await started(desk, found)
    await cancel(desk, operation, found)
    await wait_until_due(desk)
    desk.wire.gives = says(200, ok=True)
    await desk.perform()
    (request,) = desk.wire.sent
    assert (request.method, request.url) == ("POST", f"{ORIGIN}/jobs/job-1/cancel")
    calls = {row["kind"]: row["state"] for row in await desk.sql(CALL)}
    row = await desk.one(OPERATION)
    assert (calls, row["state"], row["used"]) == ({"submit": "done", "cancel": "done"}, "waiting", 0)
    await wait_until_due(desk)
    desk.wire.gives = answer("canceled")
    await desk.perform()
    assert (await desk.one(OPERATION))["state"] == "cancelled"


async def test_W24_a_cancel_whose_answer_was_lost_is_not_repeated() -> None:
    """The contract does not say that asking twice does no harm: a person is asked."""
    desk, found = Desk(), document()
    operation = await started(desk, found)
    await cancel(desk, operation, found)
    await wait_until_due(desk)
    desk.wire.gives = LOST
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (row["state"], row["category"], len(desk.wire.sent)) == ("escalated", "ambiguous_delivery", 1)


async def test_a_call_back_is_read_through_the_contract_and_nothing_is_sent() -> None:
    """A provider without a status call: its word decides, at the instant it came."""
    desk, found = Desk(), pushed_document()
    operation = await submit(desk, found)
    desk.wire.gives = says()
    await desk.perform()
    assert (await desk.one(OPERATION))["state"] == "waiting"
    desk.wire.sent.clear()
    desk.hand.advance(30)
    await call_back(desk, operation, found, {"id": "job-1", "status": "done"})
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (row["state"], row["last_state"], row["used"], desk.wire.sent) == ("succeeded", "done", 0, [])


async def test_W05_a_call_back_about_another_job_decides_nothing() -> None:
    """It is read like any answer: a contradiction goes to a person."""
    desk, found = Desk(), pushed_document()
    operation = await submit(desk, found)
    desk.wire.gives = says()
    await desk.perform()
    await call_back(desk, operation, found, {"id": "job-2", "status": "done"})
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (row["state"], row["category"]) == ("escalated", "contradiction")


async def test_W43_where_deciding_on_a_submit_fails_its_answer_is_kept() -> None:
    """Our own mistake after the answer came: status and job are in the journal, and nothing is sent again."""
    desk = Desk()
    await submit(desk, document({"idempotency": KEYED}))
    desk.changes["ids"] = _NoIds()
    desk.wire.gives = says()
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (row["parked"], len(desk.wire.sent)) == ("deciding failed: RuntimeError", 1)
    journal = await desk.sql("SELECT facts FROM journal WHERE kind = 'decision' ORDER BY seq DESC LIMIT 1")
    seen = json.loads(journal[0]["facts"])["observation"]
    assert (seen["http_status"], seen["provider_request_id"]) == (201, "req-7")
    assert "accepted" in seen["reason"] and "'job-1'" in seen["reason"]


async def test_W43_where_reading_fails_the_status_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is certain of the answer is committed even then."""
    desk = Desk()
    await desk.operation()

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("cannot read")

    monkeypatch.setattr("sereno.engine.operation.read_observation", broken)
    await desk.perform()
    assert (await desk.one(OPERATION))["parked"] == "reading the answer failed: RuntimeError"
    journal = await desk.sql("SELECT facts FROM journal WHERE kind = 'decision' ORDER BY seq DESC LIMIT 1")
    assert json.loads(journal[0]["facts"])["observation"]["http_status"] == 200


async def test_W22_a_stale_owner_stores_no_job() -> None:
    """While the answer was under way another worker took over: the commit is refused."""
    desk = Desk()
    await submit(desk, document())

    async def taken_over() -> None:
        await desk.sql("UPDATE operation SET run = run + 1")

    desk.wire.meanwhile, desk.wire.gives = taken_over, says()
    with pytest.raises(LeaseLost):
        await desk.perform()
    assert (await desk.one(OPERATION))["job_id"] == ""


async def test_a_contract_that_nothing_here_carries_is_shown() -> None:
    """Nothing is sent under a guess, and waiting would not mend it."""
    desk = Desk()
    await desk.operation()
    desk.carriers = {}
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (row["state"], row["category"], desk.wire.sent) == ("escalated", "integration_failure", [])


@pytest.mark.parametrize("point", ["call.before_send", "call.replied"])
async def test_each_named_point_of_a_call_is_passed_once(point: str) -> None:
    """The crash points that the kill tests use are where they say."""
    desk = Desk()
    passed: list[str] = []
    desk.changes["crash_point"] = passed.append
    await submit(desk, document())
    desk.wire.gives = says()
    await desk.perform()
    assert passed.count(point) == 1
    assert not [name for name in passed if name.startswith("operation.")]


class _NoIds:
    """A source of ids that fails: our own mistake in the middle of deciding."""

    def new(self, prefix: str) -> str:
        raise RuntimeError("no ids today")

    def random(self, label: str) -> Any:
        raise RuntimeError("no dice today")
