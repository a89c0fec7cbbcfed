"""Seam 4, the store executor: who runs SQL, in which thread, and how writes share one commit.

Writes are gathered for a few milliseconds and run as one group: one `BEGIN IMMEDIATE`, one `COMMIT` (one fsync). Each job
runs in its own savepoint, so it stands or falls alone; it is answered only after the commit is durable. Every call into SQLite
lets go of Python's lock, and on a busy event loop taking it back costs up to one turn of the loop; so hot writes are *joined*:
all items for the same function are handed to it as one list, which it writes with a fixed number of statements.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Protocol, TypeVar

from sereno.core.errors import InvariantBroken, SerenoError, Unavailable

T = TypeVar("T")
Item = TypeVar("Item")
Fn = Callable[[sqlite3.Connection], T]
Joined = Callable[[sqlite3.Connection, Sequence[Item]], Sequence[T | Exception]]
"""Writes many items; answers one value or error for each, in order."""

BUSY_TIMEOUT_S = 5.0
GROUP = 200
GATHER_S = 0.002
MEMORY = ":memory:"
LONGEST_VALUE = 128 << 20
"""Bytes of one row or value. A list that would be longer is read row by row, a group that would be longer is written one by one."""


class Executor(Protocol):
    """Runs functions that use the database connection. All methods raise Unavailable for what may work later."""

    async def write(self, fn: Fn[T]) -> T:
        """Runs `fn` inside a write transaction, alone in a savepoint; returns once it is durable."""
        ...

    async def join(self, fn: Joined[Item, T], item: Item) -> T:
        """Runs `fn` once for all items that wait for it, inside a write transaction; a failing list is repeated item by item."""
        ...

    async def read(self, fn: Fn[T]) -> T:
        """Runs `fn` on a connection that cannot write, on one snapshot."""
        ...

    async def peek(self, fn: Fn[T]) -> T:
        """Runs `fn` on the writing connection outside any transaction (the database's own settings)."""
        ...

    async def close(self) -> None:
        """Finishes what was handed in and closes the connections."""
        ...


def connect(path: str | Path, *, read_only: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S) -> sqlite3.Connection:
    """Opens a connection with our settings and checks that they took: WAL, synchronous FULL, foreign keys."""
    connection = sqlite3.connect(
        path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        connection.row_factory = sqlite3.Row
        wanted = "memory" if str(path) == MEMORY else "wal"
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute("PRAGMA wal_autocheckpoint = 4000")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        kept = (mode, _pragma(connection, "synchronous"), _pragma(connection, "foreign_keys"))
        if kept != (wanted, 2, 1):
            raise InvariantBroken(f"SQLite did not take journal_mode, synchronous, foreign_keys: {kept}", subject=str(path))
        if read_only:
            connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error as error:
        connection.close()
        raise translated(error) from error
    return connection


def _pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


_FULL = ("the disk is full", "free space on the volume of the database; nothing was written")
_HINTS = {
    sqlite3.SQLITE_BUSY: ("the database is locked by another process", "stop a process that holds it, or try again"),
    sqlite3.SQLITE_LOCKED: ("the database is locked", "try again"),
    sqlite3.SQLITE_FULL: _FULL,
    # The shared memory beside the file is what the first process to open it has to make room for.
    sqlite3.SQLITE_IOERR_SHMSIZE: _FULL,
    sqlite3.SQLITE_IOERR: ("the disk reported an error", "check the volume of the database; nothing was sent for this"),
    sqlite3.SQLITE_CANTOPEN: ("the database file cannot be opened", "check that its folder exists and is writable"),
    sqlite3.SQLITE_READONLY: (
        "the database file is read-only",
        "check owner and mode of the file, of its -wal and -shm, and of the folder",
    ),
    sqlite3.SQLITE_CORRUPT: ("the database file is damaged", "put a backup in its place with `sereno restore FILE`"),
    sqlite3.SQLITE_NOTADB: ("the database file is damaged", "put a backup in its place with `sereno restore FILE`"),
    sqlite3.SQLITE_NOMEM: ("out of memory", "try again"),
    sqlite3.SQLITE_INTERRUPT: ("the statement was interrupted", "try again"),
}


def translated(error: sqlite3.Error) -> SerenoError:
    """Turns an SQLite error into one of ours: trouble that may pass is Unavailable, everything else is our mistake."""
    number = getattr(error, "sqlite_errorcode", None)
    known = _HINTS.get(number, _HINTS.get(number & 0xFF)) if number is not None else None
    if known is not None:
        return Unavailable(known[0], hint=known[1], code="database_unavailable")
    return InvariantBroken(f"the database refused a statement: {error}", code="database_refused")


_GAVE_UP = Unavailable("the database gave up the transaction", hint="nothing was written; try again", code="database_unavailable")


@dataclass(slots=True)
class Job:
    """One thing to do: `fn` alone, or `joined` together with the other items for the same function."""

    fn: Fn[Any] | None = None
    joined: Joined[Any, Any] | None = None
    item: Any = None
    result: Any = None
    error: BaseException | None = None


class _Caught:
    """Keeps an error that belongs to the caller of a job, so that it reaches them and not the thread."""

    error: Exception | None = None

    def __enter__(self) -> "_Caught":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if isinstance(error, sqlite3.Error):
            self.error = translated(error)
            self.error.__cause__ = error
        elif isinstance(error, Exception):
            self.error = error
        return isinstance(error, Exception)


def run_group(connection: sqlite3.Connection, jobs: Sequence[Job]) -> None:
    """Runs jobs in one write transaction and fills in their results; a failed begin or commit is the error of every one."""
    with _Caught() as whole:
        connection.execute("BEGIN IMMEDIATE")
        _run_all(connection, jobs)
        if not connection.in_transaction:
            raise next((job.error for job in jobs if isinstance(job.error, Unavailable)), _GAVE_UP)
        connection.execute("COMMIT")
    if whole.error is not None:
        for job in jobs:
            job.error = whole.error
        with _Caught():
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def _run_all(connection: sqlite3.Connection, jobs: Sequence[Job]) -> None:
    lists: dict[Any, list[Job]] = {}
    for job in jobs:
        if job.joined is not None:
            lists.setdefault(job.joined, []).append(job)
        elif connection.in_transaction:
            _run_alone(connection, job)
    for members in lists.values():
        if connection.in_transaction and not _run_joined(connection, members) and len(members) > 1:
            for job in members:
                _run_joined(connection, [job])


def _run_alone(connection: sqlite3.Connection, job: Job) -> None:
    assert job.fn is not None
    with _Caught() as caught:
        connection.execute("SAVEPOINT job")
        job.result = job.fn(connection)
    _end_savepoint(connection, caught)
    job.error = caught.error


def _run_joined(connection: sqlite3.Connection, members: Sequence[Job]) -> bool:
    joined = members[0].joined
    assert joined is not None
    results: Sequence[Any] = ()
    with _Caught() as caught:
        connection.execute("SAVEPOINT job")
        results = joined(connection, [job.item for job in members])
        assert len(results) == len(members)
    _end_savepoint(connection, caught)
    for job, result in zip(members, results or [caught.error] * len(members), strict=True):
        job.result, job.error = (None, result) if isinstance(result, Exception) else (result, None)
    return caught.error is None


def _end_savepoint(connection: sqlite3.Connection, caught: _Caught) -> None:
    if not connection.in_transaction:
        return
    if caught.error is not None:
        connection.execute("ROLLBACK TO job")
    connection.execute("RELEASE job")


def run_read(connection: sqlite3.Connection, job: Job, *, snapshot: bool) -> None:
    """Runs one reading job; `snapshot` wraps it in a read transaction so that its statements agree with each other."""
    assert job.fn is not None
    with _Caught() as caught:
        if snapshot:
            connection.execute("BEGIN")
        job.result = job.fn(connection)
    job.error = caught.error
    if snapshot and connection.in_transaction:
        connection.execute("ROLLBACK")


def _answer(job: Job) -> Any:
    if job.error is not None:
        raise job.error
    return job.result


class InlineExecutor:
    """Runs everything at once on the caller's own thread, with the same transactions: for the simulation and for tests."""

    def __init__(self, path: str | Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self.connection = connect(path, busy_timeout_s=busy_timeout_s)

    async def write(self, fn: Fn[T]) -> T:
        job = Job(fn=fn)
        run_group(self.connection, [job])
        answer: T = _answer(job)
        return answer

    async def join(self, fn: Joined[Item, T], item: Item) -> T:
        job = Job(joined=fn, item=item)
        run_group(self.connection, [job])
        answer: T = _answer(job)
        return answer

    async def read(self, fn: Fn[T]) -> T:
        job = Job(fn=fn)
        run_read(self.connection, job, snapshot=True)
        answer: T = _answer(job)
        return answer

    async def peek(self, fn: Fn[T]) -> T:
        job = Job(fn=fn)
        run_read(self.connection, job, snapshot=False)
        answer: T = _answer(job)
        return answer

    async def close(self) -> None:
        self.connection.close()


_Group = tuple[asyncio.AbstractEventLoop, list[tuple[Job, "asyncio.Future[Any]"]]]


class _Lane:
    """One thread with one connection. `run` does a list of jobs; lists are gathered on the event loop."""

    def __init__(self, connection: sqlite3.Connection, run: Callable[[sqlite3.Connection, Sequence[Job]], None], gather_s: float):
        self._connection = connection
        self._run = run
        self._gather_s = gather_s
        self._waiting: list[tuple[Job, asyncio.Future[Any]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._busy = False
        self._queue: SimpleQueue[_Group | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="sereno-store", daemon=True)
        self._thread.start()

    async def submit(self, job: Job) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((job, future))
        if not self._busy and len(self._waiting) >= GROUP:
            self._flush(loop)
        elif not self._busy and self._timer is None:
            self._timer = loop.call_later(self._gather_s, self._flush, loop)
        await future
        return _answer(job)

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting and not self._busy:
            group, self._waiting = self._waiting[:GROUP], self._waiting[GROUP:]
            self._busy = True
            self._queue.put((loop, group))

    def _work(self) -> None:
        while (got := self._queue.get()) is not None:
            loop, group = got
            self._run(self._connection, [job for job, _ in group])
            # A loop that ended meanwhile has nobody left to tell; what was committed stays.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._done, loop, group)
        self._connection.close()

    def _done(self, loop: asyncio.AbstractEventLoop, group: list[tuple[Job, "asyncio.Future[Any]"]]) -> None:
        self._busy = False
        self._flush(loop)
        for _, future in group:
            if not future.done():
                future.set_result(None)

    async def close(self) -> None:
        while self._busy or self._waiting:
            await self.submit(Job(fn=lambda connection: None))
        self._queue.put(None)
        self._thread.join()


def _run_reads(connection: sqlite3.Connection, jobs: Sequence[Job]) -> None:
    for job in jobs:
        run_read(connection, job, snapshot=True)


def _run_writes(connection: sqlite3.Connection, jobs: Sequence[Job]) -> None:
    peeks = [job for job in jobs if job.item is _PEEK]
    writes = [job for job in jobs if job.item is not _PEEK]
    if writes:
        run_group(connection, writes)
    for job in peeks:
        run_read(connection, job, snapshot=False)


_PEEK = object()


class ThreadExecutor:
    """One writing thread and one reading thread on one database file: what production uses."""

    def __init__(self, path: str | Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S, gather_s: float = GATHER_S) -> None:
        self._writer = _Lane(connect(path, busy_timeout_s=busy_timeout_s), _run_writes, gather_s)
        self._reader = _Lane(connect(path, read_only=True, busy_timeout_s=busy_timeout_s), _run_reads, 0.0)

    async def write(self, fn: Fn[T]) -> T:
        answer: T = await self._writer.submit(Job(fn=fn))
        return answer

    async def join(self, fn: Joined[Item, T], item: Item) -> T:
        answer: T = await self._writer.submit(Job(joined=fn, item=item))
        return answer

    async def read(self, fn: Fn[T]) -> T:
        answer: T = await self._reader.submit(Job(fn=fn))
        return answer

    async def peek(self, fn: Fn[T]) -> T:
        answer: T = await self._writer.submit(Job(fn=fn, item=_PEEK))
        return answer

    async def close(self) -> None:
        await self._writer.close()
        await self._reader.close()
