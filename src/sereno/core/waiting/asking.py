"""What people are told of an operation: the statement of a question, and the messages to its actions (W19, W20)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sereno.core.budget import Spend
from sereno.core.delay import quoted
from sereno.core.effect import Effect, operation_dedupe_key
from sereno.core.escalation import Category, Escalation, Standing, at_text, escalation_digest, option_rows, options_for
from sereno.core.observation import Observation
from sereno.core.values import Json, format_duration
from sereno.core.waiting.lifecycle import Operation, OperationState


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a person is asked, and what is known at that moment. `not_before` is the earliest next look, whoever allows it."""

    category: Category
    reason: str
    at: datetime
    spend: Spend
    observation: Observation | None
    not_before: datetime
    provider_wait: datetime | None


def question(operation: Operation, trouble: Trouble, escalation_id: str, answer_within_s: float) -> Escalation:
    """Builds the question with its bounded options; nobody answering until `answer_by` means stop."""
    answer_by = trouble.at + timedelta(seconds=answer_within_s)
    word = _last_state(operation, trouble.observation)
    options = options_for(
        trouble.category, Standing(operation.job_id, word, trouble.spend, operation.allowance, trouble.provider_wait)
    )
    statement = {**_statement(operation, trouble), "answer_by": answer_by.isoformat(), "options": option_rows(options)}
    return Escalation(
        id=escalation_id,
        workspace=operation.workspace,
        operation=operation.id,
        category=trouble.category,
        statement=statement,
        options=options,
        digest=escalation_digest(operation.id, statement, options, answer_by),
        created_at=trouble.at,
        answer_by=answer_by,
    )


def _last_state(operation: Operation, observation: Observation | None) -> str | None:
    return observation.state if observation is not None and observation.state is not None else operation.last_state


def _statement(operation: Operation, trouble: Trouble) -> dict[str, Json]:
    """Everything the person decides on, as JSON; instants as ISO 8601 text."""
    seen, spend, allowance = trouble.observation, trouble.spend, operation.allowance
    answered = seen is not None and seen.http_status is not None
    elapsed = trouble.at - operation.created_at
    return {
        "operation": operation.id,
        "contract": operation.contract,
        "account": operation.account,
        "job": operation.job_id,
        "category": trouble.category.value,
        "reason": trouble.reason,
        "last_state": _last_state(operation, seen),
        "elapsed_s": elapsed.total_seconds(),
        "elapsed": format_duration(timedelta(seconds=round(elapsed.total_seconds()))),
        "requests_used": spend.status_requests,
        "requests_max": allowance.max_status_requests,
        "transport_failures_used": spend.transport_failures,
        "transport_failures_max": allowance.max_transport_failures,
        "throttles_used": spend.throttles,
        "throttles_max": allowance.max_throttles,
        "last_http_status": seen.http_status if seen is not None and answered else operation.last_http_status,
        "last_answer_at": _iso(trouble.at if answered else operation.last_checked_at),
        "provider_request_id": seen.provider_request_id if seen is not None else None,
        "error_code": seen.error_code if seen is not None else operation.error_code,
        "error_text": seen.error_text if seen is not None else operation.error_text,
        "deadline_at": _iso(allowance.deadline_at),
        "business_deadline_at": _iso(allowance.business_deadline_at),
        "not_before": _iso(trouble.not_before),
        "provider_wait_until": _iso(trouble.provider_wait),
    }


def _iso(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()


def tell_question(operation: Operation, asked: Escalation) -> Sequence[Effect]:
    """One message for each action: what is asked, the options, and until when."""
    lines = [
        str(asked.statement["reason"]),
        f"Last state: {quoted(asked.statement['last_state'], 200)}. Elapsed: {asked.statement['elapsed']}. "
        f"Requests: {asked.statement['requests_used']} of {asked.statement['requests_max']}.",
        *(f"- {option.key}: {option.says}" for option in asked.options),
        f"Answer until {at_text(asked.answer_by)}; otherwise Sereno stops waiting and keeps the handle.",
    ]
    return _messages(
        operation,
        f"escalated-{operation.escalations + 1}",
        (f"Job {quoted(operation.job_id, 80)} at {operation.contract} needs a decision: {asked.category}", "\n".join(lines)),
        {
            "state": OperationState.ESCALATED.value,
            "escalation": asked.id,
            "category": asked.category.value,
            "digest": asked.digest,
            "untrusted": dict(asked.statement),
        },
    )


def tell_end(
    operation: Operation, state: OperationState, category: Category | None, reason: str, seen: Observation | None
) -> Sequence[Effect]:
    """One message for each action: how the wait ended. What the provider said is labelled untrusted."""
    untrusted: dict[str, object] = {
        "last_state": _last_state(operation, seen),
        "result_ref": (seen.result_ref if seen is not None else None) or operation.result_ref,
        "error_code": seen.error_code if seen is not None else operation.error_code,
        "error_text": seen.error_text if seen is not None else operation.error_text,
    }
    said = [f"{name.replace('_', ' ')}: {quoted(value, 500)}" for name, value in untrusted.items() if value is not None]
    return _messages(
        operation,
        state.value,
        (f"Job {quoted(operation.job_id, 80)} at {operation.contract}: {state}", "\n".join([reason, *said])),
        {"state": state.value, "category": category.value if category is not None else None, "untrusted": untrusted},
    )


def _messages(operation: Operation, transition: str, text: tuple[str, str], payload: Mapping[str, Json]) -> Sequence[Effect]:
    """The rows: one for each action, under a key that names the transition, so that each is told once."""
    title, body = text
    return tuple(
        Effect(
            dedupe_key=operation_dedupe_key(
                workspace=operation.workspace, operation=operation.id, transition=transition, action=action.name
            ),
            action=action,
            pool=action.pool,
            title=title,
            body=body,
            payload={
                "operation": operation.id,
                "contract": operation.contract,
                "job": operation.job_id,
                "assistant_task_id": operation.assistant_task_id,
                **payload,
            },
            subject=operation.id,
        )
        for action in operation.actions
    )
