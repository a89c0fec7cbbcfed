"""A small world written down by hand, in which everything held: its books and rows, for the checks to be tried on."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sereno.core.budget import Allowance, Spend
from sereno.core.delivery import Delivery, DeliveryState, OutcomeKind
from sereno.core.effect import ActionRef, Effect, Policy, poll_dedupe_key
from sereno.core.observation import DelaySource
from sereno.core.operation import KEEP_RESULT, Operation, OperationState
from sereno.core.values import to_micros
from sereno.core.work import LeaseTimes
from sereno.ports import PoolLimits
from sereno.testing.hostile.book import Request
from sereno.testing.simulation.checks.evidence import Case, Evidence, Row, claims_of
from sereno.testing.simulation.outside.people import Act, PeopleBook
from sereno.testing.simulation.outside.receivers import Arrival
from sereno.testing.simulation.outside.sources import LOG, Feed, ReadingTaken, Version
from sereno.testing.simulation.terms import Death, ProcessBook
from sereno.testing.virtual import START

TIMES = LeaseTimes()
DEADLINE_S = 1800.0
LOOKED, ORDERED, POLL = "op_looked", "op_ordered", "poll_1"
POOL = "provider:hostile.example"


def at(seconds: float) -> datetime:
    """So many seconds after the beginning."""
    return START + timedelta(seconds=seconds)


def us(seconds: float) -> int:
    """The same as a row has it."""
    return to_micros(at(seconds))


class Written:
    """A journal under way: rows of one subject, numbered in the order in which they are written."""

    def __init__(self, subject: str, start: int) -> None:
        self.subject, self.seq = subject, start
        self.rows: list[Row] = []

    def add(self, run: int, kind: str, seconds: float, **facts: Any) -> Row:
        """Appends one row."""
        row = Row(self.seq, self.subject, run, kind, us(seconds), facts)
        self.seq += 1
        self.rows.append(row)
        return row

    def claim(self, run: int, seconds: float, *, worker: str = "w0.1", **facts: Any) -> Row:
        """A claim for a minute."""
        whole = {"claimed_at": us(seconds), "lease_until": us(seconds + 60), "worker": worker, "taken_over": False, **_LIMITS}
        return self.add(run, "intent", seconds, **{**whole, "min_gap_us": 2_000_000, **facts})

    def step(self, run: int, seconds: float, before: str, event: str, after: str, **facts: Any) -> Row:
        """The decision of a step."""
        whole = {
            "state_before": before,
            "event": event,
            "state": after,
            "draw": None,
            "decision": "so",
            "received_at": us(seconds),
            "delay_source": "local_backoff",
            "effects": [],
            "edited": False,
        }
        return self.add(run, "decision", seconds, **{**whole, **_LIMITS, **facts})


_LIMITS: Mapping[str, Any] = {
    "deadline_at": us(DEADLINE_S),
    "business_deadline_at": None,
    "max_status_requests": 10,
    "max_transport_failures": 5,
    "max_throttles": 5,
}


def seen(kind: str, number: int, **facts: Any) -> dict[str, Any]:
    """An observation as the journal holds it."""
    return {"kind": kind, "provider_request_id": str(number), "requests": 1, "hints": [], **facts}


def answer(outcome: str, number: int) -> dict[str, Any]:
    """The answer to a call as the journal holds it."""
    return {"outcome": outcome, "provider_request_id": str(number), "requests": 1, "hints": []}


def _operation(identifier: str, state: OperationState, used: int, job: str, contract: str, **more: Any) -> Operation:
    return Operation(
        id=identifier,
        workspace="main",
        contract=contract,
        contract_digest="d",
        account="",
        job_id=job,
        url="https://hostile.example/jobs",
        parameters={},
        fingerprint="f",
        state=state,
        revision=1,
        allowance=Allowance(at(DEADLINE_S), None, 10, 5, 5),
        spend=Spend(status_requests=used),
        pool=POOL,
        created_at=at(0),
        next_poll_at=None,
        delay_source=DelaySource.LOCAL_BACKOFF,
        **more,
    )


def looked() -> tuple[Case, list[Row]]:
    """An operation about a job that is there: one look that asks to wait, one lost with its process, one that ends it."""
    journal = Written(LOOKED, 1)
    journal.add(0, "decision", 0, decision="created", by_kind="human", state="waiting", **_LIMITS)
    journal.claim(1, 10, asks=True, status_requests_used=1)
    hint = {"source": "provider_retry_after", "raw": "30", "until": us(41)}
    observation = seen("throttled", 0, hints=[hint])
    journal.step(1, 11, "waiting", "saw_pending", "waiting", status_requests_used=1, observation=observation)
    journal.claim(2, 45, asks=True, status_requests_used=2, worker="w1.1")
    journal.claim(3, 110, asks=True, status_requests_used=3, taken_over=True)
    effects = ["main:op_looked:succeeded:tell", "main:op_looked:succeeded:once", "main:op_looked:succeeded:result"]
    journal.step(
        3, 112, "waiting", "saw_success", "succeeded", status_requests_used=3, observation=seen("success", 2), effects=effects
    )
    case = Case(
        _operation(LOOKED, OperationState.SUCCEEDED, 3, "job-1", "sim-there", result_ref="https://hostile.example/results/job-1"),
        "sim-there-1",
        looks=[
            _request(0, "look", 10.5, 11, status=429, wait="seconds", waits_until=at(41)),
            _request(1, "look", 46, None, process="w1.1"),
            _request(2, "look", 111, 112, ends_as="done"),
        ],
        runs=[_run(LOOKED, 1, 10, 11), _run(LOOKED, 2, 45, 110, status="abandoned"), _run(LOOKED, 3, 110, 112)],
        min_gap=timedelta(seconds=2),
    )
    return case, journal.rows


def _request(number: int, kind: str, seconds: float, answered: float | None, *, job: str = "job-1", **more: Any) -> Request:
    ref = "sim-there-1" if job == "job-1" else "sim-replay-2"
    process = more.pop("process", "w0.1")
    found = Request(number, kind, process, at(seconds), at(seconds), ref, job, **more)
    found.answered = None if answered is None else at(answered)
    return found


def _run(subject: str, number: int, began: float, ended: float | None, **more: Any) -> dict[str, Any]:
    return {
        "subject": subject,
        "number": number,
        "kind": "poll" if subject.startswith("poll_") else "operation",
        "status": "ok",
        "scheduled_for": us(began),
        "started_at": us(began),
        "finished_at": None if ended is None else us(ended),
        "claim_expires_at": us(began + 60),
        "claimed_by": "w0.1",
        **more,
    }


OPTIONS = [{"key": "more", "verb": "extend", "minutes": 15, "checks": 4}]


def _ordered_rows() -> list[Row]:
    """The journal of an operation that is submitted, asked about, answered, cancelled and ended."""
    journal = Written(ORDERED, 101)
    call = {"id": "call_1", "kind": "submit", "taken": True}
    journal.add(0, "decision", 1, decision="created", by_kind="human", state="submitting", **_LIMITS)
    journal.claim(1, 20, call=call, worker="w1.1", asks=False)
    journal.claim(2, 81, call={**call, "interrupted": True}, asks=False, taken_over=True)
    done = {"id": "call_1", "state": "done", "answer": answer("accepted", 4)}
    journal.step(2, 82, "submitting", "submitted", "waiting", call=done)
    journal.claim(3, 90, asks=True, status_requests_used=1)
    odd = seen("unknown_state", 5)
    journal.step(
        3, 91, "waiting", "saw_trouble", "escalated", observation=odd, status_requests_used=1, escalation="esc_1", category="x"
    )
    statement = {"options": OPTIONS}
    journal.add(
        3, "decision", 120, decision="answered", by_kind="human", state_before="escalated", event="answered_go_on", state="waiting",
        escalation="esc_1", digest="q", option="more", verb="extend", statement=statement, status_requests_used=1, effects=[],
        **_LIMITS,
    )  # fmt: skip
    journal.add(3, "decision", 125, decision="pushed", by_kind="human", state="waiting")
    journal.add(
        3, "decision", 130, decision="cancel_requested", by_kind="human", state_before="waiting", event="changed", state="waiting",
        effects=[], **_LIMITS,
    )  # fmt: skip
    journal.claim(4, 131, call={"id": "call_2", "kind": "cancel", "taken": True}, asks=False)
    taken = {"id": "call_2", "state": "done", "answer": answer("accepted", 6)}
    journal.step(4, 132, "waiting", "saw_pending", "waiting", call=taken)
    journal.claim(5, 140, asks=True, status_requests_used=2)
    journal.step(5, 141, "waiting", "saw_cancelled", "cancelled", observation=seen("cancelled", 7), status_requests_used=2)
    return journal.rows


def ordered() -> tuple[Case, list[Row]]:
    """An operation that is submitted under a key, twice since an answer was lost; a question, its answer, a cancel, its end."""
    case = Case(
        _operation(ORDERED, OperationState.CANCELLED, 2, "job-2", "sim-replay"),
        "sim-replay-2",
        looks=[
            _request(5, "look", 90.5, 91, job="job-2", fault="unknown state", stops=True),
            _request(7, "look", 140.5, 141, job="job-2", ends_as="cancelled"),
        ],
        cancels=[_request(6, "cancel", 131.5, 132, job="job-2", took=True)],
        submits=[
            _request(3, "submit", 21, None, job="", process="w1.1", key="k", body=b"b", doubt=True, took=True),
            _request(4, "submit", 81.5, 82, job="job-2", key="k", body=b"b"),
        ],
        runs=[_run(ORDERED, 5, 140, 141)],
        calls=[{"id": "call_1", "kind": "submit"}, {"id": "call_2", "kind": "cancel"}],
        questions=[{"id": "esc_1", "state": "answered", "digest": "q", "answer_by": us(900)}],
        min_gap=timedelta(seconds=2),
    )
    return case, _ordered_rows()


def delivery(name: str, policy: Policy, state: DeliveryState, key: str, *, subject: str = LOOKED, kind: str = "sim") -> Delivery:
    """One delivery."""
    thing = "thing" if subject == POLL else None
    effect = Effect(
        key, ActionRef(name, kind, {}, policy), "host:receiver.example", "t", "b", {}, subject, source_object_id=thing
    )
    return Delivery(f"dlv_{name}", "main", effect, state, 1, 30, at(112))


def arrival(name: str, key: str, seconds: float, *, told: OutcomeKind | None = OutcomeKind.DONE, **more: Any) -> Arrival:
    """One message that reached its receiver."""
    whole: dict[str, Any] = {
        "subject": LOOKED,
        "process": "w0.1",
        "attempt": 1,
        "content": "c",
        "effect": True,
        "told": told,
        **more,
    }
    found = Arrival(
        number=0, action="sim", name=name, key=key, delivery=f"dlv_{name}", at=at(seconds), host_at=at(seconds), **whole
    )
    found.answered = None if told is None else at(seconds + 1)
    return found


def match_key(number: int) -> str:
    """The key of a version of the feed's thing."""
    return poll_dedupe_key(
        workspace="main", user="local", poll=POLL, object_id="thing", occurrence=f"v{number}", action="least", condition_version=1
    )


def _delivered(world: Evidence) -> dict[str, list[Row]]:
    """Each delivery with one attempt: the one of at most once was interrupted."""
    found = {}
    for number, one in enumerate(world.deliveries):
        journal = Written(one.id, 201 + 10 * number)
        journal.claim(1, 115)
        if one.state is DeliveryState.AMBIGUOUS:
            journal.claim(2, 176, interrupted=True, taken_over=True)
            journal.add(
                2, "decision", 176, decision="not repeated", state="ambiguous", outcome="unknown", interrupted=True, attempt=2
            )
        else:
            journal.add(1, "decision", 117, decision="delivered", state="delivered", outcome="done", interrupted=False, attempt=1)
        found[one.id] = journal.rows
    return found


def _feed() -> Feed:
    versions = [
        Version("feed-0", 1, "thing", "h1", at(5), at(40)),
        Version("feed-0", 2, "thing", "h2", at(40), None),
    ]
    readings = [
        ReadingTaken(0, "feed-0", "w0.1", at(11), at(11), None, given=[("thing", "h1")], next_cursor="1", answered=at(12)),
        ReadingTaken(
            1, "feed-0", "w0.1", at(71), at(71), "1", fault="throttled", failed=True, waits_until=at(100), answered=at(72)
        ),
        ReadingTaken(2, "feed-0", "w0.1", at(131), at(131), "1", given=[("thing", "h2")], next_cursor="2", answered=at(132)),
        ReadingTaken(3, "feed-0", "w0.1", at(5000), at(5000), "2", next_cursor="2", unchanged=True, answered=at(5001)),
    ]
    return Feed("feed-0", LOG, versions, readings)


def _rows(feed: Feed) -> dict[str, list[dict[str, Any]]]:
    spec = '{"actions": [{"name": "least"}], "baseline": true}'
    poll = {
        "id": POLL, "workspace": "main", "user": "local", "name": feed.name, "state": "active", "cursor": "2", "condition_version": 1,
        "due": us(7210), "lease_until": None,
    }  # fmt: skip
    return {
        "run": [
            _run(POLL, 1, 10, 13),
            _run(POLL, 2, 70, 73, status="failed"),
            _run(POLL, 3, 130, 133),
            _run(POLL, 4, 4999, 5002),
        ],
        "poll": [poll],
        "poll_spec": [{"poll": POLL, "spec": spec}],
        "poll_object": [{"poll": POLL, "external_id": "thing", "content_hash": "h2", "version": 2, "present": 1}],
        "operation": [{"id": LOOKED, "state": "succeeded", "due": None, "lease_until": None}],
        "delivery": [{"id": "dlv_least", "state": "delivered", "due": None, "lease_until": None}],
    }


def _people() -> PeopleBook:
    book = PeopleBook()
    book.pools.append((at(0), POOL, PoolLimits(rate=1.0, burst=5)))
    book.allowed.update({LOOKED: (timedelta(seconds=DEADLINE_S), 10), ORDERED: (timedelta(seconds=DEADLINE_S), 10)})
    book.acts.append(Act(0, at(120), at(120), "answer", ORDERED, True, escalation="esc_1", began=at(120)))
    book.acts.append(Act(1, at(130), at(130), "cancel", ORDERED, True, began=at(130)))
    return book


def world() -> Evidence:
    """Everything held here."""
    first, first_rows = looked()
    second, second_rows = ordered()
    keys = [f"main:op_looked:succeeded:{name}" for name in ("tell", "once", "result")]
    feed = _feed()
    found = Evidence(
        times=TIMES,
        began=at(0),
        ended=at(7200),
        ended_host=at(7200),
        cases=[first, second],
        processes=ProcessBook(deaths=[Death("w1.1", at(47), "wire.sent")], calm_at=at(3600)),
        deliveries=[
            delivery("tell", Policy.KEYED, DeliveryState.DELIVERED, keys[0]),
            delivery("once", Policy.AT_MOST_ONCE, DeliveryState.AMBIGUOUS, keys[1]),
            delivery("result", Policy.KEYED, DeliveryState.DELIVERED, keys[2], kind=KEEP_RESULT),
            delivery("least", Policy.AT_LEAST_ONCE, DeliveryState.DELIVERED, match_key(2), subject=POLL),
        ],
        rows=_rows(feed),
        arrivals=[
            arrival("tell", keys[0], 116),
            arrival("once", keys[1], 116, told=None),
            arrival("result", keys[2], 116),
            arrival("least", match_key(2), 140, subject=POLL),
        ],
        feeds={POLL: feed},
        people=_people(),
    )
    journal = {LOOKED: first_rows, ORDERED: second_rows, **_delivered(found)}
    polled = Written(POLL, 301)
    polled.add(3, "decision", 133, decision="run", status="ok", effects=[match_key(2)])
    written(found, {**journal, POLL: polled.rows})
    found.rows = {**found.rows, "run": [*found.rows["run"], *_runs(found)]}
    return found


def _runs(found: Evidence) -> list[dict[str, Any]]:
    """A record of each run of an operation or a delivery."""
    runs = []
    for subject, claims in found.claims.items():
        for place, claim in enumerate(claims):
            following = claims[place + 1].row.at if place + 1 < len(claims) else None
            ended = claim.settled.at if claim.settled is not None else following
            status = "abandoned" if claim.settled is None else "ok"
            runs.append(_run(subject, claim.row.run, 0, None, status=status) | {"started_at": claim.row.at, "finished_at": ended})
    return runs


def written(found: Evidence, journal: Mapping[str, list[Row]]) -> Evidence:
    """The world with another journal."""
    found.journal = journal
    found.claims = {subject: claims_of(rows) for subject, rows in journal.items()}
    for case in found.cases:
        case.rows, case.claims = journal[case.id], found.claims[case.id]
        case._committed = case._sent = None
    return found


def changed(found: Evidence, subject: str, run: int, *, kind: str = "decision", **facts: Any) -> Evidence:
    """The world with other facts in the rows of one run."""
    rows = [
        replace(row, facts={**row.facts, **facts}) if (row.run, row.kind) == (run, kind) else row
        for row in found.journal[subject]
    ]
    return written(found, {**found.journal, subject: rows})


def without(found: Evidence, subject: str, run: int, *, kind: str = "decision") -> Evidence:
    """The world without the rows of one run."""
    rows = [row for row in found.journal[subject] if (row.run, row.kind) != (run, kind)]
    return written(found, {**found.journal, subject: rows})
