"""Steps of the host's clock: every open wait moves with a step, so that it keeps its length (I4, I6, I7, I23)."""

import re
import sqlite3
from datetime import UTC, datetime

from sereno.core.values import FAR_FUTURE, Json, to_micros
from sereno.core.work import DEFAULT_WORKSPACE, Lease
from sereno.store.work.journal import RESULT, Entry, append

STEP_US = 2_000_000
"""A difference of more than two seconds is a step; less is drift, a leap second, or two clocks that were not read at one moment."""
SAME_SIZE_US = 60_000_000
"""What the loop of another process measures of the same step may differ by so much."""
SAME_STEP_US = 300_000_000
"""For so long, another process that notices a step of this size means the step that is on record already."""
SUBJECT = "clock"
MOVED = "clock_moved"
"""Key in `meta`: by how much all steps together moved the open waits, in microseconds."""
_FAR = to_micros(FAR_FUTURE)
EARLIEST_US, LATEST_US = to_micros(datetime(2, 1, 1, tzinfo=UTC)), _FAR
"""Between these the clock of a host may stand: a lease, a backoff and a day more can be reckoned from there."""
_WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_SHIFTS = (
    # The schedule of an interval is a length too: the next run keeps its distance. (A cron schedule names times of the wall clock and
    # must not be moved here when it comes.)
    "UPDATE poll SET due = min(max(due + :step, :low), :far), scheduled_for = min(max(scheduled_for + :step, :low), :far),"
    " lease_until = min(max(lease_until + :step, :low), :far) WHERE state = 'active' AND due IS NOT NULL",
    # A deadline is an instant that somebody was told: it stays, and a plan is not put behind it. What is due at its deadline alone
    # stays so: due sooner it would look, inside a wait that the provider asked for, or without a plan. A lease is not cut short; one
    # that was taken to close at the deadline, and whose process is gone, is not taken over before its deadline or its plan comes again.
    "UPDATE operation SET scheduled_for = min(max(scheduled_for + :step, :low), :far), lease_until = min(max(lease_until + :step, :low), :far),"
    " next_poll_at = min(max(next_poll_at + :step, :low), :far), woken_at = max(woken_at + :step, :low), due = CASE"
    " WHEN lease_until IS NOT NULL THEN max(due + :step, :low, coalesce("
    "     min(max(next_poll_at + :step, :low), deadline_at, coalesce(business_deadline_at, deadline_at)), due + :step))"
    " WHEN due > min(deadline_at, coalesce(business_deadline_at, deadline_at)) THEN min(max(due + :step, :low), :far)"
    " WHEN due < min(deadline_at, coalesce(business_deadline_at, deadline_at))"
    "     THEN min(max(due + :step, :low), deadline_at, coalesce(business_deadline_at, deadline_at))"
    " WHEN parked IS NULL THEN min(due, coalesce(max(next_poll_at + :step, :low), due)) ELSE due END"
    " WHERE state IN ('submitting', 'waiting') AND due IS NOT NULL",
    # The smallest gap counts from these; and while a person is asked, a wait that the provider asked for goes on.
    "UPDATE operation SET last_checked_at = max(last_checked_at + :step, :low), submitted_at = max(submitted_at + :step, :low),"
    " next_poll_at = CASE state WHEN 'escalated' THEN min(max(next_poll_at + :step, :low), :far) ELSE next_poll_at END"
    " WHERE state IN ('submitting', 'waiting', 'escalated')",
    "UPDATE delivery SET due = min(max(due + :step, :low), :far), scheduled_for = min(max(scheduled_for + :step, :low), :far),"
    " lease_until = min(max(lease_until + :step, :low), :far) WHERE state IN ('queued', 'sending') AND due IS NOT NULL",
    "UPDATE provider_call SET first_sent_at = max(first_sent_at + :step, :low) WHERE state IN ('queued', 'sending')",
    "UPDATE pool SET tat = min(max(tat + :step, :low), :far), wake = min(max(wake + :step, :low), :far)",
)


def move(connection: sqlite3.Connection, now: int, step: int) -> None:
    """Moves all open waits by `step` microseconds (negative: the clock was set back) and records that.

    Deadlines and the end of a question to a person are instants that somebody was told; they stay.
    """
    for statement in _SHIFTS:
        connection.execute(statement, {"step": step, "far": _FAR, "low": EARLIEST_US})
    write(connection, MOVED, str(moved(connection) + step))
    note_step(connection, now, step / 1_000_000, moved=True)


def moved(connection: sqlite3.Connection, schema: str = "main") -> int:
    """By how much all steps so far moved the open waits, in microseconds."""
    row = connection.execute(f"SELECT value FROM {schema}.meta WHERE key = ?", (MOVED,)).fetchone()  # noqa: S608 - our own name
    most = LATEST_US - EARLIEST_US
    return 0 if row is None else number(row[0], low=-most, high=most) or 0


def moved_since(connection: sqlite3.Connection, lease: Lease) -> int:
    """By how much the waits were moved since a claim: what was decided from the instants of that claim moves by it too."""
    return moved(connection) - lease.moved


def moved_plan(due: int, step: int, *, stops: int | None = None, look: int | None = None) -> int:
    """A planned instant after a step, by the rule for rows: a deadline (`stops`) stays, and nothing is put behind it."""
    if due == stops:
        return due if look is None else min(due, look + step)
    there = min(max(due + step, EARLIEST_US), _FAR)
    return there if stops is None or due > stops else min(there, stops)


def write(connection: sqlite3.Connection, key: str, value: str) -> None:
    """Sets a value in `meta`."""
    connection.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value)
    )


def number(text: object, *, low: int = EARLIEST_US, high: int = LATEST_US) -> int | None:
    """Reads microseconds from `meta`: ASCII digits, an instant that a host's clock may show. None for what is none."""
    if not isinstance(text, str) or _WHOLE.fullmatch(text) is None:
        return None
    value = int(text)
    return value if low <= value <= high else None


def _noted(connection: sqlite3.Connection, now: int, seconds: float, *, moved: bool) -> bool:
    """Whether the newest record is of the same step: as large to a minute, and written within the last minutes. Two that moved the
    waits are two."""
    row = connection.execute(
        "SELECT at, facts ->> 'seconds', facts ->> 'moved' FROM journal WHERE workspace = ? AND subject = ? ORDER BY seq DESC LIMIT 1",
        (DEFAULT_WORKSPACE, SUBJECT),
    ).fetchone()
    if row is None or (moved and row[2]):
        return False
    return abs(now - int(row[0])) <= SAME_STEP_US and abs(seconds - float(row[1])) * 1_000_000 <= SAME_SIZE_US


def note_step(connection: sqlite3.Connection, now: int, seconds: float, *, moved: bool = False) -> None:
    """Records that the host clock stepped by `seconds` (negative: back), once: each process of the host sees the same step.

    `moved`: the open waits were moved with it, which is on record each time, since the plans in the journal are read with that in mind.
    """
    known = _noted(connection, now, seconds, moved=moved)
    if known and not moved:
        return
    facts: dict[str, Json] = {"event": "clock_step", "seconds": round(seconds, 6), "moved": moved}
    append(connection, [Entry(DEFAULT_WORKSPACE, SUBJECT, 0, RESULT, now, facts)])
    if not known:
        connection.execute(
            "INSERT INTO meta (key, value) VALUES ('clock_steps', '1')"
            " ON CONFLICT (key) DO UPDATE SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)"
        )
