"""What may happen between claim and commit: prolong, check before a send, count a hop, give back, park."""

import sqlite3
from typing import Any

from sereno.core.errors import LeaseLost
from sereno.core.observation import Observation
from sereno.core.values import Json
from sereno.core.work import DeliveryWork, Kind, OperationWork, Work
from sereno.store.calls import release_call
from sereno.store.codec import observation_json
from sereno.store.named import named
from sereno.store.pools import wake_pool
from sereno.store.work.fence import held, place
from sereno.store.work.journal import INTENT, Entry, append
from sereno.store.work.operations import seen
from sereno.store.work.park import park_row

ORIGIN_MAX = 300


def _key(work: Work) -> dict[str, Any]:
    _, workspace, subject = place(work)
    return {"workspace": workspace, "id": subject, "run": work.lease.run}


def extend(connection: sqlite3.Connection, work: Work, until: int) -> None:
    """Moves the end of a lease that is still ours. Raises LeaseLost."""
    held(connection, work)
    kind, _, _ = place(work)
    values = {**_key(work), "until": until}
    connection.execute(named("commit")[f"extend_{kind}"], values)
    connection.execute(named("commit")["extend_run"], values)


def check(connection: sqlite3.Connection, work: Work, now: int) -> None:
    """Raises LeaseLost unless the fence holds and the lease has time left."""
    if held(connection, work)["lease_until"] <= now:
        raise LeaseLost("the lease has run out", subject=place(work)[2])


def release(connection: sqlite3.Connection, work: Work, now: int) -> None:
    """Gives back work of which nothing was sent: due as before, the reservation returned (W33). Raises LeaseLost."""
    fence = held(connection, work)
    kind, workspace, subject = place(work)
    due = fence["due"] if fence["scheduled_for"] is None else fence["scheduled_for"]
    values: dict[str, Any] = _key(work)
    if isinstance(work, OperationWork):
        # Where a hop was counted, a request before it left: the smallest gap holds.
        sent = fence["status_requests_used"] > work.operation.spend.status_requests
        due = max(due, now + fence["min_gap_us"]) if sent else due
        values.update(due=due, given_back=int(work.operation.reserved))
        release_call(connection, work, now)
    elif isinstance(work, DeliveryWork):
        values.update(interrupted=int(work.delivery.interrupted))
    connection.execute(named("commit")[f"release_{kind}"], values)
    closed = {"status": "released", "summary": "given back: nothing was sent", "error": None, "requests": 0, "now": now}
    connection.execute(named("commit")["close_run"], {**values, **closed})
    if kind is not Kind.POLL:
        facts: dict[str, Json] = {"decision": "released", "due": due}
        append(connection, [Entry(workspace, subject, work.lease.run, "result", now, facts)])
    wake_pool(connection, workspace, fence["pool"], due)


def reserve_hop(connection: sqlite3.Connection, work: Work, origin: str, now: int) -> bool:
    """Counts one more request before a redirect hop is followed; False = no budget left, or the fence or the lease is gone.

    A poll's hops are counted against its pool when the run is committed; a delivery and a call have no request budget.
    """
    if not isinstance(work, OperationWork) or work.operation.call is not None:
        try:
            check(connection, work, now)
        except LeaseLost:
            return False
        return True
    counted = connection.execute(named("commit")["reserve_hop"], {**_key(work), "now": now}).rowcount == 1
    if counted:
        operation = work.operation
        facts: dict[str, Json] = {"event": "redirect_hop", "origin": origin[:ORIGIN_MAX]}
        append(connection, [Entry(operation.workspace, operation.id, work.lease.run, INTENT, now, facts)])
    return counted


def park(connection: sqlite3.Connection, work: Work, reason: str, observation: Observation | None, now: int) -> None:
    """Takes the work out of the claim and keeps what was learned (W43). Raises LeaseLost."""
    fence = held(connection, work)
    kind, workspace, subject = place(work)
    facts: dict[str, Json] = {}
    if observation is not None:
        facts["observation"] = observation_json(observation)
        # What a call was answered is no look: it stays in the journal, and the call itself becomes unknown.
        if isinstance(work, OperationWork) and work.operation.call is None:
            connection.execute(
                named("commit")["operation_facts"], {**_key(work), "now": now, "checked_at": now, **seen(observation)}
            )
    row = {"workspace": workspace, "id": subject, "run": work.lease.run}
    park_row(connection, kind, row, reason, now, facts)
    wake_pool(connection, workspace, fence["pool"], now)
