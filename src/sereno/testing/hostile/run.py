"""Runs one hostile world to its end, and reads what it left behind."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any

from sereno.core.operation import Operation
from sereno.core.reviewing.quality import WaitingQuality
from sereno.core.values import from_micros
from sereno.ports import WorkStore
from sereno.service.operations import Wanted, WantedSubmit
from sereno.service.reports import Reports
from sereno.testing.hostile.contracts import DOCUMENTS
from sereno.testing.hostile.options import ANSWER_WITHIN, POOL, Hostile
from sereno.testing.hostile.people import People
from sereno.testing.hostile.provider import HostileProvider
from sereno.testing.virtual import SeededIds, VirtualClock, run_virtual
from sereno.testing.yard import Contracts, Yard


@dataclass(frozen=True, slots=True)
class Stop:
    """One step that ended the waiting: when it was decided, and the limit that held then."""

    operation: str
    at: datetime
    stops_at: datetime


@dataclass(frozen=True, slots=True)
class Lived:
    """What a hostile world left behind."""

    options: Hostile
    provider: HostileProvider
    people: People
    operations: Sequence[Operation]
    refs: Mapping[str, str]
    """Reference by operation: what its submit, or its job, is known by in the provider's book."""
    stops: Sequence[Stop]
    quality: WaitingQuality
    """What `report waiting` says."""


def live(
    options: Hostile,
    wrap: Callable[[WorkStore], WorkStore] = lambda store: store,
    *,
    contracts: type[Contracts] = Contracts,
) -> Lived:
    """Runs the world on a loop of its own."""

    async def main() -> Lived:
        clock = VirtualClock()
        provider = HostileProvider(options, clock)
        ids = SeededIds(options.seed, clock.now)
        yard = Yard(clock, provider, contracts(DOCUMENTS), ids=ids, wrap=wrap, answer_within=ANSWER_WITHIN)
        people = People(yard, Random(f"people:{options.seed}"))
        await yard.limit(POOL, 50.0, 50)
        refs: dict[str, str] = {}
        arrivals = asyncio.get_running_loop().create_task(_register(yard, provider, options, refs), name="register")
        at_work = asyncio.get_running_loop().create_task(people.work(options.hours * 1800), name="people")
        await yard.drive(options.hours * 3600)
        await arrivals
        await at_work
        operations = [record.operation for record in await yard.records()]
        measured = [quality async for quality in Reports(yard.deps).waiting()]
        stops = await _stops(yard)
        await yard.close()
        return Lived(options, provider, people, operations, refs, stops, measured[-1])

    return run_virtual(main, options.seed)


async def _register(yard: Yard, provider: HostileProvider, options: Hostile, refs: dict[str, str]) -> None:
    """Half of the operations wait for a job that is there, the others submit it, with and without keys."""
    names = ("hostile-there", "hostile-there", "hostile-there", "hostile-plain", "hostile-replay", "hostile-reject")
    for number in range(options.operations):
        name = names[number % len(names)]
        ref = f"{name}-{number}"
        if name == "hostile-there":
            job = provider.start(ref)
            found = await yard.operations.register(Wanted(name, job.id, actions=()))
        else:
            found = await yard.operations.submit(WantedSubmit(name, {"ref": ref}, actions=()))
        refs[found.record.operation.id] = ref
        yard.ring()
        await yard.clock.sleep(options.over.total_seconds() / options.operations)


async def _stops(yard: Yard) -> Sequence[Stop]:
    rows = await yard.store.executor.read(
        lambda c: c.execute("SELECT subject, kind, at, facts FROM journal WHERE kind = 'decision' ORDER BY seq").fetchall()
    )
    found = []
    for row in rows:
        facts: dict[str, Any] = json.loads(row["facts"])
        if facts.get("state_before") not in ("waiting", "submitting") or facts["state"] in ("waiting", "submitting"):
            continue
        limits = [facts["deadline_at"], facts["business_deadline_at"]]
        stops_at = min(at for at in limits if at is not None)
        found.append(Stop(row["subject"], from_micros(row["at"]), from_micros(stops_at)))
    return found
