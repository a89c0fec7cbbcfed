"""The plan of one run of a scenario: faults in the order of its script, and one death or one error of the database at a given place."""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from sereno.testing.simulation.crashing.scenario import Scenario
from sereno.testing.simulation.plan import Plan
from sereno.testing.simulation.process.database import KINDS
from sereno.testing.simulation.terms import Group, Options


class Variant(StrEnum):
    """What happens at a hit."""

    DIE = "die"
    """The process dies there. Of a commit under way: it was not durable."""
    DIE_KEPT = "die-kept"
    """The process dies while the commit is under way, and it was durable."""
    DIE_TWICE = "die-twice"
    """The process dies there, and whoever passes that point next dies too."""
    ERROR = "error"
    """The database fails before the write; the process lives on."""
    ERROR_KEPT = "error-kept"
    """The write was executed and reported as an error; the process lives on."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One crash point as a process passed it: the `number`-th of all in this scenario, from 1."""

    number: int
    process: str
    point: str
    write: int
    """Of a write under way (`unknown`): the so-many-th of all writes, from 1."""


@dataclass(frozen=True, slots=True)
class Strike:
    """What befalls one run."""

    hit: Hit
    variant: Variant


class _Coin(Random):
    """Falls as it is told: whether a commit under way was durable."""

    kept = False

    def random(self) -> float:
        """0 = durable."""
        return 0.0 if self.kept else 0.99


_QUEUES = {Group.READ: "reads", Group.ACT: "deliveries", Group.WAIT: "waits"}
_DEATHS = (Variant.DIE, Variant.DIE_KEPT, Variant.DIE_TWICE)
_ERRORS = (("full", "lost_io"), ("io", "lost"), ("busy_snapshot", "lost_io"))
"""Kinds of errors before a write and after it, in turn."""


class ScriptedPlan(Plan):
    """See the module. Nothing is left to dice but sizes and instants."""

    def __init__(self, options: Options, scenario: Scenario, strike: Strike | None = None) -> None:
        super().__init__(options)
        self._left = {name: deque(faults) for name, faults in scenario.faults.items()}
        self._strike = strike
        self._coin = _Coin(0)
        self._coin.kept = strike is not None and strike.variant is Variant.DIE_KEPT
        self._writes = 0
        self.hits: list[Hit] = []
        self.struck_at: Hit | None = None
        """Where the strike came about."""
        self.again = False
        """The second death of DIE_TWICE came about."""
        self._passed: Counter[str] = Counter()
        self._waiting: dict[tuple[str, int], asyncio.Event] = {}

    def when(self, point: str, nth: int) -> asyncio.Event:
        """Is set when the point is passed for the n-th time."""
        return self._waiting.setdefault((point, nth), asyncio.Event())

    def take(self, queue: str, group: Group) -> str | None:
        """The next fault of a queue, counted; None where it is honest."""
        left = self._left.get(queue)
        name = left.popleft() if left and not self.calm else ""
        if not name:
            return None
        self.struck[f"{group}.{name}"] += 1
        return name

    def draw(self, group: Group, among: Sequence[str], *, share: float | None = None) -> str | None:
        """By the script; the database by the strike alone."""
        if self.calm:
            return None
        if group is Group.STORE:
            return self._store(among)
        return self.take(_QUEUES[group], group) if group in _QUEUES else None

    def _store(self, among: Sequence[str]) -> str | None:
        if among is not KINDS:
            return None
        self._writes += 1
        strike = self._strike
        if strike is None or strike.hit.write != self._writes or strike.variant not in (Variant.ERROR, Variant.ERROR_KEPT):
            return None
        self.struck_at = strike.hit
        kind = _ERRORS[self._writes % len(_ERRORS)][strike.variant is Variant.ERROR_KEPT]
        self.struck[f"{Group.STORE}.{kind}"] += 1
        return kind

    def dies(self, process: str, point: str) -> bool:
        """Counts the hit, wakes who waits for it, and strikes where it is the one."""
        self._passed[point] += 1
        if (event := self._waiting.get((point, self._passed[point]))) is not None:
            event.set()
        hit = Hit(len(self.hits) + 1, process, point, self._writes if point.endswith(".unknown") else 0)
        self.hits.append(hit)
        strike = self._strike
        if strike is None or strike.variant not in _DEATHS:
            return False
        if strike.hit.number == hit.number:
            self.struck_at = hit
            return True
        again = (
            strike.variant is Variant.DIE_TWICE and not self.again and self.struck_at is not None and point == strike.hit.point
        )
        self.again = self.again or again
        return again

    def dice(self, group: Group) -> Random:
        """As ever, but the coin of a commit under way is the strike's."""
        return self._coin if group is Group.STORE else super().dice(group)
