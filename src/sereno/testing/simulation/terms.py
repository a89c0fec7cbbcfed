"""What the parts of a simulated world agree on: fault kinds, options, hooks, books of what was done to the processes, what is left."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sereno.core.delivery import Delivery
from sereno.core.operation import Operation
from sereno.core.work import LeaseTimes


class Group(StrEnum):
    """Where faults strike. Each group has its own chance per event, drawn first (a swarm: some worlds have few kinds often, some all rarely)."""

    LOOK = "look"
    """Answers to status requests."""
    SUBMIT = "submit"
    CANCEL = "cancel"
    WAIT = "wait"
    """Forms of Retry-After and body hints."""
    READ = "read"
    """A source's reading."""
    ACT = "act"
    """A receiver of effects."""
    STORE = "store"
    """The database: an error before a statement, or after it was executed."""
    CRASH = "crash"
    """The process dies at a named point."""
    PROCESS = "process"
    """The process is killed anywhere, stalls or is suspended; the whole host sleeps."""
    CLOCK = "clock"
    """The host's wall clock steps or runs at another rate; a process's own wall clock stands apart."""


@dataclass(frozen=True, slots=True)
class Options:
    """What one world is made of, drawn from its seed; printed with every failure; changed one by one for shrinking."""

    seed: int
    workers: int
    """Processes, 2–5."""
    slots: int
    jobs: int
    """Operations about jobs that the provider already has."""
    orders: int
    """Operations that are submitted first."""
    polls: int
    awake_hours: float
    """Length of the safety phase without the hours that the whole host sleeps."""
    times: LeaseTimes
    shares: Mapping[Group, float] = field(default_factory=dict)
    """Chance of a fault at each event of the group; a group that is not named has none."""
    kinds: frozenset[str] | None = None
    """Where given, only these kinds are drawn: `group.name`."""
    without: frozenset[str] = frozenset()
    """Kinds that are never drawn (shrinking)."""


@dataclass(frozen=True, slots=True)
class Death:
    """One end of a process: `point` is the named point, or "" where it was killed between two."""

    process: str
    at: datetime
    point: str


@dataclass(frozen=True, slots=True)
class Pause:
    """A process, or the whole host (`process` = ""), that did not run for a while."""

    process: str
    at: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the host's wall clock, in seconds (negative: back)."""

    at: datetime
    seconds: float


@dataclass(slots=True)
class ProcessBook:
    """What was done to the processes and to their clock. All instants are of true time: the loop's."""

    deaths: list[Death] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    store_faults: list[tuple[str, datetime, str]] = field(default_factory=list)
    """(process, instant, kind) of each database fault that was raised."""
    calm_at: datetime | None = None
    """When the faults ended."""


@dataclass(frozen=True, slots=True)
class Persisted:
    """What is in the database at the end, read back through the store's own reading side or as plain rows."""

    operations: Sequence[Operation]
    deliveries: Sequence[Delivery]
    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    """Whole tables by name, as they are: `operation`, `poll`, `delivery`, `run`, `journal`, `provider_call`, `escalation`, `pool`, `meta` …"""


LONGEST_SLEEP = timedelta(hours=72)
