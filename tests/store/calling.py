"""What the tests of submits and cancels share: registrations, and decisions as the core would make them."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sereno.core.call import CallAnswer, CallKind, CallOutcome, CallSettled, CallState
from sereno.core.observation import DelaySource
from sereno.core.operation import AnswerDecision, Event, Job, Operation, OperationDecision, OperationState, Pushed
from sereno.core.work import OperationWork, Principal
from sereno.ports import Change, NewOperation, NewSubmit
from tests.store.seeding import ANNA, allowance, new_operation
from tests.store.stage import Stage

SYSTEM = Principal(user="webhook", kind="system")
INPUT = {"prompt": "a house", "n": 2**70}


def new_submit(key: str = "key-1", given: Any = None, **changes: Any) -> NewOperation:
    """A job to be started first."""
    values: dict[str, Any] = {
        "job_id": "",
        "url": "",
        "fingerprint": f"submit-{key}",
        "submit": NewSubmit(INPUT if given is None else given, key, {"effects": "starts a job"}),
    }
    return replace(new_operation(), **{**values, **changes})


async def submitting(stage: Stage, key: str = "key-1", **changes: Any) -> str:
    """Registers a submit on a stage; returns the operation's id."""
    limits = changes.pop("allowance", allowance(deadline_at=stage.now + timedelta(hours=1)))
    record, is_new = await stage.store.definitions.register(ANNA, new_submit(key, allowance=limits, **changes))
    assert is_new
    return record.operation.id


def answer(outcome: CallOutcome = CallOutcome.ACCEPTED, **changes: Any) -> CallAnswer:
    values: dict[str, Any] = {"reason": f"the provider says {outcome}", "http_status": 202}
    return CallAnswer(outcome, **{**values, **changes})


def settled(
    work: OperationWork,
    at: datetime,
    becomes: CallState,
    said: CallAnswer | None,
    *,
    job: str | None = None,
    **changes: Any,
) -> OperationDecision:
    """What a step writes that made its call."""
    operation = work.operation
    assert operation.call is not None
    look = at + timedelta(seconds=20)
    values: dict[str, Any] = {
        "state": OperationState.WAITING if job is not None else operation.state,
        "event": Event.SUBMITTED if job is not None else Event.SUBMIT_AGAIN,
        "due": look,
        "next_poll_at": look,
        "delay_source": DelaySource.CONTRACT_SCHEDULE,
        "spend": operation.spend,
        "reason": f"the call is {becomes}",
        "observation": None,
        "received_at": at,
        "draw": None,
        "call": CallSettled(operation.call.id, becomes, said),
        "job": None if job is None else Job(job, f"https://example.com/jobs/{job}", {"region": "eu"}),
    }
    return OperationDecision(**{**values, **changes})


def accepted(work: OperationWork, at: datetime, job: str = "job-9", **changes: Any) -> OperationDecision:
    """The submit was taken on and names its job."""
    return settled(work, at, CallState.DONE, answer(job_id=job), job=job, **changes)


def changed(operation: Operation, now: datetime, **changes: Any) -> AnswerDecision:
    """A decision beside a step that leaves everything as it is, but for `changes`."""
    values: dict[str, Any] = {
        "state": operation.state,
        "event": Event.CHANGED,
        "allowance": operation.allowance,
        "due": now,
        "next_poll_at": operation.next_poll_at,
        "delay_source": operation.delay_source,
        "grants": operation.grants,
        "reason": "as asked",
    }
    return AnswerDecision(**{**values, **changes})


def cancel() -> Change:
    """A person asks the provider to cancel."""
    return Change(
        "cancel_requested", lambda operation, now: changed(operation, now, new_call=CallKind.CANCEL), {"effects": "it stops"}
    )


def push(body: bytes = b'{"state":"done"}', *, kept: bool = True, look: timedelta = timedelta(0)) -> Change:
    """The provider calls back."""

    def rule(operation: Operation, now: datetime) -> AnswerDecision:
        pushed = Pushed(body, "application/json", now) if kept else None
        return changed(operation, now, due=now + look, next_poll_at=None if kept else now + look, pushed=pushed)

    return Change("pushed", rule)


async def call_row(stage: Stage, number: int = 0) -> dict[str, Any]:
    """The n-th stored call."""
    return (await stage.sql("SELECT * FROM provider_call ORDER BY id"))[number]
