"""What one world left behind, and what it came to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sereno.testing.simulation.coverage import Coverage
from sereno.testing.simulation.outside import Outside
from sereno.testing.simulation.terms import Options, Persisted, ProcessBook


@dataclass(frozen=True, slots=True)
class Lived:
    """Everything a check may look at: the books of the outside, what was done to the processes, and what is in the database."""

    options: Options
    outside: Outside
    processes: ProcessBook
    persisted: Persisted
    began: datetime
    ended: datetime
    """Instants of true time."""
    ended_host: datetime
    """The host's wall clock at the end."""
    replayed: Sequence[str] = ()
    """Decisions that the journal alone does not give again, and faults it shows (W28, W44), each as a line."""
    true_at: Mapping[int, datetime] = field(default_factory=dict)
    """True time at which each row of the journal was written, by its number."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a world came to; `violations` is empty where everything held."""

    options: Options
    violations: Sequence[str]
    trace: str
    """Digest of the journal and of the books: equal for the same seed and the same code, whatever the hash seed or process."""
    hours: float
    """Simulated hours in all."""
    hours_asleep: float
    """Those of them in which the whole host slept."""
    steps: int
    """Callbacks that the loop ran."""
    requests: int
    """Requests of all kinds in the provider's book."""
    wasted: int
    """Status requests that were counted and never reached the provider."""
    coverage: Coverage
    log: Sequence[str] = ()
    """The last events, for a failing world."""
