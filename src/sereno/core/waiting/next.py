"""The next step: what may be sent now, in the order of W33: ended → escalated → deadline → open call → call-back → budget → look."""

from dataclasses import replace
from datetime import datetime

from sereno.core.call import CallKind, ProviderCall
from sereno.core.contract import Contract, Via
from sereno.core.errors import InvariantBroken
from sereno.core.escalation import Category, Escalation, at_text
from sereno.core.waiting.lifecycle import TERMINAL, Event, Operation, OperationState
from sereno.core.waiting.step import Ask, Close, Read, Send, named_limit, used_up

MOST_SUBMITS = 20
"""A submit is tried so often at most, whatever interrupts it."""
MOST_CANCELS = 3
"""A cancel that may be repeated is sent so often at most where no answer comes."""


def next_call(operation: Operation, contract: Contract, now: datetime) -> Ask | Send | Read | Close:
    """Says what this step does. `now` is the database's instant.

    A question that is still open sends nothing: past its answer deadline silence closes it, before that the step only notes so.
    Raises InvariantBroken for what a claim must never hand out.
    """
    if operation.state in TERMINAL:
        raise InvariantBroken(f"{operation.id} is {operation.state} and was handed out again", subject=operation.id)
    if operation.state is OperationState.ESCALATED:
        return _silent(operation, now)
    stops_at, limit = operation.allowance.stops_at()
    if now >= stops_at and operation.call is not None and operation.call.kind is CallKind.SUBMIT and in_doubt(operation.call):
        says = f"{named_limit(limit)} {at_text(stops_at)} passed, and whether the submit was taken on is not known"
        return Close(Event.SAW_TROUBLE, Category.SUBMIT_UNKNOWN, says)
    if now >= stops_at:
        return Close(Event.HIT_LIMIT, Category(limit), f"{named_limit(limit)} {at_text(stops_at)} passed without a final state")
    if operation.call is not None:
        return _send(operation.call, contract, stops_at, now)
    if operation.state is OperationState.SUBMITTING:
        raise InvariantBroken(f"{operation.id} is to be submitted and holds no submit", subject=operation.id)
    if contract.via is Via.PUSH:
        return _read(operation)
    return _ask(operation, stops_at)


def _ask(operation: Operation, stops_at: datetime) -> Ask | Close:
    spend = operation.spend
    before = replace(spend, status_requests=spend.status_requests - operation.reserved)
    found = used_up(operation.allowance, before)
    if found is not None:
        return Close(Event.HIT_LIMIT, *found)
    if not operation.reserved:
        raise InvariantBroken(f"no status request was reserved for {operation.id}", subject=operation.id)
    return Ask(stops_at)


def _read(operation: Operation) -> Read | Close:
    """There is no status call: what was called back is read, or the wait goes on until its deadline."""
    if operation.pushed is None:
        return Close(Event.CHANGED, None, "the provider has not called back yet: nothing is sent")
    return Read(operation.pushed)


def _send(call: ProviderCall, contract: Contract, stops_at: datetime, now: datetime) -> Send | Close:
    """A call that may have been sent before is sent again only where the contract says that this does no harm (W21, W31)."""
    if not in_doubt(call):
        return Send(call, stops_at)
    if call.kind is CallKind.SUBMIT:
        if may_submit_again(call, contract, now):
            return Send(call, stops_at)
        return Close(Event.SAW_TROUBLE, Category.SUBMIT_UNKNOWN, _unknown_submit(call, contract))
    if may_cancel_again(call, contract, attempts=call.attempts - 1):
        return Send(call, stops_at)
    return Close(Event.SAW_TROUBLE, Category.AMBIGUOUS_DELIVERY, "whether the cancel reached the provider is not known")


def in_doubt(call: ProviderCall) -> bool:
    """True where an attempt before this one may have been sent."""
    return call.interrupted


def may_submit_again(call: ProviderCall, contract: Contract, at: datetime) -> bool:
    """True while the provider keeps the key of a submit (less a tenth, for clocks), and it was not tried too often."""
    idempotency = contract.submit.idempotency if contract.submit is not None else None
    if idempotency is None or call.attempts > MOST_SUBMITS:
        return False
    return at < (call.first_sent_at or call.created_at) + idempotency.window * 0.9


def may_cancel_again(call: ProviderCall, contract: Contract, *, attempts: int) -> bool:
    """True where asking twice does no harm, as the contract documents, and it was not tried `MOST_CANCELS` times."""
    return contract.cancel is not None and contract.cancel.repeatable and attempts < MOST_CANCELS


def _unknown_submit(call: ProviderCall, contract: Contract) -> str:
    says = "the submit may have been sent, and its answer is not known"
    if contract.submit is None or contract.submit.idempotency is None:
        return f"{says}; the provider documents no key under which it could be sent again"
    return f"{says}; its key is not kept for long enough to send it again ({call.attempts} tries)"


def _silent(operation: Operation, now: datetime) -> Close:
    answer_by = open_question(operation).answer_by
    if now >= answer_by:
        silence = f"nobody answered until {at_text(answer_by)}: stopped, the handle is kept"
        return Close(Event.SILENCE, operation.category, silence)
    return Close(Event.HIT_LIMIT, operation.category, f"waits for an answer until {at_text(answer_by)}: nothing is sent")


def open_question(operation: Operation) -> Escalation:
    """The question that an escalated operation waits for. Raises InvariantBroken where there is none."""
    if operation.open_escalation is None:
        raise InvariantBroken(f"{operation.id} is escalated without an open question", subject=operation.id)
    return operation.open_escalation
