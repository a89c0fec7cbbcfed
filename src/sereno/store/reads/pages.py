"""Pages of rows for faces: newest first, keyset by id (ids sort by creation), at most 1,000 a page."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from sqlite3 import Connection, Row

from sereno.core.call import ProviderCall
from sereno.core.escalation import Escalation
from sereno.core.record import CallRecord, DeliveryRecord, JournalEntry, OperationRecord, PollRecord, RunRecord
from sereno.core.values import Json, from_micros, to_micros
from sereno.ports import Page
from sereno.store.codec import instant, loads_foreign
from sereno.store.missing import not_found
from sereno.store.rows import KnownObjects, read_call, read_delivery, read_escalation, read_operation, read_poll

LONGEST_PAGE = 1000
NEAREST_AMONG = 10_000
_LAST = "\uffff"
"""Sorts after every id and name."""


def limit_of(asked: int) -> int:
    """How many rows a page really gets: 1 to 1,000."""
    return max(1, min(asked, LONGEST_PAGE))


def _keyset(page: Page) -> tuple[str, int]:
    return page.before or _LAST, limit_of(page.limit)


_POLL = """
SELECT poll.*, spec, (SELECT count(*) FROM poll_object o WHERE o.workspace = poll.workspace AND o.poll = poll.id) AS known_objects
FROM poll JOIN poll_spec ON poll_spec.workspace = poll.workspace AND poll_spec.poll = poll.id
WHERE poll.workspace = ? AND (name = ? AND state <> 'removed' OR id = ?) ORDER BY name <> ? LIMIT 1
"""
_POLLS = """
SELECT poll.*, spec, (SELECT count(*) FROM poll_object o WHERE o.workspace = poll.workspace AND o.poll = poll.id) AS known_objects
FROM poll JOIN poll_spec ON poll_spec.workspace = poll.workspace AND poll_spec.poll = poll.id
WHERE poll.workspace = ? AND id < ? AND (state = ? OR ? IS NULL AND state <> 'removed') ORDER BY id DESC LIMIT ?
"""


def _poll_record(row: Row, known: Mapping[str, Mapping[str, object]] | None = None) -> PollRecord:
    return PollRecord(
        poll=read_poll(dict(row), known=None if known is None else KnownObjects(known)),
        due=instant(row["due"]),
        managed_by=row["managed_by"],
        updated_at=from_micros(row["updated_at"]),
        leased_until=instant(row["lease_until"]),
        known_objects=row["known_objects"],
    )


def one_poll(connection: Connection, workspace: str, name_or_id: str) -> PollRecord:
    """Reads a poll by name, else by id (removed ones too), with its snapshot. Raises NotFound with the nearest name."""
    row = connection.execute(_POLL, (workspace, name_or_id, name_or_id, name_or_id)).fetchone()
    if row is None:
        names = connection.execute(
            "SELECT name FROM poll WHERE workspace = ? AND state <> 'removed' ORDER BY name LIMIT ?", (workspace, NEAREST_AMONG)
        )
        raise not_found("poll", name_or_id, [known["name"] for known in names])
    objects = connection.execute("SELECT * FROM poll_object WHERE workspace = ? AND poll = ?", (workspace, row["id"]))
    return _poll_record(row, {found["external_id"]: dict(found) for found in objects})


def polls(connection: Connection, workspace: str, page: Page) -> Sequence[PollRecord]:
    """Reads a page of polls without snapshots."""
    before, limit = _keyset(page)
    rows = connection.execute(_POLLS, (workspace, before, page.state, page.state, limit))
    return [_poll_record(row) for row in rows]


def _operation_records(connection: Connection, workspace: str, rows: Iterable[Row]) -> list[OperationRecord]:
    return [
        OperationRecord(
            operation=read_operation(
                dict(row),
                escalation=_open_question(connection, workspace, row),
                call=_open_call(connection, workspace, row),
            ),
            due=instant(row["due"]),
            updated_at=from_micros(row["updated_at"]),
            leased_until=instant(row["lease_until"]),
        )
        for row in rows
    ]


def _open_question(connection: Connection, workspace: str, operation: Row) -> Escalation | None:
    if operation["state"] != "escalated":
        return None
    row = connection.execute(
        "SELECT * FROM escalation WHERE workspace = ? AND operation = ? AND state = 'open'", (workspace, operation["id"])
    ).fetchone()
    return None if row is None else read_escalation(dict(row))


def _open_call(connection: Connection, workspace: str, operation: Row) -> ProviderCall | None:
    if operation["call"] is None:
        return None
    row = connection.execute(
        "SELECT * FROM provider_call WHERE workspace = ? AND id = ?", (workspace, operation["call"])
    ).fetchone()
    return None if row is None else read_call(dict(row))


def calls(connection: Connection, workspace: str, operation: str) -> Sequence[CallRecord]:
    """Reads the calls of one operation, oldest first; at most 1,000."""
    rows = connection.execute(
        "SELECT * FROM provider_call WHERE workspace = ? AND operation = ? ORDER BY id LIMIT ?",
        (workspace, operation, LONGEST_PAGE),
    )
    return [
        CallRecord(
            operation=row["operation"],
            call=read_call(dict(row)),
            answer=None if row["answer"] is None else loads_foreign(row["answer"]),
            answered_at=instant(row["answered_at"]),
        )
        for row in rows
    ]


def one_operation(connection: Connection, workspace: str, operation: str) -> OperationRecord:
    """Reads one operation by id. Raises NotFound with the nearest id of the newest ones."""
    rows = connection.execute("SELECT * FROM operation WHERE workspace = ? AND id = ?", (workspace, operation)).fetchall()
    if not rows:
        raise not_found("operation", operation, _newest_ids(connection, "operation", workspace))
    return _operation_records(connection, workspace, rows)[0]


def operations(connection: Connection, workspace: str, page: Page) -> Sequence[OperationRecord]:
    """Reads a page of operations; state `open` means submitting, waiting or escalated; `subject` is a provider's job id."""
    before, limit = _keyset(page)
    states = ("submitting", "waiting", "escalated") if page.state == "open" else (page.state,) * 3
    rows = connection.execute(
        "SELECT * FROM operation WHERE workspace = ? AND id < ? AND (? IS NULL OR state IN (?, ?, ?)) AND (? IS NULL OR job_id = ?)"
        " ORDER BY id DESC LIMIT ?",
        (workspace, before, page.state, *states, page.subject, page.subject, limit),
    ).fetchall()
    return _operation_records(connection, workspace, rows)


_NEWEST = {
    "operation": "SELECT id FROM operation WHERE workspace = ? ORDER BY id DESC LIMIT 1000",
    "escalation": "SELECT id FROM escalation WHERE workspace = ? ORDER BY id DESC LIMIT 1000",
    "delivery": "SELECT id FROM delivery WHERE workspace = ? ORDER BY id DESC LIMIT 1000",
}


def _newest_ids(connection: Connection, noun: str, workspace: str) -> list[str]:
    rows = connection.execute(_NEWEST[noun], (workspace,))
    return [row["id"] for row in rows]


def _as_of(escalation: Escalation, now: datetime) -> Escalation:
    """An open question whose time is over shows as expired, also before a driver has closed it."""
    return replace(escalation, state="expired") if escalation.state == "open" and escalation.answer_by <= now else escalation


def one_escalation(connection: Connection, workspace: str, escalation: str, now: datetime) -> Escalation:
    """Reads one question by id. Raises NotFound with the nearest id of the newest ones."""
    row = connection.execute("SELECT * FROM escalation WHERE workspace = ? AND id = ?", (workspace, escalation)).fetchone()
    if row is None:
        raise not_found("escalation", escalation, _newest_ids(connection, "escalation", workspace))
    return _as_of(read_escalation(dict(row)), now)


def escalations(connection: Connection, workspace: str, page: Page, now: datetime) -> Sequence[Escalation]:
    """Reads a page of questions; the state that filters is the one that is shown."""
    before, limit = _keyset(page)
    rows = connection.execute(
        "SELECT * FROM escalation WHERE workspace = ? AND id < ? AND (? IS NULL OR operation = ?)"
        " AND (? IS NULL OR ? = CASE WHEN state = 'open' AND answer_by <= ? THEN 'expired' ELSE state END)"
        " ORDER BY id DESC LIMIT ?",
        (workspace, before, page.subject, page.subject, page.state, page.state, to_micros(now), limit),
    )
    return [_as_of(read_escalation(dict(row)), now) for row in rows]


def one_delivery(connection: Connection, workspace: str, delivery: str) -> DeliveryRecord:
    """Reads one delivery by id. Raises NotFound."""
    row = connection.execute("SELECT * FROM delivery WHERE workspace = ? AND id = ?", (workspace, delivery)).fetchone()
    if row is None:
        raise not_found("delivery", delivery, _newest_ids(connection, "delivery", workspace))
    return _delivery_record(row)


def _delivery_record(row: Row) -> DeliveryRecord:
    return DeliveryRecord(
        delivery=read_delivery(dict(row)),
        due=instant(row["due"]),
        updated_at=from_micros(row["updated_at"]),
        delivered_at=instant(row["delivered_at"]),
        last_outcome=row["last_outcome"],
    )


_DELIVERIES = """
SELECT * FROM delivery WHERE workspace = :workspace AND id < :before AND (:state IS NULL OR state = :state)
ORDER BY id DESC LIMIT :limit
"""
_DELIVERIES_OF = """
SELECT * FROM delivery WHERE workspace = :workspace AND id < :before AND (:state IS NULL OR state = :state)
  AND (subject = :subject OR id = :subject) ORDER BY id DESC LIMIT :limit
"""


def deliveries(connection: Connection, workspace: str, page: Page) -> Sequence[DeliveryRecord]:
    """Reads a page of deliveries."""
    before, limit = _keyset(page)
    wanted = {"workspace": workspace, "before": before, "subject": page.subject, "state": page.state, "limit": limit}
    rows = connection.execute(_DELIVERIES if page.subject is None else _DELIVERIES_OF, wanted)
    return [_delivery_record(row) for row in rows]


_RUNS_OF = """
SELECT * FROM run WHERE workspace = :workspace AND subject = :subject AND number < :number AND (:state IS NULL OR status = :state)
ORDER BY number DESC LIMIT :limit
"""
_RUNS = """
SELECT * FROM run WHERE workspace = :workspace AND (:state IS NULL OR status = :state)
ORDER BY started_at DESC, subject DESC, number DESC LIMIT :limit
"""
_RUNS_BEFORE = """
SELECT * FROM run WHERE workspace = :workspace AND (:state IS NULL OR status = :state)
  AND (started_at, subject, number) < (:started_at, :before, :number)
ORDER BY started_at DESC, subject DESC, number DESC LIMIT :limit
"""
_STARTED = """
SELECT coalesce(
    (SELECT started_at FROM run WHERE workspace = :workspace AND subject = :before AND number = :number),
    (SELECT at FROM journal WHERE workspace = :workspace AND subject = :before AND run = :number AND kind = 'intent' ORDER BY seq LIMIT 1),
    (SELECT started_at FROM run WHERE workspace = :workspace AND subject = :before AND number > :number ORDER BY number LIMIT 1),
    (SELECT :never FROM poll WHERE workspace = :workspace AND id = :before AND run >= :number AND :number > 0))
"""
"""When a run started, also of one that was purged while its page was looked at. Operations and deliveries have that in the journal. A
poll's run started before the one that followed it: then a page repeats some rows, which is better than to leave some out."""
_NEVER = 1 << 62


def runs(connection: Connection, workspace: str, page: Page) -> Sequence[RunRecord]:
    """Reads a page of runs: of one subject by number, of all by their start."""
    before, number = _split(page.before)
    statement = _RUNS_OF if page.subject is not None else _RUNS if page.before is None else _RUNS_BEFORE
    wanted = {"workspace": workspace, "subject": page.subject, "before": before, "number": number, "never": _NEVER}
    if statement is _RUNS_BEFORE:
        wanted["started_at"] = connection.execute(_STARTED, wanted).fetchone()[0]
    rows = connection.execute(statement, {**wanted, "state": page.state, "limit": limit_of(page.limit)})
    return [_run_record(row) for row in rows]


def _split(run: str | None) -> tuple[str, int]:
    """Reads `SUBJECT.NUMBER`; None is beyond every run, and a text that is no run id is before every run."""
    if run is None:
        return _LAST, 1 << 62
    subject, _, number = run.rpartition(".")
    return subject, int(number) if number.isascii() and number.isdigit() and len(number) < 19 else 0


def _run_record(row: Row) -> RunRecord:
    return RunRecord(
        id=f"{row['subject']}.{row['number']}",
        subject=row["subject"],
        kind=row["kind"],
        scheduled_for=from_micros(row["scheduled_for"]),
        attempt=row["attempt"],
        claimed_by=row["claimed_by"],
        started_at=from_micros(row["started_at"]),
        finished_at=instant(row["finished_at"]),
        status=row["status"],
        checked=row["checked"],
        changed=row["changed"],
        matched=row["matched"],
        requests=row["requests"],
        missed=row["missed"],
        cursor_before=row["cursor_before"],
        cursor_after=row["cursor_after"],
        summary=row["summary"],
        error=row["error"],
    )


def journal(connection: Connection, workspace: str, subject: str, part: tuple[int, int]) -> Sequence[JournalEntry]:
    """Reads the journal of one subject after a sequence number; `part` = (after, limit)."""
    after, limit = part
    rows = connection.execute(
        "SELECT * FROM journal WHERE workspace = ? AND subject = ? AND seq > ? ORDER BY seq LIMIT ?",
        (workspace, subject, after, limit_of(limit)),
    )
    return [
        JournalEntry(
            seq=row["seq"],
            at=from_micros(row["at"]),
            subject=row["subject"],
            run=row["run"],
            kind=row["kind"],
            facts=loads_foreign(row["facts"]),
        )
        for row in rows
    ]


def contract(connection: Connection, digest: str) -> Mapping[str, Json]:
    """Reads a contract document by its digest. Raises NotFound."""
    row = connection.execute("SELECT document FROM contract WHERE digest = ?", (digest,)).fetchone()
    if row is None:
        raise not_found("contract with the digest", digest, ())
    document: Mapping[str, Json] = loads_foreign(row["document"])
    return document
