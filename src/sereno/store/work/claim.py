"""The claim, first half: which rows. Pools first, then rows by index, so that cost follows what is claimed, not what exists."""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import zip_longest
from typing import Any, NamedTuple

from sereno.core.work import Kind
from sereno.ports import Only
from sereno.store.codec import dumps, loads, micros, span_us
from sereno.store.named import named
from sereno.store.pools import Bucket

AGEING_US = span_us(timedelta(minutes=15))
"""One step of priority is worth this much waiting: no priority starves another."""
KINDS = (Kind.POLL, Kind.OPERATION, Kind.DELIVERY)
PRIORITIES = 3
_LISTS = len(KINDS) * PRIORITIES
_TABLES = {"poll_": Kind.POLL, "op_": Kind.OPERATION, "dlv_": Kind.DELIVERY}


class Pick(NamedTuple):
    """One row to take. Whether it sends is settled when it is loaded: an operation that is closed unasked takes no token."""

    kind: Kind
    workspace: str
    id: str
    pool: str


_EVER = 1 << 62


@dataclass(slots=True)
class Ready:
    """One pool in a claim: its bucket, what is free in it, and what was found due."""

    workspace: str
    name: str
    bucket: Bucket
    in_flight: int | None
    places: int | None = None
    """What `in_flight` leaves; None = no such limit."""
    free: int = 0
    """Places and tokens together."""
    first_lease_end: int | None = None
    picks: list[Pick] = field(default_factory=list)
    more: bool = False
    """Due rows were left."""
    next_due: int | None = None
    """The first instant after now."""
    sent: int = 0
    taken: int = 0

    def wake(self, now: int, lease_until: int) -> int | None:
        """The instant before which the next claim finds nothing here."""
        instants = [] if self.next_due is None else [self.next_due]
        if self.taken:
            instants.append(lease_until)
        if self.more:
            instants.append(max(self._place_at(now, lease_until), self.bucket.next_at(now)))
        return min(instants, default=None)

    def _place_at(self, now: int, lease_until: int) -> int:
        if self.places is None or self.places > self.taken:
            return now
        return lease_until if self.first_lease_end is None else min(self.first_lease_end, lease_until)


@dataclass(frozen=True, slots=True)
class Found:
    """What a claim may take: rows in claim order, and the pools that were looked at."""

    picks: Sequence[Pick] = ()
    pools: Sequence[Ready] = ()


def find(connection: sqlite3.Connection, now: int, limit: int, only: Only | None) -> Found:
    """Finds at most `limit` rows: operations to close first (they send nothing), then due rows, workspaces and pools in turn."""
    if only is not None and only.subject is not None:
        return _find_one(connection, now, only.subject)
    kinds = KINDS if only is None else tuple(only.kinds)
    since = None if only is None else micros(only.due_by)
    horizon = now if since is None else min(now, since)
    closing = _closing(connection, horizon, limit) if Kind.OPERATION in kinds else []
    room = limit - len(closing)
    # A restricted claim leaves each wake as it is, so it looks at every ready pool: else the same ones would hide the others for good.
    pools = _ready(connection, now, room if only is None else _EVER) if room > 0 else []
    _look(connection, now, pools, {"horizon": horizon, "since": since, "each": _share(room, len(pools))}, kinds)
    known = set(closing)
    fair = [pick for pick in _in_turn(pools) if not (known and pick in known)]
    return Found(picks=[*closing, *fair[:room]], pools=pools)


def _share(room: int, pools: int) -> int:
    """How many rows each pool is asked for at most: twice its fair share, since some have less."""
    return min(room, 2 * -(-room // pools)) if pools else 0


def _closing(connection: sqlite3.Connection, horizon: int, limit: int) -> list[Pick]:
    rows = _json(connection, "closing", {"horizon": horizon, "limit": limit // 2 + 1})
    return [Pick(Kind.OPERATION, workspace, subject, pool) for workspace, subject, pool in rows]


def _ready(connection: sqlite3.Connection, now: int, limit: int) -> list[Ready]:
    """The pools whose wake has come, earliest first, workspaces in turn."""
    rows = _json(connection, "ready_pools", {"now": now, "limit": limit})
    lines: dict[str, list[Ready]] = {}
    for row in rows:
        lines.setdefault(row[0], []).append(_pool(row))
    turns = zip_longest(*lines.values())
    return [pool for turn in turns for pool in turn if pool is not None]


def _pool(row: Sequence[Any]) -> Ready:
    workspace, name, rate, burst, tat, in_flight = row
    return Ready(workspace, name, Bucket(rate=rate, burst=burst, tat=tat), in_flight)


def _look(
    connection: sqlite3.Connection, now: int, pools: Sequence[Ready], bounds: dict[str, int | None], kinds: Sequence[Kind]
) -> None:
    """Fills in what is free and due in each pool, of the kinds that are asked for."""
    _count_held(connection, now, pools)
    each = bounds["each"] or 0
    for pool in pools:
        pool.free = pool.bucket.tokens(now, each if pool.places is None else min(each, pool.places))
        pool.more = pool.free == 0
    rows = _json(connection, "due_rows", {"now": now, "pools": _names(pools), **bounds}, [pool for pool in pools if pool.free])
    for pool, lists in zip([pool for pool in pools if pool.free], rows, strict=True):
        _fill(pool, lists, each, kinds)


def _count_held(connection: sqlite3.Connection, now: int, looked_at: Sequence[Ready]) -> None:
    pools = [pool for pool in looked_at if pool.in_flight is not None]
    for pool, (held, *ends) in zip(pools, _json(connection, "held", {"now": now}, pools), strict=True):
        assert pool.in_flight is not None
        pool.places = max(0, pool.in_flight - held)
        pool.first_lease_end = min((end for end in ends if end is not None), default=None)


def _names(pools: Sequence[Ready]) -> str:
    return dumps([[pool.workspace, pool.name] for pool in pools])


def _fill(pool: Ready, lists: Sequence[Any], each: int, kinds: Sequence[Kind]) -> None:
    """Orders what is due in one pool by due instant, priority counting as waiting; takes what is free. Another kind takes no place."""
    found = []
    for at, rows in enumerate(lists[:_LISTS]):
        if rows:
            kind, ahead = KINDS[at // PRIORITIES], at % PRIORITIES * AGEING_US
            found += [(due - ahead, subject, kind) for subject, due in rows if kind in kinds]
            pool.more = pool.more or len(rows) == each
    found.sort()
    pool.picks = [Pick(kind, pool.workspace, subject, pool.name) for _, subject, kind in found[: pool.free]]
    pool.more = pool.more or len(found) > len(pool.picks)
    pool.next_due = min((due for due in lists[_LISTS:] if due is not None), default=None)


def _in_turn(pools: Sequence[Ready]) -> Iterator[Pick]:
    """One row of each pool in turn."""
    for turn in zip_longest(*(pool.picks for pool in pools)):
        yield from (pick for pick in turn if pick is not None)


def _json(connection: sqlite3.Connection, name: str, values: dict[str, Any], pools: Sequence[Ready] | None = None) -> list[Any]:
    """Runs a statement that answers one JSON array; `pools` names the pools it is about."""
    if pools is not None:
        if not pools:
            return []
        values = {**values, "pools": _names(pools)}
    rows: list[Any] = loads(connection.execute(named("claim")[name], values).fetchone()[0])
    return rows


def kind_of(subject: str) -> Kind | None:
    """The kind of an id by its prefix."""
    return next((kind for prefix, kind in _TABLES.items() if subject.startswith(prefix)), None)


def _find_one(connection: sqlite3.Connection, now: int, subject: str) -> Found:
    """One subject alone, still inside its pool's limits; an operation to be closed needs none."""
    row = locate(connection, subject)
    kind = kind_of(subject)
    if row is None or kind is None or row[3] > now:
        return Found()
    workspace, _, name, *_ = row
    pick = Pick(kind, workspace, subject, name)
    if kind is Kind.OPERATION and _closes(connection, workspace, subject, now):
        return Found(picks=[pick])
    pools = [_pool(row) for row in _json(connection, "one_pool", {"workspace": workspace, "name": name})]
    _count_held(connection, now, pools)
    for pool in pools:
        pool.free = pool.bucket.tokens(now, 1 if pool.places is None else min(1, pool.places))
        pool.picks = [pick] if pool.free else []
    return Found(picks=[pick for pool in pools for pick in pool.picks], pools=pools)


def locate(connection: sqlite3.Connection, subject: str) -> list[Any] | None:
    """Finds an open subject: workspace, id, pool, from when it may be claimed (microseconds); of an operation also from when it may be
    closed unasked."""
    kind = kind_of(subject)
    row = None if kind is None else connection.execute(named("claim")[f"one_{kind}"], {"id": subject}).fetchone()
    found: list[Any] | None = None if row is None else loads(row[0])
    return found


def _closes(connection: sqlite3.Connection, workspace: str, subject: str, now: int) -> bool:
    row = connection.execute("SELECT close_at FROM operation WHERE workspace = ? AND id = ?", (workspace, subject)).fetchone()
    return row is not None and row[0] is not None and row[0] <= now


def next_due(connection: sqlite3.Connection, now: int, only: Only | None) -> int | None:
    """The earliest instant at which a claim may find something."""
    if only is not None and only.subject is not None:
        return _next_of_one(connection, now, only.subject)
    if only is not None and (only.due_by is not None or set(only.kinds) != set(KINDS)):
        return _next_by(connection, now, only)
    wake = connection.execute("SELECT wake FROM pool WHERE wake IS NOT NULL ORDER BY wake LIMIT 1").fetchone()
    close = connection.execute("SELECT close_at FROM operation WHERE close_at IS NOT NULL ORDER BY close_at LIMIT 1").fetchone()
    return min((row[0] for row in (wake, close) if row is not None), default=None)


def _next_of_one(connection: sqlite3.Connection, now: int, subject: str) -> int | None:
    row = locate(connection, subject)
    if row is None:
        return None
    workspace, _, name, due, *closes = row
    pools = [_pool(row) for row in _json(connection, "one_pool", {"workspace": workspace, "name": name})]
    _count_held(connection, now, pools)
    opens = max((_free_at(pool, now, due) for pool in pools), default=int(due))
    wakes: list[int] = [opens, *(at for at in closes if at is not None)]
    return min(wakes)


def _free_at(pool: Ready, now: int, due: int) -> int:
    place = pool.first_lease_end if pool.places == 0 else None
    return max(due, pool.bucket.next_at(min(now, due)), place or 0)


def _next_by(connection: sqlite3.Connection, now: int, only: Only) -> int | None:
    """The same for a claim that is restricted by instant or kind. Asks every pool that has anything planned."""
    since = micros(only.due_by)
    horizon = _EVER if since is None else since
    pools = [_pool(row) for row in _json(connection, "ready_pools", {"now": _EVER, "limit": _EVER})]
    _count_held(connection, now, pools)
    rows = _json(connection, "due_rows", {"now": _EVER, "horizon": horizon, "since": since, "each": 1}, pools)
    instants = [
        _free_at(pool, now, due)
        for pool, lists in zip(pools, rows, strict=True)
        for at, found in enumerate(lists[:_LISTS])
        for _, due in found
        if KINDS[at // PRIORITIES] in only.kinds
    ]
    if Kind.OPERATION in only.kinds:
        close = connection.execute("SELECT min(close_at) FROM operation WHERE close_at <= ?", (horizon,)).fetchone()[0]
        instants += [] if close is None else [close]
    return min(instants, default=None)
