"""Planted bugs of one process: what a decision says is changed right before it is committed, or a limit is looked past.

They break a rule that a provider's book shows. A proof that does not find them proves nothing.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random
from sqlite3 import Connection
from typing import Any

from sereno.core.operation import OperationDecision, OperationState
from sereno.core.waiting.look import FROM_PROVIDER
from sereno.core.work import LeaseTimes, OperationWork
from sereno.ports import Claimed, Only, WorkStore
from sereno.testing.virtual import SeededIds

Wrap = Callable[[WorkStore], Any]


class _Wrapped:
    """The store, but for what a subclass changes."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def _sql(self, statement: str, *values: Any) -> None:
        def change(connection: Connection) -> None:
            connection.execute(statement, values)

        await self._inner._executor.write(change)


class WaitIgnored(_Wrapped):
    """Breaks I4: the next look is planned as if the provider had asked for no wait."""

    async def commit_operation(self, work: OperationWork, decision: OperationDecision) -> None:
        """Commits an earlier plan where the wait was the provider's."""
        waits = decision.state is OperationState.WAITING and decision.delay_source in FROM_PROVIDER
        if waits and decision.next_poll_at is not None:
            soon = decision.received_at + timedelta(seconds=6)
            decision = replace(decision, next_poll_at=min(soon, decision.next_poll_at), due=soon)
        await self._inner.commit_operation(work, decision)


class GapIgnored(_Wrapped):
    """Breaks I6: each of the first looks is followed by one a second later."""

    async def commit_operation(self, work: OperationWork, decision: OperationDecision) -> None:
        """Commits a plan below the smallest gap."""
        if decision.next_poll_at is not None and decision.escalation is None and decision.spend.answered < 5:
            soon = decision.received_at + timedelta(seconds=1)
            decision = replace(decision, next_poll_at=soon, due=soon)
        await self._inner.commit_operation(work, decision)


class GivenBack(_Wrapped):
    """Breaks I1: a request that was sent is given back."""

    async def commit_operation(self, work: OperationWork, decision: OperationDecision) -> None:
        """Commits, and takes one off the counter."""
        await self._inner.commit_operation(work, decision)
        if work.operation.reserved and decision.observation is not None and decision.observation.requests > 0:
            taken = (
                "UPDATE operation SET status_requests_used = status_requests_used - 1 WHERE id = ? AND status_requests_used > 0"
            )
            await self._sql(taken, work.operation.id)


class LimitIgnored(_Wrapped):
    """Breaks I7: a claim finds every pool's bucket full."""

    async def claim(self, *, worker: str, limit: int, times: LeaseTimes, only: Only | None = None) -> Claimed:
        """Fills the buckets, then claims."""
        await self._sql("UPDATE pool SET tat = 0")
        claimed: Claimed = await self._inner.claim(worker=worker, limit=limit, times=times, only=only)
        return claimed


class SameDraw(SeededIds):
    """Breaks W29: every decision draws the same."""

    def random(self, label: str) -> Random:
        """One generator for all, made anew each time."""
        return Random(1)
