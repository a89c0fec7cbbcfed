"""Replay: decides each recorded step of one operation again, from the journal alone, and says where the two differ (W28)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from random import Random

from sereno.core.call import CallState
from sereno.core.contract import Contract
from sereno.core.errors import SerenoError
from sereno.core.record import ChangeRecord, StepRecord
from sereno.core.values import Json, from_micros, to_micros
from sereno.core.waiting.calling import decide_call, decide_taken
from sereno.core.waiting.changing import decide_cancel, decide_push, decide_repin
from sereno.core.waiting.choice import AnswerDecision, Repin, decide_answer
from sereno.core.waiting.deciding import decide_operation
from sereno.core.waiting.ending import close_operation
from sereno.core.waiting.lifecycle import Operation, Pushed
from sereno.core.waiting.next import next_call
from sereno.core.waiting.step import Close, OperationDecision

Facts = Mapping[str, Json]


class Verdict(StrEnum):
    SAME = "same"
    DIFFERENT = "different"
    CANNOT = "cannot"
    """It cannot be decided again: the journal, or the pinned contract, does not hold what that needs."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that was recorded otherwise than it is decided now."""

    field: str
    recorded: Json
    again: Json


@dataclass(frozen=True, slots=True)
class Replayed:
    """One row of the journal, decided again. `why` says why it cannot be, or what was left out of the comparison."""

    seq: int
    run: int
    at: datetime
    what: str
    """`look`, `call`, `close`, or the word of a decision beside the steps (`answered` …)."""
    state: str
    verdict: Verdict
    differences: Sequence[Difference] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Replay:
    """All of them, oldest first."""

    steps: Sequence[Replayed]

    def count(self, verdict: Verdict) -> int:
        """How many came to this."""
        return sum(step.verdict is verdict for step in self.steps)

    @property
    def same(self) -> bool:
        """True where every decision was reached again."""
        return all(step.verdict is Verdict.SAME for step in self.steps)


class _Drawn(Random):
    """Gives the draw that was recorded."""

    def __init__(self, draw: float | None) -> None:
        super().__init__(0)
        self._draw = 0.0 if draw is None else draw

    def random(self) -> float:
        """The recorded draw, as often as it is asked for."""
        return self._draw


class Unreadable(ValueError):
    """The journal does not hold what deciding again needs; the message says what."""


def replay(
    steps: Iterable[StepRecord], changes: Iterable[ChangeRecord], contracts: Mapping[str, Contract], *, wanted: int | None = None
) -> Replay:
    """Decides again what the journal holds of one operation. `contracts` are the pinned ones by digest; `wanted` names one run."""
    found = [
        *(_replay_step(step, contracts) for step in steps if wanted in (None, step.run)),
        *(_replay_change(change, contracts) for change in changes if wanted in (None, change.run)),
    ]
    return Replay(sorted(found, key=lambda one: one.seq))


def _replay_step(step: StepRecord, contracts: Mapping[str, Contract]) -> Replayed:
    what = "call" if step.answer is not None else "look" if step.observation is not None else "close"
    heading = Replayed(step.seq, step.run, step.received_at, what, str(step.decided.get("state")), Verdict.SAME)

    def decide() -> Facts:
        operation, contract = _known(step.operation, contracts)
        decision = _decided(step, operation, contract)
        again = _as_facts(decision)
        again["status_requests_used"] = decision.spend.status_requests + step.hops
        return _without_edited(again) if step.edited else again

    replayed = _compared(heading, step.decided, decide, woken_since=step.received_at if step.woken else None)
    if step.edited and replayed.verdict is Verdict.SAME:
        return replace(replayed, why="edited meanwhile: its facts were taken, and its state and plan were not")
    return replayed


def _replay_change(change: ChangeRecord, contracts: Mapping[str, Contract]) -> Replayed:
    heading = Replayed(change.seq, change.run, change.at, change.word, str(change.decided.get("state")), Verdict.SAME)

    def decide() -> Facts:
        operation, contract = _known(change.operation, contracts)
        return _change_facts(change, operation, _changed(change, operation, contract))

    return _compared(heading, change.decided, decide)


def _known(operation: Operation | None, contracts: Mapping[str, Contract]) -> tuple[Operation, Contract]:
    if operation is None:
        raise Unreadable("an older version wrote down too little of what was known")
    contract = contracts.get(operation.contract_digest)
    if contract is None:
        raise Unreadable(f"the pinned contract {operation.contract_digest[:12]} is not there, or cannot be read")
    return operation, contract


def _decided(step: StepRecord, operation: Operation, contract: Contract) -> OperationDecision:
    """Decides the step again, by the rule that it went by."""
    at, answer, asks = step.received_at, step.answer, _asks(step)
    if answer is None and step.observation is not None:
        return decide_operation(
            operation, contract, step.observation, at, _Drawn(step.draw),
            escalation_id=asks.id, answer_within_s=asks.within_s,
        )  # fmt: skip
    if answer is not None and _was_taken(step):
        return decide_taken(operation, contract, answer, at, escalation_id=asks.id, answer_within_s=asks.within_s)
    if answer is not None:
        return decide_call(
            operation, contract, answer, at, _Drawn(step.draw), escalation_id=asks.id, answer_within_s=asks.within_s
        )
    close = next_call(operation, contract, at)
    if not isinstance(close, Close):
        raise Unreadable(f"nothing was sent in it, and now it would {type(close).__name__.lower()}")
    return close_operation(operation, contract, close, at, escalation_id=asks.id, answer_within_s=asks.within_s)


@dataclass(frozen=True, slots=True)
class _Asks:
    """What a deployment gives a question: its id, and how long a person has."""

    id: str
    within_s: float


def _asks(step: StepRecord) -> _Asks:
    escalation, due = step.decided.get("escalation"), step.decided.get("due")
    if not isinstance(escalation, str) or not isinstance(due, int):
        return _Asks("esc_", 86_400.0)
    return _Asks(escalation, (from_micros(due) - step.received_at).total_seconds())


def _was_taken(step: StepRecord) -> bool:
    """True where the store said that another open operation waits for the job that a submit's answer named (W39)."""
    call, named = step.decided.get("call"), step.answer is not None and step.answer.job_id is not None
    done = isinstance(call, dict) and call.get("state") == CallState.DONE
    return named and done and "job" not in step.decided


def _as_facts(decision: OperationDecision) -> dict[str, Json]:
    """The decision as the journal would hold it."""
    spend, settled, asked = decision.spend, decision.call, decision.escalation
    return {
        "state": str(decision.state),
        "event": str(decision.event),
        "category": None if decision.category is None else str(decision.category),
        "due": _micros(decision.due),
        "next_poll_at": _micros(decision.next_poll_at),
        "delay_source": str(decision.delay_source),
        "draw": decision.draw,
        "decision": decision.reason,
        "transport_failures_used": spend.transport_failures,
        "throttles_used": spend.throttles,
        "answered": spend.answered,
        "not_found": spend.not_found,
        "tolerated": spend.tolerated,
        "steady": spend.steady,
        "question": None if asked is None else asked.digest,
        "effects": [effect.dedupe_key for effect in decision.effects],
        "grants": [{"word": grant.word, "checks_left": grant.checks_left} for grant in decision.grants],
        "pins": dict[str, object](decision.pins),
        "url": decision.url,
        "call": None if settled is None else str(settled.state),
        "job": None if decision.job is None else decision.job.job_id,
    }


_PLAN = ("state", "due", "next_poll_at", "effects", "pins", "grants", "category", "question")
"""What an edited operation does not take over from a step."""


def _without_edited(again: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in again.items() if name not in _PLAN}


_PLANNED = ("due", "next_poll_at")
_INNER = {"call": "state", "job": "job_id"}
"""Facts that are tables: the one entry that is compared."""


def _compared(
    heading: Replayed, recorded: Facts, decide: Callable[[], Facts], *, woken_since: datetime | None = None
) -> Replayed:
    try:
        again = decide()
    except (SerenoError, ValueError, KeyError, TypeError) as error:
        return replace(heading, verdict=Verdict.CANNOT, why=str(error)[:300])
    if heading.what in ("look", "call", "close") and "question" not in recorded and recorded.get("escalation") is not None:
        again = {name: value for name, value in again.items() if name != "question"}  # written by an older version
    differences = [
        Difference(name, was, value)
        for name, value in again.items()
        if (was := _recorded(recorded, name)) != value
        and (was or value)  # what is empty is not written down
        and not (woken_since is not None and name in _PLANNED and _sooner(was, value, woken_since))
    ]
    return replace(heading, verdict=Verdict.DIFFERENT if differences else Verdict.SAME, differences=differences)


def _recorded(facts: Facts, name: str) -> Json:
    value = facts.get(name)
    if name in _INNER and isinstance(value, dict):
        inner = value.get(_INNER[name])
        return inner if isinstance(inner, str) else None
    return value


def _sooner(recorded: Json, again: Json, since: datetime) -> bool:
    """A call-back that came while the step was under way put its look sooner, never before the step itself (W35)."""
    if not isinstance(recorded, int):
        return False
    return to_micros(since) <= recorded and (again is None or (isinstance(again, int) and recorded <= again))


def _changed(change: ChangeRecord, operation: Operation, contract: Contract) -> AnswerDecision:
    match change.word:
        case "answered":
            if change.escalation is None or change.option is None:
                raise Unreadable("the statement that was shown does not hold the options")
            return decide_answer(operation, change.escalation, change.option, change.at, contract=contract, to=_moved_to(change))
        case "cancel_requested":
            return decide_cancel(operation, contract, change.at)
        case "pushed":
            return decide_push(operation, contract, Pushed(b"", "", change.at), change.at)
        case "contract_changed":
            return decide_repin(operation, change.at, _moved_to(change))
        case word:
            raise Unreadable(f"nothing decides {word!r}")


def _moved_to(change: ChangeRecord) -> Repin | None:
    """What the contract that it moved to brought; None where it did not move, or an older version wrote nothing down."""
    gap, moved = change.decided.get("min_gap_us"), change.decided.get("url")
    if not isinstance(gap, int) or change.operation is None:
        return None
    return Repin(timedelta(microseconds=gap), moved if isinstance(moved, str) else None, change.operation.url)


def _change_facts(change: ChangeRecord, operation: Operation, decision: AnswerDecision) -> dict[str, Json]:
    """The decision as the journal would hold it; a call-back moves no limit and writes none."""
    facts: dict[str, Json] = {
        "state": str(decision.state),
        "reason": decision.reason,
        "next_poll_at": _micros(decision.next_poll_at),
        "due": _micros(decision.due),
        "delay_source": str(decision.delay_source),
    }
    if change.word == "pushed":
        return facts
    allowance = decision.allowance
    never_asks = operation.allowance.max_status_requests == 0 and not decision.repin
    return {
        **facts,
        "event": str(decision.event),
        "effects": [effect.dedupe_key for effect in decision.effects],
        "deadline_at": to_micros(allowance.deadline_at),
        "business_deadline_at": _micros(allowance.business_deadline_at),
        "max_status_requests": 0 if never_asks else allowance.max_status_requests,
        "max_transport_failures": allowance.max_transport_failures,
        "max_throttles": allowance.max_throttles,
    }


def _micros(instant: datetime | None) -> int | None:
    return None if instant is None else to_micros(instant)
