"""Calling: turns the answer to a submit or a cancel into the one thing to write down (W21, W24, W31)."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

from sereno.core.budget import Spend, exhausted
from sereno.core.call import CallAnswer, CallKind, CallOutcome, CallSettled, CallState, ProviderCall
from sereno.core.contract import Contract, Duplicate, Via
from sereno.core.delay import jittered, raw_backoff, steep_backoff
from sereno.core.errors import InvariantBroken
from sereno.core.escalation import Category, at_text
from sereno.core.observing.seen import DelaySource
from sereno.core.waiting.ending import Step, end, provider_wait, refuse_ended
from sereno.core.waiting.lifecycle import Event, Operation, OperationState
from sereno.core.waiting.look import HELD, Look, no_look, plan_first_look, provider_waits, rejected_hints
from sereno.core.waiting.next import in_doubt, may_cancel_again, may_submit_again
from sereno.core.waiting.step import Job, OperationDecision, named_limit

O = CallOutcome  # noqa: E741 - read in every line below


def decide_call(  # noqa: PLR0913 - the agreed signature, as of `decide_operation`
    operation: Operation,
    contract: Contract,
    answer: CallAnswer,
    received_at: datetime,
    rng: Random,
    *,
    escalation_id: str,
    answer_within_s: float = 86_400.0,
) -> OperationDecision:
    """Turns the answer to the open call into the one thing to write down.

    A submit that was taken on names the job that is waited for from now on, also where the deadline has passed meanwhile. It is sent
    again by itself only where nothing left, or under its key while the provider keeps that; whatever else is in doubt asks a
    person. A cancel never ends the wait: the next look tells. Status requests are not counted here (W33).
    """
    refuse_ended(operation)
    call = _open_call(operation)
    step = Step(
        operation,
        contract,
        received_at,
        _spent(operation.spend, answer.outcome),
        escalation_id,
        answer_within_s,
        answer=answer,
        grants=operation.grants,
        pins=operation.pins,
        facts={"rejected_hints": list(rejected)} if (rejected := rejected_hints(answer.hints)) else {},
    )
    if call.kind is CallKind.CANCEL:
        return _cancelled(step, call, answer, rng.random())
    return _submitted(step, call, answer, rng.random())


def decide_taken(
    operation: Operation,
    contract: Contract,
    answer: CallAnswer,
    received_at: datetime,
    *,
    escalation_id: str,
    answer_within_s: float = 86_400.0,
) -> OperationDecision:
    """Asks a person where the job that a submit named is waited for by another open operation: a job of an earlier request is never
    adopted as the current one (W39)."""
    refuse_ended(operation)
    call = _open_call(operation)
    step = Step(
        operation,
        contract,
        received_at,
        _spent(operation.spend, answer.outcome),
        escalation_id,
        answer_within_s,
        answer=answer,
        grants=operation.grants,
        pins=operation.pins,
        call=CallSettled(call.id, CallState.DONE, answer),
    )
    reason = f"the submit was answered with the job {answer.job_id!r}, for which another open operation waits already"
    return end(step, Event.SAW_TROUBLE, Category.CONTRADICTION, reason)


def _open_call(operation: Operation) -> ProviderCall:
    if operation.call is None:
        raise InvariantBroken(f"{operation.id} has no open call", subject=operation.id)
    return operation.call


def _spent(spend: Spend, outcome: CallOutcome) -> Spend:
    return replace(
        spend,
        transport_failures=spend.transport_failures + (outcome in (O.NOT_SENT, O.UNKNOWN)),
        throttles=spend.throttles + (outcome is O.THROTTLED),
    )


def _submitted(step: Step, call: ProviderCall, answer: CallAnswer, draw: float) -> OperationDecision:
    """What became of a submit."""
    if answer.outcome in (O.ACCEPTED, O.DUPLICATE) and answer.job_id is not None:
        return _started(step, call, answer, draw)
    if answer.outcome in (O.NOT_SENT, O.THROTTLED, O.UNKNOWN):
        return _submit_again(step, call, answer, draw)
    if answer.outcome in (O.DENIED, O.REFUSED) and not in_doubt(call):
        return _refused(step, call, answer)
    settled = replace(step, call=CallSettled(call.id, CallState.UNKNOWN, answer))
    return end(settled, Event.SAW_TROUBLE, Category.SUBMIT_UNKNOWN, answer.reason)


def _started(step: Step, call: ProviderCall, answer: CallAnswer, draw: float) -> OperationDecision:
    """The job is known: it is waited for, unless it is not ours, or the time for that is over."""
    assert answer.job_id is not None, "the caller saw the job"
    if _is_foreign(step.contract, call, answer):
        foreign = replace(step, call=CallSettled(call.id, CallState.REFUSED, answer))
        reason = f"{answer.reason}, but this operation had sent none before: the job {answer.job_id!r} is that of another request"
        return end(foreign, Event.SAW_TROUBLE, Category.CONTRADICTION, reason)
    job = Job(answer.job_id, answer.url or "", answer.parameters)
    step = replace(step, call=CallSettled(call.id, CallState.DONE, answer), job=job)
    stops_at, limit = step.operation.allowance.stops_at()
    if step.at >= stops_at:
        reason = f"{answer.reason} at {at_text(step.at)}, not before {named_limit(limit)} {at_text(stops_at)}; the job is kept"
        return end(step, Event.HIT_LIMIT, Category(limit), reason)
    waits = provider_waits(answer.hints, step.at)
    if step.contract.via is Via.PUSH:
        return step.planned(Event.SUBMITTED, _unlooked(step, waits), answer.reason, draw)
    look = plan_first_look(step.contract, step.operation.allowance, waits, (step.at, draw))
    return step.planned(Event.SUBMITTED, look, answer.reason, draw)


def _unlooked(step: Step, waits: Mapping[DelaySource, datetime]) -> Look:
    """The provider calls back and is never asked; what it said while the call was under way is read next."""
    operation = step.operation
    return no_look(operation.allowance, waits, None if operation.pushed is None else step.at)


def _is_foreign(contract: Contract, call: ProviderCall, answer: CallAnswer) -> bool:
    """True where a provider that rejects duplicates says so to the very first try: then somebody else had that id or key before."""
    submit = contract.submit
    rejects = submit is not None and submit.idempotency is not None and submit.idempotency.duplicate is Duplicate.REJECT
    return answer.outcome is O.DUPLICATE and rejects and call.attempts <= 1 and not in_doubt(call)


def _refused(step: Step, call: ProviderCall, answer: CallAnswer) -> OperationDecision:
    """Nothing was done. A denied submit stays open, so that a person can let it be sent again once the access was reviewed."""
    if answer.outcome is O.DENIED:
        step = replace(step, call=CallSettled(call.id, CallState.QUEUED, answer))
        return end(step, Event.SAW_TROUBLE, Category.AUTHORIZATION_DENIED, answer.reason)
    step = replace(step, call=CallSettled(call.id, CallState.REFUSED, answer))
    return end(step, Event.SAW_TROUBLE, Category.INTEGRATION_FAILURE, answer.reason)


def _submit_again(step: Step, call: ProviderCall, answer: CallAnswer, draw: float) -> OperationDecision:
    """Nothing left, too many requests, or nobody knows: again later, inside key window and budgets; else a person is asked."""
    doubt = in_doubt(call) or answer.outcome is O.UNKNOWN
    look = _later(step, answer, draw)
    keyed = may_submit_again(_as_sent(call, step.at), step.contract, max(look.due, step.at))
    settled = replace(step, call=CallSettled(call.id, CallState.SENDING if doubt else CallState.QUEUED, answer))
    stopped = _stopped(step)
    if doubt and (stopped is not None or not keyed):
        unknown = replace(step, call=CallSettled(call.id, CallState.UNKNOWN, answer))
        # The draw says when the next try would have come, so it belongs to the reason.
        return replace(end(unknown, Event.SAW_TROUBLE, Category.SUBMIT_UNKNOWN, _why_unknown(answer, stopped)), draw=draw)
    if stopped is not None:
        return end(settled, Event.HIT_LIMIT, stopped[0], f"{answer.reason}; {stopped[1]}")
    if answer.outcome is O.THROTTLED and not keyed:
        reason = f"{answer.reason}; the provider documents no key under which the submit could be sent again"
        return replace(end(settled, Event.SAW_TROUBLE, Category.RATE_LIMITED, reason), draw=draw)
    return settled.planned(Event.SUBMIT_AGAIN, look, answer.reason, draw)


def _as_sent(call: ProviderCall, at: datetime) -> ProviderCall:
    """The key window counts from the first attempt that may have sent: from now at the latest."""
    return call if call.first_sent_at is not None else replace(call, first_sent_at=at)


def _why_unknown(answer: CallAnswer, stopped: tuple[Category, str] | None) -> str:
    if stopped is not None:
        return f"{answer.reason}; whether an earlier try was taken on is not known; {stopped[1]}"
    return f"{answer.reason}; the submit may have been taken on and cannot be sent again under its key"


def _stopped(step: Step) -> tuple[Category, str] | None:
    """The deadline or budget that ends the tries, and the sentence that says so."""
    allowance, spend = step.operation.allowance, step.spend
    stops_at, limit = allowance.stops_at()
    if step.at >= stops_at:
        return Category(limit), f"{named_limit(limit)} {at_text(stops_at)} has passed"
    if exhausted(spend.throttles, allowance.max_throttles):
        return Category.RATE_LIMITED, f"{spend.throttles} of {allowance.max_throttles} rate-limit answers are used up"
    if exhausted(spend.transport_failures, allowance.max_transport_failures):
        used = f"{spend.transport_failures} of {allowance.max_transport_failures} failed requests are used up"
        return Category.PROVIDER_UNREACHABLE, used
    return None


def _later(step: Step, answer: CallAnswer, draw: float) -> Look:
    """When a call is sent again: after a backoff that grows with the failures, and never inside what the provider asked for."""
    delays, spend = step.contract.delays, step.spend
    waits = provider_waits(answer.hints, step.at)
    steep = answer.outcome is O.THROTTLED and DelaySource.PROVIDER_RETRY_AFTER not in waits
    raw = raw_backoff(delays, spend.transport_failures)
    local = steep_backoff(delays, 0, spend.throttles, draw) if steep else jittered(delays, raw, draw)
    source, planned = max({DelaySource.LOCAL_BACKOFF: step.at + local, **waits}.items(), key=lambda pair: pair[1])
    if waits and source not in waits:
        # It keeps its name where the backoff is longer, so that the end of the tries does not forget it (W35).
        source = max(waits, key=lambda name: waits[name])
    stops_at, _ = step.operation.allowance.stops_at()
    kept = planned if planned < stops_at else waits.get(source)
    return Look(min(planned, stops_at), kept, source, f"again at {at_text(min(planned, stops_at))} ({source})", {})


def _cancelled(step: Step, call: ProviderCall, answer: CallAnswer, draw: float) -> OperationDecision:
    """What became of a cancel. The wait goes on under its own limits; only what is in doubt, or a used-up budget, asks a person."""
    if step.operation.state is not OperationState.WAITING:
        raise InvariantBroken(f"{step.operation.id} is {step.operation.state} and was to be cancelled", subject=step.operation.id)
    again = answer.outcome in (O.NOT_SENT, O.THROTTLED)
    if answer.outcome is O.UNKNOWN:
        again = may_cancel_again(call, step.contract, attempts=call.attempts)
        if not again:
            unknown = replace(step, call=CallSettled(call.id, CallState.UNKNOWN, answer))
            return end(unknown, Event.SAW_TROUBLE, Category.AMBIGUOUS_DELIVERY, f"the cancel: {answer.reason}")
    stopped = _stopped(step)
    if stopped is not None:
        state = (
            CallState.DROPPED
            if again and answer.outcome is not O.UNKNOWN
            else _CANCEL_SAYS.get(answer.outcome, CallState.UNKNOWN)
        )
        return end(
            replace(step, call=CallSettled(call.id, state, answer)), Event.HIT_LIMIT, stopped[0], f"{answer.reason}; {stopped[1]}"
        )
    if again:
        doubt = answer.outcome is O.UNKNOWN or in_doubt(call)
        step = replace(step, call=CallSettled(call.id, CallState.SENDING if doubt else CallState.QUEUED, answer))
        return step.planned(Event.SAW_PENDING, _later(step, answer, draw), f"the cancel: {answer.reason}", draw)
    step = replace(step, call=CallSettled(call.id, _CANCEL_SAYS.get(answer.outcome, CallState.UNKNOWN), answer))
    return step.planned(Event.SAW_PENDING, _soon(step, answer, draw), f"the cancel: {answer.reason}", draw)


_CANCEL_SAYS = {
    O.ACCEPTED: CallState.DONE,
    O.DUPLICATE: CallState.DONE,
    O.TOO_LATE: CallState.REFUSED,
    O.REFUSED: CallState.REFUSED,
    O.DENIED: CallState.REFUSED,
}


def _soon(step: Step, answer: CallAnswer, draw: float) -> Look:
    """The look that tells what the cancel did: between the minimum gap and the base delay, after any wait of the provider's.

    A cancel that the provider refused changes nothing: its look is the same, since the operation goes on waiting as before.
    """
    delays, operation = step.contract.delays, step.operation
    span = max(timedelta(0), delays.base - delays.min_gap)
    local = step.at + delays.min_gap + span * draw
    source, wait = provider_wait(operation, answer.hints, step.at)
    if step.contract.via is Via.PUSH:
        return _unlooked(step, {} if wait is None else {source: wait})
    stops_at, _ = operation.allowance.stops_at()
    planned = local if wait is None else max(local, wait)
    named = DelaySource.LOCAL_BACKOFF if wait is None else source
    kept = planned if planned < stops_at or named in HELD else None
    return Look(min(planned, stops_at), kept, named, f"next look at {at_text(min(planned, stops_at))} ({named})", {})
