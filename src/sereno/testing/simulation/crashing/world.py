"""One run of one scenario, in a simulated world of its own."""

import asyncio
from dataclasses import dataclass
from datetime import datetime

from sereno.core.values import from_micros
from sereno.testing.simulation.crashing.ends import End, end_of
from sereno.testing.simulation.crashing.outside import ScriptedOutside, scripted
from sereno.testing.simulation.crashing.plan import Hit, ScriptedPlan, Strike
from sereno.testing.simulation.crashing.scenario import Scenario
from sereno.testing.simulation.lived import Lived, Outcome
from sereno.testing.simulation.options import PROFILES
from sereno.testing.simulation.terms import Options
from sereno.testing.simulation.world import World

PAUSES = (0.0, 1.0, 10.0, 30.0)
"""A process is away for up to one of these seconds: shorter and longer than its lease."""
ROUND_S = 2.5
"""Awake seconds between two looks of the people."""
MOST_ROUNDS = 1500
_DUE = (
    "SELECT min(due) FROM ("
    " SELECT due FROM operation WHERE state IN ('submitting', 'waiting', 'escalated') AND parked IS NULL"
    " UNION ALL SELECT due FROM delivery WHERE state IN ('queued', 'sending'))"
)
_POLLS_DUE = "SELECT min(due) FROM poll WHERE state = 'active'"


@dataclass(frozen=True, slots=True)
class Ran:
    """What one run came to."""

    outcome: Outcome
    end: End
    hits: list[Hit]
    struck: Hit | None


class CrashWorld(World):
    """Its time awake lasts until nothing is left to be done; the whole host sleeps while nothing is due."""

    def __init__(self, scenario: Scenario, strike: Strike | None, seed: int) -> None:
        options = Options(
            seed=seed, workers=scenario.workers, slots=scenario.slots, jobs=0, orders=0, polls=0, awake_hours=1.0, times=PROFILES[0][0]
        )  # fmt: skip
        self.plan = ScriptedPlan(options, scenario, strike)
        super().__init__(options, plan=self.plan, outside=scripted(scenario))
        self.ground.pauses = PAUSES
        self.end: End | None = None
        self._scenario = scenario

    async def _while_awake(self) -> None:
        outside = self.ground.outside
        assert isinstance(outside, ScriptedOutside)
        for _ in range(MOST_ROUNDS):
            await asyncio.sleep(ROUND_S)
            await outside.act()
            if not self._quiet():
                continue
            due = await self._due(_DUE)
            if outside.over() and due is None:
                return
            self._sleep_until(outside, due, await self._due(_POLLS_DUE))
        self.ground.violations.append(f"I10 the scenario did not end within {MOST_ROUNDS} rounds")

    def _quiet(self) -> bool:
        """Every process lives and has nothing in hand."""
        return all(
            worker.process is not None and not worker.process.dead and worker.driver is not None and not worker.driver.busy
            for worker in self._workers
        )

    async def _due(self, query: str) -> datetime | None:
        row = await self.ground.database.read(lambda connection: connection.execute(query).fetchone())
        return None if row[0] is None else from_micros(row[0])

    def _sleep_until(self, outside: ScriptedOutside, *due: datetime | None) -> None:
        """The host sleeps until shortly before the next thing falls due, or somebody acts."""
        instants = [one for one in due if one is not None]
        if not outside.over():
            instants.append(outside.next_act())
        if self.ground.loop.true() < self._scenario.awake:
            return
        ahead = (min(instants) - self.ground.host.now()).total_seconds() if instants else 0.0
        if ahead > 2 * ROUND_S:
            self._fate.sleep(ahead - ROUND_S)

    def _judged(self, lived: Lived) -> Outcome:
        self.end = end_of(lived)
        return super()._judged(lived)
