"""Counts for `doctor` and the live view: everything in one snapshot."""

from datetime import datetime, timedelta
from sqlite3 import Connection

from sereno.core.record import Counts
from sereno.core.values import to_micros
from sereno.core.work import LeaseTimes
from sereno.store.codec import instant
from sereno.store.work.effects import SUPPRESSED

GRACE = LeaseTimes().lease + timedelta(minutes=1)
"""Due for longer than this means that nobody works on it: a lease, and a minute."""

_OVERDUE = """
SELECT count(*) AS number, min(due) AS oldest FROM (
    SELECT due FROM poll WHERE workspace = :workspace AND state = 'active' AND due < :before
    UNION ALL SELECT due FROM operation WHERE workspace = :workspace AND state IN ('submitting', 'waiting', 'escalated') AND due < :before
    UNION ALL SELECT due FROM delivery WHERE workspace = :workspace AND state IN ('queued', 'sending') AND due < :before
)
"""


def count(connection: Connection, workspace: str, now: datetime) -> Counts:
    """Counts what `doctor` shows. Removed polls are left out; a question whose time is over is not open."""
    micros = to_micros(now)
    overdue = connection.execute(_OVERDUE, {"workspace": workspace, "before": to_micros(now - GRACE)}).fetchone()
    open_questions = connection.execute(
        "SELECT count(*) FROM escalation WHERE workspace = ? AND state = 'open' AND answer_by > ?", (workspace, micros)
    ).fetchone()[0]
    last_claim = connection.execute("SELECT max(started_at) FROM run WHERE workspace = ?", (workspace,)).fetchone()[0]
    suppressed = connection.execute("SELECT value FROM meta WHERE key = ?", (SUPPRESSED + workspace,)).fetchone()
    return Counts(
        polls=_by_state(connection, workspace, _POLLS),
        operations=_by_state(connection, workspace, _OPERATIONS),
        deliveries=_by_state(connection, workspace, _DELIVERIES),
        open_escalations=open_questions,
        overdue=overdue["number"],
        oldest_overdue_at=instant(overdue["oldest"]),
        suppressed_duplicates=int(suppressed[0]) if suppressed is not None else 0,
        last_claim_at=instant(last_claim),
    )


_POLLS = "SELECT state, count(*) FROM poll WHERE workspace = ? AND state <> 'removed' GROUP BY state ORDER BY state"
_OPERATIONS = "SELECT state, count(*) FROM operation WHERE workspace = ? GROUP BY state ORDER BY state"
_DELIVERIES = "SELECT state, count(*) FROM delivery WHERE workspace = ? GROUP BY state ORDER BY state"


def _by_state(connection: Connection, workspace: str, statement: str) -> dict[str, int]:
    return {state: number for state, number in connection.execute(statement, (workspace,))}
