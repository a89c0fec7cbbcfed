"""Keeping: the result that matters is copied to own storage as an action of its own, once the operation has succeeded (W30, W24)."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sereno.core.contract import Contract, Via
from sereno.core.delay import quoted
from sereno.core.effect import ActionRef, Effect, Policy, operation_dedupe_key
from sereno.core.values import Json, format_duration
from sereno.core.waiting.lifecycle import Operation

KEEP_RESULT = "keep_result"
"""The type of the action that copies a result."""
LONGEST = timedelta(hours=21)
SHORTEST = timedelta(minutes=1)


def keep_result(
    operation: Operation,
    contract: Contract | None,
    at: datetime,
    *,
    url: str | None = None,
    pins: Mapping[str, str] | None = None,
    not_before: datetime | None = None,
) -> Sequence[Effect]:
    """The one effect that copies the result of an operation that succeeded at `at`, where its contract says what to copy.

    It reads the status anew, so it carries what a look needs and no address of a result, and it comes like a look: not sooner than
    the minimum gap after the last one, nor before `not_before`, which the provider asked for (W35). The store names content by its
    hash, so a copy that is made twice is one copy: it is tried again until the provider's retention ends, at most 21 hours. What
    only calls back cannot be read anew, and is not copied.
    """
    if contract is None or contract.keep is None or contract.via is Via.PUSH:
        return ()
    trying = _keep_trying(operation, contract, at)
    options: dict[str, Json] = {
        "operation": operation.id,
        "contract_digest": operation.contract_digest,
        "account": operation.account,
        "job_id": operation.job_id,
        "url": url or operation.url,
        "parameters": dict(operation.parameters),
        "pins": dict(operation.pins if pins is None else pins),
    }
    action = ActionRef("result", KEEP_RESULT, options, Policy.KEYED, origin="core", pool=operation.pool)
    return (
        Effect(
            dedupe_key=operation_dedupe_key(
                workspace=operation.workspace, operation=operation.id, transition="succeeded", action=action.name
            ),
            action=action,
            pool=operation.pool,
            title=f"Keep the result of job {quoted(operation.job_id, 80)} at {operation.contract}",
            body=f"Copies the result to own storage; tried for {format_duration(trying)} at most.",
            payload={"operation": operation.id, "contract": operation.contract, "job": operation.job_id},
            subject=operation.id,
            not_before=max(at + contract.delays.min_gap, not_before or at),
            keep_trying=trying,
        ),
    )


def _keep_trying(operation: Operation, contract: Contract, at: datetime) -> timedelta:
    """What is left of the retention, which counts from completion (seen at `at`) or from creation; at least a minute."""
    if contract.retention is None:
        return LONGEST
    left = contract.retention if contract.retention_from == "completion" else operation.started_at + contract.retention - at
    return max(SHORTEST, min(LONGEST, left))
