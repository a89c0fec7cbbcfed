"""Call-backs that wait to be read: one an operation, the newest. They lie apart from the rows that every step writes."""

import sqlite3

from sereno.core.operation import Pushed
from sereno.core.values import digest, from_micros, to_micros
from sereno.store.named import named


def load_pushed(connection: sqlite3.Connection, workspace: str, operation: str) -> Pushed | None:
    """The call-back that no step has read yet."""
    row = connection.execute(named("claim")["load_pushed"], {"workspace": workspace, "id": operation}).fetchone()
    return None if row is None else Pushed(bytes(row[0]), row[1], from_micros(row[2]))


def keep_pushed(connection: sqlite3.Connection, workspace: str, operation: str, pushed: Pushed) -> int:
    """Keeps a call-back for the next step; an older one that nobody read is replaced. Returns its instant (microseconds), which tells it
    from the one before: a step that is reading that one does not take this one for read."""
    before = connection.execute(
        "SELECT received_at FROM pushed_body WHERE workspace = ? AND operation = ?", (workspace, operation)
    ).fetchone()
    at = to_micros(pushed.received_at)
    at = at if before is None else max(at, before[0] + 1)
    connection.execute(
        "INSERT OR REPLACE INTO pushed_body (workspace, operation, body, content_type, received_at) VALUES (?, ?, ?, ?, ?)",
        (workspace, operation, pushed.body, pushed.content_type, at),
    )
    return at


def pushed_facts(pushed: Pushed | None) -> dict[str, object] | None:
    """What the journal says of a call-back: when it came, and its content by digest."""
    if pushed is None:
        return None
    return {
        "received_at": to_micros(pushed.received_at),
        "content_type": pushed.content_type,
        "bytes": len(pushed.body),
        "digest": digest(pushed.body),
    }
