"""Performs one attempt of a delivery."""

from sereno.core.delivery import Outcome, OutcomeKind, before_send, decide_delivery
from sereno.core.effect import Effect
from sereno.core.errors import LeaseLost
from sereno.core.work import DeliveryWork
from sereno.engine import guard
from sereno.engine.guard import Broken, SendGuard
from sereno.engine.kit import Kit
from sereno.engine.telling import tell_delivery


async def perform_delivery(kit: Kit, work: DeliveryWork, sender: SendGuard) -> None:
    """Ends in one commit, or in LeaseLost: where nothing left, the work is to be given back. The attempt was counted by the claim."""
    stop = before_send(work.delivery, sender.now())
    if stop is not None:
        await kit.store.commit_delivery(work, stop)
        tell_delivery(work, stop)
        return
    outcome = await _act(kit, work, sender)
    if sender.nothing_left:
        raise LeaseLost("nothing was sent", subject=work.delivery.id)
    kit.crash_point("delivery.acted")
    rng = kit.ids.random(f"{work.delivery.id}.{work.lease.run}")
    decision = decide_delivery(work.delivery, outcome, sender.now(), rng)
    await kit.store.commit_delivery(work, decision)
    tell_delivery(work, decision)


async def _act(kit: Kit, work: DeliveryWork, sender: SendGuard) -> Outcome:
    effect: Effect = work.delivery.effect
    action = kit.plugins.actions.get(effect.action.type)
    if action is None:
        return Outcome(OutcomeKind.REFUSED, f"no action plug-in named {effect.action.type}")
    if not await sender.may_act():
        return Outcome(OutcomeKind.RETRY, "nothing was sent")
    kit.crash_point("delivery.before_act")
    done = await guard.call(action.perform(work.delivery, sender.guarded(total_deadline=kit.times.total_deadline)))
    # A plug-in that raised may have acted first: only the outcome "unknown" is honest.
    return Outcome(OutcomeKind.UNKNOWN, done.message) if isinstance(done, Broken) else done
