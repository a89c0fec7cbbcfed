"""Who orders jobs in the simulation, cancels them and calls back; and what the provider's book must say of it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from sereno.builtin.providers.http import HttpProvider
from sereno.core.contract import Via
from sereno.core.errors import RequestError
from sereno.core.operation import Operation, OperationState
from sereno.outside.cel import CelConditions
from sereno.ports import Clock, DefinitionStore, Ids, Plugins, ReadStore, Transport
from sereno.service.deps import Deps
from sereno.service.operations import Operations, WantedSubmit
from sereno.settings import Loaded, Settings
from sereno.testing.outside_world import Books, Job
from sereno.testing.simulated_orders import DOCUMENTS, KEYED, MOST_CANCELS, PLAIN, WINDOW, Order
from sereno.testing.yard import WHO, Contracts, nobody


class SimulatedPeople:
    """Submits with and without a key, cancels and call-backs, through the service. They die with nobody: each act is one transaction."""

    def __init__(self, definitions: DefinitionStore, reads: ReadStore, transport: Transport, *, clock: Clock, ids: Ids) -> None:
        plugins = Plugins({}, {}, {Via.HTTP: HttpProvider()}, Contracts(DOCUMENTS), CelConditions())
        loaded = Loaded(Settings(), None, Path(":memory:"))
        self._clock = clock
        self._operations = Operations(Deps(definitions, reads, plugins, transport, clock, ids, loaded, who=WHO, drive_one=nobody))
        self.refs: dict[str, str] = {}
        """What the provider's book knows an operation by."""
        self.cancels: Counter[str] = Counter()
        self.pushes = 0

    async def order(self, count: int, dice: Random) -> None:
        """Submits so many jobs."""
        for number in range(count):
            name = dice.choice((KEYED, PLAIN))
            ref = f"{name}-{number}"
            found = await self._operations.submit(WantedSubmit(name, {"ref": ref}, actions=()))
            self.refs[found.record.operation.id] = ref

    async def disturb(self, dice: Random) -> None:
        """Cancels a job, or hands in a call-back, now and then, until it is ended."""
        while True:
            await self._clock.sleep(dice.uniform(10.0, 90.0))
            operation = dice.choice(list(self.refs))
            try:
                if dice.random() < 0.3:
                    await self._operations.cancel(operation)
                    self.cancels[operation] += 1
                else:
                    await self._operations.push(operation)
                    self.pushes += 1
            except RequestError:
                continue  # it has ended, or asks a person

    def violations(self, operations: Sequence[Operation], books: Books) -> Iterator[str]:
        """I17, W21, W24, W33, W30: what orders and cancels may have done, whoever died."""
        for operation in operations:
            order = books.orders.get(self.refs.get(operation.id, ""))
            if order is not None:
                yield from _ordered(operation, order)
            if not operation.job_id and operation.spend.status_requests:
                yield f"W33 {operation.id}: {operation.spend.status_requests} status requests counted, and there was no job"
            job = books.jobs.get(operation.job_id)
            if job is not None:
                yield from self._cancelled(operation, job)

    def _cancelled(self, operation: Operation, job: Job) -> Iterator[str]:
        most = self.cancels[operation.id] * MOST_CANCELS.get(operation.contract, 0)
        if len(job.cancelled_at) > most:
            yield f"W24 {job.id}: {len(job.cancelled_at)} cancels arrived, {self.cancels[operation.id]} were asked for"


def _ordered(operation: Operation, order: Order) -> Iterator[str]:
    """A submit takes effect once a key, and at most once where no key is honoured."""
    if len(order.jobs) > 1:
        yield f"I17 {order.ref}: {len(order.jobs)} jobs were started"
    if len(order.keys) > 1 or len(order.bodies) > 1:
        yield f"I17 {order.ref}: {len(order.keys)} keys, {len(order.bodies)} bodies"
    if order.ref.startswith(PLAIN) and len(order.arrivals) > 1:
        yield f"W21 {order.ref}: submitted {len(order.arrivals)} times without a key"
    if order.arrivals[-1] >= order.arrivals[0] + WINDOW:
        yield f"W21 {order.ref}: submitted again after the provider forgot its key"
    if order.arrivals[-1] >= operation.allowance.stops_at()[0]:
        yield f"W32 {order.ref}: submitted after the deadline"


def kept_once(operations: Sequence[Operation], kept: Counter[str]) -> Iterator[str]:
    """W30: what succeeded under a contract that keeps results was kept, once. `kept` counts by operation."""
    for operation in operations:
        wanted = operation.contract in DOCUMENTS and operation.state is OperationState.SUCCEEDED
        if kept[operation.id] != wanted:
            yield f"W30 {operation.id}: {operation.state}, and its result was kept {kept[operation.id]} times"
