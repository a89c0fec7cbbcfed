"""Deliveries and runs as people look at them; dead letters are retried or dropped by a person."""

from collections.abc import Sequence

from sereno.core.errors import NotFound, RequestError
from sereno.core.record import DeliveryRecord, RunRecord
from sereno.ports import Page
from sereno.service.deps import Deps


class Deliveries:
    """The use cases of deliveries, for one principal."""

    def __init__(self, deps: Deps):
        self._deps = deps

    async def list(self, *, state: str | None = None, subject: str | None = None, limit: int = 100) -> Sequence[DeliveryRecord]:
        """Deliveries, newest first."""
        return await self._deps.reads.deliveries(self._deps.who, Page(limit=limit, state=state, subject=subject))

    async def retry(self, delivery: str) -> DeliveryRecord:
        """Queues a dead or ambiguous delivery again, under the same key. Raises NotFound, NotNow."""
        record = await self._deps.definitions.retry_delivery(self._deps.who, delivery)
        self._deps.ring()
        return record

    async def drop(self, delivery: str) -> DeliveryRecord:
        """Closes a delivery without sending. Raises NotFound, NotNow."""
        return await self._deps.definitions.drop_delivery(self._deps.who, delivery)


class Runs:
    """The run records (P06, O04)."""

    def __init__(self, deps: Deps):
        self._deps = deps

    async def list(self, subject: str | None = None, *, limit: int = 50, before: str | None = None) -> Sequence[RunRecord]:
        """Runs, newest first; `subject` is a poll's name or id, an operation or a delivery."""
        if subject is not None and not subject.startswith(("poll_", "op_", "dlv_")):
            subject = (await self._deps.reads.poll(self._deps.who, subject)).poll.id
        return await self._deps.reads.runs(self._deps.who, Page(limit=limit, before=before, subject=subject))

    async def same_instant(self, record: RunRecord) -> Sequence[RunRecord]:
        """The other tries at the same due instant, newest first, among the runs around it: whether it ran twice."""
        number = int(record.id.rpartition(".")[2])
        page = Page(limit=50, before=f"{record.subject}.{number + 25}", subject=record.subject)
        near = await self._deps.reads.runs(self._deps.who, page)
        return [run for run in near if run.id != record.id and run.scheduled_for == record.scheduled_for]

    async def get(self, run: str) -> tuple[RunRecord, Sequence[DeliveryRecord]]:
        """One run by `SUBJECT.NUMBER`, with the deliveries of its subject made while it ran. Raises NotFound."""
        subject, dot, number = run.rpartition(".")
        if not dot or not number.isascii() or not number.isdigit():
            raise RequestError(f"{run} is not a run id", hint="run ids look like poll_….12")
        after = f"{subject}.{int(number) + 1}"
        found = await self._deps.reads.runs(self._deps.who, Page(limit=1, before=after, subject=subject))
        if not found or found[0].id != run:
            raise NotFound(f"no run {run}", subject=run, hint="old runs are removed after `keep_runs`")
        deliveries = await self._deps.reads.deliveries(self._deps.who, Page(limit=1000, subject=subject))
        record = found[0]
        end = record.finished_at
        mine = [
            item
            for item in deliveries
            if record.started_at <= item.delivery.created_at and (end is None or item.delivery.created_at <= end)
        ]
        return record, mine
