"""Trouble of the database that does not pass by itself: damage, and a file that cannot be written. Everything else is tried again."""

import sqlite3
from collections.abc import Callable

from sereno.core.errors import SerenoError, Unavailable
from sereno.ports import Clock
from sereno.store.executor import Executor, Fn, Item, Joined, T

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
DAMAGED = "database_damaged"
CHECK_WITHIN_S = 10.0
"""How long the check of the whole file may take: a minute's cron must not pile up behind it."""
_STEPS = 100_000
"""Of SQLite's virtual machine, between two looks at the clock: some milliseconds."""


def is_damage(error: SerenoError) -> bool:
    """Whether a statement met damage (sqlite.org/rescode, SQLITE_CORRUPT and SQLITE_NOTADB), or the check found it."""
    return error.code == DAMAGED or _reason(error) in _DAMAGED


def is_read_only(error: SerenoError) -> bool:
    """Whether SQLite may not write the file at all (SQLITE_READONLY)."""
    return _reason(error) == sqlite3.SQLITE_READONLY


def _reason(error: SerenoError) -> int:
    number = getattr(error.__cause__, "sqlite_errorcode", None)
    return number & 0xFF if isinstance(number, int) else 0


class NotingExecutor:
    """The executor under it; keeps the first damage that any statement met, whoever took the error."""

    def __init__(self, inner: Executor) -> None:
        self._inner = inner
        self.damage: Unavailable | None = None

    def _note(self, error: Unavailable) -> None:
        if self.damage is None and is_damage(error):
            self.damage = error

    async def write(self, fn: Fn[T]) -> T:
        try:
            return await self._inner.write(fn)
        except Unavailable as error:
            self._note(error)
            raise

    async def join(self, fn: Joined[Item, T], item: Item) -> T:
        try:
            return await self._inner.join(fn, item)
        except Unavailable as error:
            self._note(error)
            raise

    async def read(self, fn: Fn[T]) -> T:
        try:
            return await self._inner.read(fn)
        except Unavailable as error:
            self._note(error)
            raise

    async def peek(self, fn: Fn[T]) -> T:
        try:
            return await self._inner.peek(fn)
        except Unavailable as error:
            self._note(error)
            raise

    async def close(self) -> None:
        await self._inner.close()


async def look_through(executor: Executor, clock: Clock, within_s: float = CHECK_WITHIN_S) -> bool:
    """SQLite's check of the whole file , with its indexes. False where it did not end in time. Raises Unavailable."""
    until = clock.monotonic() + within_s
    return await executor.read(lambda connection: _checked(connection, lambda: clock.monotonic() > until))


def _checked(connection: sqlite3.Connection, late: Callable[[], bool]) -> bool:
    connection.set_progress_handler(late, _STEPS)
    try:
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return False
    finally:
        connection.set_progress_handler(None, 0)
    if found != "ok":
        raise Unavailable(
            f"the database file is damaged: {str(found)[:200]}",
            hint="stop Sereno, and put a backup in its place with `sereno restore FILE`",
            code=DAMAGED,
        )
    return True
