"""One seed, one world: set up, safety under faults, calm, until everything must have ended; then read back, checked and judged."""

import asyncio
import gc
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any

import structlog

from sereno.core.values import digest, from_micros
from sereno.ports import Clock
from sereno.store.definitions import Definitions
from sereno.store.reads import Reads
from sereno.testing.hooks import Hooks, SimulatedCrash
from sereno.testing.simulation.checks import violations
from sereno.testing.simulation.lived import Lived, Outcome
from sereno.testing.simulation.options import draw
from sereno.testing.simulation.outside import Outside
from sereno.testing.simulation.plan import Plan
from sereno.testing.simulation.process.database import open_database, watch_journal
from sereno.testing.simulation.process.fate import Fate
from sereno.testing.simulation.process.ground import Ground
from sereno.testing.simulation.process.host import Host, ProcessClock, TrueClock
from sereno.testing.simulation.process.lives import Compiled, Worker, plugins
from sereno.testing.simulation.process.loop import Process, WorldLoop
from sereno.testing.simulation.terms import Options, ProcessBook
from sereno.testing.simulation.visits import cells
from sereno.testing.simulation.visits.probes import probed
from sereno.testing.simulation.visits.readback import persisted, replayed
from sereno.testing.virtual import SeededIds

COLLECT_EVERY = 25
"""Worlds between two collections of cycles: in between the collector only costs time."""
MOST_ROUNDS = 400
_SET_RIGHT_S = 90_000.0
"""A clock that is further ahead stays as it is: deadlines that somebody was told by it would lie years ahead otherwise."""
_PENDING = (
    "SELECT min(due) FROM ("
    " SELECT due FROM operation WHERE state IN ('submitting', 'waiting', 'escalated') AND parked IS NULL"
    " UNION ALL SELECT due FROM delivery WHERE state IN ('queued', 'sending')"
    " UNION ALL SELECT lease_until FROM operation WHERE state IN ('submitting', 'waiting') AND lease_until IS NOT NULL)"
)
_POLLS = "SELECT min(due) FROM poll WHERE state = 'active'"


class World:
    """One world, to be run once."""

    def __init__(
        self,
        options: Options,
        *,
        plan: Plan | None = None,
        outside: Callable[[Options, Clock, Plan], Outside] = Outside,
    ) -> None:
        self._options = options
        loop = WorldLoop(options.seed)
        true, plan, book = TrueClock(loop), plan or Plan(options), ProcessBook()
        dice = Random(f"world:{options.seed}")
        host = Host(loop, book, dice.uniform(0.0, 1e6))
        self.ground = Ground(
            options=options,
            loop=loop,
            true=true,
            host=host,
            plan=plan,
            book=book,
            outside=outside(options, true, plan),
            database=open_database(),
            ids=SeededIds(options.seed, host.now),
            dice=dice,
        )
        watch_journal(self.ground.database, self.ground.journal)
        self._workers = [Worker(self.ground, number) for number in range(options.workers)]
        self._fate = Fate(self.ground, self._workers)
        self._counted_asleep = 0.0

    def run(self) -> Outcome:
        """Runs the world to its end and judges it."""
        loop = self.ground.loop
        loop.set_exception_handler(self._unhandled)
        loop.strike = self._fate.strike
        asyncio.set_event_loop(loop)
        try:
            lived = loop.run_until_complete(self._live())
            return self._judged(lived)
        finally:
            for process in self.ground.lives:
                process.bury()
            asyncio.set_event_loop(None)
            loop.close()
            self.ground.database.connection.close()

    async def _live(self) -> Lived:
        ground, began = self.ground, self.ground.true.now()
        definitions = Definitions(ground.database, clock=ground.host, ids=ground.ids)
        reads = Reads(ground.database, clock=ground.host)
        people = Process("people", ground.loop)
        ground.lives.append(people)
        known = plugins(
            ground, Hooks("people", ProcessClock(ground.host, people, timedelta(0), 0.0), lambda name: people.alive())
        )
        for_people: tuple[Any, ...] = (definitions, reads, known, ground.ids, ground.host)
        await ground.outside.populate(*for_people)
        acting = people.start(ground.outside.people(*for_people))
        hands = [ground.loop.create_task(worker.run()) for worker in self._workers]
        await self._while_awake()
        self._calm()
        acting.cancel()
        ended: tuple[Any, ...] = await asyncio.gather(acting, return_exceptions=True)
        error = ended[0]
        if error is not None and not isinstance(error, asyncio.CancelledError):
            raise RuntimeError("the people ended by themselves") from error
        await self._until_all_ended()
        lived = await self._read_back(began)
        for hand in hands:
            hand.cancel()
            await asyncio.gather(hand, return_exceptions=True)
        for process in ground.lives:
            process.dead = True
        return lived

    async def _while_awake(self) -> None:
        """The time in which faults strike."""
        await asyncio.sleep(self._options.awake_hours * 3600)

    def _calm(self) -> None:
        """Faults off, clocks right again, everybody runs."""
        ground = self.ground
        self._counted_asleep = ground.loop.asleep
        ground.plan.calm = True
        ground.book.calm_at = ground.true.now()
        ground.note("", "calm")
        ground.host.run_at(1.0)
        ahead = ground.host.ahead
        if ahead and abs(ahead) < _SET_RIGHT_S:
            ground.host.step(-ahead)
        for worker in self._workers:
            if worker.clock is not None:
                worker.clock.skew = timedelta(0)
        for process in ground.lives:
            if process.stopped and not process.dead:
                ground.loop.go_on(process)

    async def _until_all_ended(self) -> None:
        """Runs on until nothing is open; the host sleeps where the next thing falls due only much later."""
        ground, times = self.ground, self._options.times
        tick = times.tick.total_seconds()
        round_s, grace = tick + 5, 2 * times.lease.total_seconds() + tick + 60
        for _ in range(MOST_ROUNDS):
            await asyncio.sleep(round_s)
            due = await self._next_due(_PENDING)
            if due is None:
                polls = await self._next_due(_POLLS)
                if polls is None or polls >= ground.host.now():
                    break
                continue
            ahead = (due - ground.host.now()).total_seconds()
            if ahead > round_s:
                self._fate.sleep(ahead - 5)
            elif ahead < -3 * grace:
                break
        ground.note("", "everything must have ended")

    async def _next_due(self, query: str) -> datetime | None:
        row = await self.ground.database.read(lambda connection: connection.execute(query).fetchone())
        return None if row[0] is None else from_micros(row[0])

    async def _read_back(self, began: datetime) -> Lived:
        ground = self.ground
        kept = await persisted(ground.database, ground.host)
        return Lived(
            options=self._options,
            outside=ground.outside,
            processes=ground.book,
            persisted=kept,
            began=began,
            ended=ground.true.now(),
            ended_host=ground.host.now(),
            true_at=ground.true_at,
            replayed=await replayed(ground.database, ground.host, kept.operations, Compiled(ground.outside.contracts)),
        )

    def _judged(self, lived: Lived) -> Outcome:
        ground, loop = self.ground, self.ground.loop
        found = [*ground.violations, *violations(lived)]
        coverage = ground.coverage
        coverage.faults.update(ground.plan.struck)
        coverage.cells.update(cells.committed(lived.persisted))
        coverage.probes.update(probed(lived, coverage))
        on_wire = cells.requests(lived)
        return Outcome(
            options=self._options,
            violations=found,
            trace=self._trace(lived),
            hours=(loop.awake + self._counted_asleep) / 3600,
            hours_asleep=self._counted_asleep / 3600,
            steps=loop.steps,
            requests=on_wire.all,
            wasted=on_wire.wasted,
            coverage=coverage,
            log=ground.log() if found else (),
        )

    def _trace(self, lived: Lived) -> str:
        """Digest of the journal and of the books of the outside and of the processes."""
        journal = [list(row.values()) for row in lived.persisted.rows["journal"]]
        books = [cells.book_of(lived.outside), repr(lived.processes), sorted(self.ground.plan.struck.items())]
        return digest(json.dumps([journal, books], default=str).encode())

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """A task that died with its process is no news; anything else is a violation."""
        error = context.get("exception")
        if not isinstance(error, SimulatedCrash):
            self.ground.violations.append(f"an error that nobody took: {context.get('message')}: {error!r}")


_ran = 0


def run_world(seed: int, **changes: Any) -> Outcome:
    """Runs the world of one seed; `changes` replace drawn options (for shrinking)."""
    global _ran
    _ran += 1
    was, logs = gc.isenabled(), structlog.get_config()
    gc.disable()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        return World(replace(draw(seed), **changes)).run()
    finally:
        structlog.configure(**logs)
        if _ran % COLLECT_EVERY == 0:
            gc.collect()
        if was:
            gc.enable()


def shrink(seed: int, fails: Callable[[Options], bool] | None = None) -> Options:
    """The smallest options of a seed that still fail: fault kinds go one by one, then operations, then processes.

    Raises ValueError for a seed that does not fail.
    """
    wrong = fails or (lambda options: bool(World(options).run().violations))
    options = draw(seed)
    if not wrong(options):
        raise ValueError(f"seed {seed} does not fail")
    struck = World(options).run().coverage.faults
    smaller: list[Callable[[Options], Options]] = [partial(_without, kind=kind) for kind in sorted(struck)]
    smaller += [partial(_fewer, name=name) for name in ("polls", "orders", "jobs", "workers") for _ in range(6)]
    for change in smaller:
        tried = change(options)
        if tried != options and wrong(tried):
            options = tried
    return options


def _without(options: Options, kind: str) -> Options:
    return replace(options, without=options.without | {kind})


def _fewer(options: Options, name: str) -> Options:
    least = {"polls": 0, "orders": 0, "jobs": 0, "workers": 1}[name]
    return replace(options, **{name: max(least, getattr(options, name) - 1)})
