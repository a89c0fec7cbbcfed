"""The database's instant: the host's wall clock, with a high-water mark so that a step back leaves nothing stuck (I7, I23)."""

import sqlite3

from sereno.core.values import Json
from sereno.core.work import DEFAULT_WORKSPACE
from sereno.store.work.journal import RESULT, Entry, append

STEP_US = 60_000_000
"""A clock that stands more than a minute before the latest claim was set back."""
SAVE_EVERY_US = 1_000_000
SAVE_IDLE_US = 30_000_000
"""How old the mark may get while nothing is claimed: an idle process does not write each second."""
SAME_STEP_US = 300_000_000
"""For so long, another process that notices a step of this size means the step that is on record already."""
SUBJECT = "clock"
_SHIFTS = (
    "UPDATE poll SET due = due - :step, scheduled_for = scheduled_for - :step, lease_until = lease_until - :step"
    " WHERE state = 'active' AND due IS NOT NULL",
    # What is due at its deadline alone stays so: due sooner it would look, inside a wait that the provider asked for, or without a plan.
    "UPDATE operation SET scheduled_for = scheduled_for - :step, lease_until = lease_until - :step, next_poll_at = next_poll_at - :step,"
    " due = CASE WHEN due <> min(deadline_at, coalesce(business_deadline_at, deadline_at)) THEN due - :step"
    "            WHEN parked IS NULL THEN min(due, coalesce(next_poll_at - :step, due)) ELSE due END"
    " WHERE state IN ('submitting', 'waiting') AND due IS NOT NULL",
    "UPDATE delivery SET due = due - :step, scheduled_for = scheduled_for - :step, lease_until = lease_until - :step"
    " WHERE state IN ('queued', 'sending') AND due IS NOT NULL",
    "UPDATE provider_call SET first_sent_at = first_sent_at - :step WHERE state IN ('queued', 'sending')",
    "UPDATE pool SET tat = max(tat - :step, 0), wake = wake - :step",
)


def high_water(connection: sqlite3.Connection) -> int:
    """The latest instant that a claim has seen, in microseconds; 0 = none."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'high_water'").fetchone()
    return 0 if row is None else int(row[0])


def _save(connection: sqlite3.Connection, now: int) -> None:
    connection.execute(
        "INSERT INTO meta (key, value) VALUES ('high_water', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (str(now),),
    )


def watch(connection: sqlite3.Connection, now: int) -> int:
    """Called by every claim. A clock that was set back moves every open wait back with it, so that waits keep their length.

    Deadlines and the end of a question to a person are instants that somebody was told; they stay. Returns the step in
    microseconds, 0 for none.
    """
    mark = high_water(connection)
    step = mark - now
    if step > STEP_US:
        for statement in _SHIFTS:
            connection.execute(statement, {"step": step})
        note_step(connection, now, -step / 1_000_000, moved=True)
        _save(connection, now)
        return step
    if now - mark > SAVE_IDLE_US:
        _save(connection, now)
    return 0


def keep(connection: sqlite3.Connection, now: int) -> None:
    """Moves the mark on with a claim that found work, once a second."""
    if now - high_water(connection) > SAVE_EVERY_US:
        _save(connection, now)


def _noted(connection: sqlite3.Connection, now: int, seconds: float) -> bool:
    """Whether the newest record is of the same step: as large to a minute, and written within the last minutes."""
    row = connection.execute(
        "SELECT at, facts ->> 'seconds' FROM journal WHERE workspace = ? AND subject = ? ORDER BY seq DESC LIMIT 1",
        (DEFAULT_WORKSPACE, SUBJECT),
    ).fetchone()
    return row is not None and abs(now - row[0]) <= SAME_STEP_US and abs(seconds - row[1]) * 1_000_000 <= STEP_US


def note_step(connection: sqlite3.Connection, now: int, seconds: float, *, moved: bool = False) -> None:
    """Records that the host clock stepped by `seconds` (negative: back), once: each process of the host sees the same step.

    `moved`: the open waits were moved with it, which is on record each time, since the plans in the journal are read with that in mind.
    """
    known = _noted(connection, now, seconds)
    if known and not moved:
        return
    facts: dict[str, Json] = {"event": "clock_step", "seconds": round(seconds, 3), "moved": moved}
    append(connection, [Entry(DEFAULT_WORKSPACE, SUBJECT, 0, RESULT, now, facts)])
    if not known:
        connection.execute(
            "INSERT INTO meta (key, value) VALUES ('clock_steps', '1')"
            " ON CONFLICT (key) DO UPDATE SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)"
        )
