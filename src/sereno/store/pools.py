"""Pools: shared limits as token buckets (GCRA), and `wake`, the instant before which a claim finds nothing in a pool (W29, I7).

`tat`, the theoretical arrival time, is the one number of a bucket: with `step = 1/rate`, a send at `t` is allowed while
`max(tat, t) - t <= (burst - 1) · step`, and moves `tat` on by one step. So `sends(Δ) ≤ burst + rate·Δ` over every window,
in every process that shares the row.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from sereno.store.codec import dumps

DEFAULT_RATE = 1.0
DEFAULT_BURST = 5
LOCAL = "local"
"""Pools of this machine start with this word; they have no rate."""
_SECOND = 1_000_000


@dataclass(slots=True)
class Bucket:
    """One pool's limits and its `tat`, in microseconds."""

    rate: float | None
    burst: int
    tat: int

    @property
    def step(self) -> int:
        """Microseconds that one send costs, at least one."""
        assert self.rate is not None
        return max(1, round(_SECOND / self.rate))

    def tokens(self, now: int, limit: int) -> int:
        """How many sends are allowed at `now`, at most `limit`."""
        if self.rate is None:
            return limit
        left = (self.burst - 1) * self.step - (max(self.tat, now) - now)
        return 0 if left < 0 else min(limit, left // self.step + 1)

    def take(self, count: int, now: int) -> None:
        """Spends tokens; more than there are puts the bucket into debt."""
        if self.rate is not None and count > 0:
            self.tat = max(self.tat, now) + count * self.step

    def next_at(self, now: int) -> int:
        """The first instant from which one send is allowed."""
        return now if self.rate is None else max(now, self.tat - (self.burst - 1) * self.step)


def ensure_pool(connection: sqlite3.Connection, workspace: str, name: str) -> None:
    """Makes the pool with the default limits where it is not there: 1/s with burst 5, none for what is local."""
    rate = None if name.startswith(LOCAL) else DEFAULT_RATE
    connection.execute(
        "INSERT INTO pool (workspace, name, rate, burst) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (workspace, name, rate, DEFAULT_BURST),
    )


def wake_pool(connection: sqlite3.Connection, workspace: str, name: str, at: int) -> None:
    """Says that work in the pool falls due at `at` (microseconds); an earlier instant stays."""
    connection.execute(
        "UPDATE pool SET wake = ? WHERE workspace = ? AND name = ? AND (wake IS NULL OR wake > ?)", (at, workspace, name, at)
    )


def wake_pools(connection: sqlite3.Connection, wakes: Iterable[tuple[str, str, int]], now: int) -> None:
    """Wakes many pools by (workspace, name, at) with one statement; one with `in_flight` wakes now: a place became free."""
    earliest: dict[tuple[str, str], int] = {}
    for workspace, name, at in wakes:
        key = (workspace, name)
        earliest[key] = min(at, earliest.get(key, at))
    if earliest:
        connection.execute(
            "UPDATE pool SET wake = CASE WHEN in_flight IS NULL THEN w.at ELSE min(w.at, :now) END"
            " FROM (SELECT value ->> 0 AS workspace, value ->> 1 AS name, value ->> 2 AS at FROM json_each(:wakes)) AS w"
            " WHERE pool.workspace = w.workspace AND pool.name = w.name"
            " AND (wake IS NULL OR wake > CASE WHEN in_flight IS NULL THEN w.at ELSE min(w.at, :now) END)",
            {"now": now, "wakes": dumps([[*key, at] for key, at in earliest.items()])},
        )


def ensure_pools(connection: sqlite3.Connection, pools: Iterable[tuple[str, str]]) -> None:
    """`ensure_pool` for several, once each."""
    for workspace, name in dict.fromkeys(pools):
        ensure_pool(connection, workspace, name)


def debit_pool(connection: sqlite3.Connection, workspace: str, name: str, count: int, now: int) -> None:
    """Takes tokens for requests that left beside the claimed one: redirect hops, further pages."""
    row = connection.execute("SELECT rate, burst, tat FROM pool WHERE workspace = ? AND name = ?", (workspace, name)).fetchone()
    if row is not None and row["rate"] is not None and count > 0:
        bucket = Bucket(rate=row["rate"], burst=row["burst"], tat=row["tat"])
        bucket.take(count, now)
        connection.execute("UPDATE pool SET tat = ? WHERE workspace = ? AND name = ?", (bucket.tat, workspace, name))
