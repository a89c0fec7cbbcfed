"""The claim, second half: takes the rows found, in the same transaction: run + 1, lease, attempt, what it may send, journal, tokens."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import Any

from sereno.core.operation import Pushed
from sereno.core.poll import PollSpec
from sereno.core.values import from_micros
from sereno.core.work import DeliveryWork, Kind, Lease, LeaseTimes, OperationWork, PollWork, Work
from sereno.ports import Claimed, Only
from sereno.store.codec import dumps, load_spec, loads, span_us
from sereno.store.intents import call_facts, step_facts
from sereno.store.many import write_many
from sereno.store.named import named
from sereno.store.pushed import load_pushed
from sereno.store.rows import (
    CALL_COLUMNS,
    DELIVERY_COLUMNS,
    ESCALATION_COLUMNS,
    OPERATION_COLUMNS,
    POLL_COLUMNS,
    read_call,
    read_delivery,
    read_escalation,
    read_operation,
    read_poll,
)
from sereno.store.work.claim import Found, Pick, find
from sereno.store.work.clock.steps import moved
from sereno.store.work.journal import INTENT, Entry, append
from sereno.store.work.park import park_row

_COLUMNS = {Kind.POLL: POLL_COLUMNS, Kind.OPERATION: OPERATION_COLUMNS, Kind.DELIVERY: DELIVERY_COLUMNS}
LIVE = ("submitting", "waiting")
"""States of an operation in which a claim may send something; in the order of the indexes that name them."""
SPEC_CACHE = 20_000
Specs = dict[tuple[str, str, int], PollSpec]
"""Definitions already read, by workspace, id and revision: every edit raises the revision."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One claim as asked for."""

    worker: str
    limit: int
    times: LeaseTimes
    only: Only | None
    specs: Specs


@dataclass(slots=True)
class Batch:
    """What one claim takes: instants, loaded rows by id, and what it will write."""

    ask: Ask
    now: int
    until: int
    claimed_at: datetime
    until_at: datetime
    moved: int
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    works: dict[str, Work] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    unreadable: list[tuple[Kind, dict[str, Any], str]] = field(default_factory=list)
    sends: dict[str, bool] = field(default_factory=dict)

    def lease(self, row: Mapping[str, Any]) -> Lease:
        """The lease on a row that was just taken."""
        return Lease(
            run=row["run"],
            worker=self.ask.worker,
            claimed_at=self.claimed_at,
            until=self.until_at,
            revision=row["revision"],
            moved=self.moved,
        )


def claim(connection: sqlite3.Connection, now: int, ask: Ask) -> Claimed:
    """Hands out due work at `now` (microseconds)."""
    found = find(connection, now, ask.limit, ask.only)
    until = now + span_us(ask.times.lease)
    batch = Batch(
        ask=ask, now=now, until=until, claimed_at=from_micros(now), until_at=from_micros(until), moved=moved(connection)
    )
    for kind, take in _TAKE.items():
        picks = [pick for pick in found.picks if pick.kind is kind]
        if picks:
            _load(connection, batch, kind, picks)
            take(connection, batch, [batch.rows[pick.id] for pick in picks if pick.id in batch.rows])
    if batch.rows:
        _write_runs(connection, batch, found)
    _settle_pools(connection, batch, found)
    works = [batch.works[pick.id] for pick in found.picks if pick.id in batch.works]
    return Claimed(now=from_micros(now), works=works)


def _ids(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    return [[row["workspace"], row["id"]] for row in rows]


def _all(connection: sqlite3.Connection, name: str, ids: Sequence[Sequence[str]]) -> list[Any]:
    """Runs a statement over (workspace, id) pairs that answers one JSON array; in halves where that text would be too long."""
    try:
        found: list[Any] = loads(connection.execute(named("claim")[name], {"rows": dumps(ids)}).fetchone()[0])
    except sqlite3.DataError:
        if len(ids) == 1:
            raise
        half = len(ids) // 2
        return _all(connection, name, ids[:half]) + _all(connection, name, ids[half:])
    return found


def _load(connection: sqlite3.Connection, batch: Batch, kind: Kind, picks: Sequence[Pick]) -> None:
    """Reads the rows and plans what each becomes: run + 1, attempt + 1, the instant it was due at kept apart from its lease."""
    columns = _COLUMNS[kind]
    for values in _all(connection, f"load_{kind}", [[pick.workspace, pick.id] for pick in picks]):
        row = dict(zip(columns, values, strict=True))
        row["kind"] = kind
        row["taken_over"] = row["lease_until"] is not None
        keeps = row["scheduled_for"] is not None and (row["taken_over"] or kind is Kind.POLL)
        row["scheduled_for"] = row["scheduled_for"] if keeps else row["due"]
        row["run"] += 1
        row["attempt"] += 1
        row["lease_until"] = row["due"] = batch.until
        row.setdefault("cursor", None)
        batch.rows[row["id"]] = row


LONGEST_PAUSE_US = 3_600_000_000
"""Between two runs of a poll that never end."""
_TAKEN = {
    Kind.POLL: itemgetter("workspace", "id", "run", "due", "lease_until", "scheduled_for", "attempt", "abandoned"),
    Kind.OPERATION: itemgetter("workspace", "id", "run", "due", "lease_until", "scheduled_for", "attempt", "used", "started_at"),
    Kind.DELIVERY: itemgetter("workspace", "id", "run", "due", "scheduled_for", "attempt"),
}
_STARTED = itemgetter("workspace", "id", "run", "kind", "scheduled_for", "attempt", "lease_until", "cursor")


def _take(connection: sqlite3.Connection, kind: Kind, rows: Sequence[Mapping[str, Any]]) -> None:
    write_many(connection, named("claim")[f"take_{kind}"], list(map(_TAKEN[kind], rows)))


def _read(batch: Batch, row: dict[str, Any], make: Callable[[Batch, dict[str, Any], Any], Work], more: Any) -> None:
    """Reads a row into work; one that this version cannot read is parked with the reason, and the others go on."""
    try:
        batch.works[row["id"]] = make(batch, row, more)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        batch.unreadable.append((row["kind"], row, f"the row cannot be read: {error}"))


def _take_polls(connection: sqlite3.Connection, batch: Batch, rows: Sequence[dict[str, Any]]) -> None:
    """A poll whose runs die again and again (what it reads ends the process, the disk is full) waits longer each time: a source is
    never asked once a lease without end. The first run that dies is repeated at the end of its lease."""
    for row in rows:
        row["abandoned"] = row["abandoned"] + 1 if row["taken_over"] else 0
        if row["abandoned"] >= 2:
            lease = batch.until - batch.now
            row["due"] = batch.until + min(lease << min(row["abandoned"] - 1, 16), LONGEST_PAUSE_US)
    _take(connection, Kind.POLL, rows)
    specs = _specs(connection, batch.ask.specs, rows)
    for row in rows:
        batch.sends[row["id"]] = True
        _read(batch, row, _poll_work, specs.get(row["id"]))


def _poll_work(batch: Batch, row: dict[str, Any], text: str | None) -> Work:
    key = (row["workspace"], row["id"], row["revision"])
    spec = batch.ask.specs.get(key)
    if spec is None:
        if text is None:
            raise ValueError("it has no definition")
        spec = batch.ask.specs[key] = load_spec(text)
    poll = read_poll(row, spec=spec)
    return PollWork(batch.lease(row), poll, from_micros(row["scheduled_for"]), row["attempt"])


def _specs(connection: sqlite3.Connection, cache: Specs, rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The definition texts that are not in the cache yet."""
    if len(cache) > SPEC_CACHE:
        cache.clear()
    missing = [row for row in rows if (row["workspace"], row["id"], row["revision"]) not in cache]
    return dict(_all(connection, "load_specs", _ids(missing))) if missing else {}


@dataclass(frozen=True, slots=True)
class _Parts:
    """What belongs to one operation row beside the row."""

    question: dict[str, Any] | None
    call: dict[str, Any] | None
    pushed: Pushed | None


def _take_operations(connection: sqlite3.Connection, batch: Batch, rows: Sequence[dict[str, Any]]) -> None:
    """Order of W33: an escalated row, a passed deadline or a spent budget is claimed without a reservation. A row with an open call
    makes that call and reserves nothing; the rest reserves a status request."""
    calls, questions = _take_calls(connection, batch, rows), _questions(connection, rows)
    for row in rows:
        asks, call, question = _asks(row, batch.now), calls.get(row["id"]), questions.get(row["id"])
        sends = call is not None and call["taken"]
        batch.sends[row["id"]] = asks or sends
        row["reserved"] = asks
        row["used"] = row["status_requests_used"] = row["status_requests_used"] + asks
        row["started_at"] = batch.now if asks or sends else None
        row["due"] = max(batch.until, batch.now + row["min_gap_us"]) if asks else batch.until
        facts = {"asks": asks, **step_facts(row, question), **({} if call is None else {"call": call_facts(call)})}
        batch.entries.append(_intent(batch, row, facts))
    _take(connection, Kind.OPERATION, rows)
    for row in rows:
        pushed = None if row["pushed_at"] is None else load_pushed(connection, row["workspace"], row["id"])
        _read(batch, row, _operation_work, _Parts(questions.get(row["id"]), calls.get(row["id"]), pushed))


def _operation_work(batch: Batch, row: dict[str, Any], parts: _Parts) -> Work:
    if row["call"] is not None and parts.call is None:
        raise ValueError(f"its open call {row['call']} is not there")
    operation = read_operation(
        row,
        escalation=None if parts.question is None else read_escalation(parts.question),
        call=None if parts.call is None else read_call(parts.call, interrupted=parts.call["interrupted"]),
        pushed=parts.pushed,
        reserved=row["reserved"],
    )
    return OperationWork(batch.lease(row), operation)


def _questions(connection: sqlite3.Connection, rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The open questions of the escalated rows, by operation."""
    escalated = [row for row in rows if row["state"] == "escalated"]
    found = _all(connection, "load_escalations", _ids(escalated)) if escalated else []
    return {values[2]: dict(zip(ESCALATION_COLUMNS, values, strict=True)) for values in found}


def _take_calls(connection: sqlite3.Connection, batch: Batch, rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The open calls, by operation. One that this step may make becomes `sending` here, before anything is sent (I2): found so by
    a later claim it was interrupted. Past a deadline nothing is sent, and the call stays what it was."""
    wanted = [[row["workspace"], row["call"]] for row in rows if row["call"] is not None]
    if not wanted:
        return {}
    found = [dict(zip(CALL_COLUMNS, values, strict=True)) for values in _all(connection, "load_calls", wanted)]
    calls = {call["operation"]: call for call in found}
    for row in rows:
        call = calls.get(row["id"])
        if call is None:
            continue
        call["interrupted"], call["taken"] = call["state"] == "sending", may_call(row, batch.now)
        if call["taken"]:
            call["state"] = "sending"
            call["attempts"] += 1
            call["first_sent_at"] = batch.now if call["first_sent_at"] is None else call["first_sent_at"]
    taken = [(call["workspace"], call["id"], batch.now) for call in found if call["taken"]]
    write_many(connection, named("claim")["take_calls"], taken)
    return calls


def may_call(row: Mapping[str, Any], now: int) -> bool:
    """Whether a row with an open call may make it at `now`."""
    return row["state"] in LIVE and now < _stops_at(row)


def _asks(row: Mapping[str, Any], now: int) -> bool:
    budget_left = row["status_requests_used"] < row["max_status_requests"]
    return bool(row["state"] == "waiting" and row["call"] is None and now < _stops_at(row) and budget_left)


def _stops_at(row: Mapping[str, Any]) -> int:
    deadline: int = row["deadline_at"]
    business: int | None = row["business_deadline_at"]
    return deadline if business is None else min(deadline, business)


def _intent(batch: Batch, row: Mapping[str, Any], facts: dict[str, Any]) -> Entry:
    whole = {
        "claimed_at": batch.now,
        "lease_until": batch.until,
        "worker": batch.ask.worker,
        "scheduled_for": row["scheduled_for"],
        "attempt": row["attempt"],
        "taken_over": row["taken_over"],
        **facts,
    }
    return Entry(row["workspace"], row["id"], row["run"], INTENT, batch.now, whole)


def _take_deliveries(connection: sqlite3.Connection, batch: Batch, rows: Sequence[dict[str, Any]]) -> None:
    _take(connection, Kind.DELIVERY, rows)
    for row in rows:
        batch.sends[row["id"]] = True
        interrupted = row["state"] == "sending"
        row["state"] = "sending"
        batch.entries.append(_intent(batch, row, {"interrupted": interrupted, "max_attempts": row["max_attempts"]}))
        _read(batch, row, _delivery_work, interrupted)


def _delivery_work(batch: Batch, row: dict[str, Any], interrupted: bool) -> Work:
    return DeliveryWork(batch.lease(row), read_delivery(row, interrupted=interrupted, moved=batch.moved))


_TAKE = {Kind.POLL: _take_polls, Kind.OPERATION: _take_operations, Kind.DELIVERY: _take_deliveries}


def _write_runs(connection: sqlite3.Connection, batch: Batch, found: Found) -> None:
    """Closes runs whose lease ran out as `abandoned`, opens the new ones, appends the intents (P06)."""
    rows = [batch.rows[pick.id] for pick in found.picks if pick.id in batch.rows]
    left = [(row["workspace"], row["id"], row["run"] - 1, batch.now) for row in rows if row["taken_over"]]
    write_many(connection, named("claim")["abandon_runs"], left)
    started = [(*_STARTED(row), batch.ask.worker, batch.now) for row in rows]
    write_many(connection, named("claim")["start_runs"], started)
    append(connection, batch.entries)
    for kind, row, reason in batch.unreadable:
        park_row(connection, kind, row, reason, batch.now)


def _settle_pools(connection: sqlite3.Connection, batch: Batch, found: Found) -> None:
    """Moves `tat` on by what will be sent, and says when each pool can have work again."""
    by_name = {(pool.workspace, pool.name): pool for pool in found.pools}
    for subject, row in batch.rows.items():
        pool = by_name.get((row["workspace"], row["pool"]))
        if pool is not None:
            pool.taken += 1
            pool.sent += batch.sends[subject]
    rows: list[Any] = []
    for pool in found.pools:
        pool.more = pool.more or pool.taken < len(pool.picks)
        pool.bucket.take(pool.sent, batch.now)
        keep = batch.ask.only is not None
        wake = (batch.until if pool.taken else None) if keep else pool.wake(batch.now, batch.until)
        if not keep or pool.taken:
            rows.append([pool.workspace, pool.name, pool.bucket.tat, wake, int(keep)])
    write_many(connection, named("claim")["set_pools"], rows)
