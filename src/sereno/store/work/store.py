"""The work side of the store on SQLite: what engine and drivers call, each a transaction on the executor."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sereno.core.change import KnownObject
from sereno.core.delivery import DeliveryDecision
from sereno.core.observation import Observation
from sereno.core.operation import OperationDecision
from sereno.core.poll import PollDecision
from sereno.core.values import from_micros
from sereno.core.work import DeliveryWork, Lease, LeaseTimes, OperationWork, PollWork, Work
from sereno.ports import Claimed, Clock, Ids, Only
from sereno.store.codec import instant, span_us
from sereno.store.executor import Executor
from sereno.store.work import lease
from sereno.store.work.claim import next_due
from sereno.store.work.clock.instant import HostTime
from sereno.store.work.clock.steps import note_step
from sereno.store.work.deliveries import commit_delivery
from sereno.store.work.operations import OperationCommit, commit_operation
from sereno.store.work.polls import PollCommit, commit_polls
from sereno.store.work.purge import purge_runs
from sereno.store.work.snapshot import snapshot
from sereno.store.work.take import Ask, Specs, claim

KEEP_RUNS = timedelta(days=30)


class SqliteWork:
    """`ports.WorkStore`. The instant of every transaction is read inside it, from this host's clock."""

    def __init__(self, executor: Executor, *, clock: Clock, ids: Ids) -> None:
        self._executor = executor
        self._time = HostTime(clock)
        self._ids = ids
        self._specs: Specs = {}

    def _enter(self, connection: sqlite3.Connection) -> int:
        """The instant of a write; where the clock was set, what is open is moved first."""
        return self._time.enter(connection).now

    async def claim(self, *, worker: str, limit: int, times: LeaseTimes, only: Only | None = None) -> Claimed:
        """See `ports.WorkStore.claim`."""
        ask = Ask(worker=worker, limit=limit, times=times, only=only, specs=self._specs)

        def claimed(connection: sqlite3.Connection) -> Claimed:
            reading = self._time.enter(connection)
            found = claim(connection, reading.now, ask)
            if found.works:
                self._time.keep(connection, reading)
            return found

        return await self._executor.write(claimed)

    async def snapshot(self, work: PollWork) -> Mapping[str, KnownObject]:
        """See `ports.WorkStore.snapshot`."""
        return await self._executor.read(lambda connection: snapshot(connection, work))

    async def commit_poll(self, work: PollWork, decision: PollDecision) -> None:
        """See `ports.WorkStore.commit_poll`; runs that are committed at the same time are written together."""
        await self._executor.join(self._commit_polls, PollCommit(work, decision, self._new_ids(len(decision.effects))))

    def _commit_polls(self, connection: sqlite3.Connection, commits: Sequence[PollCommit]) -> Sequence[None | Exception]:
        return commit_polls(connection, commits, self._enter(connection))

    def _new_ids(self, count: int) -> list[str]:
        return [self._ids.new("dlv_") for _ in range(count)]

    async def commit_delivery(self, work: DeliveryWork, decision: DeliveryDecision) -> None:
        """See `ports.WorkStore.commit_delivery`."""
        await self._executor.write(lambda connection: commit_delivery(connection, work, decision, self._enter(connection)))

    async def commit_operation(self, work: OperationWork, decision: OperationDecision) -> None:
        """See `ports.WorkStore.commit_operation`."""
        commit = OperationCommit(work, decision, self._new_ids(len(decision.effects)))
        await self._executor.write(lambda connection: commit_operation(connection, commit, self._enter(connection)))

    async def park(self, work: Work, *, reason: str, observation: Observation | None = None) -> None:
        """See `ports.WorkStore.park`."""
        await self._executor.write(lambda connection: lease.park(connection, work, reason, observation, self._enter(connection)))

    async def release(self, work: Work) -> None:
        """See `ports.WorkStore.release`."""
        await self._executor.write(lambda connection: lease.release(connection, work, self._enter(connection)))

    async def reserve_hop(self, work: Work, origin: str) -> bool:
        """See `ports.WorkStore.reserve_hop`."""
        return await self._executor.write(lambda connection: lease.reserve_hop(connection, work, origin, self._enter(connection)))

    async def check(self, work: Work, times: LeaseTimes) -> datetime:
        """See `ports.WorkStore.check`."""

        def checked(connection: sqlite3.Connection) -> int:
            now = self._time.now()
            lease.check(connection, work, now)
            return now

        return from_micros(await self._executor.read(checked))

    async def extend(self, work: Work, times: LeaseTimes) -> Lease:
        """See `ports.WorkStore.extend`."""

        def extended(connection: sqlite3.Connection) -> int:
            until = self._enter(connection) + span_us(times.lease)
            lease.extend(connection, work, until)
            return until

        until = from_micros(await self._executor.write(extended))
        return replace(work.lease, until=until)

    async def next_due(self, only: Only | None = None) -> datetime | None:
        """See `ports.WorkStore.next_due`."""
        return instant(await self._executor.read(lambda connection: next_due(connection, self._time.now(), only)))

    async def note_clock_step(self, seconds: float) -> None:
        """See `ports.WorkStore.note_clock_step`."""
        await self._executor.write(lambda connection: note_step(connection, self._enter(connection), seconds))

    async def purge(self, keep: timedelta = KEEP_RUNS) -> int:
        """Deletes a batch of closed runs older than `keep`; returns how many."""
        return await self._executor.write(lambda connection: purge_runs(connection, self._enter(connection) - span_us(keep)))
