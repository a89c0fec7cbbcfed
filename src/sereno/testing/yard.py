"""A yard for many operations: the real service, core, engine, store and driver on virtual time, before a transport that is handed in."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from sereno.builtin.providers.catalogue import Catalogue
from sereno.builtin.providers.http import HttpProvider
from sereno.core.contract import Contract, Via
from sereno.core.record import OperationRecord
from sereno.core.values import Json
from sereno.core.work import LeaseTimes, Principal
from sereno.drivers.loop import Driver
from sereno.engine.kit import Kit
from sereno.outside.cel import CelConditions
from sereno.outside.logs import quiet_logs
from sereno.outside.redaction import Redaction
from sereno.ports import Page, Plugins, PoolLimits, Transport, WorkStore
from sereno.service.deps import Deps
from sereno.service.operations import Operations
from sereno.settings import Loaded, Settings
from sereno.store.definitions import Definitions
from sereno.store.executor import InlineExecutor
from sereno.store.open import open_store
from sereno.store.reads import Reads
from sereno.testing.virtual import SeededIds, VirtualClock

WHO = Principal(user="yard")
TIMES = LeaseTimes(tick=timedelta(seconds=10))
"""The tick is long: what is written here is written in this process, which is woken by the instants that fall due."""
PAGE = 1000


class Contracts(Catalogue):
    """The shipped contracts, and documents by name."""

    def __init__(self, documents: Mapping[str, Mapping[str, Json]]) -> None:
        super().__init__()
        self._documents = documents
        self._compiled: dict[int, Contract] = {}

    def document(self, name: str) -> Mapping[str, Json]:
        """The handed-in document of that name, else the shipped one."""
        return self._documents[name] if name in self._documents else super().document(name)

    def contract(self, document: Mapping[str, Json]) -> Contract:
        """Compiled once where it is one of the handed-in documents: registering thousands of waits compiles the same one again."""
        if not any(document is one for one in self._documents.values()):
            return super().contract(document)
        if id(document) not in self._compiled:
            self._compiled[id(document)] = super().contract(document)
        return self._compiled[id(document)]


class Yard:
    """One database in memory with everything on it that a process has. Made inside the virtual loop."""

    def __init__(
        self,
        clock: VirtualClock,
        transport: Transport,
        contracts: Contracts,
        *,
        ids: SeededIds,
        wrap: Callable[[WorkStore], WorkStore] = lambda store: store,
        answer_within: timedelta = timedelta(days=1),
    ) -> None:
        quiet_logs(Redaction())
        self.clock, self.ids = clock, ids
        self.store = open_store(":memory:", clock=clock, ids=self.ids, executor=InlineExecutor)
        self.definitions = Definitions(self.store.executor, clock=clock, ids=self.ids)
        self.reads = Reads(self.store.executor, clock=clock)
        plugins = Plugins({}, {}, {Via.HTTP: HttpProvider()}, contracts, CelConditions())
        self.deps = Deps(
            definitions=self.definitions,
            reads=self.reads,
            plugins=plugins,
            transport=transport,
            clock=clock,
            ids=self.ids,
            loaded=Loaded(Settings(), None, Path(":memory:")),
            who=WHO,
            drive_one=nobody,
        )
        self.operations = Operations(self.deps)
        self.kit = Kit(
            store=wrap(self.store.work),
            plugins=plugins,
            transport=transport,
            clock=clock,
            ids=self.ids,
            times=TIMES,
            pinned_contract=self.reads.contract,
            answer_within=answer_within,
        )
        self._driver: Driver | None = None

    async def limit(self, pool: str, rate: float | None, burst: int) -> None:
        """Sets the limits of a pool."""
        await self.definitions.set_pool(WHO, pool, PoolLimits(rate=rate, burst=burst))

    async def drive(self, seconds: float, *, slots: int = 100) -> None:
        """A process lives for so long, then drains and ends."""
        self._driver = driver = Driver(self.kit, worker="yard", slots=slots)
        running = asyncio.get_running_loop().create_task(driver.run(), name="driver")
        await self.clock.sleep(seconds)
        driver.stop()
        await running

    def ring(self) -> None:
        """Tells the driver that a row was written."""
        if self._driver is not None:
            self._driver.ring()

    async def records(self) -> Sequence[OperationRecord]:
        """All operations, newest first."""
        found: list[OperationRecord] = []
        while page := await self.reads.operations(WHO, Page(limit=PAGE, before=found[-1].operation.id if found else None)):
            found += page
        return found

    async def close(self) -> None:
        """Closes the database."""
        await self.store.close()


async def nobody(operation: str) -> None:
    """Nobody drives one operation here: `drive` drives them all."""
