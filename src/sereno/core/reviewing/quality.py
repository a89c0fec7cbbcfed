"""Quality of waiting, measured from records and journals: ends within limits, waits respected, decisions reached again (W28).

One operation is measured at a time and added; nothing is kept of it but counts, so that memory stays the same however many there are.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sereno.core.observing.seen import DelaySource
from sereno.core.record import JournalEntry
from sereno.core.reviewing.checking import FaultName, JournalFault
from sereno.core.reviewing.replay import Replay, Verdict
from sereno.core.values import Json
from sereno.core.waiting.lifecycle import LIVE, TERMINAL, Event, Operation, OperationState

BEYOND = (FaultName.PAST_DEADLINE, FaultName.PAST_LIMIT, FaultName.UNCOUNTED, FaultName.LATE, FaultName.NO_RIGHT)
"""Faults of a wait that did not keep to its limits."""
INSIDE = (FaultName.INSIDE_WAIT,)


@dataclass(frozen=True, slots=True)
class Timing:
    """What the journal of one operation says of time: how late each claim was, in milliseconds, the provider's waits that were followed
    by a request, requests that were set aside and lost with their step, and what became of questions."""

    late_ms: tuple[int, ...] = ()
    waits: int = 0
    wasted: int = 0
    asked: tuple[str, ...] = ()
    """Categories of the questions."""
    answered: int = 0
    expired: int = 0


def read_timing(entries: Iterable[JournalEntry]) -> Timing:
    """Reads the journal of one operation, oldest first."""
    reading = _Reading()
    for entry in entries:
        reading.take(entry)
    return Timing(tuple(reading.late), reading.waits, reading.wasted, tuple(reading.asked), reading.answered, reading.expired)


@dataclass(slots=True)
class _Reading:
    late: list[int] = field(default_factory=list)
    waits: int = 0
    wasted: int = 0
    asked: list[str] = field(default_factory=list)
    answered: int = 0
    expired: int = 0
    _open: bool = False
    """A step holds a request that was set aside."""
    _waits: bool = False
    """The provider's last answer asked to wait."""

    def take(self, entry: JournalEntry) -> None:
        facts = entry.facts
        if entry.kind == "intent" and "claimed_at" in facts:
            self._claimed(facts)
        elif "draw" in facts:
            self._decided(facts)
        elif facts.get("decision") == "released":
            self._open = False
        elif facts.get("decision") == "parked":
            self._open = False
        elif facts.get("decision") == "answered":
            self.answered += 1

    def _claimed(self, facts: Mapping[str, Json]) -> None:
        self.wasted += self._open
        self._open = bool(facts.get("asks"))
        call = facts.get("call")
        sends = self._open or (isinstance(call, dict) and bool(call.get("taken")))
        self.waits += self._waits and sends
        self._waits = self._waits and not sends
        at, due = facts.get("claimed_at"), facts.get("scheduled_for")
        if sends and not facts.get("taken_over") and isinstance(at, int) and isinstance(due, int):
            self.late.append(max(0, at - due) // 1000)

    def _decided(self, facts: Mapping[str, Json]) -> None:
        self._open = False
        if _asks_to_wait(facts):
            self._waits = True
        if isinstance(facts.get("escalation"), str) and not facts.get("edited"):
            self.asked.append(str(facts.get("category")))
        self.expired += facts.get("event") == Event.SILENCE


def _asks_to_wait(facts: Mapping[str, Json]) -> bool:
    call, seen = facts.get("call"), facts.get("observation")
    answer = call.get("answer") if isinstance(call, dict) else seen
    hints = answer.get("hints") if isinstance(answer, dict) else None
    return isinstance(hints, list) and any(
        isinstance(hint, dict) and hint.get("source") == DelaySource.PROVIDER_RETRY_AFTER and hint.get("until") is not None
        for hint in hints
    )


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything that one operation gives to the report; `copies` are the states of the copies of its result."""

    operation: Operation
    timing: Timing
    replay: Replay
    faults: tuple[JournalFault, ...] = ()
    copies: tuple[str, ...] = ()


@dataclass(slots=True)
class Spread:
    """Whole numbers, rounded to two digits, with how often each came: bounded, whatever is added."""

    counts: Counter[int] = field(default_factory=Counter)

    def add(self, value: int) -> None:
        """Adds one number of 0 or more."""
        unit = 10 ** max(0, len(str(value)) - 2)
        self.counts[value // unit * unit] += 1

    def at(self, share: float) -> int | None:
        """The smallest number that at least this share of them does not exceed; None without numbers."""
        wanted = share * sum(self.counts.values())
        below = 0
        for value in sorted(self.counts):
            below += self.counts[value]
            if below >= wanted:
                return value
        return None

    @property
    def most(self) -> int | None:
        """The largest."""
        return max(self.counts, default=None)


@dataclass(slots=True)
class WaitingQuality:
    """The figures of many operations; `add` takes one after the other."""

    now: datetime
    operations: int = 0
    states: Counter[str] = field(default_factory=Counter)
    contracts: dict[str, Counter[str]] = field(default_factory=dict)
    """States by contract."""
    ended: int = 0
    """Ended, or asked a person, within their limits."""
    beyond: int = 0
    """Ended, or asked, but with a request beyond a limit."""
    waiting: int = 0
    """Still waiting, before their deadline."""
    overdue: int = 0
    """Still waiting, after their deadline: nobody drives them."""
    decisions: Counter[str] = field(default_factory=Counter)
    """Replayed decisions by verdict."""
    waits: int = 0
    """Waits that a provider asked for and that a request followed."""
    waits_broken: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    questions: Counter[str] = field(default_factory=Counter)
    """Questions by category."""
    answered: int = 0
    expired: int = 0
    copies: Counter[str] = field(default_factory=Counter)
    wasted: int = 0
    requests: Spread = field(default_factory=Spread)
    budget: Spread = field(default_factory=Spread)
    """Requests in percent of what was allowed; operations that may ask."""
    late_ms: Spread = field(default_factory=Spread)

    def add(self, one: Measured) -> None:
        """Adds one operation."""
        operation, timing = one.operation, one.timing
        self.operations += 1
        self.states[operation.state] += 1
        self.contracts.setdefault(operation.contract, Counter())[operation.state] += 1
        self._judge(operation, one)
        self.decisions.update(str(step.verdict) for step in one.replay.steps)
        self.faults.update(str(fault.name) for fault in one.faults)
        self.waits += timing.waits
        self.waits_broken += sum(fault.name in INSIDE for fault in one.faults)
        self.questions.update(timing.asked)
        self.answered += timing.answered
        self.expired += timing.expired
        self.copies.update(one.copies)
        self.wasted += timing.wasted
        used, most = operation.spend.status_requests, operation.allowance.max_status_requests
        self.requests.add(used)
        if most:
            self.budget.add(100 * used // most)
        for late in timing.late_ms:
            self.late_ms.add(late)

    def _judge(self, operation: Operation, one: Measured) -> None:
        if operation.state in LIVE:
            late = self.now >= operation.allowance.stops_at()[0] + OVERDUE
            self.overdue += late
            self.waiting += not late
            return
        beyond = any(fault.name in BEYOND for fault in one.faults)
        beyond = beyond or operation.spend.status_requests > operation.allowance.max_status_requests
        self.beyond += beyond
        self.ended += not beyond

    @property
    def share_ended(self) -> float | None:
        """The share of the operations whose time is over that ended, or asked a person, within their limits; None where there is none."""
        over = self.ended + self.beyond + self.overdue
        return self.ended / over if over else None

    @property
    def terminal(self) -> int:
        """Operations in a final state."""
        return sum(count for state, count in self.states.items() if state in TERMINAL)

    @property
    def asking(self) -> int:
        """Operations whose question is open."""
        return self.states[OperationState.ESCALATED]

    @property
    def reconstructed(self) -> tuple[int, int]:
        """How many decisions were reached again, of how many."""
        return self.decisions[Verdict.SAME], sum(self.decisions.values())


OVERDUE = timedelta(minutes=5)
"""A wait that is open for so long after its deadline is one that nobody drives."""
