"""What a plug-in of the outside stands on in one life of a process."""

from dataclasses import dataclass

from sereno.ports import Clock
from sereno.testing.hooks import Hooks
from sereno.testing.simulation.plan import Plan


@dataclass(frozen=True, slots=True)
class Seam:
    """`clock` is true time, in which the books are kept; `host` the wall clock of the database's host."""

    clock: Clock
    host: Clock
    plan: Plan
    hooks: Hooks
