"""Grounds: a store that the state machine can be played on, whatever its dialect.

A second dialect brings one more function that opens a ground; the machine and its model stay as they are.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sereno.core.errors import Unavailable
from sereno.ports import DefinitionStore, ReadStore, WorkStore
from sereno.store.executor import InlineExecutor, Joined
from sereno.store.open import open_store
from tests.store.seeding import CountedIds, HandClock

T = TypeVar("T")
BEFORE, AFTER = "before", "after"
"""Where the database goes away: nothing was done, or all was done and nobody was told. A number: at that statement of the write."""
Trouble = str | int


@dataclass
class TwoClocks(HandClock):
    """A wall clock that can be set, beside one that only counts."""

    seconds: float = 0.0

    def monotonic(self) -> float:
        return self.seconds


class Ground(Protocol):
    """One opened store with its hand-moved clock."""

    clock: TwoClocks

    @property
    def work(self) -> WorkStore: ...

    @property
    def definitions(self) -> DefinitionStore: ...

    @property
    def reads(self) -> ReadStore: ...

    def do(self, asked: Coroutine[Any, Any, T]) -> T:
        """Runs one call of the store to its end."""
        ...

    def trouble(self, kind: Trouble | None) -> None:
        """The next write meets this trouble, once."""
        ...

    def lost(self) -> Any:
        """What the write answered whose answer was lost."""
        ...

    def reopen(self) -> bool:
        """Ends the process and starts another on the same database; False where nothing would be left."""
        ...

    def close(self) -> None: ...


Opened = Callable[[], Ground]


class Cut:
    """A connection that goes away at its n-th statement."""

    def __init__(self, inner: sqlite3.Connection, at: int) -> None:
        self._inner, self._left = inner, at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def execute(self, *asked: Any) -> sqlite3.Cursor:
        if self._left <= 0:
            raise Unavailable("the database went away", code="database_unavailable")
        self._left -= 1
        return self._inner.execute(*asked)


class Shaky(InlineExecutor):
    """An executor whose next write may go wrong: before it, at a statement inside it, or after its commit."""

    kind: Trouble | None = None
    answered: Any = None

    async def write(self, fn: Callable[[sqlite3.Connection], T]) -> T:
        kind, self.kind = self.kind, None
        self._refuse(kind)
        result = await super().write(lambda connection: fn(_cut(connection, kind)))
        return self._told(kind, result)

    async def join(self, fn: Joined[Any, T], item: Any) -> T:
        kind, self.kind = self.kind, None
        self._refuse(kind)

        def joined(connection: sqlite3.Connection, items: Sequence[Any]) -> Sequence[T | Exception]:
            return fn(_cut(connection, kind), items)

        return self._told(kind, await super().join(joined, item))

    def _refuse(self, kind: Trouble | None) -> None:
        if kind == BEFORE:
            raise Unavailable("the database is not there", code="database_unavailable")

    def _told(self, kind: Trouble | None, result: T) -> T:
        if kind != AFTER:
            return result
        self.answered = result
        raise Unavailable("the answer of the database was lost", code="database_unavailable")


def _cut(connection: sqlite3.Connection, kind: Trouble | None) -> Any:
    return Cut(connection, kind) if isinstance(kind, int) else connection


@dataclass
class SqliteGround:
    """SQLite at a path, run inline: no call of it waits for anything."""

    path: str = ":memory:"
    folder: str | None = None
    clock: TwoClocks = field(default_factory=TwoClocks)
    ids: CountedIds = field(default_factory=CountedIds)

    def __post_init__(self) -> None:
        self._open()

    def _open(self) -> None:
        # In memory the executor is always the plain one: it is given its other class here, which has no more fields than that.
        self.store = open_store(self.path, clock=self.clock, ids=self.ids, executor=Shaky)
        assert isinstance(self.store.executor, InlineExecutor)
        self.store.executor.__class__ = Shaky
        self.work, self.definitions, self.reads = self.store.work, self.store.definitions, self.store.reads

    def do(self, asked: Coroutine[Any, Any, T]) -> T:
        try:
            asked.send(None)
        except StopIteration as end:
            found: T = end.value
            return found
        raise AssertionError("an inline store never waits")

    @property
    def shaky(self) -> Shaky:
        assert isinstance(self.store.executor, Shaky)
        return self.store.executor

    def trouble(self, kind: Trouble | None) -> None:
        self.shaky.kind = kind

    def lost(self) -> Any:
        return self.shaky.answered

    def reopen(self) -> bool:
        if self.folder is None:
            return False
        self.do(self.store.close())
        self._open()
        return True

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self.do(self.store.close())
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def in_memory() -> Ground:
    """A store in memory."""
    return SqliteGround()


def on_a_file() -> Ground:
    """A store on a file of its own."""
    folder = tempfile.mkdtemp(prefix="sereno-stateful-")
    return SqliteGround(str(Path(folder) / "sereno.db"), folder)
