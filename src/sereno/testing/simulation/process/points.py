"""Crash points around every call of the store, and what a process commits, counted as cells of the transition tables."""

from collections.abc import Callable
from typing import Any, cast

from sereno.ports import WorkStore
from sereno.store.work.store import SqliteWork
from sereno.testing.simulation.process.database import FaultyExecutor

METHODS = (
    "claim",
    "snapshot",
    "commit_poll",
    "commit_delivery",
    "commit_operation",
    "park",
    "release",
    "reserve_hop",
    "check",
    "extend",
    "next_due",
    "note_clock_step",
    "purge",
)
READS = ("snapshot", "check", "next_due")
"""Methods that only read: nothing of them can be in doubt."""
POINTS = (
    *(f"store.{name}.{where}" for name in METHODS for where in ("before", "after")),
    *(f"store.{name}.unknown" for name in METHODS if name not in READS),
)


class MortalStore:
    """The store as a process sees it that may die before and after every call. It is a `WorkStore`: see `mortal`."""

    def __init__(self, inner: SqliteWork, executor: FaultyExecutor, point: Callable[[str], None]) -> None:
        for name in METHODS:
            setattr(self, name, _around(name, getattr(inner, name), executor, point))


def mortal(inner: SqliteWork, executor: FaultyExecutor, point: Callable[[str], None]) -> WorkStore:
    """Puts the crash points round a store."""
    return cast(WorkStore, MortalStore(inner, executor, point))


def _around(name: str, method: Callable[..., Any], executor: FaultyExecutor, point: Callable[[str], None]) -> Callable[..., Any]:
    before, after = f"store.{name}.before", f"store.{name}.after"

    async def around(*arguments: Any, **named: Any) -> Any:
        point(before)
        executor.method = name
        done = await method(*arguments, **named)
        point(after)
        return done

    return around
