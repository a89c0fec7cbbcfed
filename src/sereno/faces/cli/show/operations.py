"""Operations: a line, a page, and the exit code that an end means."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sereno.core.call import CallKind
from sereno.core.escalation import Category
from sereno.core.operation import Operation, OperationState
from sereno.core.record import CallRecord, DeliveryRecord, OperationRecord
from sereno.core.waiting.lifecycle import TERMINAL
from sereno.faces.cli.output import EXIT_ESCALATED, EXIT_INTERRUPTED, EXIT_JOB_FAILED, EXIT_LIMIT, EXIT_OK, Output, safe
from sereno.faces.cli.show.words import CALLS, DELAYS, away, soon

LIMITS = frozenset(
    {
        Category.DEADLINE_EXCEEDED,
        Category.BUSINESS_DEADLINE_EXCEEDED,
        Category.REQUEST_BUDGET_EXHAUSTED,
        Category.RATE_LIMITED,
        Category.PROVIDER_UNREACHABLE,
    }
)
"""Categories that a limit of ours ended, a deadline or a budget: exit code 5. A person is asked then too."""

_CODES = {
    OperationState.SUBMITTING: EXIT_INTERRUPTED,
    OperationState.WAITING: EXIT_INTERRUPTED,
    OperationState.SUCCEEDED: EXIT_OK,
    OperationState.FAILED: EXIT_JOB_FAILED,
    OperationState.CANCELLED: EXIT_JOB_FAILED,
    OperationState.EXPIRED: EXIT_JOB_FAILED,
}


def exit_code_of(operation: Operation) -> int:
    """The exit code that a state means: 0, 3, 130 while it is open; asked or stopped: 5 after a limit, else 4."""
    asked = EXIT_LIMIT if operation.category in LIMITS else EXIT_ESCALATED
    return _CODES.get(operation.state, asked)


def operation_row(record: OperationRecord, calls: Sequence[CallRecord] | None = None) -> dict[str, Any]:
    """An operation as data, under the names of W46; `calls` are its submit and cancels, where they were read."""
    operation = record.operation
    allowance, question = operation.allowance, operation.open_escalation
    return {
        "operation_id": operation.id,
        "assistant_task_id": operation.assistant_task_id,
        "user_id": operation.user,
        "workspace": operation.workspace,
        "contract": operation.contract,
        "contract_digest": operation.contract_digest,
        "account": operation.account,
        "provider_job_id": operation.job_id,
        "status_url": operation.url,
        "parameters": operation.parameters,
        "status": operation.state,
        "category": operation.category,
        "created_at": operation.created_at,
        "started_at": operation.started_at,
        "submitted_at": operation.submitted_at,
        "deadline_at": allowance.deadline_at,
        "business_deadline_at": allowance.business_deadline_at,
        **_counts(operation),
        "last_known_state": operation.last_state,
        "last_http_status": operation.last_http_status,
        "next_poll_at": operation.next_poll_at,
        "delay_source": operation.delay_source,
        "last_checked_at": operation.last_checked_at,
        "expires_at": operation.expires_at,
        "result_ref": operation.result_ref,
        "error_code": operation.error_code,
        "error_text": operation.error_text,
        "escalation": None if question is None else question.id,
        "pins": operation.pins,
        "previous_operation": operation.previous,
        **({} if calls is None else {"calls": [call_row(call) for call in calls]}),
        "leased_until": record.leased_until,
        "updated_at": record.updated_at,
    }


def _counts(operation: Operation) -> dict[str, int]:
    allowance, spend = operation.allowance, operation.spend
    return {
        "max_status_requests": allowance.max_status_requests,
        "max_transport_failures": allowance.max_transport_failures,
        "max_throttles": allowance.max_throttles,
        "status_requests_used": spend.status_requests,
        "transport_failures_used": spend.transport_failures,
        "throttles_used": spend.throttles,
    }


def call_row(record: CallRecord) -> dict[str, Any]:
    """A submit or cancel as data: state, attempts, key, what was shown to whoever asked, and the answer. The input stays out."""
    call = record.call
    return {
        "id": call.id,
        "kind": call.kind,
        "state": call.state,
        "key": call.key,
        "dedupe_key": call.dedupe_key,
        "attempts": call.attempts,
        "created_at": call.created_at,
        "first_sent_at": call.first_sent_at,
        "answered_at": record.answered_at,
        "answer": record.answer,
        "statement": call.statement,
    }


def list_operations(out: Output, records: Sequence[OperationRecord], now: datetime) -> None:
    """One line an operation."""
    out.table(
        ["operation", "state", "contract", "job", "last state", "requests", "next look"],
        [
            (
                record.operation.id,
                record.operation.state,
                record.operation.contract,
                record.operation.job_id or "-",
                record.operation.last_state or "-",
                _used(record.operation),
                _next(out, record, now),
            )
            for record in records
        ],
    )


def _used(operation: Operation) -> str:
    most = operation.allowance.max_status_requests
    return f"{operation.spend.status_requests}/{most}" if most else "call-back"


def _next(out: Output, record: OperationRecord, now: datetime) -> str:
    operation = record.operation
    if record.leased_until is not None and record.leased_until > now:
        return f"held until {out.time(record.leased_until)}"
    return soon(operation.next_poll_at if operation.state is OperationState.WAITING else None, now)


def show_operation(
    out: Output, record: OperationRecord, beside: tuple[Sequence[CallRecord], Sequence[DeliveryRecord]], now: datetime
) -> None:
    """All about one operation (W46), with its calls and the copies of its result. Reading it asks the provider nothing (W36)."""
    calls, copies = beside
    operation, allowance, spend = record.operation, record.operation.allowance, record.operation.spend
    out.pairs(
        [
            ("operation", operation.id),
            ("status", operation.state if operation.category is None else f"{operation.state} ({operation.category})"),
            ("contract", operation.contract),
            ("account", operation.account or "none"),
            ("provider job", operation.job_id or "none yet"),
            ("assistant task", operation.assistant_task_id or "none"),
            ("user", operation.user),
            ("created", out.time(operation.created_at)),
            ("started", out.time(operation.started_at)),
            ("deadline", _deadline(out, operation, now)),
            ("business deadline", "none" if allowance.business_deadline_at is None else out.time(allowance.business_deadline_at)),
            ("status requests", _requests(operation)),
            ("transport failures", f"{spend.transport_failures} of {allowance.max_transport_failures} used"),
            ("throttled answers", f"{spend.throttles} of {allowance.max_throttles} used"),
            ("last state", operation.last_state or "none yet"),
            ("last HTTP status", operation.last_http_status or "none yet"),
            ("last checked", out.time(operation.last_checked_at)),
            ("next look", _look(out, operation, now)),
            ("held", _held(out, record, now)),
            ("expires", out.time(operation.expires_at)),
            ("result", operation.result_ref or "none"),
            ("error", " ".join(part for part in (operation.error_code, operation.error_text) if part)),
            *(("result copy", _copy_line(one)) for one in copies),
            *((str(one.call.kind), call_line(out, one)) for one in calls),
            *((f"pinned {path}", value) for path, value in operation.pins.items()),
            ("submitted anew for", operation.previous),
        ]
    )
    if operation.open_escalation is not None:
        out.say()
        out.say(f"A person is asked: sereno escalation show {operation.open_escalation.id}")


def _deadline(out: Output, operation: Operation, now: datetime) -> str:
    """The deadline, and how far it is while the wait is open."""
    at = operation.allowance.deadline_at
    return out.time(at) if operation.state in TERMINAL else f"{out.time(at)} ({away(at, now)})"


def _held(out: Output, record: OperationRecord, now: datetime) -> str | None:
    """Until when a process has it; after that another one may take it over."""
    until = record.leased_until
    return None if until is None or until <= now else f"until {out.time(until)}; then taken over if its process is gone"


def _requests(operation: Operation) -> str:
    most = operation.allowance.max_status_requests
    return f"{operation.spend.status_requests} of {most} used" if most else "none: the provider calls back"


def copy_row(record: DeliveryRecord) -> dict[str, Any]:
    """A copy of the result as data."""
    delivery = record.delivery
    return {
        "delivery": delivery.id,
        "state": delivery.state,
        "attempts": delivery.attempts,
        "delivered_at": record.delivered_at,
        "outcome": record.last_outcome,
    }


def _copy_line(record: DeliveryRecord) -> str:
    return f"{record.delivery.state}" + (f": {record.last_outcome}" if record.last_outcome else "")


def call_line(out: Output, record: CallRecord) -> str:
    """A submit or cancel in one line: what became of it, how often it was tried, and what was answered."""
    call, answer = record.call, record.answer or {}
    said = [CALLS[call.state], f"{call.attempts} {'try' if call.attempts == 1 else 'tries'}"]
    if call.kind is CallKind.SUBMIT:
        said.append(f"key {call.key}")
    if answer.get("http_status") is not None:
        said.append(f"answered HTTP {answer['http_status']} {out.time(record.answered_at)}")
    error = " ".join(str(answer[name]) for name in ("error_code", "error_text") if answer.get(name))
    return "; ".join([*said, *([error] if error else [])])


def _look(out: Output, operation: Operation, now: datetime) -> str:
    if operation.next_poll_at is None or operation.state is not OperationState.WAITING:
        return "none planned"
    return f"{out.time(operation.next_poll_at)} ({away(operation.next_poll_at, now)}): {DELAYS[operation.delay_source]}"


def progress_line(operation: Operation, now: datetime) -> str:
    """Where a wait stands, in one line: state, requests, when it looks next and why."""
    spend, allowance = operation.spend, operation.allowance
    nothing = "no answer yet" if operation.last_http_status is None else f"no state yet (HTTP {operation.last_http_status})"
    state = safe(operation.last_state or nothing, most=40)
    used = f"{spend.status_requests}/{allowance.max_status_requests} requests"
    if operation.state is OperationState.SUBMITTING:
        return "the job is being submitted; the provider has not named it yet"
    if operation.state is not OperationState.WAITING:
        return f"{operation.state}: {state}, {used}"
    if allowance.max_status_requests == 0:
        return f"{state}, waits for the provider's call-back, until its deadline {away(allowance.stops_at()[0], now)}"
    if operation.next_poll_at is None or operation.next_poll_at <= now:
        return f"{state}, {used}, looking now"
    return f"{state}, {used}, next look {away(operation.next_poll_at, now)}: {DELAYS[operation.delay_source]}"


def stands_line(operation: Operation, now: datetime) -> str:
    """The operation with its state and where it stands, the state named once."""
    said = progress_line(operation, now).removeprefix(f"{operation.state}: ")
    return f"{operation.id} is {operation.state}: {said}"


def show_end(out: Output, operation: Operation) -> None:
    """How a wait ended."""
    spend, allowance = operation.spend, operation.allowance
    out.say(f"{job_of(operation)} at {operation.contract}: {operation.state}" + because(operation))
    out.pairs(
        [
            ("result", operation.result_ref),
            ("last state", operation.last_state),
            ("error", " ".join(part for part in (operation.error_code, operation.error_text) if part)),
            ("requests", f"{spend.status_requests} of {allowance.max_status_requests}"),
        ],
        indent="  ",
    )
    out.say(f"  The whole story: sereno operation explain {operation.id}")


def job_of(operation: Operation) -> str:
    """The job by its id; an operation whose submit was never answered has none."""
    return f"Job {safe(operation.job_id)}" if operation.job_id else "A job without an id"


def because(operation: Operation) -> str:
    """The category in brackets, where there is one."""
    return "" if operation.category is None else f" ({operation.category})"
