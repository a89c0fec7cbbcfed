"""Deciding: turns one observation into the one thing to write down."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from random import Random

from sereno.core.budget import Spend
from sereno.core.contract import CANCELLED_ENDS, Contract, Meaning, Via
from sereno.core.escalation import Category, at_text
from sereno.core.observing.seen import Observation, ObservationKind
from sereno.core.reading.answer import table_word
from sereno.core.values import Json
from sereno.core.waiting.ending import Step, end, note, provider_wait, refuse_ended
from sereno.core.waiting.lifecycle import Event, Grant, Operation, OperationState
from sereno.core.waiting.look import no_look, plan_look, rejected_hints
from sereno.core.waiting.step import OperationDecision, named_limit, used_up


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
    refuse_ended(operation)
    regression = _regression(operation, contract, observation)
    if regression is not None:
        contradicted = ObservationKind.CONTRADICTION
        observation = replace(observation, kind=contradicted, reason=regression, next_url=None, tolerated=False)
    spend = _spent(operation, observation)
    step = Step(
        operation,
        contract,
        received_at,
        spend,
        escalation_id,
        answer_within_s,
        observation=observation,
        grants=_grants_after(operation.grants, observation),
        facts=_facts(contract, observation, spend, regression),
        pins={**observation.pins, **operation.pins},
    )
    event, category, reason = _judge(step, observation)
    if operation.state is OperationState.ESCALATED:
        return note(step, event, f"recorded while a person is asked: {reason}")
    if event is Event.SAW_PENDING:
        return _look_again(step, observation, reason, rng)
    return end(step, event, category, reason)


_ENDS: Mapping[ObservationKind, tuple[Event, Category | None]] = {
    ObservationKind.SUCCESS: (Event.SAW_SUCCESS, None),
    ObservationKind.FAILURE: (Event.SAW_FAILURE, Category.PROVIDER_FAILURE),
    ObservationKind.CANCELLED: (Event.SAW_CANCELLED, Category.PROVIDER_CANCELLED),
    ObservationKind.EXPIRED: (Event.SAW_EXPIRED, Category.PROVIDER_EXPIRED),
    ObservationKind.NEEDS_INPUT: (Event.SAW_TROUBLE, Category.NEEDS_INPUT),
    ObservationKind.PARTIAL: (Event.SAW_TROUBLE, Category.PARTIAL_RESULT),
    ObservationKind.RESULT_EXPIRED: (Event.SAW_TROUBLE, Category.RESULT_EXPIRED),
    ObservationKind.UNKNOWN_STATE: (Event.SAW_TROUBLE, Category.UNKNOWN_STATE),
    ObservationKind.CONTRADICTION: (Event.SAW_TROUBLE, Category.CONTRADICTION),
    ObservationKind.INTEGRATION_FAILURE: (Event.SAW_TROUBLE, Category.INTEGRATION_FAILURE),
    ObservationKind.AUTHORIZATION_DENIED: (Event.SAW_TROUBLE, Category.AUTHORIZATION_DENIED),
    ObservationKind.UNKNOWN_OPERATION: (Event.SAW_TROUBLE, Category.UNKNOWN_OPERATION),
}
"""What ends the waiting at first sight. Every other kind waits on, inside the budgets."""

_UNANSWERED = (ObservationKind.TRANSPORT, ObservationKind.NOT_SENT)
_SAYS_NOTHING = (*_UNANSWERED, ObservationKind.THROTTLED)
"""Answers that say nothing about the job: they end no row of states."""
_FINAL = (Meaning.SUCCESS, Meaning.FAILURE, Meaning.CANCELLED, Meaning.EXPIRED)


def _regression(operation: Operation, contract: Contract, observation: Observation) -> str | None:
    """Says that a state went back from a final one, or None. That contradicts what was seen before (W04) and is not followed. Only
    a word that no rule of the contract refines is known to have been final; a guard against flapping expects it."""
    before = operation.last_state
    if observation.kind is not ObservationKind.PENDING or before is None or contract.state.steady > 1:
        return None
    word = table_word(contract, before)
    if contract.states.get(word) not in _FINAL or observation.state is None or observation.state == before:
        return None
    if any(rule.word == word for rule in contract.rules):
        return None
    return f"the job was {before!r}, which is final, and is now {observation.state!r}"


def _facts(contract: Contract, observation: Observation, spend: Spend, regression: str | None) -> dict[str, Json]:
    """What the journal keeps beside the decision itself."""
    facts: dict[str, Json] = {}
    if rejected := rejected_hints(observation.hints):
        facts["rejected_hints"] = list(rejected)
    if regression is not None:
        facts["regression"] = regression
    if observation.kind is ObservationKind.SUCCESS and contract.state.steady > 1:
        facts["steady"] = f"{spend.steady} of {contract.state.steady}"
    if observation.tolerated:
        facts["tolerated"] = spend.tolerated
    return facts


def _judge(step: Step, observation: Observation) -> tuple[Event, Category | None, str]:
    """Deadline, then state, then budgets."""
    operation = step.operation
    stops_at, limit = operation.allowance.stops_at()
    if step.at >= stops_at:
        return Event.HIT_LIMIT, Category(limit), _late(step, observation, f"{named_limit(limit)} {at_text(stops_at)}")
    steady = _steady(step, observation)
    if observation.kind in _ENDS and steady is None and not _is_granted(operation.grants, observation):
        event, category = _ENDS[_kind(step, observation)]
        return event, category, observation.reason or f"the provider says {observation.kind}"
    found = used_up(operation.allowance, step.used) if step.contract.via is not Via.PUSH else None
    if found is not None:
        return Event.HIT_LIMIT, *found
    return Event.SAW_PENDING, None, steady or observation.reason or f"the provider says {observation.kind}"


def _kind(step: Step, observation: Observation) -> ObservationKind:
    """What the state amounts to. After a cancel that was taken on, the word that the contract says it ends with means cancelled."""
    cancel = step.contract.cancel
    if step.operation.cancelled_at is None or cancel is None or cancel.ends_as is None or observation.state is None:
        return observation.kind
    ended = observation.kind.value in CANCELLED_ENDS and table_word(step.contract, observation.state) == cancel.ends_as
    return ObservationKind.CANCELLED if ended else observation.kind


def _steady(step: Step, observation: Observation) -> str | None:
    """The guard against a provider that flaps: says why a success does not count yet, or None."""
    wanted = step.contract.state.steady
    if observation.kind is not ObservationKind.SUCCESS or step.spend.steady >= wanted:
        return None
    return f"success was seen {step.spend.steady} of {wanted} times in a row"


def _late(step: Step, observation: Observation, deadline: str) -> str:
    if observation.kind is ObservationKind.NOT_SENT:
        return f"{deadline} passed before a request was sent"
    if observation.http_status is None and observation.kind in _UNANSWERED:
        return f"no answer came before {deadline}"
    return f"an answer ({observation.kind}) came at {at_text(step.at)}, not before {deadline}: recorded, not acted upon"


def _spent(operation: Operation, observation: Observation) -> Spend:
    """Settles the counters. Requests were counted before they left; only one that certainly did not leave is given back (W33)."""
    spend, kind = operation.spend, observation.kind
    given_back = operation.reserved and observation.requests == 0
    answered = kind not in _UNANSWERED or observation.http_status is not None
    missing = (ObservationKind.NOT_FOUND_YET, ObservationKind.UNKNOWN_OPERATION)
    silent = kind in _SAYS_NOTHING
    return Spend(
        status_requests=max(0, spend.status_requests - given_back),
        transport_failures=spend.transport_failures + (kind in _UNANSWERED),
        throttles=spend.throttles + (kind is ObservationKind.THROTTLED),
        answered=spend.answered + answered,
        not_found=spend.not_found + 1 if kind in missing else 0 if answered else spend.not_found,
        tolerated=spend.tolerated + 1 if observation.tolerated else spend.tolerated if silent else 0,
        steady=spend.steady + 1 if kind is ObservationKind.SUCCESS else spend.steady if silent else 0,
    )


def _covers(grant: Grant, observation: Observation) -> bool:
    """True where a person let exactly this unknown word count as pending, and checks are left."""
    return observation.kind is ObservationKind.UNKNOWN_STATE and grant.word == observation.state and grant.checks_left > 0


def _is_granted(grants: Sequence[Grant], observation: Observation) -> bool:
    return any(_covers(grant, observation) for grant in grants)


def _grants_after(grants: Sequence[Grant], observation: Observation) -> Sequence[Grant]:
    return tuple(replace(grant, checks_left=grant.checks_left - _covers(grant, observation)) for grant in grants)


def _look_again(step: Step, observation: Observation, reason: str, rng: Random) -> OperationDecision:
    """Plans the next look with the one draw of this decision; a provider that calls back is not looked at."""
    operation, draw = step.operation, rng.random()
    if step.contract.via is Via.PUSH:
        # A call-back answers no request, so it shortens no wait that an answer asked for (W35).
        source, wait = provider_wait(operation, observation.hints, step.at)
        unlooked = no_look(operation.allowance, {} if wait is None else {source: wait})
        return step.planned(Event.SAW_PENDING, unlooked, reason, draw)
    look = plan_look(step.contract, operation.allowance, observation, step.spend, operation.started_at, (step.at, draw))
    return step.planned(Event.SAW_PENDING, look, reason, draw)
