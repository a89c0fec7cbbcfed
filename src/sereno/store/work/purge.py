"""Retention: closed runs are deleted after a while, a few at a time; the journal is append only and stays."""

import sqlite3

from sereno.store.named import named

BATCH = 500


def purge_runs(connection: sqlite3.Connection, before: int, limit: int = BATCH) -> int:
    """Deletes up to `limit` runs that started before `before` (microseconds) and are closed; returns how many."""
    left = limit
    workspaces = [row[0] for row in connection.execute(named("commit")["workspaces"])]
    for workspace in workspaces:
        if left > 0:
            values = {"workspace": workspace, "before": before, "limit": left}
            left -= connection.execute(named("commit")["delete_runs"], values).rowcount
    return limit - left
