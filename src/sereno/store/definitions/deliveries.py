"""Decisions of people about deliveries: sending again, closing unsent. A part of a write transaction."""

from dataclasses import replace
from datetime import timedelta
from sqlite3 import Row

from sereno.core.errors import NotNow
from sereno.core.values import Json, from_micros
from sereno.store.codec import dump_effect, effect_moved, load_effect
from sereno.store.definitions.request import Request
from sereno.store.missing import not_found
from sereno.store.pools import ensure_pool, wake_pool
from sereno.store.work.clock.steps import moved

RETRIABLE = ("dead", "ambiguous")
DROPPABLE = ("queued", "dead", "ambiguous")
LONGEST_SPAN = timedelta(hours=21)
"""How long one decision to send again may keep keyed retries going; the default of `Effect.keep_trying`."""


def retry(request: Request, delivery: str) -> str:
    """Queues a dead or ambiguous delivery again under the same key, with one more attempt where none is left.

    Keyed retries that ran out of time get their span anew; whether the receiver still knows the key, the person has weighed.
    """
    row = _in_state(request, delivery, RETRIABLE, "queue again")
    effect = load_effect(row["effect"])
    before = effect_moved(row["effect"])
    waited = request.now - from_micros(row["created_at"]) - timedelta(microseconds=moved(request.connection) - before)
    again = replace(effect, keep_trying=waited + min(effect.keep_trying, LONGEST_SPAN))
    request.connection.execute(
        "UPDATE delivery SET state = 'queued', due = ?, effect = ?, max_attempts = max(max_attempts, attempt + 1),"
        " lease_until = NULL, revision = revision + 1, updated_at = ? WHERE workspace = ? AND id = ?",
        (request.micros, dump_effect(again, moved=before), request.micros, request.workspace, delivery),
    )
    ensure_pool(request.connection, request.workspace, row["pool"])
    wake_pool(request.connection, request.workspace, row["pool"], request.micros)
    request.decided(delivery, int(row["run"]), "retry", _facts(row))
    return delivery


def drop(request: Request, delivery: str) -> str:
    """Closes a queued, dead or ambiguous delivery unsent."""
    row = _in_state(request, delivery, DROPPABLE, "drop")
    request.connection.execute(
        "UPDATE delivery SET state = 'dropped', due = NULL, revision = revision + 1, updated_at = ?"
        " WHERE workspace = ? AND id = ?",
        (request.micros, request.workspace, delivery),
    )
    request.decided(delivery, int(row["run"]), "dropped", _facts(row))
    return delivery


def _in_state(request: Request, delivery: str, allowed: tuple[str, ...], verb: str) -> Row:
    row: Row | None = request.connection.execute(
        "SELECT * FROM delivery WHERE workspace = ? AND id = ?", (request.workspace, delivery)
    ).fetchone()
    if row is None:
        raise not_found("delivery", delivery, ())
    held = row["lease_until"] is not None and row["lease_until"] > request.micros
    if row["state"] not in allowed or held:
        now = "being sent" if held else row["state"]
        raise NotNow(
            f"the delivery is {now}; Sereno can {verb} only what is {' or '.join(allowed)}; nothing was changed", subject=delivery
        )
    return row


def _facts(row: Row) -> dict[str, Json]:
    return {"before": row["state"], "dedupe_key": row["dedupe_key"], "attempts": row["attempt"], "action": row["action_type"]}
