"""Operations: a line, a page, the story of W26, and the exit code that an end means."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sereno.core.escalation import Category
from sereno.core.operation import Operation, OperationState
from sereno.core.record import JournalEntry, OperationRecord
from sereno.core.values import Json, from_micros
from sereno.faces.cli.output import EXIT_ESCALATED, EXIT_INTERRUPTED, EXIT_JOB_FAILED, EXIT_LIMIT, EXIT_OK, Output, safe
from sereno.faces.cli.show.words import DELAYS, away, brief, soon
from sereno.service.operations import Story

LIMITS = frozenset(
    {
        Category.DEADLINE_EXCEEDED,
        Category.BUSINESS_DEADLINE_EXCEEDED,
        Category.REQUEST_BUDGET_EXHAUSTED,
        Category.RATE_LIMITED,
    }
)
"""Categories that a limit of ours ended: exit code 5."""

_CODES = {
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


def operation_row(record: OperationRecord) -> dict[str, Any]:
    """An operation as data, under the names of W46."""
    operation = record.operation
    allowance, spend, question = operation.allowance, operation.spend, operation.open_escalation
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
        "status": operation.state,
        "category": operation.category,
        "created_at": operation.created_at,
        "started_at": operation.created_at,
        "deadline_at": allowance.deadline_at,
        "business_deadline_at": allowance.business_deadline_at,
        "max_status_requests": allowance.max_status_requests,
        "max_transport_failures": allowance.max_transport_failures,
        "max_throttles": allowance.max_throttles,
        "status_requests_used": spend.status_requests,
        "transport_failures_used": spend.transport_failures,
        "throttles_used": spend.throttles,
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
        "leased_until": record.leased_until,
        "updated_at": record.updated_at,
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
                record.operation.job_id,
                record.operation.last_state or "-",
                f"{record.operation.spend.status_requests}/{record.operation.allowance.max_status_requests}",
                _next(record.operation, now),
            )
            for record in records
        ],
    )


def _next(operation: Operation, now: datetime) -> str:
    return soon(operation.next_poll_at if operation.state is OperationState.WAITING else None, now)


def show_operation(out: Output, record: OperationRecord, now: datetime) -> None:
    """All about one operation (W46). Reading it asks the provider nothing (W36)."""
    operation, allowance, spend = record.operation, record.operation.allowance, record.operation.spend
    out.pairs(
        [
            ("operation", operation.id),
            ("status", operation.state if operation.category is None else f"{operation.state} ({operation.category})"),
            ("contract", operation.contract),
            ("account", operation.account or "none"),
            ("provider job", operation.job_id),
            ("assistant task", operation.assistant_task_id or "none"),
            ("user", operation.user),
            ("created", out.time(operation.created_at)),
            ("started", out.time(operation.created_at)),
            ("deadline", f"{out.time(allowance.deadline_at)} ({away(allowance.deadline_at, now)})"),
            ("business deadline", "none" if allowance.business_deadline_at is None else out.time(allowance.business_deadline_at)),
            ("status requests", f"{spend.status_requests} of {allowance.max_status_requests} used"),
            ("transport failures", f"{spend.transport_failures} of {allowance.max_transport_failures} used"),
            ("throttled answers", f"{spend.throttles} of {allowance.max_throttles} used"),
            ("last state", operation.last_state or "none yet"),
            ("last HTTP status", operation.last_http_status or "none yet"),
            ("last checked", out.time(operation.last_checked_at)),
            ("next look", _look(out, operation, now)),
            ("expires", out.time(operation.expires_at)),
            ("result", operation.result_ref or "none"),
            ("error", " ".join(part for part in (operation.error_code, operation.error_text) if part)),
        ]
    )
    if operation.open_escalation is not None:
        out.say()
        out.say(f"A person is asked: sereno escalation show {operation.open_escalation.id}")


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
    if operation.state is not OperationState.WAITING:
        return f"{operation.state}: {state}, {used}"
    if operation.next_poll_at is None or operation.next_poll_at <= now:
        return f"{state}, {used}, looking now"
    return f"{state}, {used}, next look {away(operation.next_poll_at, now)}: {DELAYS[operation.delay_source]}"


def show_end(out: Output, operation: Operation) -> None:
    """How a wait ended."""
    spend, allowance = operation.spend, operation.allowance
    out.say(f"Job {safe(operation.job_id)} at {operation.contract}: {operation.state}" + _because(operation))
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


def _because(operation: Operation) -> str:
    return "" if operation.category is None else f" ({operation.category})"


def story_rows(story: Story) -> list[dict[str, Any]]:
    """The story as data: each journal entry with its instant."""
    return [
        {"seq": entry.seq, "at": entry.at, "run": entry.run, "kind": entry.kind, "facts": entry.facts} for entry in story.entries
    ]


def show_story(out: Output, story: Story) -> None:
    """The timeline of W26: time, what was seen, state, next time and why, requests used. From the journal alone."""
    operation = story.record.operation
    out.say(f"{operation.id}: job {safe(operation.job_id)} at {operation.contract}, {operation.state}{_because(operation)}")
    for entry in story.entries:
        if entry.kind == "decision":
            _show_decision(out, entry)
        elif entry.facts.get("taken_over"):
            out.say(
                f"{out.time(entry.at)}  run {entry.run} takes over a try that ended without a word; what that one counted stays counted"
            )


def _show_decision(out: Output, entry: JournalEntry) -> None:
    facts = entry.facts
    out.say(f"{out.time(entry.at)}  {_headline(facts)}")
    for line in _details(out, entry):
        out.say(f"    {line}")


def _headline(facts: Mapping[str, Json]) -> str:
    word = facts.get("decision")
    if word == "created":
        return f"registered; state {facts.get('state')}"
    if word == "answered":
        return f"{safe(facts.get('by'))} answered {safe(facts.get('option'))}: {safe(facts.get('says'), most=600)}"
    if word == "parked":
        return f"parked, a fault of Sereno's own: {safe(facts.get('reason'), most=600)}"
    if "state_before" not in facts:
        return safe(facts.get("reason") or word, most=600)
    return f"{_seen(facts)}; state {facts.get('state_before')} → {facts.get('state')}"


def _seen(facts: Mapping[str, Json]) -> str:
    seen = facts.get("observation")
    if not isinstance(seen, dict):
        return "nothing was asked"
    status, state = seen.get("http_status"), seen.get("state")
    answer = "no answer" if status is None else f"HTTP {status}"
    return f"saw {answer}" + (f", job state {safe(state)}" if state is not None else "") + f" ({safe(seen.get('kind'))})"


def _details(out: Output, entry: JournalEntry) -> list[str]:
    facts = entry.facts
    lines = []
    if "state_before" in facts and facts.get("decision") not in ("answered", "parked"):
        lines.append(f"why: {safe(facts.get('decision'), most=600)}")
    looks = _instant(facts.get("next_poll_at"))
    if looks is not None and facts.get("state") == "waiting":
        because = DELAYS.get(str(facts.get("delay_source")), str(facts.get("delay_source")))
        lines.append(f"next look: {out.time(looks)} (in {brief(looks - entry.at)}); {because}")
    if "max_status_requests" in facts:
        used = f"requests: {facts.get('status_requests_used')} of {facts['max_status_requests']}"
        deadline = _instant(facts.get("deadline_at"))
        lines.append(used if deadline is None else f"{used}; deadline {out.time(deadline)}")
    if facts.get("escalation") and facts.get("decision") != "answered":
        lines.append(f"a person is asked: {facts['escalation']}")
    return lines


def _instant(value: Json) -> datetime | None:
    return from_micros(value) if isinstance(value, int) else None
