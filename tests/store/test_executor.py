"""The executor: one commit for many writes, each standing or falling alone, and database trouble that is told and survived."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from sereno.core.errors import InvariantBroken, NotNow, Unavailable
from sereno.store.executor import InlineExecutor, Job, ThreadExecutor, connect, run_group, translated


@pytest.fixture
def path(tmp_path: Path) -> Path:
    connection = connect(tmp_path / "x.db")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT) STRICT")
    connection.close()
    return tmp_path / "x.db"


@pytest.fixture
async def executor(path: Path) -> AsyncIterator[ThreadExecutor]:
    made = ThreadExecutor(path, busy_timeout_s=0.05)
    yield made
    await made.close()


def insert(value: int) -> Callable[[sqlite3.Connection], int]:
    def inside(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO t VALUES (?, 'x')", (value,))
        return value

    return inside


def count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM t").fetchone()[0])


async def test_writes_that_wait_together_share_one_commit(path: Path) -> None:
    """A hundred writes make a handful of commits, and all of them are there."""
    executor = ThreadExecutor(path, gather_s=0.02)
    before = path.with_name("x.db-wal").stat().st_size if path.with_name("x.db-wal").exists() else 0
    commits: list[int] = []
    await executor.peek(
        lambda connection: connection.set_trace_callback(lambda sql: commits.append(1) if sql == "COMMIT" else None)
    )
    got = await asyncio.gather(*(executor.write(insert(number)) for number in range(100)))
    assert got == list(range(100)) and await executor.read(count) == 100
    assert 1 <= len(commits) <= 3 and before >= 0
    await executor.close()


async def test_a_failing_write_falls_alone(executor: ThreadExecutor) -> None:
    """Its own changes are undone, its own caller is told; the others in the group are kept."""

    def failing(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO t VALUES (50, 'y')")
        raise NotNow("no")

    async def clash() -> object:
        return await executor.write(insert(1))

    results = await asyncio.gather(
        executor.write(insert(1)),
        executor.write(failing),
        clash(),
        executor.write(insert(2)),
        return_exceptions=True,
    )
    assert results[0] == 1 and results[3] == 2
    assert isinstance(results[1], NotNow) and isinstance(results[2], InvariantBroken)
    assert await executor.read(count) == 2


async def test_joined_items_are_written_as_one_list_and_repeated_one_by_one_when_the_list_fails(executor: ThreadExecutor) -> None:
    """One bad item cannot take the others with it."""
    calls: list[list[int]] = []

    def many(connection: sqlite3.Connection, items: Sequence[int]) -> Sequence[int | Exception]:
        calls.append(list(items))
        connection.executemany("INSERT INTO t VALUES (?, 'x')", [(item,) for item in items])
        return [item * 10 for item in items]

    assert await asyncio.gather(*(executor.join(many, item) for item in (1, 2, 3))) == [10, 20, 30]
    assert calls == [[1, 2, 3]]
    results = await asyncio.gather(*(executor.join(many, item) for item in (4, 1, 5)), return_exceptions=True)
    assert (results[0], results[2]) == (40, 50) and isinstance(results[1], InvariantBroken)
    assert calls[1:] == [[4, 1, 5], [4], [1], [5]] and await executor.read(count) == 5


async def test_I30_a_busy_database_is_unavailable_and_works_again_later(path: Path, executor: ThreadExecutor) -> None:
    """A foreign writer that holds the lock past the timeout: told with a hint, nothing written, the next try succeeds."""
    foreign = sqlite3.connect(path, isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked by another process") as caught:
        await executor.write(insert(1))
    assert caught.value.hint
    assert await executor.read(count) == 0, "readers are not held up"
    foreign.execute("ROLLBACK")
    foreign.close()
    assert await executor.write(insert(1)) == 1


async def test_I30_a_short_lock_is_waited_out(path: Path) -> None:
    """The busy timeout covers a foreign writer that is done soon."""
    executor = ThreadExecutor(path, busy_timeout_s=60)
    foreign = sqlite3.connect(path, isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    waiting = asyncio.ensure_future(executor.write(insert(1)))
    await asyncio.wait_for(executor.read(count), 60)
    assert not waiting.done()
    foreign.execute("COMMIT")
    foreign.close()
    assert await waiting == 1
    await executor.close()


def test_I30_a_full_disk_fails_the_whole_group_and_loses_nothing_before_it(path: Path) -> None:
    """Every caller of the group gets the error; the database stays whole and usable."""
    connection = connect(path)
    kept = Job(fn=insert(1))
    run_group(connection, [kept])
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")

    def big(target: sqlite3.Connection) -> None:
        target.execute("INSERT INTO t VALUES (9, ?)", ("x" * 100_000,))

    jobs = [Job(fn=big)]
    run_group(connection, jobs)
    assert isinstance(jobs[0].error, Unavailable) and "full" in jobs[0].error.message
    connection.execute("PRAGMA max_page_count = 100000")
    again = Job(fn=insert(2))
    run_group(connection, [again])
    assert again.error is None and count(connection) == 2


def test_I30_a_commit_that_fails_is_the_error_of_every_job_in_it(path: Path) -> None:
    """Nobody is told that something is durable when the commit did not happen."""
    connection = connect(path)
    connection.executescript(
        "CREATE TABLE parent (id INTEGER PRIMARY KEY); CREATE TABLE child (p REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)"
    )
    jobs = [Job(fn=insert(1)), Job(fn=lambda target: target.execute("INSERT INTO child VALUES (5)"))]
    run_group(connection, jobs)
    assert all(job.error is not None for job in jobs) and not connection.in_transaction
    assert count(connection) == 0


@pytest.mark.parametrize(
    "code, kind", [("SQLITE_BUSY", Unavailable), ("SQLITE_IOERR_FSYNC", Unavailable), ("SQLITE_CONSTRAINT", InvariantBroken)]
)
def test_sqlite_errors_are_told_apart(code: str, kind: type[Exception]) -> None:
    """Trouble that may pass is Unavailable with a hint; a refused statement is our mistake."""
    error = sqlite3.OperationalError("x")
    error.sqlite_errorcode = getattr(sqlite3, code)
    found = translated(error)
    assert type(found) is kind and (kind is InvariantBroken or found.hint)


async def test_reads_cannot_write_and_see_one_snapshot(executor: ThreadExecutor) -> None:
    """The reading connection refuses to change anything."""
    with pytest.raises(Unavailable, match="read-only"):
        await executor.read(insert(1))


def test_W09_the_connection_keeps_every_commit(path: Path) -> None:
    """WAL with synchronous FULL, foreign keys on: a commit that precedes a send is on the disk."""
    connection = connect(path)
    settings = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous", "foreign_keys")]
    assert settings == ["wal", 2, 1]


async def test_the_inline_executor_has_the_same_semantics(path: Path) -> None:
    """The simulation runs the same transactions without threads."""
    executor = InlineExecutor(path)
    assert await executor.write(insert(1)) == 1
    with pytest.raises(InvariantBroken):
        await executor.write(insert(1))
    assert await executor.join(lambda connection, items: [item + count(connection) for item in items], 41) == 42
    assert await executor.read(count) == 1 and await executor.peek(count) == 1
    await executor.close()
