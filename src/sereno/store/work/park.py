"""Parking: takes work out of the claim and says why, so that a mistake of ours is neither repeated blindly nor hidden (W43)."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from sereno.core.values import Json
from sereno.core.work import Kind
from sereno.store.calls import give_up_call
from sereno.store.work.journal import DECISION, Entry, append

REASON_MAX = 2_000
UNANSWERED_PAUSE_US = 3_600_000_000
"""Between two tries to close a question that ended unanswered, where we fail at that."""
_PARK = {
    Kind.POLL: "UPDATE poll SET due = NULL, lease_until = NULL, last_error = :reason WHERE workspace = :workspace AND id = :id",
    # At its deadline a parked operation is claimed once more, without a request, so that the end of the wait is told to a person. While a
    # person is asked, the end of the question still closes it; where we failed at that, it is tried again after a while: nothing is sent.
    Kind.OPERATION: (
        "UPDATE operation SET lease_until = NULL, parked = :reason, call = NULL, updated_at = :now,"
        " due = CASE WHEN state IN ('submitting', 'waiting') AND parked IS NULL AND deadline_at > :now"
        "            THEN min(deadline_at, coalesce(business_deadline_at, deadline_at))"
        "            WHEN state = 'escalated' THEN coalesce("
        "                (SELECT e.answer_by FROM escalation AS e WHERE e.workspace = :workspace AND e.operation = :id"
        "                 AND e.state = 'open' AND e.answer_by > :now), :now + :pause) END"
        " WHERE workspace = :workspace AND id = :id"
    ),
    Kind.DELIVERY: (
        "UPDATE delivery SET state = 'ambiguous', due = NULL, lease_until = NULL, last_outcome = :reason, updated_at = :now"
        " WHERE workspace = :workspace AND id = :id"
    ),
}
_CLOSE_RUN = (
    "UPDATE run SET status = 'failed', finished_at = :now, error = :reason, summary = 'parked'"
    " WHERE workspace = :workspace AND subject = :id AND number = :run"
)


def park_row(
    connection: sqlite3.Connection,
    kind: Kind,
    row: Mapping[str, Any],
    reason: str,
    now: int,
    facts: Mapping[str, Json] | None = None,
) -> None:
    """Parks the claimed `row` (workspace, id, run): closes its run as failed and appends the reason to the journal.

    A delivery becomes `ambiguous`, and a call that may have been sent `unknown`: a mistake in the middle of a send leaves open
    whether it happened.
    """
    text = reason[:REASON_MAX]
    values = {
        "workspace": row["workspace"],
        "id": row["id"],
        "run": row["run"],
        "reason": text,
        "now": now,
        "pause": UNANSWERED_PAUSE_US,
    }
    connection.execute(_PARK[kind], values)
    if kind is Kind.OPERATION:
        give_up_call(connection, row["workspace"], row["id"], now)
    connection.execute(_CLOSE_RUN, values)
    whole: dict[str, Json] = {"decision": "parked", "reason": text, **(facts or {})}
    append(connection, [Entry(row["workspace"], row["id"], row["run"], DECISION, now, whole)])
