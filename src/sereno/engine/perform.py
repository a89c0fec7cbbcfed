"""The one entry of every driver: performs one claimed piece of work and commits."""

from collections.abc import Awaitable
from datetime import datetime

from sereno.core.errors import LeaseLost
from sereno.core.work import DeliveryWork, OperationWork, PollWork, Work
from sereno.engine import guard
from sereno.engine.delivery import perform_delivery
from sereno.engine.guard import Broken, Moment, SendGuard
from sereno.engine.kit import Kit
from sereno.engine.operation import perform_operation
from sereno.engine.poll import perform_poll


def send_guard(kit: Kit, work: Work, claimed: Moment) -> SendGuard:
    """The guard of one piece of work; `claimed` is the moment before the claim query.

    A submit or cancel has its own last instant (a cancel may be asked for after the deadline); its step names it.
    """
    stop_at: datetime | None = None
    if isinstance(work, OperationWork) and work.operation.call is None:
        stop_at = work.operation.allowance.stops_at()[0]
    return SendGuard(kit, work, claimed, stop_at)


async def perform(kit: Kit, work: Work, sender: SendGuard) -> None:
    """Performs and commits. Raises LeaseLost when the work was taken over meanwhile, Unavailable when the store could not commit:
    then the lease runs out and the work falls due again. A bug of ours parks the work: it is shown, never retried blindly."""
    try:
        done = await guard.call(_dispatch(kit, work, sender))
    except LeaseLost:
        if not sender.nothing_left:
            raise
        # The send guard stopped the step, or a plug-in that asked it: nothing happened, so the work is not left hanging in doubt.
        await kit.store.release(work)
        return
    if isinstance(done, Broken):
        await kit.store.park(work, reason=done.message)


def _dispatch(kit: Kit, work: Work, sender: SendGuard) -> Awaitable[None]:
    match work:
        case PollWork():
            return perform_poll(kit, work, sender)
        case DeliveryWork():
            return perform_delivery(kit, work, sender)
        case OperationWork():
            return perform_operation(kit, work, sender)
