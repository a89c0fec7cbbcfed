"""What the engine logs of each run: the fields of O02, once, after the commit. Foreign text stays out of the message itself."""

import logging
from functools import lru_cache

import structlog

from sereno.core.delivery import DeliveryDecision
from sereno.core.operation import OperationDecision
from sereno.core.poll import PollDecision
from sereno.core.values import run_id
from sereno.core.work import DeliveryWork, OperationWork, PollWork

log = structlog.get_logger("sereno.engine")


def tell_poll(work: PollWork, decision: PollDecision) -> None:
    """An unchanged run is told at debug level, everything else at info."""
    poll = work.poll
    quiet = decision.status == "ok" and not decision.changed and not decision.effects
    if quiet and not _debug_is_told(structlog.get_config()["wrapper_class"]):
        return
    tell = log.debug if quiet else log.info
    tell(
        "poll run",
        poll_id=poll.id,
        run_id=run_id(poll.id, work.lease.run),
        source_type=poll.spec.source_type,
        claim_id=work.lease.worker,
        cursor_before=poll.cursor,
        cursor_after=decision.cursor,
        decision=decision.summary,
        error=decision.error,
    )


@lru_cache(maxsize=8)
def _debug_is_told(logger: type) -> bool:
    """Asks the kind of logger once: binding one to drop a line costs more than the rest of an unchanged run's last step."""
    level = getattr(logger, "get_effective_level", None)
    try:
        return level is None or int(level(None)) <= logging.DEBUG
    except (AttributeError, TypeError):
        return True


def tell_delivery(work: DeliveryWork, decision: DeliveryDecision) -> None:
    """One line an attempt."""
    delivery = work.delivery
    log.info(
        "delivery",
        run_id=run_id(delivery.id, work.lease.run),
        source_object_id=delivery.effect.source_object_id,
        claim_id=work.lease.worker,
        dedupe_key=delivery.effect.dedupe_key,
        decision=f"{decision.state.value}: {decision.reason}",
        error=decision.outcome.message or None,
    )


def tell_operation(work: OperationWork, decision: OperationDecision) -> None:
    """One line a step."""
    operation = work.operation
    log.info(
        "operation step",
        operation_id=operation.id,
        run_id=run_id(operation.id, work.lease.run),
        claim_id=work.lease.worker,
        decision=decision.reason,
        state=decision.state.value,
        requests_used=decision.spend.status_requests,
        category=None if decision.category is None else decision.category.value,
    )
