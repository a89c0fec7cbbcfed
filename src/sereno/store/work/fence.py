"""Fences: one claimed row as it stands now, if the claim still holds (W22, I8)."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from sereno.core.errors import LeaseLost
from sereno.core.work import DeliveryWork, Kind, OperationWork, PollWork, Work
from sereno.store.named import named

Values = Mapping[str, Any]


def place(work: Work) -> tuple[Kind, str, str]:
    """Kind, workspace and id of what the work is about."""
    match work:
        case PollWork():
            return Kind.POLL, work.poll.workspace, work.poll.id
        case DeliveryWork():
            return Kind.DELIVERY, work.delivery.workspace, work.delivery.id
        case OperationWork():
            return Kind.OPERATION, work.operation.workspace, work.operation.id


def held(connection: sqlite3.Connection, work: Work) -> Values:
    """Reads the row behind the fence. Raises LeaseLost when the run number moved on or the lease was given back."""
    kind, workspace, subject = place(work)
    row: sqlite3.Row | None = connection.execute(
        named("commit")[f"{kind}_fence"], {"workspace": workspace, "id": subject}
    ).fetchone()
    if row is None or row["run"] != work.lease.run or row["lease_until"] is None:
        raise LeaseLost("the work was taken over", subject=subject)
    return dict(row)
