"""What is written into restored content before anybody sees it: leases void, fences past all old ones, spent counters kept."""

import sqlite3
from pathlib import Path

from sereno.store.work.clock.instant import follow, mark

_HELD = """
SELECT (SELECT count(*) FROM poll WHERE lease_until > :now) + (SELECT count(*) FROM operation WHERE lease_until > :now)
     + (SELECT count(*) FROM delivery WHERE lease_until > :now)
"""

_LEASED = """
SELECT (SELECT count(*) FROM poll WHERE lease_until IS NOT NULL) + (SELECT count(*) FROM operation WHERE lease_until IS NOT NULL)
     + (SELECT count(*) FROM delivery WHERE lease_until IS NOT NULL)
"""

# Revisions rise too, since open processes keep definitions by revision. Runs jump by 100: a worker that claims between the look at
# the old content and the writing of the new one holds a number a little past the old one, which no later claim must give again.
_VOID = (
    "UPDATE poll SET run = run + 100, revision = revision + 1, due = iif(lease_until IS NULL OR state <> 'active', due, :at),"
    " lease_until = NULL",
    "UPDATE operation SET run = run + 100, due = iif(lease_until IS NULL OR due IS NULL, due, :at), lease_until = NULL",
    "UPDATE delivery SET run = run + 100, due = iif(lease_until IS NULL OR due IS NULL, due, :at), lease_until = NULL",
    "UPDATE run SET status = 'abandoned', finished_at = :now, error = 'the database was restored from a backup'"
    " WHERE status = 'running'",
    "UPDATE pool SET wake = :at",
)

_CARRY = (
    "UPDATE poll SET run = max(poll.run, o.run), revision = max(poll.revision, o.revision)"
    " FROM old.poll o WHERE o.workspace = poll.workspace AND o.id = poll.id",
    "UPDATE delivery SET run = max(delivery.run, o.run) FROM old.delivery o"
    " WHERE o.workspace = delivery.workspace AND o.id = delivery.id",
    "UPDATE operation SET run = max(operation.run, o.run),"
    " status_requests_used = min(operation.max_status_requests, max(operation.status_requests_used, o.status_requests_used)),"
    " transport_failures_used = max(operation.transport_failures_used, o.transport_failures_used),"
    " throttles_used = max(operation.throttles_used, o.throttles_used)"
    " FROM old.operation o WHERE o.workspace = operation.workspace AND o.id = operation.id",
    "UPDATE pool SET tat = max(pool.tat, o.tat) FROM old.pool o WHERE o.workspace = pool.workspace AND o.name = pool.name",
)

# What was still to be called when the backup was made may have been called since: the next claim has to doubt it, unless the replaced
# database says that it was not tried. The provider's key window counts from the earliest instant at which it may have been: by the
# clock of the backup, which may have been set back since the call was made.
_DOUBT = "UPDATE provider_call SET state = 'sending', first_sent_at = coalesce(first_sent_at, min(created_at, :at)) WHERE state = 'queued'"
_UNTRIED = (
    " AND NOT EXISTS (SELECT 1 FROM old.provider_call o WHERE o.workspace = provider_call.workspace AND o.id = provider_call.id"
    " AND o.state = 'queued' AND o.attempts = provider_call.attempts)"
)

_MARK = """
INSERT INTO journal (workspace, subject, run, kind, at, facts)
SELECT workspace, id, run, 'decision', :now, json_object(
    'backup', :name, 'by', 'restore', 'by_kind', 'system', 'counters_carried_over', json(iif(:carried, 'true', 'false')),
    'decision', 'restored', 'status_requests_used', status_requests_used
)
FROM operation WHERE state IN ('submitting', 'waiting', 'escalated') ORDER BY workspace, id
"""


def held(connection: sqlite3.Connection, now: int) -> int:
    """Counts the leases that have not run out at `now` (microseconds)."""
    return int(connection.execute(_HELD, {"now": now}).fetchone()[0])


def _seen(connection: sqlite3.Connection, now: int) -> int:
    """The latest instant by the clock in which the waits are told; `now` where none is on record."""
    seen = mark(connection)
    return now if seen is None else seen


def settle(connection: sqlite3.Connection, replaced: Path | None, now: int, name: str) -> tuple[int, int]:
    """Makes restored content safe in one transaction; returns how many leases were voided and how many operations marked.

    `replaced` is the kept copy of the database that was there before: the fences, spent counters and pool levels it had are never undercut.
    `name` is the backup's file name, for the journal. All waits stay told by one clock, that of the backup or, where it is known,
    that of the replaced database: the first write afterwards finds any later step and moves them by it, as always. So nothing that
    moves is set to `now` (microseconds), which may be of a clock that no database has seen yet.
    """
    if replaced is not None:
        connection.execute("ATTACH ? AS old", (str(replaced),))
    connection.execute("BEGIN IMMEDIATE")
    leased = int(connection.execute(_LEASED).fetchone()[0])
    connection.execute(_DOUBT if replaced is None else _DOUBT + _UNTRIED, {"at": _seen(connection, now)})
    if replaced is not None:
        follow(connection, "old")
    for statement in _CARRY if replaced is not None else ():
        connection.execute(statement)
    at = _seen(connection, now)
    for statement in _VOID:
        connection.execute(statement, {"now": now, "at": at})
    marked = connection.execute(_MARK, {"now": now, "name": name, "carried": replaced is not None}).rowcount
    connection.execute("COMMIT")
    if replaced is not None:
        connection.execute("DETACH old")
    return leased, marked
