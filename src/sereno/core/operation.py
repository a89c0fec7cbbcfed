"""Decides on one wait: what to do next, and what an answer of the provider amounts to. Pure.

The whole subject is reached through this module: the record and its table (`lifecycle`), and people's choices (`choice`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from random import Random

from sereno.core.budget import Allowance, Spend, exhausted
from sereno.core.call import CallSettled, ProviderCall
from sereno.core.contract import Contract
from sereno.core.effect import Effect
from sereno.core.errors import InvariantBroken, NotNow
from sereno.core.escalation import Category, Escalation, at_text
from sereno.core.observation import DelaySource, Observation, ObservationKind
from sereno.core.values import Json, canonical, digest
from sereno.core.waiting.asking import Trouble, question, tell_end, tell_question
from sereno.core.waiting.choice import AnswerDecision, decide_answer
from sereno.core.waiting.lifecycle import TERMINAL, TRANSITIONS, Event, Grant, Operation, OperationState, Pushed, diagram, move
from sereno.core.waiting.look import FROM_PROVIDER, plan_look, provider_waits, rejected_hints

__all__ = [
    "TERMINAL",
    "TRANSITIONS",
    "AnswerDecision",
    "Ask",
    "Close",
    "Job",
    "Event",
    "Grant",
    "Operation",
    "OperationDecision",
    "OperationState",
    "Pushed",
    "Read",
    "Send",
    "close_operation",
    "decide_answer",
    "decide_operation",
    "diagram",
    "fingerprint",
    "move",
    "next_call",
    "ready_result",
]


@dataclass(frozen=True, slots=True)
class Ask:
    """Send one status request, to be received before `deadline_at`."""

    deadline_at: datetime


@dataclass(frozen=True, slots=True)
class Send:
    """Send the submit or cancel that `operation.call` holds; its answer is to be received before `deadline_at`."""

    call: ProviderCall
    deadline_at: datetime


@dataclass(frozen=True, slots=True)
class Read:
    """Send nothing: read what the provider called back with (`operation.pushed`), for a contract without a status call."""

    pushed: Pushed


@dataclass(frozen=True, slots=True)
class Close:
    """Send nothing: a limit, a deadline or an answer ends it here."""

    event: Event
    category: Category | None
    reason: str


def next_call(operation: Operation, now: datetime) -> Ask | Close:
    """Order of W33: terminal/escalated → deadline → budget. `now` is the database's instant.

    A question that is still open sends nothing: past its answer deadline silence closes it, before that the step only notes so.
    """
    if operation.state in TERMINAL:
        raise InvariantBroken(f"{operation.id} is {operation.state} and was handed out again", subject=operation.id)
    if operation.state is OperationState.ESCALATED:
        return _silent(operation, now)
    stops_at, limit = operation.allowance.stops_at()
    if now >= stops_at:
        return Close(Event.HIT_LIMIT, Category(limit), f"{_named(limit)} {at_text(stops_at)} passed without a final state")
    spend = operation.spend
    before = replace(spend, status_requests=spend.status_requests - operation.reserved)
    used_up = _used_up(operation.allowance, before)
    if used_up is not None:
        return Close(Event.HIT_LIMIT, *used_up)
    if not operation.reserved:
        raise InvariantBroken(f"no status request was reserved for {operation.id}", subject=operation.id)
    return Ask(stops_at)


def _silent(operation: Operation, now: datetime) -> Close:
    answer_by = _open_question(operation).answer_by
    if now >= answer_by:
        silence = f"nobody answered until {at_text(answer_by)}: stopped, the handle is kept"
        return Close(Event.SILENCE, operation.category, silence)
    return Close(Event.HIT_LIMIT, operation.category, f"waits for an answer until {at_text(answer_by)}: nothing is sent")


def _open_question(operation: Operation) -> Escalation:
    if operation.open_escalation is None:
        raise InvariantBroken(f"{operation.id} is escalated without an open question", subject=operation.id)
    return operation.open_escalation


def _named(limit: str) -> str:
    return "the business deadline" if limit == Category.BUSINESS_DEADLINE_EXCEEDED else "the deadline"


def _used_up(allowance: Allowance, spend: Spend) -> tuple[Category, str] | None:
    """The first budget that leaves no room for another look, and the sentence that says so (W34)."""
    if exhausted(spend.throttles, allowance.max_throttles):
        return Category.RATE_LIMITED, f"{spend.throttles} of {allowance.max_throttles} rate-limit answers are used up"
    if exhausted(spend.transport_failures, allowance.max_transport_failures):
        used = f"{spend.transport_failures} of {allowance.max_transport_failures} failed requests are used up"
        return Category.PROVIDER_UNREACHABLE, f"{used}; what the job does is not known"
    if spend.status_requests >= allowance.max_status_requests:
        used = f"{spend.status_requests} of {allowance.max_status_requests} status requests are used"
        return Category.REQUEST_BUDGET_EXHAUSTED, f"{used} and there is no final state"
    return None


@dataclass(frozen=True, slots=True)
class Job:
    """The job at the provider that a submit started: what the looks ask for."""

    job_id: str
    url: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class OperationDecision:
    """The one thing to write down about a step (W26)."""

    state: OperationState
    event: Event
    due: datetime | None
    """The next planned look (WAITING), the answer deadline (ESCALATED), else None."""
    next_poll_at: datetime | None
    delay_source: DelaySource
    spend: Spend
    reason: str
    observation: Observation | None
    received_at: datetime
    draw: float | None
    """The random draw used, so that a replay decides the same."""
    category: Category | None = None
    escalation: Escalation | None = None
    """A new question, to be stored in the same transaction."""
    grants: Sequence[Grant] = ()
    effects: Sequence[Effect] = ()
    facts: Mapping[str, Json] = field(default_factory=dict)
    """Extra facts for the journal: rejected hints, late answers, clipped delays."""
    call: CallSettled | None = None
    """What became of the submit or cancel of this step."""
    job: Job | None = None
    """The job that a submit's answer named: stored as this operation's from now on."""
    pins: Mapping[str, str] = field(default_factory=dict)
    """The pinned fields from now on, whole."""
    url: str | None = None
    """The status address from now on, where an answer handed the job over; None = unchanged."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One step while it is decided: what is known, and what a question would need."""

    operation: Operation
    contract: Contract
    observation: Observation | None
    at: datetime
    spend: Spend
    grants: Sequence[Grant]
    escalation_id: str
    answer_within_s: float
    facts: Mapping[str, Json]

    @property
    def used(self) -> Spend:
        """The counters as the store has them. Each redirect hop was counted there before it left; `spend` does not hold those, so
        that nothing is counted twice."""
        hops = max(0, self.observation.requests - 1) if self.observation is not None else 0
        return replace(self.spend, status_requests=self.spend.status_requests + hops)


def decide_operation(  # noqa: PLR0913 - the agreed signature: four facts, the dice, and what a question needs
    operation: Operation,
    contract: Contract,
    observation: Observation,
    received_at: datetime,
    rng: Random,
    *,
    escalation_id: str,
    answer_within_s: float = 86_400.0,
) -> OperationDecision:
    """Turns one observation into the one thing to write down.

    The deadline is judged before the state: an answer received at or after it is recorded and reported, and using it is a
    person's decision (W32). Then: trouble stops on first sight (W38), budgets before planning (W34), then the next look: the
    latest of Retry-After, hint and backoff, never under `min_gap`; where it passes the deadline `due` is the deadline itself and
    no further request is planned (W13). Raises InvariantBroken for an operation that has ended (I11).
    """
    if operation.state in TERMINAL:
        raise InvariantBroken(f"{operation.id} is {operation.state}; nothing moves it any more", subject=operation.id)
    rejected = rejected_hints(observation)
    facts: dict[str, Json] = {"rejected_hints": list(rejected)} if rejected else {}
    spend, grants = _spent(operation, observation), _grants_after(operation.grants, observation)
    step = _Step(operation, contract, observation, received_at, spend, grants, escalation_id, answer_within_s, facts)
    event, category, reason = _judge(step, observation)
    if operation.state is OperationState.ESCALATED:
        return _note(step, event, f"recorded while a person is asked: {reason}")
    if event is Event.SAW_PENDING:
        return _look_again(step, observation, rng)
    return _end(step, event, category, reason)


_ENDS: Mapping[ObservationKind, tuple[Event, Category | None]] = {
    ObservationKind.SUCCESS: (Event.SAW_SUCCESS, None),
    ObservationKind.FAILURE: (Event.SAW_FAILURE, Category.PROVIDER_FAILURE),
    ObservationKind.CANCELLED: (Event.SAW_CANCELLED, Category.PROVIDER_CANCELLED),
    ObservationKind.EXPIRED: (Event.SAW_EXPIRED, Category.PROVIDER_EXPIRED),
    ObservationKind.NEEDS_INPUT: (Event.SAW_TROUBLE, Category.NEEDS_INPUT),
    ObservationKind.PARTIAL: (Event.SAW_TROUBLE, Category.PARTIAL_RESULT),
    ObservationKind.UNKNOWN_STATE: (Event.SAW_TROUBLE, Category.UNKNOWN_STATE),
    ObservationKind.CONTRADICTION: (Event.SAW_TROUBLE, Category.CONTRADICTION),
    ObservationKind.INTEGRATION_FAILURE: (Event.SAW_TROUBLE, Category.INTEGRATION_FAILURE),
    ObservationKind.AUTHORIZATION_DENIED: (Event.SAW_TROUBLE, Category.AUTHORIZATION_DENIED),
    ObservationKind.UNKNOWN_OPERATION: (Event.SAW_TROUBLE, Category.UNKNOWN_OPERATION),
}
"""What ends the waiting at first sight. Every other kind waits on, inside the budgets."""

_UNANSWERED = (ObservationKind.TRANSPORT, ObservationKind.NOT_SENT)


def _judge(step: _Step, observation: Observation) -> tuple[Event, Category | None, str]:
    """Deadline, then state, then budgets."""
    operation = step.operation
    stops_at, limit = operation.allowance.stops_at()
    if step.at >= stops_at:
        return Event.HIT_LIMIT, Category(limit), _late(step, observation, f"{_named(limit)} {at_text(stops_at)}")
    if observation.kind in _ENDS and not _is_granted(operation.grants, observation):
        event, category = _ENDS[observation.kind]
        return event, category, observation.reason or f"the provider says {observation.kind}"
    used_up = _used_up(operation.allowance, step.used)
    if used_up is not None:
        return Event.HIT_LIMIT, *used_up
    return Event.SAW_PENDING, None, observation.reason


def _late(step: _Step, observation: Observation, deadline: str) -> str:
    if observation.kind is ObservationKind.NOT_SENT:
        return f"{deadline} passed before a request was sent"
    if observation.http_status is None:
        return f"no answer came before {deadline}"
    return f"an answer ({observation.kind}) came at {at_text(step.at)}, not before {deadline}: recorded, not acted upon"


def _spent(operation: Operation, observation: Observation) -> Spend:
    """Settles the counters. Requests were counted before they left; only one that certainly did not leave is given back (W33)."""
    spend, kind = operation.spend, observation.kind
    given_back = kind is ObservationKind.NOT_SENT and operation.reserved
    answered = kind not in _UNANSWERED or observation.http_status is not None
    missing = (ObservationKind.NOT_FOUND_YET, ObservationKind.UNKNOWN_OPERATION)
    return Spend(
        status_requests=max(0, spend.status_requests - given_back),
        transport_failures=spend.transport_failures + (kind in _UNANSWERED),
        throttles=spend.throttles + (kind is ObservationKind.THROTTLED),
        answered=spend.answered + answered,
        not_found=spend.not_found + 1 if kind in missing else 0 if answered else spend.not_found,
    )


def _covers(grant: Grant, observation: Observation) -> bool:
    """True where a person let exactly this unknown word count as pending, and checks are left."""
    return observation.kind is ObservationKind.UNKNOWN_STATE and grant.word == observation.state and grant.checks_left > 0


def _is_granted(grants: Sequence[Grant], observation: Observation) -> bool:
    return any(_covers(grant, observation) for grant in grants)


def _grants_after(grants: Sequence[Grant], observation: Observation) -> Sequence[Grant]:
    return tuple(replace(grant, checks_left=grant.checks_left - _covers(grant, observation)) for grant in grants)


def _look_again(step: _Step, observation: Observation, rng: Random) -> OperationDecision:
    """Plans the next look with the one draw of this decision."""
    operation, draw = step.operation, rng.random()
    look = plan_look(step.contract.delays, operation.allowance, observation, step.spend, operation.created_at, (step.at, draw))
    seen = observation.reason or f"the provider says {observation.kind}"
    return OperationDecision(
        state=move(operation.state, Event.SAW_PENDING),
        event=Event.SAW_PENDING,
        due=look.due,
        next_poll_at=look.next_poll_at,
        delay_source=look.source,
        spend=step.spend,
        reason=f"{seen}; {look.reason}",
        observation=observation,
        received_at=step.at,
        draw=draw,
        grants=step.grants,
        facts={**step.facts, **look.facts},
    )


def _note(step: _Step, event: Event, reason: str) -> OperationDecision:
    """Records a fact without moving: the question stays open, nothing is told twice."""
    operation = step.operation
    return OperationDecision(
        state=move(operation.state, event),
        event=event,
        due=_open_question(operation).answer_by,
        next_poll_at=operation.next_poll_at,
        delay_source=operation.delay_source,
        spend=step.spend,
        reason=reason,
        observation=step.observation,
        received_at=step.at,
        draw=None,
        category=operation.category,
        grants=operation.grants,
        facts=step.facts,
    )


def _end(step: _Step, event: Event, category: Category | None, reason: str) -> OperationDecision:
    """Ends the waiting: a final state, or a question to a person. Both are told to every action."""
    operation = step.operation
    state = move(operation.state, event)
    source, wait = _provider_wait(step)
    decision = OperationDecision(
        state=state,
        event=event,
        due=None,
        next_poll_at=None,
        delay_source=source,
        spend=step.spend,
        reason=reason,
        observation=step.observation,
        received_at=step.at,
        draw=None,
        category=category,
        grants=step.grants,
        facts=step.facts,
    )
    if state in TERMINAL:
        return replace(decision, effects=tell_end(operation, state, category, reason, step.observation))
    assert category is not None, "a question has a category"
    asked = _question(step, category, reason, wait)
    return replace(decision, due=asked.answer_by, next_poll_at=wait, escalation=asked, effects=tell_question(operation, asked))


def _provider_wait(step: _Step) -> tuple[DelaySource, datetime | None]:
    """The latest wait the provider asked for that is still ahead: an answer to the question may not shorten it (W35)."""
    operation = step.operation
    waits = provider_waits(step.observation, step.at) if step.observation is not None else {}
    if operation.delay_source in FROM_PROVIDER and operation.next_poll_at is not None and operation.next_poll_at > step.at:
        waits[operation.delay_source] = max(operation.next_poll_at, waits.get(operation.delay_source, operation.next_poll_at))
    if not waits:
        return operation.delay_source, None
    return max(waits.items(), key=lambda pair: pair[1])


def _question(step: _Step, category: Category, reason: str, wait: datetime | None) -> Escalation:
    last_sent = step.at if step.observation is not None else step.operation.last_checked_at
    not_before = step.at if last_sent is None else max(step.at, last_sent + step.contract.delays.min_gap)
    trouble = Trouble(
        category=category,
        reason=reason,
        at=step.at,
        spend=step.used,
        observation=step.observation,
        not_before=not_before if wait is None else max(not_before, wait),
        provider_wait=wait,
    )
    return question(step.operation, trouble, step.escalation_id, step.answer_within_s)


def close_operation(
    operation: Operation,
    contract: Contract,
    close: Close,
    now: datetime,
    *,
    escalation_id: str,
    answer_within_s: float = 86_400.0,
) -> OperationDecision:
    """Writes down an end that needs no request: deadline, budget, silence. A reserved request is given back, since nothing left.

    Raises InvariantBroken for an operation that has ended (I11).
    """
    if operation.state in TERMINAL:
        raise InvariantBroken(f"{operation.id} is {operation.state}; nothing moves it any more", subject=operation.id)
    spend = operation.spend
    spend = replace(spend, status_requests=max(0, spend.status_requests - operation.reserved))
    step = _Step(operation, contract, None, now, spend, operation.grants, escalation_id, answer_within_s, {})
    if move(operation.state, close.event) is operation.state:
        return _note(step, close.event, close.reason)
    return _end(step, close.event, close.category, close.reason)


def fingerprint(contract: str, account: str, job_id: str, url: str) -> str:
    """SHA-256 over the canonical JSON of what identifies the original request (W05)."""
    return digest(canonical({"contract": contract, "account": account, "job_id": job_id, "url": url}))


def ready_result(operation: Operation) -> str | None:
    """Where the result is, once the operation has succeeded. Raises NotNow before: pending allows only another look (W02)."""
    if operation.state is not OperationState.SUCCEEDED:
        raise NotNow(f"the operation is {operation.state}, not succeeded", subject=operation.id, hint="wait for it")
    return operation.result_ref
