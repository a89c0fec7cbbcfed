"""One piece of work from claim to commit, with scripted plug-ins on the real store (W09, W22, W32, W33, W43)."""

import json
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any

import pytest

from sereno.core.change import FailedReading, ReadFailure, Reading
from sereno.core.delivery import Outcome, OutcomeKind
from sereno.core.effect import Policy
from sereno.core.errors import LeaseLost, Unavailable
from sereno.core.observation import NoReply, NoReplyKind
from sereno.core.values import to_micros
from sereno.testing.virtual import START
from tests.engine.desk import Desk, answer

OPERATION = "SELECT state, category, due, status_requests_used AS used, transport_failures_used AS failed, parked, last_state FROM operation"
POLL = "SELECT state, due, cursor, failures, runs, last_error, lease_until FROM poll"
DELIVERY = "SELECT state, attempt, due, last_outcome, receipt, lease_until FROM delivery"


async def run_of(desk: Desk, kind: str) -> dict[str, Any]:
    """The newest run of a kind."""
    rows = await desk.sql("SELECT status, summary, error, requests FROM run WHERE kind = ? ORDER BY number DESC LIMIT 1", kind)
    return rows[0]


# Polls


async def test_a_poll_run_commits_cursor_run_and_effects() -> None:
    """Read, compare, judge, decide, commit: one transaction holds all of it."""
    desk = Desk()
    await desk.polls(1, actions=(desk.tell(),))
    await desk.perform()
    poll = await desk.one(POLL)
    assert (poll["cursor"], poll["runs"], poll["lease_until"]) == ("c1", 1, None)
    assert (await run_of(desk, "poll"))["status"] == "ok"
    assert (await desk.one(DELIVERY))["state"] == "queued"


async def test_a_source_that_raises_is_a_failed_read() -> None:
    """The poll fails as one whose source is broken, backs off and stays in the claim."""
    desk = Desk()
    await desk.polls(1)
    desk.read.gives = KeyError("hunter2")
    await desk.perform()
    poll = await desk.one(POLL)
    assert (poll["state"], poll["failures"], poll["cursor"]) == ("active", 1, None)
    assert poll["due"] > to_micros(START)
    assert "hunter2" not in json.dumps(await desk.sql("SELECT * FROM run"))


async def test_a_missing_source_plug_in_is_a_failed_read() -> None:
    """A poll whose plug-in is gone says so instead of ending the driver."""
    desk = Desk()
    await desk.polls(1)
    await desk.sql('UPDATE poll_spec SET spec = replace(spec, \'"source_type":"scripted"\', \'"source_type":"gone"\')')
    await desk.perform()
    assert "no source plug-in named gone" in (await desk.one(POLL))["last_error"]


async def test_a_failed_reading_keeps_cursor_and_snapshot() -> None:
    """What the world does is a value: the run failed, nothing that was known is lost."""
    desk = Desk()
    await desk.polls(1)
    await desk.perform()
    desk.read.gives = FailedReading(ReadFailure.UNREACHABLE, "no route", requests=1)
    await desk.sql("UPDATE poll SET due = ?, scheduled_for = ?", to_micros(START), to_micros(START))
    await desk.sql("UPDATE pool SET wake = 0")
    await desk.perform()
    poll = await desk.one(POLL)
    assert (poll["cursor"], poll["failures"]) == ("c1", 1)
    assert (await desk.one("SELECT count(*) AS n FROM poll_object"))["n"] == 1


async def test_W43_a_poll_whose_deciding_fails_is_parked() -> None:
    """A reading that our own code cannot compare takes the poll out of the claim and says why; it is not retried blindly."""
    desk = Desk()
    await desk.polls(1)
    desk.read.gives = Reading([None], cursor="c1", requests=1)  # type: ignore[list-item]  # what a broken plug-in might give
    await desk.perform()
    poll = await desk.one(POLL)
    assert (poll["due"], poll["lease_until"], poll["cursor"]) == (None, None, None)
    assert "AttributeError" in poll["last_error"]
    run = await run_of(desk, "poll")
    assert (run["status"], run["summary"]) == ("failed", "parked")


async def test_W33_a_poll_that_may_not_send_is_given_back() -> None:
    """The lease went by before the first byte: nothing was read, nothing is written, it is due as before."""
    desk = Desk()
    await desk.polls(1)
    await desk.perform(seconds=59.5)
    assert desk.read.calls == 0
    poll = await desk.one(POLL)
    assert (poll["due"], poll["runs"], poll["failures"], poll["lease_until"]) == (to_micros(START), 0, 0, None)
    assert (await run_of(desk, "poll"))["status"] == "released"


# Deliveries


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome(OutcomeKind.DONE, "taken", receipt="r1"), "delivered"),
        (Outcome(OutcomeKind.RETRY, "busy"), "queued"),
        (Outcome(OutcomeKind.REFUSED, "no such address"), "dead"),
        (Outcome(OutcomeKind.UNKNOWN, "the answer was lost"), "sending"),
    ],
)
async def test_an_attempt_ends_as_its_outcome_says(outcome: Outcome, state: str) -> None:
    """The core decides; the engine carries it to the commit."""
    desk = Desk()
    await desk.delivery()
    desk.act.gives = outcome
    await desk.perform()
    assert (await desk.one(DELIVERY))["state"] == state


@pytest.mark.parametrize(
    ("policy", "state"), [(Policy.KEYED, "sending"), (Policy.AT_LEAST_ONCE, "sending"), (Policy.AT_MOST_ONCE, "ambiguous")]
)
async def test_an_action_that_raises_may_have_acted(policy: Policy, state: str) -> None:
    """Only "unknown" is honest: repeated under the same key where that is safe, shown to a person where it is not (I19)."""
    desk = Desk()
    await desk.delivery(policy)
    desk.act.gives = RuntimeError("half way")
    await desk.perform()
    row = await desk.one(DELIVERY)
    assert row["state"] == state
    assert row["last_outcome"] == "unknown: RuntimeError"


async def test_an_interrupted_attempt_at_most_once_is_not_repeated() -> None:
    """The worker before died in the middle: the attempt may have happened, so nothing is sent."""
    desk = Desk()
    await desk.delivery(Policy.AT_MOST_ONCE)
    await desk.claim()
    desk.hand.advance(61)
    await desk.perform()
    assert desk.act.calls == 0
    assert (await desk.one(DELIVERY))["state"] == "ambiguous"


async def test_a_delivery_that_may_not_act_is_given_back() -> None:
    """Refused by the send guard: no act, no attempt used up, due again."""
    desk = Desk()
    await desk.delivery()
    await desk.perform(seconds=59.5)
    assert desk.act.calls == 0
    row = await desk.one(DELIVERY)
    assert (row["state"], row["attempt"], row["lease_until"]) == ("queued", 0, None)


async def test_an_action_that_the_send_guard_stops_in_the_middle_is_given_back() -> None:
    """The plug-in prepared for longer than the lease and asked once more before it acted: nothing happened, so nothing is in doubt."""
    desk = Desk()
    await desk.delivery(Policy.AT_MOST_ONCE)
    desk.act.seconds_before = 59.5
    await desk.perform()
    row = await desk.one(DELIVERY)
    assert (desk.act.calls, row["state"], row["attempt"], row["lease_until"]) == (0, "queued", 0, None)


async def test_a_missing_action_plug_in_is_dead_and_says_so() -> None:
    """Nothing can be sent by a plug-in that is not there; the delivery waits for a person."""
    desk = Desk()
    await desk.delivery()
    await desk.sql('UPDATE delivery SET effect = replace(effect, \'"type":"scripted"\', \'"type":"gone"\')')
    await desk.perform()
    row = await desk.one(DELIVERY)
    assert row["state"] == "dead"
    assert "no action plug-in named gone" in row["last_outcome"]


# Operations


async def test_W33_one_step_counts_asks_and_plans() -> None:
    """The request is counted before it leaves; the answer plans the next look."""
    desk = Desk()
    await desk.operation()
    work = await desk.claim()
    assert (await desk.one(OPERATION))["used"] == 1
    assert desk.wire.sent == []
    await desk.perform(work)
    row = await desk.one(OPERATION)
    assert (len(desk.wire.sent), row["used"], row["state"], row["last_state"]) == (1, 1, "waiting", "running")
    assert row["due"] > to_micros(START)


async def test_W33_a_step_that_may_not_send_gives_its_request_back() -> None:
    """Connecting took longer than the lease: no byte left, so the count goes back and it is due as before."""
    desk = Desk()
    await desk.operation()
    desk.wire.seconds_before = 59.5
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (len(desk.wire.sent), row["used"], row["due"]) == (0, 0, to_micros(START))
    assert (await run_of(desk, "operation"))["status"] == "released"


async def test_W09_a_request_whose_answer_was_lost_counts() -> None:
    """The connection broke after the request left: counted, and one transport failure."""
    desk = Desk()
    await desk.operation()
    desk.wire.gives = NoReply(NoReplyKind.RESET, "connection reset", sent=True)
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (row["used"], row["failed"], row["state"]) == (1, 1, "waiting")


async def test_W33_a_request_that_certainly_did_not_leave_is_given_back() -> None:
    """No address was found: the failure counts, the request does not."""
    desk = Desk()
    await desk.operation()
    desk.wire.gives = NoReply(NoReplyKind.DNS, "no such host", sent=False)
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (row["used"], row["failed"]) == (0, 1)


async def test_W09_a_provider_that_raises_may_have_sent() -> None:
    """A mistake in the plug-in: the request stays counted, and it is one transport failure."""
    desk = Desk()
    await desk.operation()
    desk.wire.gives = RuntimeError("in the middle")
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (row["used"], row["failed"], row["state"]) == (1, 1, "waiting")


async def test_W32_an_answer_after_the_deadline_is_recorded_and_escalated() -> None:
    """The job was done, but the answer came after the deadline: the state is reported, using it is a person's decision."""
    desk = Desk()
    await desk.operation(deadline=timedelta(seconds=10))
    desk.wire.gives, desk.wire.seconds = answer("done"), 10.0
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (row["state"], row["category"], row["last_state"], row["used"]) == ("escalated", "deadline_exceeded", "done", 1)
    assert (await desk.one("SELECT state FROM escalation"))["state"] == "open"


async def test_W32_an_answer_right_before_the_deadline_is_success() -> None:
    """The instant of receipt decides, not that of the claim."""
    desk = Desk()
    await desk.operation(deadline=timedelta(seconds=10))
    desk.wire.gives, desk.wire.seconds = answer("done"), 9.9
    await desk.perform()
    assert (await desk.one(OPERATION))["state"] == "succeeded"


async def test_W32_a_call_lasts_no_longer_than_the_wait() -> None:
    """The call's timeout is cut to the time left until the deadline."""
    desk = Desk()
    await desk.operation(deadline=timedelta(seconds=10))
    await desk.perform(seconds=4.0)
    assert desk.wire.sent[0].total_deadline == timedelta(seconds=6)


async def test_W32_nothing_is_asked_when_the_deadline_passed_after_the_claim() -> None:
    """A batch or a suspended host waited too long: no request, the reservation goes back, a person is asked."""
    desk = Desk()
    await desk.operation(deadline=timedelta(seconds=10))
    await desk.perform(seconds=10.0)
    row = await desk.one(OPERATION)
    assert (desk.wire.sent, row["used"], row["state"], row["category"]) == ([], 0, "escalated", "deadline_exceeded")


async def test_W43_when_deciding_fails_the_facts_of_the_reply_are_kept() -> None:
    """Our own mistake after the answer came: state and status are stored, the operation is parked until its deadline, not asked again."""
    desk = Desk()
    await desk.operation(deadline=timedelta(minutes=5))
    desk.changes["ids"] = _NoIds()
    desk.wire.gives = answer("done", ("x-request-id", "req-7"))
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (row["state"], row["last_state"], row["used"]) == ("waiting", "done", 1)
    assert row["parked"] == "deciding failed: RuntimeError"
    assert row["due"] == to_micros(START + timedelta(minutes=5))
    journal = await desk.sql("SELECT facts FROM journal WHERE kind = 'decision' ORDER BY seq DESC LIMIT 1")
    facts = json.loads(journal[0]["facts"])
    assert facts["decision"] == "parked"
    seen = facts["observation"]
    assert (seen["state"], seen["http_status"], seen["provider_request_id"]) == ("done", 200, "req-7")


async def test_W43_a_parked_operation_is_told_to_a_person_at_its_deadline() -> None:
    """Parked work is neither repeated nor forgotten: at the deadline it is closed without a request."""
    desk = Desk()
    await desk.operation(deadline=timedelta(minutes=5))
    desk.changes["ids"] = _NoIds()
    await desk.perform()
    desk.changes.clear()
    desk.hand.advance(300)
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (len(desk.wire.sent), row["state"], row["category"]) == (1, "escalated", "deadline_exceeded")


async def test_a_pinned_contract_that_does_not_load_parks() -> None:
    """A stored contract that this version cannot read: nothing is sent under a guess."""
    desk = Desk()
    await desk.operation()
    await desk.sql("UPDATE contract SET document = '{\"format\":99}'")
    await desk.perform()
    row = await desk.one(OPERATION)
    assert desk.wire.sent == []
    assert row["parked"].startswith("the pinned contract does not load")


# All kinds


async def test_W22_a_stale_owner_writes_nothing() -> None:
    """While the answer was under way another worker took over: the commit is refused and the row is as that one left it."""
    desk = Desk()
    await desk.operation()

    async def taken_over() -> None:
        await desk.sql("UPDATE operation SET run = run + 1")

    desk.wire.meanwhile, desk.wire.gives = taken_over, answer("done")
    with pytest.raises(LeaseLost):
        await desk.perform()
    row = await desk.one(OPERATION)
    assert (row["state"], row["last_state"], row["used"]) == ("waiting", None, 1)


@pytest.mark.parametrize("kind", ["poll", "operation", "delivery"])
async def test_W22_what_was_taken_over_is_given_back_once(kind: str) -> None:
    """Nothing left and another worker has the row: one statement finds that out, not two."""
    desk = Desk()
    await {"poll": lambda: desk.polls(1), "operation": desk.operation, "delivery": desk.delivery}[kind]()
    work = await desk.claim()
    await desk.sql(f"UPDATE {kind} SET run = run + 1")
    with pytest.raises(LeaseLost):
        await desk.perform(work, seconds=59.5)
    assert (desk.releases, desk.read.calls + desk.act.calls + len(desk.wire.sent)) == (1, kind == "delivery")


async def test_an_unavailable_store_reaches_the_driver() -> None:
    """A commit that could not be made is no plug-in's mistake: the lease runs out and the work falls due again."""
    desk = Desk()
    await desk.operation()
    desk.changes["store"] = _Full()
    work = await desk.claim()
    with pytest.raises(Unavailable):
        await desk.perform(work)
    assert (await desk.one(OPERATION))["parked"] is None


@pytest.mark.parametrize(
    "point", ["poll.read", "operation.before_send", "operation.replied", "delivery.before_act", "delivery.acted"]
)
async def test_each_named_point_is_passed_once(point: str) -> None:
    """The crash points that the kill tests use are where they say, once in each piece of work."""
    desk = Desk()
    passed: list[str] = []
    desk.changes["crash_point"] = passed.append
    kind = point.partition(".")[0]
    await {"poll": lambda: desk.polls(1), "operation": desk.operation, "delivery": desk.delivery}[kind]()
    passed.clear()
    await desk.perform()
    assert passed.count(point) == 1


async def test_a_mistake_of_the_engine_parks_the_work() -> None:
    """Whatever of ours raises in the middle: the work is shown with the reason and not retried blindly."""
    desk = Desk()
    await desk.operation()

    def broken(name: str) -> None:
        raise RuntimeError(name)

    desk.changes["crash_point"] = broken
    await desk.perform()
    row = await desk.one(OPERATION)
    assert (row["parked"], row["state"], desk.wire.sent) == ("RuntimeError", "waiting", [])


class _NoIds:
    """A source of ids that fails: our own mistake in the middle of deciding."""

    def new(self, prefix: str) -> str:
        raise RuntimeError("no ids today")

    def random(self, label: str) -> Any:
        raise RuntimeError("no dice today")


class _Full:
    """A store whose disk is full."""

    def __getattr__(self, name: str) -> Any:
        def refuse(*_: Any, **__: Any) -> Awaitable[None]:
            raise Unavailable("the disk is full")

        return refuse
