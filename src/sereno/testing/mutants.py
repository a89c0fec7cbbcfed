"""Planted bugs: stores that break one rule each. A harness that does not find them proves nothing."""

from collections.abc import Callable
from dataclasses import replace
from sqlite3 import Connection
from typing import Any

from sereno.core.operation import OperationDecision
from sereno.core.work import DeliveryWork, LeaseTimes, OperationWork, PollWork, Work, subject_of
from sereno.ports import Claimed, Only
from sereno.store.work.store import SqliteWork

_TABLES = {PollWork: "poll", DeliveryWork: "delivery", OperationWork: "operation"}


class CountAfterSend:
    """Breaks I2: the request is counted when the answer is committed, not before it leaves."""

    def __init__(self, inner: SqliteWork) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def claim(self, *, worker: str, limit: int, times: LeaseTimes, only: Only | None = None) -> Claimed:
        """Claims, then takes the reservation back."""
        claimed = await self._inner.claim(worker=worker, limit=limit, times=times, only=only)
        for work in claimed.works:
            if isinstance(work, OperationWork) and work.operation.reserved:
                await _count(self._inner, work, -1)
        return claimed

    async def commit_operation(self, work: OperationWork, decision: OperationDecision) -> None:
        """Commits, and counts now what was sent before."""
        await self._inner.commit_operation(work, decision)
        if work.operation.reserved and decision.observation is not None:
            await _count(self._inner, work, 1)


class NoFence:
    """Breaks I8: a commit goes through whoever holds the work by now."""

    def __init__(self, inner: SqliteWork) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def commit_operation(self, work: OperationWork, decision: OperationDecision) -> None:
        """Commits under the fence of today's owner."""
        await self._inner.commit_operation(await self._forged(work), decision)

    async def check(self, work: Work, times: LeaseTimes) -> Any:
        """Never finds that the lease was lost."""
        return await self._inner.check(await self._forged(work), times)

    async def _forged(self, work: Any) -> Any:
        table = _TABLES[type(work)]

        def current(connection: Connection) -> tuple[int, int]:
            row = connection.execute(f"SELECT run, revision FROM {table} WHERE id = ?", (subject_of(work),)).fetchone()
            return row[0], row[1]

        run, revision = await self._inner._executor.read(current)
        return replace(work, lease=replace(work.lease, run=run, revision=revision))


async def _count(store: SqliteWork, work: OperationWork, by: int) -> None:
    def change(connection: Connection) -> None:
        connection.execute(
            "UPDATE operation SET status_requests_used = status_requests_used + ? WHERE id = ?", (by, work.operation.id)
        )

    await store._executor.write(change)


MUTANTS: dict[str, Callable[[SqliteWork], object]] = {"count-after-send": CountAfterSend, "no-fence": NoFence}
