"""Performs one step of an operation, in the order of W33; the claim already reserved what the step may send.

A step asks for the status, sends the submit or cancel that was queued, reads what the provider called back with, or closes. What
came back is read and decided purely; where our own deciding fails, the facts of the answer are kept all the same (W43).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sereno.core.call import CallAnswer, CallOutcome, ProviderCall
from sereno.core.contract import Contract, Via
from sereno.core.errors import AlreadyExists, LeaseLost
from sereno.core.observation import (
    Asked,
    HttpReply,
    NoReply,
    NoReplyKind,
    Observation,
    ObservationKind,
    Reply,
    read_observation,
    read_pushed,
)
from sereno.core.operation import (
    Ask,
    Close,
    Operation,
    OperationDecision,
    Pushed,
    Read,
    Send,
    close_operation,
    decide_call,
    decide_operation,
    decide_taken,
    next_call,
    read_call,
)
from sereno.core.work import OperationWork
from sereno.engine import guard
from sereno.engine.guard import Broken, SendGuard
from sereno.engine.kit import Kit
from sereno.engine.telling import tell_operation
from sereno.ports import Guarded, Provider

SHORTEST_CALL = timedelta(milliseconds=10)
Carry = Callable[[Provider, Guarded], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class _Step:
    """One step under way: the parts, the claimed work, its pinned contract and its send guard."""

    kit: Kit
    work: OperationWork
    contract: Contract
    sender: SendGuard

    @property
    def operation(self) -> Operation:
        return self.work.operation

    async def commit(self, decision: OperationDecision) -> None:
        await self.kit.store.commit_operation(self.work, decision)
        tell_operation(self.work, decision)

    async def park(self, doing: str, broken: Broken, seen: Observation | None = None) -> None:
        await self.kit.store.park(self.work, reason=f"{doing} failed: {broken.message}", observation=seen)


async def perform_operation(kit: Kit, work: OperationWork, sender: SendGuard) -> None:
    """Ends in one commit, or in LeaseLost: where nothing left, the work is to be given back."""
    contract = await guard.call(kit.contract(work.operation.contract_digest))
    if isinstance(contract, Broken):
        await kit.store.park(work, reason=f"the pinned contract does not load: {contract.message}")
        return
    step, now = _Step(kit, work, contract, sender), sender.now()
    match next_call(work.operation, contract, now):
        case Close() as close:
            await step.commit(_closed(step, close, now))
        case Read(pushed):
            await _settle_look(step, _pushed(step, pushed), pushed.received_at, None)
        case Ask(deadline_at):
            await _ask(step, deadline_at)
        case Send(call, deadline_at):
            await _send(step, call, deadline_at)


async def _ask(step: _Step, deadline_at: datetime) -> None:
    step.kit.crash_point("operation.before_send")
    reply = await _carry(step, deadline_at, lambda provider, means: provider.look(step.operation, step.contract, means))
    if step.sender.nothing_left:
        raise LeaseLost("nothing was sent", subject=step.operation.id)
    step.kit.crash_point("operation.replied")
    received_at, asked = step.sender.now(), _asked(step.operation)
    seen = guard.decide(lambda: step.kit.redact(read_observation(step.contract, asked, reply, received_at=received_at)))
    await _settle_look(step, seen, received_at, _unread(reply))


async def _send(step: _Step, call: ProviderCall, deadline_at: datetime) -> None:
    def send(provider: Provider, means: Guarded) -> Awaitable[Reply]:
        # Submit and cancel never use the counter of status requests (W33), so they ask for no hop.
        return provider.send(step.operation, step.contract, call, replace(means, before_hop=None))

    step.kit.crash_point("call.before_send")
    reply = await _carry(step, deadline_at, send)
    if step.sender.nothing_left:
        raise LeaseLost("nothing was sent", subject=step.operation.id)
    step.kit.crash_point("call.replied")
    await _settle_call(step, call, reply, step.sender.now())


async def _carry(step: _Step, deadline_at: datetime, carry: Carry) -> Reply:
    """Lets the carrier of the contract send; what it raises is an answer that was lost."""
    kit, sender = step.kit, step.sender
    # What calls back by itself is still started and cancelled over HTTP.
    via = Via.HTTP if step.contract.via is Via.PUSH else step.contract.via
    provider = kit.plugins.providers.get(via)
    if provider is None:
        return NoReply(NoReplyKind.REFUSED_ADDRESS, f"nothing here carries calls via {via}", sent=False)
    sender.stop_at(deadline_at)
    # A call's timeout never outlives the wait itself (W32).
    time_left = min(kit.times.total_deadline, max(SHORTEST_CALL, deadline_at - sender.now()))
    reply = await guard.call(carry(provider, sender.guarded(total_deadline=time_left)))
    return NoReply(NoReplyKind.PROTOCOL, reply.message, sent=True) if isinstance(reply, Broken) else reply


def _asked(operation: Operation) -> Asked:
    return Asked(
        operation.job_id,
        operation.started_at,
        url=operation.url,
        parameters=operation.parameters,
        not_found=operation.spend.not_found,
        tolerated=operation.spend.tolerated,
        pins=operation.pins,
    )


def _pushed(step: _Step, pushed: Pushed) -> Observation | Broken:
    asked, received_at = _asked(step.operation), pushed.received_at
    return guard.decide(
        lambda: step.kit.redact(
            read_pushed(step.contract, asked, body=pushed.body, content_type=pushed.content_type, received_at=received_at)
        )
    )


async def _settle_look(step: _Step, seen: Observation | Broken, received_at: datetime, unread: Observation | None) -> None:
    if isinstance(seen, Broken):
        await step.park("reading the answer", seen, unread)
        return
    decision = guard.decide(lambda: _decided(step, seen, received_at))
    if isinstance(decision, Broken):
        await step.park("deciding", decision, seen)
        return
    await step.commit(decision)


async def _settle_call(step: _Step, call: ProviderCall, reply: Reply, received_at: datetime) -> None:
    kit, operation = step.kit, step.operation
    answer = guard.decide(lambda: kit.redact(read_call(step.contract, operation, call, reply, received_at=received_at)))
    if isinstance(answer, Broken):
        await step.park("reading the answer", answer, _unread(reply))
        return
    decision = guard.decide(lambda: _decided_call(step, answer, received_at))
    if isinstance(decision, Broken):
        await step.park("deciding", decision, _facts(answer))
        return
    try:
        await step.commit(decision)
    except AlreadyExists:
        await _settle_taken(step, answer, received_at)


async def _settle_taken(step: _Step, answer: CallAnswer, received_at: datetime) -> None:
    """The job that the submit named is another open operation's: that is written down instead (W39)."""
    taken = guard.decide(lambda: _decided_taken(step, answer, received_at))
    if isinstance(taken, Broken):
        await step.park("deciding", taken, _facts(answer))
        return
    await step.commit(taken)


def _unread(reply: Reply) -> Observation:
    """What is certain of a reply that our own reading failed on."""
    sent, status = (True, reply.status) if isinstance(reply, HttpReply) else (reply.sent, reply.status)
    kind = ObservationKind.INTEGRATION_FAILURE if sent else ObservationKind.NOT_SENT
    return Observation(kind, http_status=status, reason="the answer was not read", requests=max(1, reply.hops) if sent else 0)


def _facts(answer: CallAnswer) -> Observation:
    """A call's answer as facts to keep with parked work: above all the job that it named."""
    named = f"; it named the job {answer.job_id!r}" if answer.job_id is not None else ""
    return Observation(
        ObservationKind.NOT_SENT if answer.outcome is CallOutcome.NOT_SENT else ObservationKind.PENDING,
        http_status=answer.http_status,
        reason=f"the call's answer: {answer.outcome}: {answer.reason}{named}",
        hints=answer.hints,
        error_code=answer.error_code,
        error_text=answer.error_text,
        provider_request_id=answer.provider_request_id,
        requests=answer.requests,
    )


def _decided(step: _Step, seen: Observation, received_at: datetime) -> OperationDecision:
    kit, operation = step.kit, step.operation
    return decide_operation(
        operation,
        step.contract,
        seen,
        received_at,
        kit.ids.random(f"{operation.id}.{step.work.lease.run}"),
        escalation_id=kit.ids.new("esc_"),
        answer_within_s=kit.answer_within.total_seconds(),
    )


def _decided_call(step: _Step, answer: CallAnswer, received_at: datetime) -> OperationDecision:
    kit, operation = step.kit, step.operation
    return decide_call(
        operation,
        step.contract,
        answer,
        received_at,
        kit.ids.random(f"{operation.id}.{step.work.lease.run}"),
        escalation_id=kit.ids.new("esc_"),
        answer_within_s=kit.answer_within.total_seconds(),
    )


def _decided_taken(step: _Step, answer: CallAnswer, received_at: datetime) -> OperationDecision:
    kit = step.kit
    return decide_taken(
        step.operation,
        step.contract,
        answer,
        received_at,
        escalation_id=kit.ids.new("esc_"),
        answer_within_s=kit.answer_within.total_seconds(),
    )


def _closed(step: _Step, close: Close, now: datetime) -> OperationDecision:
    kit = step.kit
    return close_operation(
        step.operation,
        step.contract,
        close,
        now,
        escalation_id=kit.ids.new("esc_"),
        answer_within_s=kit.answer_within.total_seconds(),
    )
