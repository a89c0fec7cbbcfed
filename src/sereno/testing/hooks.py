"""What a simulated seam does on behalf of one life of one process, and how a process ends there."""

from collections.abc import Callable
from dataclasses import dataclass

from sereno.ports import Clock


class SimulatedCrash(BaseException):
    """A process ended here. Nothing catches it."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a simulated seam does on behalf of one life of one process."""

    process: str
    clock: Clock
    point: Callable[[str], None]
    """A crash point: raises SimulatedCrash where the process dies here, or is dead already."""
