"""Effects as rows: the outbox. Written in the same transaction as the decision that wants them (I18), once for each dedupe key (I17)."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from sereno.core.effect import Effect
from sereno.core.values import to_micros
from sereno.store.codec import dump_effect
from sereno.store.named import named
from sereno.store.pools import ensure_pools
from sereno.store.work.clock.steps import moved

MAX_ATTEMPTS = 30
"""Backoff reaches an hour after eight attempts; keyed retries stop after 21 hours: about as many."""
SUPPRESSED = "suppressed:"
"""Key of the counter of suppressed duplicates in `meta`; the workspace follows."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The effects of one decision, with an id for each, made before the transaction."""

    workspace: str
    user: str
    poll: str | None
    effects: Sequence[Effect]
    ids: Sequence[str]
    moved: int = 0
    """How far the host's clock was set since the decision (microseconds): what may not be sent before an instant keeps its distance."""


def insert(connection: sqlite3.Connection, outgoing: Outgoing, now: int) -> tuple[list[tuple[str, str, int]], int]:
    """Queues deliveries; answers the pools to wake (workspace, name, at) and how many keys had been there before."""
    wakes: list[tuple[str, str, int]] = []
    suppressed = 0
    for effect, identifier in zip(outgoing.effects, outgoing.ids, strict=True):
        due = max(now, 0 if effect.not_before is None else to_micros(effect.not_before) + outgoing.moved)
        if _insert_one(connection, outgoing, effect, identifier, due=due, now=now):
            wakes.append((outgoing.workspace, effect.pool, due))
        else:
            suppressed += 1
    ensure_pools(connection, [(workspace, name) for workspace, name, _ in wakes])
    if suppressed:
        connection.execute(named("commit")["suppressed"], {"key": SUPPRESSED + outgoing.workspace, "count": str(suppressed)})
    return wakes, suppressed


def _insert_one(
    connection: sqlite3.Connection, outgoing: Outgoing, effect: Effect, identifier: str, *, due: int, now: int
) -> bool:
    done = connection.execute(
        named("commit")["delivery"],
        {
            "workspace": outgoing.workspace,
            "id": identifier,
            "dedupe_key": effect.dedupe_key,
            "effect": dump_effect(effect, moved=moved(connection)),
            "subject": effect.subject,
            "poll": outgoing.poll,
            "user": outgoing.user,
            "source_object_id": effect.source_object_id,
            "condition_version": effect.condition_version,
            "action_type": effect.action.type,
            "title": effect.title,
            "body": effect.body,
            "due": due,
            "max_attempts": MAX_ATTEMPTS,
            "pool": effect.pool,
            "now": now,
        },
    )
    return done.rowcount == 1
