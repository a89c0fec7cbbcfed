"""The processes of a world: each is started, dies, and is started again under a new name, on the real store and the real driver."""

import asyncio
import contextvars
from collections.abc import Mapping
from datetime import timedelta
from functools import cache

from sereno.builtin.providers.http import HttpProvider
from sereno.core.contract import Contract, Via
from sereno.core.values import Json, canonical, digest
from sereno.drivers.loop import Driver, Upkeep
from sereno.engine.kit import Kit
from sereno.outside.cel import CelConditions
from sereno.ports import Condition, Plugins
from sereno.store.reads import Reads
from sereno.store.work.store import SqliteWork
from sereno.testing.hooks import Hooks, SimulatedCrash
from sereno.testing.simulation.process.database import FaultyExecutor
from sereno.testing.simulation.process.ground import Ground
from sereno.testing.simulation.process.host import ProcessClock
from sereno.testing.simulation.process.loop import Process
from sereno.testing.simulation.process.points import mortal
from sereno.testing.simulation.terms import Death, Group
from sereno.testing.yard import Contracts

ANSWER_WITHIN = timedelta(hours=2)
"""How long a question waits for a person."""
KEEP_RUNS = timedelta(hours=6)
FUSE = (40, 400)
"""Callbacks between two looks of fate at a process."""
_COMPILED: dict[str, Contract] = {}


class Compiled(Contracts):
    """The contracts of a world; each document is compiled once for all worlds, since compiling depends on nothing else."""

    def __init__(self, inner: Contracts) -> None:
        super().__init__({})
        self._inner = inner

    def document(self, name: str) -> Mapping[str, Json]:
        """See `Contracts`."""
        return self._inner.document(name)

    def contract(self, document: Mapping[str, Json]) -> Contract:
        """See `Contracts`."""
        key = digest(canonical(dict(document)))
        if key not in _COMPILED:
            _COMPILED[key] = self._inner.contract(document)
        return _COMPILED[key]


class Conditions:
    """Each condition is compiled once for all worlds."""

    def compile(self, text: str) -> Condition:
        """See `ports.Conditions`."""
        return _condition(text)


@cache
def _condition(text: str) -> Condition:
    return CelConditions().compile(text)


def plugins(ground: Ground, hooks: Hooks) -> Plugins:
    """What one life of a process has plugged in."""
    return Plugins(
        sources=ground.outside.sources(hooks),
        actions=ground.outside.actions(hooks),
        providers={Via.HTTP: HttpProvider()},
        contracts=Compiled(ground.outside.contracts),
        conditions=Conditions(),
    )


class Worker:
    """One process of the world with all its lives."""

    def __init__(self, ground: Ground, number: int) -> None:
        self._ground, self._number = ground, number
        self.process: Process | None = None
        self.driver: Driver | None = None
        self.clock: ProcessClock | None = None
        self.context: contextvars.Context | None = None

    async def run(self) -> None:
        """Lives again and again, until it is cancelled."""
        ground, life = self._ground, 0
        while True:
            life += 1
            if not ground.plan.calm:
                # Slow starts: some come up minutes later than others.
                await asyncio.sleep(ground.dice.choice(ground.pauses) * ground.dice.random())
            await self._live(f"w{self._number}.{life}")

    async def _live(self, name: str) -> None:
        ground = self._ground
        ended = ground.loop.create_future()

        def end() -> None:
            if not ended.done():
                ended.set_result(None)

        process = Process(name, ground.loop, rate=self._rate(), born=ground.loop.awake, on_death=end)
        process.fuse = ground.dice.randint(*FUSE)
        hooks = self._hooks(process)
        self.process = process
        ground.lives.append(process)
        self.driver = Driver(self._kit(process, hooks), worker=name, slots=ground.options.slots, upkeep=self._upkeep)
        ground.note(name, "starts")
        running = process.start(self.driver.run())
        running.add_done_callback(lambda task: end())
        await ended
        if not process.dead:
            self._ended(name, running)
            process.dead = True

    def _ended(self, name: str, running: "asyncio.Task[object]") -> None:
        error = None if running.cancelled() else running.exception()
        self._ground.note(name, f"ended: {error!r}" if error is not None else "ended")
        if error is not None:
            self._ground.violations.append(f"I31 the driver {name} ended with {error!r}")

    def _rate(self) -> float:
        ground = self._ground
        if ground.plan.draw(Group.CLOCK, ("mono_rate",), share=0.2) is None:
            return 1.0
        return ground.plan.dice(Group.CLOCK).choice((0.999, 0.99, 1.001, 1.01))

    def _skew(self) -> timedelta:
        ground = self._ground
        if ground.plan.draw(Group.CLOCK, ("skew",), share=0.15) is None:
            return timedelta(0)
        dice = ground.plan.dice(Group.CLOCK)
        return timedelta(seconds=dice.choice((-86_400.0, -3_600.0, -30.0, 5.0, 400.0, 7_200.0, 315_000_000.0)) * dice.random())

    def _hooks(self, process: Process) -> Hooks:
        ground = self._ground
        self.clock = ProcessClock(ground.host, process, self._skew(), ground.dice.uniform(0.0, 1e6))
        plan, note = ground.plan, ground.note

        def point(name: str) -> None:
            process.alive()
            note(process.name, name)
            if not plan.calm and plan.dies(process.name, name):
                self._die(process, name)

        return Hooks(process.name, self.clock, point)

    def _die(self, process: Process, point: str) -> None:
        ground = self._ground
        ground.coverage.points[point] += 1
        ground.book.deaths.append(Death(process.name, ground.true.now(), point))
        ground.note(process.name, f"dies at {point}")
        process.die()
        raise SimulatedCrash(point)

    def _kit(self, process: Process, hooks: Hooks) -> Kit:
        ground = self._ground
        executor = FaultyExecutor(ground.database, process, ground.plan, ground.book, hooks)
        reads = Reads(executor, clock=ground.host)
        work = SqliteWork(executor, clock=ground.host, ids=ground.ids)
        store = mortal(work, executor, hooks.point)

        async def pinned(wanted: str) -> Mapping[str, Json]:
            executor.method = "contract"
            return await reads.contract(wanted)

        async def purge() -> None:
            await store.purge(KEEP_RUNS)  # type: ignore[attr-defined]  # not a method of the port

        self._upkeep = Upkeep(purge=purge)
        return Kit(
            store=store,
            plugins=plugins(ground, hooks),
            transport=ground.outside.transport(hooks),
            clock=hooks.clock,
            ids=ground.ids,
            times=ground.options.times,
            pinned_contract=pinned,
            answer_within=ANSWER_WITHIN,
            crash_point=hooks.point,
        )
