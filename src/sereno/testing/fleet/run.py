"""Runs one fleet: all operations registered in one instant, a process that sleeps for a while, a provider that is away for a while."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sereno.core.operation import Operation
from sereno.core.values import to_micros
from sereno.ports import WorkStore
from sereno.service.operations import Wanted
from sereno.testing.fleet.options import POOL, Fleet
from sereno.testing.fleet.provider import CONTRACT, FleetProvider
from sereno.testing.virtual import START, SeededIds, VirtualClock, run_virtual
from sereno.testing.yard import Contracts, Yard


@dataclass(frozen=True, slots=True)
class Looks:
    """The looks of one operation, in order: when each was planned, and when it was claimed. Seconds since the start."""

    planned: list[float] = field(default_factory=list)
    claimed: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Sailed:
    """What a fleet left behind: the provider's book, our records, and the looks as the journal holds them, by operation."""

    fleet: Fleet
    provider: FleetProvider
    operations: Sequence[Operation]
    looks: Mapping[str, Looks]


def sail(
    fleet: Fleet, wrap: Callable[[WorkStore], WorkStore] = lambda store: store, *, dice: type[SeededIds] = SeededIds
) -> Sailed:
    """Runs the fleet to its end, on a loop of its own."""

    async def main() -> Sailed:
        clock = VirtualClock()
        provider = FleetProvider(fleet, clock)
        yard = Yard(clock, provider, Contracts({"fleet": CONTRACT}), ids=dice(fleet.seed, clock.now), wrap=wrap)
        await yard.limit(POOL, fleet.rate, fleet.burst)
        for job in provider.jobs:
            await yard.operations.register(Wanted("fleet", job, actions=()))
        if fleet.asleep is not None:
            asleep, awake = fleet.asleep
            await yard.drive(asleep)
            await clock.sleep(awake - clock.monotonic())
        await yard.drive(fleet.hours * 3600 - clock.monotonic())
        operations = [record.operation for record in await yard.records()]
        looks = await _looks(yard)
        await yard.close()
        return Sailed(fleet, provider, operations, looks)

    return run_virtual(main, fleet.seed)


async def _looks(yard: Yard) -> Mapping[str, Looks]:
    rows = await yard.store.executor.read(
        lambda c: c.execute("SELECT subject, facts FROM journal WHERE kind = 'intent' ORDER BY seq").fetchall()
    )
    start, found = to_micros(START), dict[str, Looks]()
    for row in rows:
        facts = json.loads(row["facts"])
        if facts.get("asks"):
            looks = found.setdefault(row["subject"], Looks())
            looks.planned.append((facts["scheduled_for"] - start) / 1e6)
            looks.claimed.append((facts["claimed_at"] - start) / 1e6)
    return found
