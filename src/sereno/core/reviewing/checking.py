"""Checking: reads the audited facts of one operation, and them alone, and names what should not have happened (W44).

It decides nothing again (that is `replay`): it compares what was sent with what was planned, allowed and answered.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import cast

from sereno.core.budget import exhausted
from sereno.core.call import CallKind, CallOutcome
from sereno.core.contract import Contract
from sereno.core.escalation import Verb
from sereno.core.observing.seen import DelaySource, ObservationKind
from sereno.core.record import JournalEntry
from sereno.core.values import Json, from_micros
from sereno.core.waiting.lifecycle import LIVE, TERMINAL, Event, OperationState
from sereno.core.waiting.next import MOST_CANCELS, MOST_SUBMITS

Facts = Mapping[str, Json]


class FaultName(StrEnum):
    EARLY = "sent_before_planned"
    INSIDE_WAIT = "sent_inside_provider_wait"
    INSIDE_GAP = "sent_inside_minimum_gap"
    PAST_DEADLINE = "sent_past_deadline"
    PAST_LIMIT = "sent_past_limit"
    NO_RIGHT = "sent_without_right"
    """The wait had ended, or a person was being asked."""
    UNCOUNTED = "request_not_counted"
    NO_SOURCE = "no_delay_source"
    CONTRADICTS = "outcome_contradicts_answer"
    LATE = "late_answer_used"
    JUMPED = "state_changed_unrecorded"
    LIMITS = "limits_changed_unrecorded"
    NO_PERSON = "decided_by_no_person"
    TWICE = "submit_sent_twice"
    ANSWERED_TWICE = "question_answered_twice"


@dataclass(frozen=True, slots=True)
class JournalFault:
    """One fault: its name, the journal row that shows it, and a sentence."""

    name: FaultName
    seq: int
    at: datetime
    run: int
    says: str


_LIMITS = ("deadline_at", "business_deadline_at", "max_status_requests", "max_transport_failures", "max_throttles")
_SOURCES = frozenset(str(source) for source in DelaySource)
_ENDS_BY: Mapping[str, ObservationKind] = {
    OperationState.SUCCEEDED: ObservationKind.SUCCESS,
    OperationState.FAILED: ObservationKind.FAILURE,
    OperationState.CANCELLED: ObservationKind.CANCELLED,
    OperationState.EXPIRED: ObservationKind.EXPIRED,
}
"""What an answer has to be for a step to end the wait so."""
_ANSWERED_BY: Mapping[str, Verb] = {
    OperationState.SUCCEEDED: Verb.ACCEPT_PARTIAL,
    OperationState.FAILED: Verb.TREAT_AS_FAILED,
    OperationState.STOPPED: Verb.STOP,
}
_NOTHING_DONE = (CallOutcome.NOT_SENT, CallOutcome.DENIED, CallOutcome.THROTTLED, CallOutcome.REFUSED)
_PERSONS = ("cancel_requested", "contract_changed")
"""What only a person decides, beside answers (W20)."""
_ROUNDED = 1_000
"""Steps of the clock are on record to a millisecond."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """When the next step may send, as the journal said it; `shift` is how far the waits had been moved by then (microseconds)."""

    look: int | None = None
    due: int | None = None
    shift: int = 0


@dataclass(slots=True)
class JournalCheck:
    """Takes the rows of one operation, oldest first, and collects the faults. `contracts` are the pinned ones by digest, `clock` the rows
    that say when the host's clock was set, forward or back: waits were moved with it."""

    contracts: Mapping[str, Contract] = field(default_factory=dict)
    clock: Sequence[JournalEntry] = ()
    faults: list[JournalFault] = field(default_factory=list)
    _plan: _Plan = _Plan()
    _wait: _Plan = _Plan()
    _received: _Plan = _Plan()
    """When the last look, or the submit, was answered: the minimum gap counts from there."""
    _limits: tuple[Json, ...] | None = None
    _state: str | None = None
    _intent: Facts | None = None
    """The claim whose step has not ended yet."""
    _claimed_seq: int = 0
    """Its row: what its step decides is told by the clock as it stood there."""
    _sent: int = 0
    """Status requests that may have left."""
    _in_doubt: set[str] = field(default_factory=set)
    """Submits that may have been taken on."""
    _answered: set[str] = field(default_factory=set)
    _wanted: bool = False
    """A person has just decided that the next call is sent, whatever failed before."""

    def take(self, entry: JournalEntry) -> None:
        """Looks at the next row."""
        facts, word = entry.facts, entry.facts.get("decision")
        if entry.kind == "intent" and "claimed_at" in facts:
            self._claimed(entry, facts)
        elif entry.kind == "intent":
            self._sent += 1
        elif "draw" in facts:
            self._decided(entry, facts)
        elif word == "released":
            self._sent -= bool((self._intent or {}).get("asks"))
            self._intent = None
        elif word == "parked":
            self._doubt(self._intent)
            self._intent = None
        elif "by_kind" in facts and word != "restored":
            self._changed(entry, facts, str(word))

    # --- claims

    def _claimed(self, entry: JournalEntry, facts: Facts) -> None:
        self._doubt(self._intent)
        self._intent, self._claimed_seq = facts, entry.seq
        asks, call = bool(facts.get("asks")), _table(facts.get("call"))
        self._sent += asks
        self._check_standing(entry, facts)
        if asks or call.get("taken"):
            self._check_when(entry, facts, asks=asks)
            self._check_right(entry, facts)
        if _number(facts.get("status_requests_used")) < self._sent:
            self._say(
                FaultName.UNCOUNTED, entry, f"{self._sent} requests may have left, {facts.get('status_requests_used')} counted"
            )
        if asks and _number(facts.get("status_requests_used")) > _number(facts.get("max_status_requests")):
            self._say(FaultName.PAST_LIMIT, entry, _of(facts, "status_requests", "requests"))

    def _check_standing(self, entry: JournalEntry, facts: Facts) -> None:
        """State and limits are what the journal last said."""
        limits = tuple(facts.get(name) for name in _LIMITS)
        if self._limits is not None and limits != self._limits:
            changed = [name for name, was, now in zip(_LIMITS, self._limits, limits, strict=True) if was != now]
            self._say(FaultName.LIMITS, entry, f"{', '.join(changed)} changed, and nobody decided that")
        state = facts.get("state")
        if self._state is not None and state is not None and state != self._state:
            self._say(FaultName.JUMPED, entry, f"it is {state}, and the last row left it {self._state}")
        if facts.get("delay_source") not in _SOURCES:
            self._say(FaultName.NO_SOURCE, entry, "the claim names no source of its delay")

    def _check_when(self, entry: JournalEntry, facts: Facts, *, asks: bool) -> None:
        at = _number(facts.get("claimed_at"))
        plan = self._plan
        planned = plan.look if asks and plan.look is not None else plan.due
        if self._before(at, planned, plan.shift, entry.seq):
            self._say(FaultName.EARLY, entry, f"claimed at {_text(at)}, planned for {_text(planned)}")
        if self._before(at, self._wait.look, self._wait.shift, entry.seq):
            self._say(
                FaultName.INSIDE_WAIT,
                entry,
                f"claimed at {_text(at)}, and the provider asked to wait until {_text(self._wait.look)}",
            )
        received = self._received.look
        earliest = None if received is None else received + _number(facts.get("min_gap_us"))
        if asks and self._before(at, earliest, self._received.shift, entry.seq):
            self._say(FaultName.INSIDE_GAP, entry, f"claimed at {_text(at)}, and the minimum gap ends at {_text(earliest)}")

    def _before(self, at: int, planned: int | None, shift: int, seq: int) -> bool:
        """Whether `at` is before an instant that was planned when the waits had been moved by `shift`."""
        if planned is None:
            return False
        moved = self._moved(seq) - shift
        return at < planned + moved - (_ROUNDED if moved else 0)

    def _moved(self, seq: int) -> int:
        """How far the waits were moved by all rows before `seq`. An older version moved none forward, and did not always say so."""
        moved = 0
        for entry in self.clock:
            step, done = entry.facts.get("seconds"), entry.facts.get("moved")
            if entry.seq < seq and isinstance(step, int | float) and (done or (done is None and step < 0)):
                moved += round(step * 1_000_000)
        return moved

    def _check_right(self, entry: JournalEntry, facts: Facts) -> None:
        at, stops_at = _number(facts.get("claimed_at")), _stops_at(facts)
        if stops_at is not None and at >= stops_at:
            self._say(FaultName.PAST_DEADLINE, entry, f"claimed at {_text(at)}, and the wait ended at {_text(stops_at)}")
        state = facts.get("state", self._state)
        if state is not None and state not in LIVE:
            self._say(FaultName.NO_RIGHT, entry, f"it was {state}")

    # --- decisions of steps

    def _decided(self, entry: JournalEntry, facts: Facts) -> None:
        intent, self._intent = self._intent or {}, None
        seen, call = _table(facts.get("observation")), _table(facts.get("call"))
        answer = _table(call.get("answer"))
        # A call-back that is read counts as one request of the provider's, not of ours.
        sent = _number((seen if intent.get("asks") else answer).get("requests")) > 0
        if intent.get("asks") and not sent:
            self._sent -= 1
        self._check_used(entry, facts, intent, sent=sent)
        self._check_submit(entry, intent, answer, sent=sent)
        self._check_end(entry, facts, seen)
        shift = self._moved(self._claimed_seq if intent else entry.seq)
        self._move(entry, facts, shift, edited=bool(facts.get("edited")))
        if sent:
            if _table(intent.get("call")).get("kind") != CallKind.CANCEL:
                self._received = _Plan(_number(facts.get("received_at")), None, shift)
            self._wait = _Plan(_asked_until(seen or answer), None, shift)

    def _check_used(self, entry: JournalEntry, facts: Facts, intent: Facts, *, sent: bool) -> None:
        used, most = _number(facts.get("status_requests_used")), _number(facts.get("max_status_requests"))
        if used < self._sent:
            self._say(FaultName.UNCOUNTED, entry, f"{self._sent} requests may have left, {used} counted")
        if used > most and intent.get("asks"):
            self._say(FaultName.PAST_LIMIT, entry, _of(facts, "status_requests", "requests"))
        wanted, self._wanted = self._wanted, False
        if not sent:
            return
        for name, says in (("transport_failures", "failed requests"), ("throttles", "rate-limit answers")):
            if not wanted and exhausted(_number(intent.get(f"{name}_used")), _number(intent.get(f"max_{name}"))):
                self._say(FaultName.PAST_LIMIT, entry, f"sent although {_of(intent, name, says)}")
        call = _table(intent.get("call"))
        most_tries = MOST_SUBMITS if call.get("kind") == CallKind.SUBMIT else MOST_CANCELS
        if call.get("interrupted") and _number(call.get("attempts")) > most_tries:
            self._say(
                FaultName.PAST_LIMIT, entry, f"the {call.get('kind')} was tried {call.get('attempts')} times of {most_tries}"
            )

    def _check_submit(self, entry: JournalEntry, intent: Facts, answer: Facts, *, sent: bool) -> None:
        call = _table(intent.get("call"))
        if call.get("kind") != CallKind.SUBMIT or not sent:
            return
        name, contract = str(call.get("id")), self.contracts.get(str(intent.get("contract_digest")))
        keyed = contract is None or (contract.submit is not None and contract.submit.idempotency is not None)
        if name in self._in_doubt and not keyed:
            self._say(
                FaultName.TWICE, entry, f"the submit {name} may have been taken on before, and the contract documents no key"
            )
        if answer.get("outcome") not in _NOTHING_DONE:
            self._in_doubt.add(name)

    def _doubt(self, intent: Facts | None) -> None:
        """A claim that ended without a decision may have sent its submit."""
        call = _table((intent or {}).get("call"))
        if call.get("kind") == CallKind.SUBMIT and call.get("taken"):
            self._in_doubt.add(str(call.get("id")))

    def _check_end(self, entry: JournalEntry, facts: Facts, seen: Facts) -> None:
        state, event = str(facts.get("state")), facts.get("event")
        if state not in TERMINAL or facts.get("state_before") == state:
            return
        wanted = _ENDS_BY.get(state)
        if (wanted is None and event != Event.SILENCE) or (wanted is not None and seen.get("kind") != wanted):
            says = f"it is {state} by {event}, and the answer was {seen.get('kind', 'none')}"
            self._say(FaultName.CONTRADICTS, entry, says)
        received, stops_at = _number(facts.get("received_at")), _stops_at(facts)
        if wanted is not None and stops_at is not None and received >= stops_at:
            self._say(FaultName.LATE, entry, f"received at {_text(received)}, and the wait ended at {_text(stops_at)}")

    # --- decisions beside steps

    def _changed(self, entry: JournalEntry, facts: Facts, word: str) -> None:
        human = facts.get("by_kind") == "human"
        stops = word == "answered" and facts.get("verb") == Verb.STOP
        needs = word in _PERSONS or (word == "answered" and not stops) or (word == "created" and "previous" in facts)
        if needs and not human:
            self._say(FaultName.NO_PERSON, entry, f"{word} by {facts.get('by')}, of kind {facts.get('by_kind')}")
        if word == "answered":
            self._check_answer(entry, facts)
        if word == "pushed":
            self._sooner(entry, facts)
            return
        if word != "answered" and facts.get("state") in TERMINAL and facts.get("state") != OperationState.STOPPED:
            self._say(FaultName.CONTRADICTS, entry, f"it is {facts.get('state')} by {word}, which only gives up")
        self._limits = tuple(facts.get(name) for name in _LIMITS) if set(_LIMITS) <= set(facts) else self._limits
        plan = self._plan
        self._move(entry, facts, self._moved(entry.seq), edited=False)
        if word == "contract_changed":
            self._plan = plan
            self._sooner(entry, facts)

    def _sooner(self, entry: JournalEntry, facts: Facts) -> None:
        """What never puts anything off: a call that is planned keeps its instant."""
        plan, shift = self._plan, self._moved(entry.seq)
        moved = shift - plan.shift
        known = [None if planned is None else planned + moved for planned in (plan.look, plan.due)]
        found = [_instant(facts.get(name)) for name in ("next_poll_at", "due")]
        look, due = (min((one for one in both if one is not None), default=None) for both in zip(known, found, strict=True))
        self._plan = _Plan(look, due, shift)

    def _check_answer(self, entry: JournalEntry, facts: Facts) -> None:
        question, state = str(facts.get("escalation")), str(facts.get("state"))
        if question in self._answered:
            self._say(FaultName.ANSWERED_TWICE, entry, f"{question} was answered before")
        self._answered.add(question)
        self._wanted = facts.get("verb") in (Verb.CANCEL, Verb.SUBMIT_AGAIN)
        if state in TERMINAL and _ANSWERED_BY.get(state) != facts.get("verb"):
            self._say(FaultName.CONTRADICTS, entry, f"it is {state}, and the answer was {facts.get('verb')}")

    def _move(self, entry: JournalEntry, facts: Facts, shift: int, *, edited: bool) -> None:
        """Takes over state and plan of a row; `shift`: how far the waits had been moved by the clock that the plan is told by."""
        before, state, due = facts.get("state_before"), facts.get("state"), _instant(facts.get("due"))
        if not edited and self._state is not None and before is not None and before != self._state:
            self._say(FaultName.JUMPED, entry, f"it was {before}, and the last row left it {self._state}")
        if state in LIVE and facts.get("delay_source") not in _SOURCES:
            self._say(FaultName.NO_SOURCE, entry, "the plan names no source of its delay")
        if isinstance(state, str):
            self._state = state
        self._plan = _Plan(_instant(facts.get("next_poll_at")), due, shift)

    def _say(self, name: FaultName, entry: JournalEntry, says: str) -> None:
        self.faults.append(JournalFault(name, entry.seq, entry.at, entry.run, says))


def check_journal(
    entries: Iterable[JournalEntry], contracts: Mapping[str, Contract] | None = None, clock: Sequence[JournalEntry] = ()
) -> Sequence[JournalFault]:
    """The faults that the rows of one operation show, oldest first."""
    check = JournalCheck(contracts or {}, clock)
    for entry in entries:
        check.take(entry)
    return check.faults


def _asked_until(answer: Facts) -> int | None:
    """The latest Retry-After that was believed: the wait that nothing may shorten (W35). A poll hint is one where the plan says so."""
    hints = answer.get("hints")
    asked = [
        hint["until"]
        for hint in (hints if isinstance(hints, list) else ())
        if isinstance(hint, dict)
        and hint.get("source") == DelaySource.PROVIDER_RETRY_AFTER
        and isinstance(hint.get("until"), int)
    ]
    return max((until for until in asked if isinstance(until, int)), default=None)


def _stops_at(facts: Facts) -> int | None:
    ends = [end for name in ("deadline_at", "business_deadline_at") if (end := _instant(facts.get(name))) is not None]
    return min(ends, default=None)


def _of(facts: Facts, name: str, says: str) -> str:
    return f"{facts.get(f'{name}_used')} of {facts.get(f'max_{name}')} {says} were used"


def _table(value: Json | object) -> Facts:
    return cast(Facts, value) if isinstance(value, dict) else {}


def _number(value: Json | object) -> int:
    return value if isinstance(value, int) else 0


def _instant(value: Json | object) -> int | None:
    return value if isinstance(value, int) else None


def _text(micros: int | None) -> str:
    return "never" if micros is None else from_micros(micros).isoformat().replace("+00:00", "Z")
