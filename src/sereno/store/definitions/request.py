"""One write asked for by a principal, inside one transaction: what polls, operations, escalations and deliveries share."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from sqlite3 import Connection, Row

from sereno.core.values import Json, canonical, to_micros
from sereno.core.work import Principal
from sereno.ports import Ids

_FENCES = {
    "poll": "UPDATE poll SET lease_until = NULL, run = run + 1 WHERE workspace = ? AND id = ?",
    "operation": "UPDATE operation SET lease_until = NULL, run = run + 1 WHERE workspace = ? AND id = ?",
}


@dataclass(frozen=True, slots=True)
class Request:
    """Who asks, at which instant of the database, on the connection of the running transaction."""

    connection: Connection
    who: Principal
    now: datetime
    ids: Ids

    @property
    def workspace(self) -> str:
        """The workspace that every statement names."""
        return self.who.workspace

    @property
    def micros(self) -> int:
        """`now` as the database stores it."""
        return to_micros(self.now)

    def decided(self, subject: str, run: int, decision: str, facts: Mapping[str, Json]) -> None:
        """Appends a journal row of kind `decision`: what, by whom, and the facts."""
        whole: dict[str, object] = {"decision": decision, "by": self.who.user, "by_kind": self.who.kind, **facts}
        self.connection.execute(
            "INSERT INTO journal (workspace, subject, run, kind, at, facts) VALUES (?, ?, ?, 'decision', ?, ?)",
            (self.workspace, subject, run, self.micros, canonical(whole).decode()),
        )

    def revoke(self, table: str, row: Row, why: str) -> int:
        """Takes away the lease on a row, if somebody holds one: the fence jumps, so that the commit of the run is refused.

        Nothing is lost by that: what the run saw was not stored and is seen again. Returns the row's run number after it.
        """
        if row["lease_until"] is None:
            return int(row["run"])
        self.connection.execute(
            "UPDATE run SET status = 'abandoned', finished_at = ?, error = ?"
            " WHERE workspace = ? AND subject = ? AND status = 'running'",
            (self.micros, why, self.workspace, row["id"]),
        )
        self.connection.execute(_FENCES[table], (self.workspace, row["id"]))
        return int(row["run"]) + 1
