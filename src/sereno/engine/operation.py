"""Performs one step of an operation, in the order of W33; the claim already reserved the request."""

from datetime import timedelta

from sereno.core.contract import Contract
from sereno.core.observation import NoReply, NoReplyKind, Observation, Reply, read_observation
from sereno.core.operation import Ask, Close, Operation, OperationDecision, close_operation, decide_operation, next_call
from sereno.core.work import OperationWork
from sereno.engine import guard
from sereno.engine.guard import Broken, SendGuard
from sereno.engine.kit import Kit
from sereno.engine.telling import tell_operation

SHORTEST_CALL = timedelta(milliseconds=10)


async def perform_operation(kit: Kit, work: OperationWork, sender: SendGuard) -> None:
    """Ends in one commit, in a release where the send guard stopped us, or in LeaseLost."""
    operation = work.operation
    contract = await guard.call(kit.contract(operation.contract_digest))
    if isinstance(contract, Broken):
        await kit.store.park(work, reason=f"the pinned contract does not load: {contract.message}")
        return
    step = next_call(operation, sender.now())
    if isinstance(step, Close):
        closed = _closed(kit, operation, contract, step, sender)
        await kit.store.commit_operation(work, closed)
        tell_operation(work, closed)
        return
    reply = await _ask(kit, operation, contract, step, sender)
    if sender.nothing_left:
        await kit.store.release(work)
        return
    kit.crash_point("operation.replied")
    await _settle(kit, work, contract, reply, sender)


async def _ask(kit: Kit, operation: Operation, contract: Contract, step: Ask, sender: SendGuard) -> Reply:
    # A call's timeout never outlives the wait itself (W32).
    time_left = min(kit.times.total_deadline, max(SHORTEST_CALL, step.deadline_at - sender.now()))
    kit.crash_point("operation.before_send")
    reply = await guard.call(kit.plugins.provider.call(operation, contract, sender.guarded(total_deadline=time_left)))
    if isinstance(reply, Broken):
        return NoReply(NoReplyKind.PROTOCOL, reply.message, sent=True)
    return reply


async def _settle(kit: Kit, work: OperationWork, contract: Contract, reply: Reply, sender: SendGuard) -> None:
    operation, received_at = work.operation, sender.now()
    observation = guard.decide(
        lambda: kit.redact(
            read_observation(
                contract,
                operation.job_id,
                reply,
                received_at=received_at,
                started_at=operation.created_at,
                not_found=operation.spend.not_found,
            )
        )
    )
    if isinstance(observation, Broken):
        await kit.store.park(work, reason=f"reading the answer failed: {observation.message}")
        return
    decision = guard.decide(lambda: _decided(kit, work, contract, observation, sender))
    if isinstance(decision, Broken):
        await kit.store.park(work, reason=f"deciding failed: {decision.message}", observation=observation)
        return
    await kit.store.commit_operation(work, decision)
    tell_operation(work, decision)


def _decided(kit: Kit, work: OperationWork, contract: Contract, observation: Observation, sender: SendGuard) -> OperationDecision:
    return decide_operation(
        work.operation,
        contract,
        observation,
        sender.now(),
        kit.ids.random(f"{work.operation.id}.{work.lease.run}"),
        escalation_id=kit.ids.new("esc_"),
        answer_within_s=kit.answer_within.total_seconds(),
    )


def _closed(kit: Kit, operation: Operation, contract: Contract, close: Close, sender: SendGuard) -> OperationDecision:
    return close_operation(
        operation,
        contract,
        close,
        sender.now(),
        escalation_id=kit.ids.new("esc_"),
        answer_within_s=kit.answer_within.total_seconds(),
    )
