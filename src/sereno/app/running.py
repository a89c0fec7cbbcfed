"""The object that faces and programs hold: the services, and the drivers of this process."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from sereno.app.damage import NotingExecutor, is_damage, is_read_only, look_through
from sereno.app.home import Home, gone
from sereno.builtin.contracts.waiters import import_waiter
from sereno.core.errors import Unavailable
from sereno.core.record import DeliveryRecord
from sereno.core.waiting.lifecycle import LIVE
from sereno.core.work import Kind, Principal
from sereno.drivers.crew import Tally
from sereno.drivers.loop import Driver, Upkeep
from sereno.engine.kit import Kit
from sereno.outside.logs import set_up_logs
from sereno.outside.redaction import Redaction
from sereno.ports import ArtifactStore, Only, Page
from sereno.service.apply import Applied, Apply
from sereno.service.contracts import Contracts
from sereno.service.deliveries import Deliveries, Runs
from sereno.service.deps import Deps
from sereno.service.doctor import Doctor
from sereno.service.escalations import Escalations
from sereno.service.operations import Operations
from sereno.service.polls import Polls
from sereno.service.reports import Reports
from sereno.service.results import Results
from sereno.service.waiting.pools import hold_pools
from sereno.settings import Loaded
from sereno.store.open import Store

PATIENCE = timedelta(seconds=30)
"""How long a wait that is over stays for a message, or for the copy of its result, that is due a little later."""
ONCE_PATIENCE_S = 60.0
"""How long `once` bears a database that is locked or full: whatever starts it each minute must not pile up behind that."""
START_CHECK_S = 2.0
"""How long a start of the loop may take over the check of the file; a larger file is left to `sereno doctor`."""


@dataclass(slots=True)
class Sereno:
    """Everything a face or a Python program uses. Made by `open`; starts no driver by itself."""

    kit: Kit
    loaded: Loaded
    who: Principal
    redaction: Redaction
    _store: Store
    _deps: Deps
    _artifacts: ArtifactStore
    _home: Home
    _drivers: list[Driver] = field(default_factory=list)
    _start_checked: bool = False
    _pools_hold: bool = False
    """Whether the limits of the settings' pools are in the database: they are brought there before the first driver starts."""

    @property
    def polls(self) -> Polls:
        """The standing instructions."""
        return Polls(self._deps)

    @property
    def operations(self) -> Operations:
        """The jobs we wait for."""
        return Operations(self._deps)

    @property
    def results(self) -> Results:
        """What the jobs brought, as it was kept."""
        return Results(self._deps, self._artifacts)

    @property
    def escalations(self) -> Escalations:
        """The questions to people."""
        return Escalations(self._deps)

    @property
    def deliveries(self) -> Deliveries:
        """What was sent, is to be sent, or died."""
        return Deliveries(self._deps)

    @property
    def runs(self) -> Runs:
        """The run records."""
        return Runs(self._deps)

    @property
    def reports(self) -> Reports:
        """What the journal shows: decided again, checked, measured."""
        return Reports(self._deps)

    @property
    def contracts(self) -> Contracts:
        """How providers behave."""
        return Contracts(self._deps.plugins.contracts, clock=self._deps.clock, import_waiter=import_waiter)

    @property
    def doctor(self) -> Doctor:
        """Whether all is well."""
        return Doctor(self._deps, self._artifacts, self._store.mark, lambda: look_through(self._store.executor, self.kit.clock))

    async def apply(self, *, dry_run: bool = False, prune: bool = False) -> list[Applied]:
        """Brings pools and polls of the settings file into the database."""
        return list(await Apply(self._deps, self.polls).run(dry_run=dry_run, prune=prune))

    async def run(self) -> Tally:
        """The loop: runs until `stop`, or until the task is cancelled; drains on the way out.

        Raises Unavailable where the database cannot be written at the start, and where it is damaged or was taken away.
        """
        await self.check_start()
        return await self._drive(self._driver(Only()))

    async def check_start(self) -> None:
        """Raises Unavailable for a read-only or damaged database: waiting mends neither. A full or locked one may be free later.

        Much damage is met by no statement, but makes work that is due stay undone: so a file is looked through, if that is quick.
        """
        if self._start_checked:
            return
        try:
            await self._store.mark()
            await look_through(self._store.executor, self.kit.clock, START_CHECK_S)
        except Unavailable as error:
            if is_damage(error) or is_read_only(error):
                raise
        self._start_checked = True

    async def once(self) -> Tally:
        """Performs what is due now, and the effects of that, then returns.

        Raises Unavailable where the database stays locked or full, and where it is damaged.
        """
        if self._home.doubtful:
            await look_through(self._store.executor, self.kit.clock)
        only = Only(due_by=await self._deps.definitions.now())
        looked = self.kit.clock.monotonic()

        async def finished() -> bool:
            nonlocal looked
            if await self.kit.store.next_due(only) is None:
                return True
            if self.kit.clock.monotonic() - looked > ONCE_PATIENCE_S:
                # What is due and never claimed may be a row that an index names and the table has not: damage that no statement meets.
                await look_through(self._store.executor, self.kit.clock)
                looked = self.kit.clock.monotonic()
            return False

        return await self._drive(self._driver(only, patience_s=ONCE_PATIENCE_S), finished)

    async def drive_one(self, operation: str) -> None:
        """Drives one operation, under the same leases as everybody else, until it stops waiting; then its messages, each once.

        So a question or an end is told also where no other process runs, and a result is copied: its copy comes as late as a look would.
        """

        async def finished() -> bool:
            record = await self._deps.reads.operation(self.who, operation)
            return record.operation.state not in LIVE

        await self._drive(self._driver(Only(subject=operation, kinds=(Kind.OPERATION,)), slots=1), finished)
        if await finished():
            for record in await self._deps.reads.deliveries(self.who, Page(limit=1000, state="queued", subject=operation)):
                await self._try_delivery(record)

    async def _try_delivery(self, record: DeliveryRecord) -> None:
        """Tries one delivery once, unless somebody else does; what is to be tried again later stays queued."""
        delivery = record.delivery

        async def finished() -> bool:
            (now,) = await self._deps.reads.deliveries(self.who, Page(limit=1, subject=delivery.id))
            return now.delivery.attempts > delivery.attempts or now.delivery.state is not delivery.state

        patience = timedelta(0) if delivery.attempts else PATIENCE
        if record.due is not None and record.due <= await self._deps.definitions.now() + patience:
            await self._drive(self._driver(Only(subject=delivery.id, kinds=(Kind.DELIVERY,)), slots=1), finished)

    def set_up_logs(self, *, level: str, form: str) -> None:
        """Structured logs to standard error, known secrets taken out; for programs that own their process."""
        set_up_logs(self.redaction, level=level, form=form)

    def stop(self) -> None:
        """Asks every driver of this object to finish what is in hand and return."""
        for driver in self._drivers:
            driver.stop()

    def ring(self) -> None:
        """Wakes the drivers of this object: something was written."""
        for driver in self._drivers:
            driver.ring()

    @asynccontextmanager
    async def stopping_on_signals(self, draining: Callable[[int], None] | None = None) -> AsyncIterator[None]:
        """SIGTERM and SIGINT drain; a second one ends at once: leases run out, nothing is lost.

        `draining` is told once how many pieces of work are finished first.
        """
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()

        def on_signal() -> None:
            if all(driver.stopping for driver in self._drivers):
                if task is not None:
                    task.cancel()
            elif draining is not None:
                draining(sum(driver.busy for driver in self._drivers))
            self.stop()

        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, on_signal)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _driver(self, only: Only, slots: int | None = None, *, patience_s: float | None = None) -> Driver:
        worker = f"{os.uname().nodename}:{os.getpid()}"
        wanted = slots or self.loaded.settings.slots
        return Driver(self.kit, worker=worker, slots=wanted, only=only, upkeep=Upkeep(self._purge, self._trouble, patience_s))

    def _trouble(self) -> Unavailable | None:
        """Says when the database file is not the one that was opened any more (deleted, moved, replaced), or is damaged."""
        if not self._home.is_there():
            return gone(self.loaded.database)
        return self._store.executor.damage if isinstance(self._store.executor, NotingExecutor) else None

    async def _purge(self) -> None:
        await self._store.work.purge(self.loaded.settings.keep_runs)

    async def _drive(self, driver: Driver, finished: Callable[[], Awaitable[bool]] | None = None) -> Tally:
        self._drivers.append(driver)
        try:
            if not self._pools_hold:
                await hold_pools(self._deps)
                self._pools_hold = True
            return await driver.run(finished)
        finally:
            self._drivers.remove(driver)
