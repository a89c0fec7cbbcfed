"""Claim cost without clocks: SQLite VM steps of one claim, with few and many polls, and with due rows in an exhausted pool.

    python benchmarks/claim_steps.py 1000 100000 1000000

The last line is JSON: `{"claim_steps": {"1000": …, …, "exhausted_100000": …}, "polls": {"1000": …}}`.
"""

import json
import sqlite3
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sereno.core.poll import PollSpec
from sereno.core.schedule import Interval
from sereno.core.values import format_id, to_micros
from sereno.core.work import LeaseTimes, Principal
from sereno.store.codec import dump_spec
from sereno.store.executor import connect
from sereno.store.open import prepare
from sereno.store.work.take import Ask, claim

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LIMIT = 100
POOLS = 50
GRAIN = 10


def seed(connection: sqlite3.Connection, polls: int, *, pools: int = POOLS, exhausted: bool = False) -> None:
    """Fills a database: all but 200 of the polls are due later; `exhausted`: all are due, in a pool without tokens, beside 200 others."""
    now, owner = to_micros(NOW), Principal().user
    text = dump_spec(
        PollSpec(name="p", source_type="http", source={"url": "https://example.com/"}, schedule=Interval(timedelta(hours=1), NOW))
    )
    rows = []
    for number in range(polls + 200):
        due = now - number if number < 200 or exhausted else now + 1_000_000 * (1 + number % 3600)
        pool = "host:blocked.example" if exhausted and number >= 200 else f"host:{number % pools}.example"
        rows.append((format_id("poll_", number), f"p{number}", owner, due, due, pool, now, now))
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO poll (workspace, id, name, user, managed_by, state, due, scheduled_for, pool, created_at, updated_at)"
        " VALUES ('main', ?, ?, ?, 'user', 'active', ?, ?, ?, ?, ?)",
        rows,
    )
    connection.execute("INSERT INTO poll_spec (workspace, poll, spec) SELECT workspace, id, ? FROM poll", (text,))
    connection.executemany(
        "INSERT INTO pool (workspace, name, rate, wake) VALUES ('main', ?, NULL, ?)",
        [(f"host:{number}.example", now) for number in range(pools)],
    )
    connection.execute(
        "INSERT INTO pool (workspace, name, rate, burst, tat, wake) VALUES ('main', 'host:blocked.example', 1.0, 5, ?, ?)",
        (now + 60_000_000, now),
    )
    connection.execute("COMMIT")


def steps_of_one_claim(connection: sqlite3.Connection, limit: int = LIMIT) -> tuple[int, int]:
    """Runs one claim and counts VM steps (to ten); returns (steps, polls handed out)."""
    counted = [0]

    def tick() -> int:
        counted[0] += GRAIN
        return 0

    connection.set_progress_handler(tick, GRAIN)
    connection.execute("BEGIN IMMEDIATE")
    ask = Ask(worker="w", limit=limit, times=LeaseTimes(), only=None, specs={})
    works = claim(connection, to_micros(NOW), ask).works
    connection.execute("COMMIT")
    connection.set_progress_handler(None, 0)
    return counted[0], len(works)


def measure(folder: Path, polls: int, *, exhausted: bool = False, pools: int = POOLS) -> tuple[int, int]:
    """Steps and polls of one claim on a fresh database."""
    path = folder / f"{polls}-{exhausted}-{pools}.db"
    prepare(path)
    connection = connect(path)
    seed(connection, polls, pools=pools, exhausted=exhausted)
    found = steps_of_one_claim(connection)
    connection.close()
    return found


def main(sizes: list[int]) -> None:
    """Prints the figures for each size."""
    with tempfile.TemporaryDirectory() as folder:
        steps, handed = {}, {}
        for size in sizes:
            steps[str(size)], handed[str(size)] = measure(Path(folder), size)
            print(f"{size} polls: {steps[str(size)]} steps for {handed[str(size)]} claimed")
        blocked = min(100_000, max(sizes))
        name = f"exhausted_{blocked}"
        steps[name], handed[name] = measure(Path(folder), blocked, exhausted=True)
        print(f"{blocked} due polls in an exhausted pool: {steps[name]} steps for {handed[name]} claimed")
    print(json.dumps({"claim_steps": steps, "polls": handed}))


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [1_000, 100_000])
