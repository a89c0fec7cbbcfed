"""The store as `service` writes definitions and people's decisions: each method is one transaction with its journal row."""

from collections.abc import Callable
from datetime import datetime
from sqlite3 import Connection
from typing import TypeVar

from sereno.core.poll import PollSpec, PollState
from sereno.core.record import DeliveryRecord, OperationRecord, PollRecord
from sereno.core.values import from_micros
from sereno.core.work import Principal
from sereno.ports import AnswerRule, Change, Clock, Given, Ids, NewOperation, PoolLimits
from sereno.store.definitions import changes, deliveries, escalations, operations, polls, pool_limits
from sereno.store.definitions.request import Request
from sereno.store.executor import Executor
from sereno.store.reads import pages
from sereno.store.work.clock.instant import HostTime

T = TypeVar("T")


class Definitions:
    """`ports.DefinitionStore` on SQLite. The clock is read inside each transaction: it is the database's instant there."""

    def __init__(self, executor: Executor, *, clock: Clock, ids: Ids) -> None:
        self._executor = executor
        self._time = HostTime(clock)
        self._ids = ids

    async def _write(self, who: Principal, change: Callable[[Request], T]) -> T:
        def inside(connection: Connection) -> T:
            return change(Request(connection, who, from_micros(self._time.enter(connection).now), self._ids))

        return await self._executor.write(inside)

    async def now(self) -> datetime:
        """The database's instant."""
        return from_micros(self._time.now())

    async def add_poll(self, who: Principal, spec: PollSpec, *, pool: str, due: datetime, managed_by: str) -> PollRecord:
        """Stores a poll. Raises AlreadyExists for a taken name and says whose it is."""
        plan = polls.Plan(pool, due, managed_by)
        return await self._write(who, lambda request: _poll(request, polls.add(request, spec, plan)))

    async def edit_poll(  # noqa: PLR0913 - the port's signature
        self, who: Principal, name: str, spec: PollSpec, *, pool: str, due: datetime, managed_by: str, reconsider: bool = False
    ) -> PollRecord:
        """Replaces a definition; see `polls.edit`. Raises NotFound, NotAllowed (of another owner), AlreadyExists."""
        plan = polls.Plan(pool, due, managed_by)
        return await self._write(
            who, lambda request: _poll(request, polls.edit(request, name, spec, plan, reconsider=reconsider))
        )

    async def set_poll_state(self, who: Principal, name: str, state: PollState, *, due: datetime | None) -> PollRecord:
        """Pauses, resumes, ends, disables or removes; see `polls.set_state`. Raises NotFound."""
        return await self._write(who, lambda request: _poll(request, polls.set_state(request, name, state, due)))

    async def poll_due_now(self, who: Principal, name: str) -> PollRecord:
        """Makes an active poll due at once. Raises NotFound, NotNow (not active, or a run is under way)."""
        return await self._write(who, lambda request: _poll(request, polls.due_now(request, name)))

    async def register(self, who: Principal, new: NewOperation) -> tuple[OperationRecord, bool]:
        """Stores an operation, or returns the open one; see `operations.register`. Raises NotNow, RequestError."""

        def inside(request: Request) -> tuple[OperationRecord, bool]:
            operation, is_new = operations.register(request, new)
            return _operation(request, operation), is_new

        return await self._write(who, inside)

    async def answer(self, who: Principal, escalation: str, given: Given, decide: AnswerRule) -> OperationRecord:
        """Records an answer once; see `escalations.answer`. Raises NotFound, NotNow, NotAllowed."""
        return await self._write(who, lambda request: _operation(request, escalations.answer(request, escalation, given, decide)))

    async def change_operation(self, who: Principal, operation: str, change: Change) -> OperationRecord:
        """Records a change that no question asked for; see `changes.change`. Raises NotFound, NotNow, NotAllowed."""
        return await self._write(who, lambda request: _operation(request, changes.change(request, operation, change)))

    async def retry_delivery(self, who: Principal, delivery: str) -> DeliveryRecord:
        """Queues a dead or ambiguous delivery again under the same key. Raises NotFound, NotNow."""
        return await self._write(who, lambda request: _delivery(request, deliveries.retry(request, delivery)))

    async def drop_delivery(self, who: Principal, delivery: str) -> DeliveryRecord:
        """Closes a queued, dead or ambiguous delivery unsent. Raises NotFound, NotNow."""
        return await self._write(who, lambda request: _delivery(request, deliveries.drop(request, delivery)))

    async def set_pool(self, who: Principal, name: str, limits: PoolLimits) -> None:
        """Sets a pool's limits; equal ones change nothing. Raises RequestError for limits that allow nothing."""
        await self._write(who, lambda request: pool_limits.set_pool(request, name, limits))


def _poll(request: Request, poll: str) -> PollRecord:
    return pages.one_poll(request.connection, request.workspace, poll)


def _operation(request: Request, operation: str) -> OperationRecord:
    return pages.one_operation(request.connection, request.workspace, operation)


def _delivery(request: Request, delivery: str) -> DeliveryRecord:
    return pages.one_delivery(request.connection, request.workspace, delivery)
