"""What the parts of one world stand on, and its event log."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

from sereno.store.executor import InlineExecutor
from sereno.testing.simulation.coverage import Coverage
from sereno.testing.simulation.outside import Outside
from sereno.testing.simulation.plan import Plan
from sereno.testing.simulation.process.host import Host, TrueClock
from sereno.testing.simulation.process.loop import Process, WorldLoop
from sereno.testing.simulation.terms import Options, ProcessBook
from sereno.testing.virtual import SeededIds

LAST = 200


@dataclass(slots=True)
class Ground:
    """One world's parts. `violations` are those that the world itself sees: a process that ended with an error."""

    options: Options
    loop: WorldLoop
    true: TrueClock
    host: Host
    plan: Plan
    book: ProcessBook
    outside: Outside
    database: InlineExecutor
    ids: SeededIds
    dice: Random
    coverage: Coverage = field(default_factory=Coverage)
    violations: list[str] = field(default_factory=list)
    lives: list[Process] = field(default_factory=list)
    pauses: Sequence[float] = (0.0, 0.5, 5.0, 40.0, 300.0)
    """The longest that a process is away before it is started again: one of these seconds."""
    true_at: dict[int, datetime] = field(default_factory=dict)
    """When each row of the journal was written."""
    events: deque[tuple[float, str, str]] = field(default_factory=lambda: deque(maxlen=LAST))

    def journal(self, seq: int) -> None:
        """A row of the journal is written now."""
        self.true_at[seq] = self.true.now()

    def note(self, process: str, what: str) -> None:
        """Writes a line into the event log."""
        self.events.append((self.loop.awake + self.loop.asleep, process, what))

    def log(self) -> list[str]:
        """The last events as lines."""
        return [f"{at:14.3f} {process or 'world':8} {what}" for at, process, what in self.events]
