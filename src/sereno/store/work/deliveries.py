"""Commits of delivery attempts."""

import sqlite3

from sereno.core.delivery import DeliveryDecision, DeliveryState, OutcomeKind
from sereno.core.values import Json
from sereno.core.work import DeliveryWork
from sereno.store.codec import micros
from sereno.store.named import named
from sereno.store.pools import wake_pools
from sereno.store.work.clock.steps import moved_plan, moved_since
from sereno.store.work.fence import held
from sereno.store.work.journal import DECISION, Entry, append

OUTCOME_MAX = 2_000


def commit_delivery(connection: sqlite3.Connection, work: DeliveryWork, decision: DeliveryDecision, now: int) -> None:
    """Writes an attempt's outcome. Raises LeaseLost."""
    fence = held(connection, work)
    delivery, lease, outcome = work.delivery, work.lease, decision.outcome
    ok, due = outcome.kind is OutcomeKind.DONE, micros(decision.due)
    due = None if due is None else moved_plan(due, moved_since(connection, lease))
    said = f"{outcome.kind}: {outcome.message}"[:OUTCOME_MAX] if outcome.message else str(outcome.kind)
    key = {"workspace": delivery.workspace, "id": delivery.id, "now": now}
    settled = {
        "state": str(decision.state),
        "due": due,
        "outcome": said,
        "receipt": outcome.receipt,
        "delivered_at": now if decision.state is DeliveryState.DELIVERED else None,
    }
    connection.execute(named("commit")["settle_delivery"], {**key, **settled})
    closed = {"run": lease.run, "status": "ok" if ok else "failed", "summary": decision.reason, "error": None if ok else said}
    connection.execute(named("commit")["close_run"], {**key, **closed, "requests": None})
    facts: dict[str, Json] = {
        "decision": decision.reason,
        "state": str(decision.state),
        "claimed_at": micros(lease.claimed_at),
        "attempt": delivery.attempts,
        "max_attempts": delivery.max_attempts,
        "outcome": str(outcome.kind),
        "message": outcome.message[:OUTCOME_MAX],
        "receipt": outcome.receipt,
        "next_attempt_at": due,
        "interrupted": delivery.interrupted,
        "dedupe_key": delivery.effect.dedupe_key,
    }
    append(connection, [Entry(delivery.workspace, delivery.id, lease.run, DECISION, now, facts)])
    wake_pools(connection, [(delivery.workspace, fence["pool"], now if due is None else due)], now)
