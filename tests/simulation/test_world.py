"""The parts of a simulated world: its loop, its clocks, its failing database, its points, and how it is shrunk."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest

from sereno.core.errors import Unavailable
from sereno.testing.hooks import Hooks, SimulatedCrash
from sereno.testing.simulation.options import draw
from sereno.testing.simulation.plan import Plan
from sereno.testing.simulation.process.database import _ERRORS, FaultyExecutor, open_database, sqlite_trouble
from sereno.testing.simulation.process.fate import Fate
from sereno.testing.simulation.process.host import Host, ProcessClock, TrueClock
from sereno.testing.simulation.process.loop import Process, WorldLoop
from sereno.testing.simulation.required import required
from sereno.testing.simulation.terms import Group, Options, ProcessBook
from sereno.testing.simulation.world import World, shrink
from sereno.testing.virtual import START, Deadlock


def run(main: Callable[[WorldLoop], Coroutine[Any, Any, Any]], seed: int = 1) -> Any:
    """Runs a coroutine on a fresh loop; errors of callbacks are kept quiet."""
    loop = WorldLoop(seed)
    loop.set_exception_handler(lambda loop, context: None)
    try:
        return loop.run_until_complete(main(loop))
    finally:
        loop.close()


async def ticking(loop: WorldLoop, seen: list[float], every: float) -> None:
    """Writes down its own time, again and again."""
    while True:
        seen.append(loop.time())
        await TrueClock(loop).sleep(every)


def test_dead_process_never_runs_again() -> None:
    """Callbacks and timers of a process that was killed are dropped, also those that were ready."""

    async def main(loop: WorldLoop) -> tuple[int, int]:
        process, seen = Process("w0.1", loop), list[float]()
        process.start(ticking(loop, seen, 1.0))
        await TrueClock(loop).sleep(5.5)
        process.die()
        before = len(seen)
        await TrueClock(loop).sleep(50)
        process.bury()
        return before, len(seen)

    assert run(main) == (6, 6)


def test_stopped_process_goes_on_with_what_came_due() -> None:
    """While a process is stopped nothing of it runs; its monotonic time goes on; then what came due runs."""

    async def main(loop: WorldLoop) -> tuple[list[float], list[str]]:
        process, seen, told = Process("w0.1", loop), list[float](), list[str]()
        process.start(ticking(loop, seen, 10.0))
        await TrueClock(loop).sleep(15)
        loop.stop_process(process, 100.0, lambda: told.append("goes on"))
        await TrueClock(loop).sleep(120)
        return seen[:4], told

    assert run(main) == ([0.0, 10.0, 115.0, 125.0], ["goes on"])


def test_seams_of_a_dead_process_raise_while_it_unwinds() -> None:
    """A coroutine that catches its death and goes on to the database is stopped there: nothing is written after the death."""

    async def main(loop: WorldLoop) -> tuple[str, int]:
        process, plan = Process("w0.1", loop), Plan(calm())
        database = open_database()
        executor = FaultyExecutor(database, process, plan, ProcessBook(), hooks_of(process, loop))
        ended = list[str]()

        async def stubborn() -> None:
            try:
                process.die()
                raise SimulatedCrash("here")
            finally:
                try:
                    await executor.write(lambda connection: connection.execute("INSERT INTO meta VALUES ('late', '1')"))
                except SimulatedCrash:
                    ended.append("crashed again")

        process.start(stubborn())
        await TrueClock(loop).sleep(10)
        return ended[0], database.connection.execute("SELECT count(*) FROM meta WHERE key = 'late'").fetchone()[0]

    assert run(main) == ("crashed again", 0)


def calm(**changes: Any) -> Options:
    """Options of a world without faults."""
    found = {name: getattr(draw(1), name) for name in Options.__dataclass_fields__}
    return Options(**{**found, "shares": {}, **changes})


def hooks_of(process: Process, loop: WorldLoop) -> Hooks:
    """Hooks that only see whether the process lives."""
    clock = ProcessClock(Host(loop, ProcessBook(), 0.0), process, timedelta(0), 0.0)
    return Hooks(process.name, clock, lambda name: process.alive())


def test_order_of_ready_callbacks_is_the_seeds() -> None:
    """Callbacks that are ready together run in an order that the seed decides, the same each time."""

    async def main(loop: WorldLoop) -> list[int]:
        seen: list[int] = []
        for number in range(8):
            loop.call_soon(seen.append, number)
        await TrueClock(loop).sleep(1)
        return seen

    orders = {seed: run(main, seed) for seed in range(6)}
    assert all(run(main, seed) == order for seed, order in orders.items())
    assert len({tuple(order) for order in orders.values()}) > 3


def test_deadlock_is_an_error() -> None:
    """A world in which nothing is ready and no timer is set fails instead of standing still."""

    async def main(loop: WorldLoop) -> None:
        await loop.create_future()

    with pytest.raises(Deadlock):
        run(main)


def test_a_process_has_its_own_rate_of_time() -> None:
    """A sleep of a process whose time runs fast is shorter in true time; so are its timeouts."""

    async def main(loop: WorldLoop) -> tuple[float, float]:
        fast = Process("w0.1", loop, rate=1.25)

        async def sleep() -> float:
            try:
                async with asyncio.timeout(100):
                    await TrueClock(loop).sleep(1000)
            except TimeoutError:
                return loop.time()
            return 0.0

        task = fast.start(sleep())
        return await task, loop.awake

    assert run(main) == (100.0, 80.0)


def test_I23_clocks_of_a_host_that_sleeps_and_is_set() -> None:
    """Asleep: monotonic time stands, boot and wall time go on. Set: only the wall clock moves. At another rate: only that one."""

    async def main(loop: WorldLoop) -> None:
        book = ProcessBook()
        host, true = Host(loop, book, 0.0), TrueClock(loop)
        clock = ProcessClock(host, Process("w0.1", loop), timedelta(seconds=-30), 0.0)
        await TrueClock(loop).sleep(100)
        loop.asleep += 7200
        assert (clock.monotonic(), host.boot().seconds) == (100.0, 7300.0)
        assert host.now() == true.now() == START + timedelta(seconds=7300)
        assert clock.now() == START + timedelta(seconds=7270)
        host.step(-3600.0)
        assert (host.now(), true.now()) == (START + timedelta(seconds=3700), START + timedelta(seconds=7300))
        assert host.boot().seconds == 7300.0
        host.run_at(2.0)
        await TrueClock(loop).sleep(10)
        assert host.now() == START + timedelta(seconds=3720)
        assert [step.seconds for step in book.steps] == [-3600.0]
        assert host.ahead == pytest.approx(-3590.0)

    run(main)


@pytest.mark.parametrize("kind", sorted(_ERRORS))
def test_database_faults_are_what_sqlite_says(kind: str) -> None:
    """Every planted error comes through the store's own translation as trouble that may pass (I30)."""
    error = sqlite_trouble(kind)
    assert isinstance(error, Unavailable)
    assert error.code == "database_unavailable"


def executed(kind: str) -> tuple[bool, bool]:
    """Writes a row under one kind of fault: whether an error was reported, and whether the row is there."""

    async def main(loop: WorldLoop) -> tuple[bool, bool]:
        plan = Plan(calm(shares={Group.STORE: 1.0}, kinds=frozenset({f"store.{kind}"})))
        process, book, database = Process("w0.1", loop), ProcessBook(), open_database()
        executor = FaultyExecutor(database, process, plan, book, hooks_of(process, loop))
        reported = False
        for number in range(40):
            try:
                await executor.write(
                    lambda connection, number=number: connection.execute("INSERT INTO meta VALUES (?, '1')", (f"row{number}",))
                )
            except Unavailable:
                reported = True
                rows = database.connection.execute("SELECT count(*) FROM meta WHERE key = ?", (f"row{number}",)).fetchone()
                assert book.store_faults
                return reported, bool(rows[0])
        return reported, False

    found: tuple[bool, bool] = run(main)
    return found


def test_I30_lost_means_executed_and_reported_as_an_error() -> None:
    """The unknown commit is in the database; a disk that is full wrote nothing."""
    assert executed("lost") == (True, True)
    assert executed("full") == (True, False)


def test_a_template_gives_every_world_a_fresh_database() -> None:
    """What one world writes is not in the next one."""
    first, second = open_database(), open_database()
    first.connection.execute("INSERT INTO meta VALUES ('mine', '1')")
    assert second.connection.execute("SELECT count(*) FROM meta WHERE key = 'mine'").fetchone()[0] == 0
    assert second.connection.execute("PRAGMA foreign_keys").fetchone()[0] == 1
    assert first.connection.execute("PRAGMA synchronous").fetchone()[0] == 2


def test_options_are_a_swarm_with_sound_leases() -> None:
    """Options differ from seed to seed; every lease arithmetic holds; some worlds have one group of faults, some all, some none."""
    drawn = [draw(seed) for seed in range(400)]
    assert not [options for options in drawn if options.times.problem()]
    assert {options.workers for options in drawn} == {2, 3, 4, 5}
    groups = {len(options.shares) for options in drawn}
    assert {0, 1, len(Group)} <= groups
    assert sum(options.awake_hours for options in drawn) / len(drawn) >= 1.5
    assert all(draw(options.seed) == options for options in drawn[:20])


def test_shrinking_takes_away_what_does_not_matter() -> None:
    """What is left is the kind that the failure needs, and as few operations and processes as it needs."""
    seed = next(seed for seed in range(1, 60) if "process.killed" in World(draw(seed)).run().coverage.faults)

    def fails(options: Options) -> bool:
        return "process.killed" not in options.without and options.jobs >= 1 and options.awake_hours > 0

    smallest = shrink(seed, fails)
    assert "process.killed" not in smallest.without
    assert len(smallest.without) >= 2
    assert (smallest.workers, smallest.jobs, smallest.polls) == (1, 1, 0)


def test_shrinking_refuses_a_seed_that_holds() -> None:
    """There is nothing to make smaller where nothing fails."""
    with pytest.raises(ValueError, match="does not fail"):
        shrink(1, lambda options: False)


def test_fate_strikes_only_before_the_calm() -> None:
    """Once the plan is calm, no process is struck and its fuse is out."""
    world = World(draw(3))
    world.ground.plan.calm = True
    process = Process("w0.1", world.ground.loop, fuse=1)
    Fate(world.ground, []).strike(process)
    assert (process.dead, process.stopped, process.fuse) == (False, False, 0)
    world.ground.loop.close()


def test_what_is_required_is_named_and_enough() -> None:
    """Names are not repeated; there are enough probes; a thousand worlds need a hundred of each kind."""
    wanted = required(1000)
    for names in (wanted.faults, wanted.points, wanted.cells, wanted.probes):
        assert len(names) == len(set(names))
    assert len(wanted.probes) >= 60
    assert wanted.least == {"faults": 100, "points": 1, "cells": 1, "probes": 1}
    assert required(50).least["cells"] == 0
