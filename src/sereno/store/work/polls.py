"""Commits of poll runs: a whole group with a fixed number of statements; each run stands or falls by its own fence."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sereno.core.errors import LeaseLost
from sereno.core.poll import PollDecision, PollState
from sereno.core.values import Json
from sereno.core.work import PollWork
from sereno.store.codec import dumps, loads, micros
from sereno.store.many import write_many
from sereno.store.named import named
from sereno.store.pools import debit_pool, wake_pools
from sereno.store.work.clock.steps import moved, moved_plan
from sereno.store.work.effects import Outgoing, insert
from sereno.store.work.journal import DECISION, Entry, append


@dataclass(slots=True)
class PollCommit:
    """One run to commit; `ids` are new delivery ids, one for each effect."""

    work: PollWork
    decision: PollDecision
    ids: Sequence[str]


@dataclass(slots=True)
class _Kept:
    """One run whose fence holds. `takes`: what was read counts. `edited`: the definition changed while the run was under way."""

    work: PollWork
    decision: PollDecision
    ids: Sequence[str]
    pool: str
    state: str
    edited: bool
    takes: bool
    due: int | None
    goes_on: bool
    """Due at once, to read more: still the same due instant."""
    served: int
    """The due instant that was served, by the clock as it stands."""

    @property
    def moves(self) -> bool:
        return self.state != self.work.poll.state

    @property
    def fires(self) -> bool:
        return not self.edited and bool(self.decision.effects)

    @property
    def quiet(self) -> bool:
        """Nothing happened that anybody could ask about later: no journal row."""
        decision = self.decision
        said = decision.changed or decision.matched or decision.effects or decision.condition_errors or decision.error
        return not (said or self.edited or decision.status != "ok" or decision.state is not self.work.poll.state)


def commit_polls(connection: sqlite3.Connection, commits: Sequence[PollCommit], now: int) -> Sequence[None | Exception]:
    """Writes a group; answers None or LeaseLost for each. See `WorkStore.commit_poll`."""
    ids = dumps([[commit.work.poll.workspace, commit.work.poll.id] for commit in commits])
    fences = {key: rest for key, *rest in loads(connection.execute(named("commit")["poll_fences"], {"rows": ids}).fetchone()[0])}
    steps = moved(connection)
    kept: dict[tuple[str, str], _Kept] = {}
    answers: list[None | Exception] = []
    for at, commit in enumerate(commits):
        key = (commit.work.poll.workspace, commit.work.poll.id)
        found = None if key in kept else _against(fences.get(at), commit, now, steps)
        if found is None:
            answers.append(LeaseLost("the run was taken over before it was committed", subject=commit.work.poll.id))
        else:
            answers.append(None)
            kept[key] = found
    if kept:
        _write(connection, list(kept.values()), now)
    return answers


def _against(fence: Sequence[Any] | None, commit: PollCommit, now: int, steps: int) -> _Kept | None:
    """Holds a commit against its row; None where the fence is old.

    Under an edited definition nothing fires and the poll is due at once. Cursor and objects are taken only where nothing new was
    found under the same condition: taking them past a change that fires nothing would lose it, so that is read again.
    """
    if fence is None:
        return None
    run, leased, revision, condition_version, state, pool = fence
    work, decision = commit.work, commit.decision
    if run != work.lease.run or not leased:
        return None
    edited = revision != work.lease.revision
    found_some = decision.effects or decision.remember or decision.forget or decision.changed or decision.matched
    takes = not edited or (condition_version == work.poll.condition_version and not found_some)
    if edited:
        due = now if state == PollState.ACTIVE else None
    else:
        state, due = str(decision.state), micros(decision.due)
        due = None if due is None else moved_plan(due, steps - work.lease.moved)
    goes_on = due is not None and due <= now
    served = (micros(work.scheduled_for) or 0) + steps - work.lease.moved
    return _Kept(
        work, decision, commit.ids, pool=pool, state=state, edited=edited, takes=takes, due=due, goes_on=goes_on, served=served
    )


def _write(connection: sqlite3.Connection, kept: Sequence[_Kept], now: int) -> None:
    statements = named("commit")
    write_many(connection, statements["polls"], [_poll_row(one, now) for one in kept])
    write_many(connection, statements["poll_states"], [(*_key(one), one.state, now) for one in kept if one.moves])
    write_many(connection, statements["poll_runs"], [_run_row(one, now) for one in kept])
    reads = [one for one in kept if one.takes]
    write_many(connection, statements["objects"], [row for one in reads for row in _object_rows(one)])
    write_many(connection, statements["forget_objects"], [(*_key(one), gone) for one in reads for gone in one.decision.forget])
    wakes = [(one.work.poll.workspace, one.pool, now if one.due is None else one.due) for one in kept]
    entries = []
    for one in kept:
        suppressed = 0
        if one.fires:
            poll = one.work.poll
            outgoing = Outgoing(poll.workspace, poll.spec.user, poll.id, one.decision.effects, one.ids)
            woken, suppressed = insert(connection, outgoing, now)
            wakes += woken
        if not one.quiet:
            entries.append(_entry(one, now, suppressed))
    append(connection, entries)
    wake_pools(connection, wakes, now)
    _debit(connection, kept, now)


def _key(one: _Kept) -> tuple[str, str]:
    return one.work.poll.workspace, one.work.poll.id


def _poll_row(one: _Kept, now: int) -> Sequence[Any]:
    d = one.decision
    matched = 0 if one.edited else d.matched
    served, attempt = (one.served, one.work.attempt) if one.goes_on else (one.due, 0)
    facts = (d.cursor, d.baselined, d.failures, d.auth_failures, matched, d.error)
    return (*_key(one), one.due, one.takes, *facts, served, attempt, now)


def _run_row(one: _Kept, now: int) -> Sequence[Any]:
    d = one.decision
    cursor_after = d.cursor if one.takes else one.work.poll.cursor
    summary = f"{d.summary}; the poll was edited meanwhile, so nothing fired and it is read again" if one.edited else d.summary
    counts = (d.checked, d.changed, d.matched, d.requests, d.missed)
    return (*_key(one), one.work.lease.run, d.status, *counts, cursor_after, summary, d.error, now)


def _object_rows(one: _Kept) -> list[list[Any]]:
    return [
        [
            *_key(one),
            external_id,
            known.content_hash,
            known.version,
            micros(known.first_seen_at),
            micros(known.last_seen_at),
            None if known.kept is None else dumps(known.kept),
            known.present,
            known.matching,
            known.episodes,
        ]
        for external_id, known in one.decision.remember.items()
    ]


def _entry(one: _Kept, now: int, suppressed: int) -> Entry:
    d, lease = one.decision, one.work.lease
    condition_errors: list[object] = [*d.condition_errors[:10]]
    facts: dict[str, Json] = {
        "decision": "run",
        "status": d.status,
        "state": one.state,
        "claimed_at": micros(lease.claimed_at),
        "scheduled_for": micros(one.work.scheduled_for),
        "attempt": one.work.attempt,
        "next_run_at": one.due,
        "checked": d.checked,
        "changed": d.changed,
        "matched": d.matched,
        "missed": d.missed,
        "requests": d.requests,
        "failures": d.failures,
        "summary": d.summary,
        "error": d.error,
        "edited": one.edited,
        "effects": [effect.dedupe_key for effect in d.effects] if one.fires else [],
        "suppressed": suppressed,
        "condition_errors": condition_errors,
    }
    return Entry(*_key(one), run=lease.run, kind=DECISION, at=now, facts=facts)


def _debit(connection: sqlite3.Connection, kept: Sequence[_Kept], now: int) -> None:
    """Redirect hops and further pages count against the pool too; the claim took the token of the first request."""
    extra: dict[tuple[str, str], int] = {}
    for one in kept:
        if one.decision.requests > 1:
            key = (one.work.poll.workspace, one.pool)
            extra[key] = extra.get(key, 0) + one.decision.requests - 1
    for (workspace, name), count in sorted(extra.items()):
        debit_pool(connection, workspace, name, count, now)
