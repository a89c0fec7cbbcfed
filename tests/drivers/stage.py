"""What the tests of drivers share: the real store, scripted plug-ins with books of their own, and a virtual clock."""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sereno.builtin.providers.catalogue import Catalogue
from sereno.builtin.providers.http import HttpProvider
from sereno.core.budget import Allowance
from sereno.core.change import FailedReading, Reading, SourceObject
from sereno.core.contract import Via, with_states
from sereno.core.delivery import Delivery, Outcome, OutcomeKind
from sereno.core.effect import ActionRef, Policy
from sereno.core.errors import Fault
from sereno.core.observation import HttpReply, Reply
from sereno.core.operation import fingerprint
from sereno.core.poll import PollSpec
from sereno.core.schedule import Interval
from sereno.core.values import Json
from sereno.core.work import LeaseTimes, Principal
from sereno.drivers.loop import Driver
from sereno.engine.kit import Kit
from sereno.outside.cel import CelConditions
from sereno.ports import Fetch, Guarded, NewOperation, Place, Plugins, PoolLimits
from sereno.store.definitions import Definitions
from sereno.store.executor import InlineExecutor
from sereno.store.open import Store, open_store
from sereno.store.reads import Reads
from sereno.testing.virtual import START, HandClock, SeededIds, VirtualClock

WHO = Principal()
HOST = "host:example.com"
TIMES = LeaseTimes()
AnyClock = VirtualClock | HandClock
HOUR = timedelta(hours=1)


@dataclass
class Book:
    """What the world outside saw: when (monotonic seconds) which poll was read, what was done, what was cut off."""

    reads: list[tuple[float, str]] = field(default_factory=list)
    acts: list[str] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    def reads_of(self) -> Counter[str]:
        """How often each source was read."""
        return Counter(name for _, name in self.reads)

    def sent_at(self) -> list[float]:
        """When anything was read, in order."""
        return [at for at, _ in self.reads]


class ScriptedSource:
    """Takes `seconds` to read; shows a new object each time when `news`."""

    type = "scripted"

    def __init__(self, book: Book, clock: AnyClock) -> None:
        self._book, self._clock = book, clock
        self.seconds = 0.0
        self.news = False

    def check(self, options: Mapping[str, Json], *, origin: str) -> Sequence[Fault]:
        return ()

    def place(self, options: Mapping[str, Json]) -> Place:
        return Place(HOST, str(options["name"]))

    async def read(self, options: Mapping[str, Json], cursor: str | None, guarded: Guarded) -> Reading | FailedReading:
        name = str(options["name"])
        assert guarded.before_first_byte is not None
        await guarded.before_first_byte()
        self._book.reads.append((self._clock.monotonic(), name))
        await self._clock.sleep(self.seconds)
        version = str(len(self._book.reads)) if self.news else "1"
        return Reading([SourceObject("it", version, {"version": version})], cursor=version, requests=1)


class ScriptedAction:
    """Takes `seconds`; a cancelled one is written into the book."""

    type = "scripted"
    default_policy = Policy.KEYED

    def __init__(self, book: Book, clock: AnyClock) -> None:
        self._book, self._clock = book, clock
        self.seconds = 0.0

    def check(self, options: Mapping[str, Json], *, origin: str) -> Sequence[Fault]:
        return ()

    def place(self, options: Mapping[str, Json]) -> Place:
        return Place("local:scripted", "scripted")

    async def perform(self, delivery: Delivery, guarded: Guarded) -> Outcome:
        self._book.acts.append(delivery.id)
        try:
            await self._clock.sleep(self.seconds)
        except asyncio.CancelledError:
            self._book.cancelled.append(delivery.id)
            raise
        self._book.finished.append(delivery.id)
        return Outcome(OutcomeKind.DONE)


class ScriptedTransport:
    """Answers every status request with `word`."""

    def __init__(self, book: Book, clock: AnyClock) -> None:
        self._book, self._clock = book, clock
        self.word = "running"

    async def fetch(self, request: Fetch) -> Reply:
        assert request.before_first_byte is not None
        await request.before_first_byte()
        job = request.url.rpartition("/")[2]
        self._book.reads.append((self._clock.monotonic(), job))
        body = json.dumps({"id": job, "status": self.word, "result": "https://example.com/result"}).encode()
        return HttpReply(200, (("content-type", "application/json"),), body, request.url, timedelta(seconds=0))

    async def close(self) -> None:
        return None


class Stage:
    """One database, one virtual clock, and drivers on it. Made inside the virtual loop."""

    def __init__(
        self, place: str | Path = ":memory:", *, times: LeaseTimes = TIMES, seed: int = 0, clock: AnyClock | None = None
    ) -> None:
        self.clock = clock or VirtualClock()
        self.ids = SeededIds(seed, self.clock.now)
        self.times = times
        self.place = place
        self.book = Book()
        self.source = ScriptedSource(self.book, self.clock)
        self.action = ScriptedAction(self.book, self.clock)
        self.transport = ScriptedTransport(self.book, self.clock)
        self.store = self.open()
        self.definitions = Definitions(self.store.executor, clock=self.clock, ids=self.ids)
        self.reads = Reads(self.store.executor, clock=self.clock)

    def open(self) -> Store:
        """Opens the database once more: what another process sees (a file only)."""
        return open_store(self.place, clock=self.clock, ids=self.ids, executor=InlineExecutor)

    def kit(self, store: Store | None = None, clock: AnyClock | None = None) -> Kit:
        """The engine's kit over one connection."""
        store = store or self.store
        reads = Reads(store.executor, clock=self.clock)

        async def pinned(wanted: str) -> Mapping[str, Json]:
            return await reads.contract(wanted)

        return Kit(
            store=store.work,
            plugins=Plugins(
                {"scripted": self.source}, {"scripted": self.action}, {Via.HTTP: HttpProvider()}, Catalogue(), CelConditions()
            ),
            transport=self.transport,
            clock=clock or self.clock,
            ids=self.ids,
            times=self.times,
            pinned_contract=pinned,
        )

    def driver(self, name: str = "w", *, store: Store | None = None, slots: int = 16, **more: Any) -> Driver:
        """A driver, not yet running."""
        return Driver(self.kit(store), worker=name, slots=slots, **more)

    async def drive(self, seconds: float, *drivers: Driver) -> None:
        """Runs drivers (by default one new) for a while, then stops them and waits until they are out."""
        running = [asyncio.get_running_loop().create_task(driver.run()) for driver in drivers or (self.driver(),)]
        await self.clock.sleep(seconds)
        for driver in drivers:
            driver.stop()
        if not drivers:
            running[0].cancel()
        await asyncio.gather(*running, return_exceptions=not drivers)

    async def polls(self, count: int, *, every: timedelta = HOUR, due: datetime = START, first: int = 0, **changes: Any) -> None:
        """Adds polls `p0`… on one host; `first` is the number of the first."""
        for number in range(first, first + count):
            name = f"p{number}"
            spec = PollSpec(name, "scripted", {"name": name}, Interval(every, START), **{"baseline": False, **changes})
            await self.definitions.add_poll(WHO, spec, pool=HOST, due=due, managed_by="user")

    def tell(self) -> ActionRef:
        """The scripted action."""
        return ActionRef("tell", "scripted", {}, Policy.KEYED, pool="local:scripted")

    async def operation(self, job: str = "job-1", *, requests: int = 100, deadline: timedelta = HOUR, **changes: Any) -> str:
        """Registers an operation whose first look is due now."""
        words: Mapping[str, list[str]] = {"success": ["done"], "failure": ["broken"], "pending": ["running"]}
        document = with_states(Catalogue().document("generic-status"), words, "status")
        url, now = f"https://example.com/jobs/{job}", self.clock.now()
        new = NewOperation(
            contract="generic-status",
            document=document,
            account="",
            job_id=job,
            url=url,
            parameters={},
            fingerprint=fingerprint("generic-status", "", job, url),
            allowance=Allowance(now + deadline, None, requests, 5, 5),
            pool="provider:example.com",
            first_look_at=now,
            **changes,
        )
        record, _ = await self.definitions.register(WHO, new)
        return record.operation.id

    async def limits(self, name: str = HOST, **limits: Any) -> None:
        """Sets the limits of a pool."""
        await self.definitions.set_pool(WHO, name, PoolLimits(**limits))

    async def sql(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """Runs a statement for a test that sets a stage or looks behind it."""
        return await self.store.executor.write(lambda c: [dict(row) for row in c.execute(statement, values)])
