"""What the checks look at: the books of the outside beside what is persisted, put together by operation, once for all checks.

Instants of the books are of true time; instants of rows are the host's wall clock in microseconds.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sereno.core.delivery import Delivery
from sereno.core.operation import Operation
from sereno.core.values import to_micros
from sereno.core.work import LeaseTimes
from sereno.testing.hostile.book import Request
from sereno.testing.simulation.outside.people import PeopleBook
from sereno.testing.simulation.outside.receivers import Arrival
from sereno.testing.simulation.outside.sources import Feed
from sereno.testing.simulation.terms import ProcessBook, Step

Facts = Mapping[str, Any]
ROUNDING = timedelta(milliseconds=2)
UNSEEN = 2.0
"""Seconds: so far the clock may be from where it was when it was last put right, and nothing is noticed (ADR 0006)."""
NOTICED = 2 * UNSEEN
"""Seconds: a step beyond this is always noticed, wherever the clock had drifted to meanwhile."""
DRIFT = 1 / 2000
"""A clock may drift by this share, and that is taken for its pace."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the journal. `moved` is how far steps of the host's clock had moved open waits by then, in microseconds."""

    seq: int
    subject: str
    run: int
    kind: str
    at: int
    facts: Facts
    moved: int = 0
    true: int | None = None
    """True time of its commit, where the world wrote that down."""

    @property
    def straight(self) -> int:
        """Its instant on the clock as it stood at first: true time, to a minute."""
        return self.at - self.moved

    @property
    def instant(self) -> int:
        """True time, in microseconds: exact where the world wrote it down, else to a minute."""
        return self.straight if self.true is None else self.true

    @property
    def settles(self) -> bool:
        """A claimed run ended here: decided, given back or parked."""
        return "draw" in self.facts or self.facts.get("decision") in ("released", "parked") or "outcome" in self.facts

    @property
    def word(self) -> str:
        """The decision, for one beside the steps: `answered`, `cancel_requested` …"""
        return str(self.facts.get("decision", "")) if "by_kind" in self.facts else ""

    @property
    def number(self) -> int | None:
        """The number of the provider's request whose answer this row holds."""
        call = self.facts.get("call")
        answer = call.get("answer") if isinstance(call, dict) else None
        found = answer or self.facts.get("observation") or {}
        number = found.get("provider_request_id")
        return int(number) if isinstance(number, str) and number.isascii() and number.isdigit() else None


@dataclass(slots=True)
class Claim:
    """One claim of a subject with the row that settled it; None where it was never settled."""

    row: Row
    settled: Row | None = None

    @property
    def asks(self) -> bool:
        """It counted a status request."""
        return bool(self.row.facts.get("asks"))

    @property
    def call(self) -> Facts:
        """The submit or cancel that it may make; empty where there is none."""
        call = self.row.facts.get("call")
        return call if isinstance(call, dict) and call.get("taken") else {}

    @property
    def until(self) -> int:
        """The end of its lease as it was claimed."""
        return int(self.row.facts.get("lease_until", 0))

    @property
    def worker(self) -> str:
        """The life of the process that claimed it."""
        return str(self.row.facts.get("worker", ""))

    @property
    def given_back(self) -> bool:
        """It is certain that nothing left, so the count was given back."""
        if self.settled is None:
            return False
        if self.settled.facts.get("decision") == "released":
            return True
        used = self.settled.facts.get("status_requests_used")
        return used is not None and used < self.row.facts["status_requests_used"]


@dataclass(slots=True)
class Case:
    """One operation with everything that is known of it."""

    operation: Operation
    ref: str
    looks: Sequence[Request] = ()
    """Status requests that arrived, in order."""
    cancels: Sequence[Request] = ()
    submits: Sequence[Request] = ()
    broke: bool = False
    """The provider itself started a second job under one key: no fault of the caller's."""
    rows: Sequence[Row] = ()
    claims: Sequence[Claim] = ()
    runs: Sequence[Facts] = ()
    calls: Sequence[Facts] = ()
    questions: Sequence[Facts] = ()
    min_gap: timedelta = timedelta(seconds=1)
    patient: bool = False
    """Its contract lets some odd answers pass a few times in a row."""
    _sent: Sequence[Request] | None = None
    _committed: Mapping[int, Row] | None = None

    @property
    def id(self) -> str:
        """The operation's id."""
        return self.operation.id

    def sent(self) -> Sequence[Request]:
        """All requests, by instant."""
        if self._sent is None:
            self._sent = sorted((*self.looks, *self.cancels, *self.submits), key=_at)
        return self._sent

    def committed(self) -> Mapping[int, Row]:
        """By number of the provider's request: the row that holds its answer."""
        if self._committed is None:
            self._committed = {number: row for row in self.rows if row.settles and (number := row.number) is not None}
        return self._committed

    def claimed(self) -> Mapping[int, Claim]:
        """By number of the provider's request: the claim that it left with, where its answer was committed."""
        return {
            number: claim for claim in self.claims if claim.settled is not None and (number := claim.settled.number) is not None
        }


def _at(request: Request) -> datetime:
    return request.at


class Clock:
    """The host's wall clock against true time, as far as the books show: each entry has both instants."""

    def __init__(self, entries: Iterable[tuple[datetime, datetime]] = (), steps: Sequence[Step] = ()) -> None:
        self._at: list[datetime] = []
        self._gained: list[float] = []
        self._changed: list[int] = []
        forward = iter(sorted(steps, key=lambda step: step.at))
        step, before = next(forward, None), 0.0
        for at, host in sorted(entries):
            ahead, unnoticed, whole = (host - at).total_seconds(), 0.0, 0.0
            while step is not None and step.at <= at:
                unnoticed += step.seconds if 0.0 < step.seconds <= NOTICED else 0.0
                whole, step = whole + step.seconds, next(forward, None)
            gained = unnoticed + max(0.0, ahead - before - whole) if self._at else 0.0
            odd = bool(whole or abs(ahead - before) > _STILL) if self._at else False
            self._at.append(at)
            self._gained.append(gained + (self._gained[-1] if self._gained else 0.0))
            self._changed.append(odd + (self._changed[-1] if self._changed else 0))
            before = ahead

    def _between(self, first: datetime, second: datetime) -> tuple[int, int] | None:
        if not self._at:
            return None
        return max(0, bisect_right(self._at, first) - 1), min(len(self._at) - 1, bisect_left(self._at, second))

    def gained(self, first: datetime, second: datetime) -> float:
        """Seconds that it gained on true time by its rate and by small steps; what it lost, and large steps, are left out."""
        found = self._between(first, second)
        return 0.0 if found is None else max(0.0, self._gained[found[1]] - self._gained[found[0]])

    def odd(self, first: datetime, second: datetime) -> bool:
        """Whether it stepped, or ran at another rate."""
        found = self._between(first, second)
        return found is not None and self._changed[found[1]] > self._changed[found[0]]


_STILL = 0.001
_ON_RECORD_S = 60.0
"""What a clock may drift by counts from when its distance was last written down, at most half a minute before; and the same again."""


@dataclass(slots=True)
class Evidence:
    """Everything, by subject."""

    times: LeaseTimes
    began: datetime
    ended: datetime
    ended_host: datetime
    cases: Sequence[Case] = ()
    processes: ProcessBook = field(default_factory=ProcessBook)
    deliveries: Sequence[Delivery] = ()
    rows: Mapping[str, Sequence[Facts]] = field(default_factory=dict)
    """Whole tables by name."""
    journal: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    """By subject, oldest first."""
    claims: Mapping[str, Sequence[Claim]] = field(default_factory=dict)
    """By subject."""
    arrivals: Sequence[Arrival] = ()
    """What reached the receivers, in order."""
    feeds: Mapping[str, Feed] = field(default_factory=dict)
    """By poll."""
    people: PeopleBook = field(default_factory=PeopleBook)
    strangers: Sequence[str] = ()
    replayed: Sequence[str] = ()
    clock: Clock = field(default_factory=Clock)
    drift: float = 0.0
    """By what share the monotonic clock of a process may run slow."""

    @property
    def grace(self) -> timedelta:
        """G of I10."""
        return 2 * self.times.lease + self.times.tick + timedelta(seconds=60)

    @property
    def calm(self) -> datetime:
        """When the faults ended."""
        return self.processes.calm_at or self.began

    def planned(self, first: datetime, second: datetime) -> timedelta:
        """How much of a wait may seem to have gone by between two true instants: what the host's clock gained by its rate and by small
        steps, as far as that is not noticed. All else is, and moves the wait (ADR 0006)."""
        passed = second - first
        most = NOTICED + DRIFT * (passed.total_seconds() + _ON_RECORD_S)
        return passed + timedelta(seconds=min(self.clock.gained(first, second), most))

    @property
    def rounding(self) -> timedelta:
        """What the clocks of the processes leave open of a wait."""
        longest = self.times.total_deadline + self.times.commit_time + 2 * self.times.guard
        return ROUNDING + self.drift * longest

    def stepped(self, first: datetime, second: datetime) -> bool:
        """Whether the host's clock stepped, or ran at another rate, between two true instants."""
        return self.clock.odd(first, second)

    @property
    def set_back(self) -> bool:
        """Whether the host's clock was ever set back."""
        return any(step.seconds < 0 for step in self.processes.steps)

    @property
    def end_us(self) -> int:
        """The host's wall clock at the end."""
        return to_micros(self.ended_host)


def claims_of(rows: Sequence[Row]) -> Sequence[Claim]:
    """Pairs the claims of one subject with what settled them."""
    found: dict[int, Claim] = {}
    for row in rows:
        if row.kind == "intent" and "claimed_at" in row.facts:
            found[row.run] = Claim(row)
        elif row.settles and row.run in found and found[row.run].settled is None:
            found[row.run].settled = row
    return list(found.values())
