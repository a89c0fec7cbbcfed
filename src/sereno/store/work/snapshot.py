"""Snapshots: what a poll knows, read under its lease when a run has something to compare it with."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sereno.core.change import KnownObject
from sereno.core.work import PollWork
from sereno.store.codec import loads
from sereno.store.named import named
from sereno.store.rows import OBJECT_COLUMNS, KnownObjects
from sereno.store.work.fence import held


def snapshot(connection: sqlite3.Connection, work: PollWork) -> Mapping[str, KnownObject]:
    """Reads the objects of a claimed poll. Raises LeaseLost: under another lease they may be those of a later run."""
    held(connection, work)
    key = {"workspace": work.poll.workspace, "id": work.poll.id}
    return KnownObjects({row[0]: dict(zip(OBJECT_COLUMNS, row, strict=True)) for row in _rows(connection, key)})


def _rows(connection: sqlite3.Connection, key: Mapping[str, str]) -> Iterable[Sequence[Any]]:
    """In one text, or row by row where that would be too long."""
    try:
        found: list[Any] = loads(connection.execute(named("commit")["snapshot"], key).fetchone()[0])
    except sqlite3.DataError:
        return connection.execute(named("commit")["snapshot_by_row"], key)
    return found
