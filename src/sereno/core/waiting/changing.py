"""Changes: what is altered about an operation without a question: a cancel that a person asks for, a call-back, another contract."""

from dataclasses import replace
from datetime import datetime

from sereno.core.call import CallKind, CallState
from sereno.core.contract import Contract, Via
from sereno.core.errors import NotAllowed, NotNow
from sereno.core.observing.seen import DelaySource
from sereno.core.waiting.asking import tell_end
from sereno.core.waiting.choice import AnswerDecision, Repin, after_gap
from sereno.core.waiting.lifecycle import TERMINAL, Event, Operation, OperationState, Pushed, move
from sereno.core.waiting.next import in_doubt, open_question

_SHORTENED = (DelaySource.LOCAL_BACKOFF, DelaySource.CONTRACT_SCHEDULE)
"""The only waits that something which arrives may shorten (W35)."""


def decide_cancel(operation: Operation, contract: Contract, now: datetime) -> AnswerDecision:
    """Queues a cancel at the provider, or gives up a submit that certainly was not sent. The wait goes on until a look shows the end.

    The cancel is sent at once, but never inside a provider's wait nor sooner than the minimum gap after the last look; no limit
    changes. After an answer the plan may hold a provider's wait, or a pause that a person chose: the cancel waits for it too.

    Raises NotAllowed where the contract documents no cancelling, NotNow where there is nothing to cancel, a question is open (then
    `cancel` is one of its options, with what it allows shown), or a call is under way.
    """
    if operation.state in TERMINAL:
        raise NotNow(f"the operation is {operation.state} and cannot be cancelled", subject=operation.id)
    if operation.state is OperationState.ESCALATED:
        question = open_question(operation).id
        hint = f"answer it: sereno escalation show {question}"
        raise NotNow("a question about this operation is open", subject=operation.id, hint=hint)
    if operation.state is OperationState.SUBMITTING:
        return _give_up(operation)
    if contract.cancel is None:
        raise NotAllowed(f"the contract {operation.contract} documents no cancelling", subject=operation.id)
    if operation.call is not None:
        raise NotNow(f"a {operation.call.kind} is under way", subject=operation.id, hint="wait for its answer")
    floors = [after_gap(operation, contract.delays.min_gap, now)]
    if operation.delay_source not in _SHORTENED and operation.next_poll_at is not None:
        floors.append(operation.next_poll_at)
    stops_at, _ = operation.allowance.stops_at()
    return _changed(operation, min(max(floors), stops_at), "a person asked to cancel the job", new_call=CallKind.CANCEL)


def _give_up(operation: Operation) -> AnswerDecision:
    """A submit that waits to be sent is dropped; one that may be on its way has no job yet that could be cancelled."""
    call = operation.call
    if call is None or in_doubt(call) or call.state is not CallState.QUEUED:
        raise NotNow("the submit is on its way: there is no job yet that could be cancelled", subject=operation.id)
    reason = "a person gave the submit up before it was sent"
    state = move(operation.state, Event.ANSWERED_STOP)
    return AnswerDecision(
        state=state,
        event=Event.ANSWERED_STOP,
        allowance=operation.allowance,
        due=None,
        next_poll_at=None,
        delay_source=operation.delay_source,
        grants=operation.grants,
        reason=reason,
        effects=tell_end(operation, state, None, reason, None),
        drop_call=True,
    )


def decide_push(operation: Operation, contract: Contract, pushed: Pushed, now: datetime) -> AnswerDecision:
    """Takes note of an authenticated call-back (W35).

    Where there is no status call it is kept and read by the next step, at once. Elsewhere it never decides: it only shortens a wait
    that is ours, never below the minimum gap after the last look; the look costs a request like any other. What has ended, or waits
    for a person, is not moved.
    """
    kept = pushed if contract.via is Via.PUSH and operation.state not in TERMINAL else None
    if operation.state is not OperationState.WAITING:
        return _changed(operation, _kept_due(operation, now), f"called back while {operation.state}: recorded", pushed=kept)
    if operation.call is not None:
        return _changed(operation, _kept_due(operation, now), "called back: recorded; a call is not hurried by that", pushed=kept)
    if contract.via is Via.PUSH:
        stops_at, _ = operation.allowance.stops_at()
        return _changed(operation, min(now, stops_at), "the provider called back: its word is read now", pushed=kept)
    if operation.delay_source not in _SHORTENED:
        says = f"called back: recorded; the wait ({operation.delay_source}) is not shortened"
        return _changed(operation, _kept_due(operation, now), says)
    return _sooner(operation, after_gap(operation, contract.delays.min_gap, now), now)


def _sooner(operation: Operation, look: datetime, now: datetime) -> AnswerDecision:
    planned = _kept_due(operation, now)
    if planned is None or look >= planned:
        return _changed(operation, planned, "called back: recorded; the next look comes as soon anyway")
    return replace(_changed(operation, look, "called back: the next look comes sooner"), next_poll_at=look)


def decide_repin(operation: Operation, now: datetime, to: Repin | None = None) -> AnswerDecision:
    """Lets an operation follow another version of its contract, on a person's request; what is planned stays planned, but
    never inside the new smallest gap. `to` is what the new contract brings: its address and its gap.

    Raises NotNow for an operation that has ended, or whose submit was given up: there is nothing left that a contract would decide.
    """
    if operation.state in TERMINAL:
        raise NotNow(f"the operation is {operation.state}: its contract decides nothing any more", subject=operation.id)
    if operation.state is OperationState.SUBMITTING and operation.call is None:
        raise NotNow("its submit was given up: a person is asked at its deadline", subject=operation.id)
    decision = _changed(operation, _kept_due(operation, now), "a person chose another version of the contract", repin=True)
    if to is None:
        return decision
    decision = replace(decision, url=to.address(operation), min_gap=to.min_gap)
    look = operation.next_poll_at
    if operation.state is not OperationState.WAITING or operation.call is not None or look is None:
        return decision
    look = max(look, after_gap(operation, to.min_gap, min(now, look)))
    return replace(decision, next_poll_at=look, due=min(look, operation.allowance.stops_at()[0]))


def _kept_due(operation: Operation, now: datetime) -> datetime | None:
    """When the operation is due anyway."""
    if operation.state in TERMINAL:
        return None
    if operation.state is OperationState.ESCALATED:
        return open_question(operation).answer_by
    stops_at, _ = operation.allowance.stops_at()
    if operation.next_poll_at is None:
        return now if operation.state is OperationState.SUBMITTING else stops_at
    return min(operation.next_poll_at, stops_at)


def _changed(
    operation: Operation,
    due: datetime | None,
    reason: str,
    *,
    new_call: CallKind | None = None,
    pushed: Pushed | None = None,
    repin: bool = False,
) -> AnswerDecision:
    """The operation as it is, with the one thing that changes."""
    return AnswerDecision(
        state=operation.state,
        event=Event.CHANGED,
        allowance=operation.allowance,
        due=due,
        next_poll_at=operation.next_poll_at,
        delay_source=operation.delay_source,
        grants=operation.grants,
        reason=reason,
        new_call=new_call,
        pushed=pushed,
        repin=repin,
    )
