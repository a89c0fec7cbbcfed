"""The database of a simulated world: real SQLite in memory, made from one migrated template, behind an executor that fails by the plan."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from functools import cache
from random import Random
from typing import TypeVar

from sereno.core.errors import SerenoError
from sereno.store.executor import MEMORY, Fn, InlineExecutor, Item, Joined, translated
from sereno.store.migrate import migrate
from sereno.testing.hooks import Hooks, SimulatedCrash
from sereno.testing.simulation.plan import Plan
from sereno.testing.simulation.process.host import TrueClock
from sereno.testing.simulation.process.loop import Process
from sereno.testing.simulation.terms import Group, ProcessBook

T = TypeVar("T")

LOST = ("lost", "lost_io")
"""The statement was executed, and reported as an error: an unknown commit (I30)."""
_ERRORS: dict[str, tuple[int, str]] = {
    "busy": (sqlite3.SQLITE_BUSY, "database is locked"),
    "busy_snapshot": (sqlite3.SQLITE_BUSY_SNAPSHOT, "database is locked"),
    "full": (sqlite3.SQLITE_FULL, "database or disk is full"),
    "io": (sqlite3.SQLITE_IOERR_WRITE, "disk I/O error"),
    "readonly": (sqlite3.SQLITE_READONLY, "attempt to write a readonly database"),
    "corrupt": (sqlite3.SQLITE_CORRUPT, "database disk image is malformed"),
    "lost": (sqlite3.SQLITE_BUSY, "database is locked"),
    "lost_io": (sqlite3.SQLITE_IOERR_FSYNC, "disk I/O error"),
}
KINDS = (*_ERRORS, "slow")
READ_KINDS = ("busy", "io", "corrupt", "lost", "slow")


@cache
def _template() -> bytes:
    made = InlineExecutor(MEMORY)
    migrate(made.connection, subject=MEMORY)
    kept = made.connection.serialize()
    made.connection.close()
    return kept


def open_database() -> InlineExecutor:
    """A fresh migrated database in memory."""
    made = InlineExecutor(MEMORY)
    made.connection.deserialize(_template())
    made.connection.execute("PRAGMA foreign_keys = ON")
    return made


def watch_journal(database: InlineExecutor, tell: Callable[[int], None]) -> None:
    """Tells of each row of the journal as it is written; a row that is rolled back is told of again under the same number."""
    database.connection.create_function("sim_journal", 1, tell)
    database.connection.execute(
        "CREATE TEMP TRIGGER sim_journal AFTER INSERT ON main.journal BEGIN SELECT sim_journal(new.seq); END"
    )


def sqlite_trouble(kind: str) -> SerenoError:
    """What the product sees of an SQLite error of that kind."""
    number, text = _ERRORS[kind]
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = number
    error.sqlite_errorname = kind
    found = translated(error)
    found.__cause__ = error
    return found


class FaultyExecutor:
    """The executor of one life of a process: statements fail before they run, or after; they take time; the process may die in them."""

    def __init__(self, inner: InlineExecutor, process: Process, plan: Plan, book: ProcessBook, hooks: Hooks) -> None:
        self._inner, self._process, self._plan, self._book, self._point = inner, process, plan, book, hooks.point
        self._dice: Random = plan.dice(Group.STORE)
        self._true = TrueClock(process.loop)
        self.method = "read"
        """The store's method that is under way: it names the crash point."""

    async def write(self, fn: Fn[T]) -> T:
        """See `Executor.write`."""
        return await self._run(lambda: self._inner.write(fn), KINDS)

    async def join(self, fn: Joined[Item, T], item: Item) -> T:
        """See `Executor.join`."""
        return await self._run(lambda: self._inner.join(fn, item), KINDS)

    async def read(self, fn: Fn[T]) -> T:
        """See `Executor.read`."""
        return await self._run(lambda: self._inner.read(fn), READ_KINDS)

    async def peek(self, fn: Fn[T]) -> T:
        """See `Executor.peek`."""
        return await self._run(lambda: self._inner.peek(fn), READ_KINDS)

    async def close(self) -> None:
        """Others still use the connection."""

    async def _run(self, run: Callable[[], Awaitable[T]], kinds: tuple[str, ...]) -> T:
        method = self.method
        self._process.alive()
        # A hop to the writing thread: others run meanwhile.
        await asyncio.sleep(0)
        kind = self._plan.draw(Group.STORE, kinds)
        if kind is not None:
            await self._strike(method, kind)
        if kinds is KINDS:
            await self._die_in_commit(method, run)
        done = await run()
        if kind in LOST:
            raise sqlite_trouble(kind)
        await asyncio.sleep(0)
        return done

    async def _strike(self, method: str, kind: str) -> None:
        """Raises, or lets time pass."""
        self._book.store_faults.append((self._process.name, self._true.now(), f"{method}: {kind}"))
        if kind == "slow":
            await asyncio.sleep(self._dice.choice((0.2, 1.5, 4.0, 15.0)))
        elif kind == "busy":
            await asyncio.sleep(self._dice.choice((0.0, 5.0)))
        if kind not in (*LOST, "slow"):
            raise sqlite_trouble(kind)

    async def _die_in_commit(self, method: str, run: Callable[[], Awaitable[T]]) -> None:
        """The process dies while the commit is under way: it is durable, or it is not."""
        self._process.alive()
        try:
            self._point(f"store.{method}.unknown")
        except SimulatedCrash:
            if self._dice.random() < 0.5:
                await run()
            raise
