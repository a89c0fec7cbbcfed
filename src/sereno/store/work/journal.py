"""The journal: appended facts of claims and commits; `explain` and `replay` read only it (W26)."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sereno.core.values import Json
from sereno.store.codec import dumps
from sereno.store.many import write_many

INTENT, RESULT, DECISION = "intent", "result", "decision"
_APPEND = (
    "INSERT INTO journal (workspace, subject, run, kind, at, facts)"
    " SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?)) WHERE column1 IS NOT NULL"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One row to append."""

    workspace: str
    subject: str
    run: int
    kind: str
    at: int
    facts: Mapping[str, Json]


def append(connection: sqlite3.Connection, entries: Sequence[Entry]) -> None:
    """Appends rows in order."""
    write_many(connection, _APPEND, [(e.workspace, e.subject, e.run, e.kind, e.at, dumps(dict(e.facts))) for e in entries])
