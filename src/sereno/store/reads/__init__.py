"""The store as faces read it: pages and counts, one snapshot a call, one workspace a principal."""

from collections.abc import Mapping, Sequence

from sereno.core.escalation import Escalation
from sereno.core.record import (
    CallRecord,
    ChangeRecord,
    Counts,
    DeliveryRecord,
    JournalEntry,
    OperationRecord,
    PollRecord,
    RunRecord,
    StepRecord,
)
from sereno.core.values import Json
from sereno.core.work import Principal
from sereno.ports import Clock, Page
from sereno.store.executor import Executor
from sereno.store.reads import counts, pages, steps


class Reads:
    """`ports.ReadStore` on SQLite. By the clock, an open question whose time is over shows as expired."""

    def __init__(self, executor: Executor, *, clock: Clock) -> None:
        self._executor = executor
        self._clock = clock

    async def poll(self, who: Principal, name_or_id: str) -> PollRecord:
        """One poll with its snapshot; removed ones by id only. Raises NotFound with the nearest name."""
        return await self._executor.read(lambda connection: pages.one_poll(connection, who.workspace, name_or_id))

    async def polls(self, who: Principal, page: Page) -> Sequence[PollRecord]:
        """Polls without their snapshots, newest first; removed ones only where `page.state` asks for them."""
        return await self._executor.read(lambda connection: pages.polls(connection, who.workspace, page))

    async def operation(self, who: Principal, operation: str) -> OperationRecord:
        """One operation with its open question. Raises NotFound."""
        return await self._executor.read(lambda connection: pages.one_operation(connection, who.workspace, operation))

    async def operations(self, who: Principal, page: Page) -> Sequence[OperationRecord]:
        """Operations, newest first; `page.state` = `open` means submitting, waiting or escalated."""
        return await self._executor.read(lambda connection: pages.operations(connection, who.workspace, page))

    async def escalation(self, who: Principal, escalation: str) -> Escalation:
        """One question. Raises NotFound."""
        now = self._clock.now()
        return await self._executor.read(lambda connection: pages.one_escalation(connection, who.workspace, escalation, now))

    async def escalations(self, who: Principal, page: Page) -> Sequence[Escalation]:
        """Questions, newest first; `page.subject` is an operation."""
        now = self._clock.now()
        return await self._executor.read(lambda connection: pages.escalations(connection, who.workspace, page, now))

    async def deliveries(self, who: Principal, page: Page) -> Sequence[DeliveryRecord]:
        """Deliveries, newest first; `page.subject` is what they speak of, or a delivery itself."""
        return await self._executor.read(lambda connection: pages.deliveries(connection, who.workspace, page))

    async def runs(self, who: Principal, page: Page) -> Sequence[RunRecord]:
        """Runs, newest first; `page.subject` is a poll, operation or delivery, `page.before` a run id."""
        return await self._executor.read(lambda connection: pages.runs(connection, who.workspace, page))

    async def journal(self, who: Principal, subject: str, after: int = 0, limit: int = 1000) -> Sequence[JournalEntry]:
        """What happened to one subject, oldest first, from sequence number `after` on."""
        return await self._executor.read(lambda connection: pages.journal(connection, who.workspace, subject, (after, limit)))

    async def calls(self, who: Principal, operation: str) -> Sequence[CallRecord]:
        """The submit and the cancels of one operation, oldest first."""
        return await self._executor.read(lambda connection: pages.calls(connection, who.workspace, operation))

    async def steps(self, who: Principal, operation: str) -> Sequence[StepRecord]:
        """The committed steps of one operation, oldest first; see `steps.steps`."""
        return await self._executor.read(lambda connection: steps.steps(connection, who.workspace, operation))

    async def changes(self, who: Principal, operation: str) -> Sequence[ChangeRecord]:
        """What was decided beside the steps of one operation, oldest first; see `steps.changes`."""
        return await self._executor.read(lambda connection: steps.changes(connection, who.workspace, operation))

    async def contract(self, digest: str) -> Mapping[str, Json]:
        """A pinned contract document. Raises NotFound."""
        return await self._executor.read(lambda connection: pages.contract(connection, digest))

    async def counts(self, who: Principal) -> Counts:
        """Everything `doctor` and the live view count, in one snapshot."""
        now = self._clock.now()
        return await self._executor.read(lambda connection: counts.count(connection, who.workspace, now))
