"""What people are told of an operation: the statement of a question, and the messages to its actions (W19, W20)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sereno.core.budget import Spend
from sereno.core.call import CallAnswer, CallOutcome
from sereno.core.delay import quoted
from sereno.core.effect import Effect, operation_dedupe_key
from sereno.core.escalation import (
    Category,
    Escalation,
    Option,
    Standing,
    at_text,
    escalation_digest,
    option_rows,
    options_for,
)
from sereno.core.observing.seen import Observation
from sereno.core.values import Json, format_duration
from sereno.core.waiting.lifecycle import Operation, OperationState

SHOWN_DIGEST = 12
"""So many digits of the digest are written in the command that answers; a face takes 8 or more."""


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
    planned: datetime | None = None
    """An instant that an earlier answer of a person put the next look to."""
    answer: CallAnswer | None = None
    """The answer to a submit or cancel, where that is the trouble."""
    cancel_effects: str | None = None
    """What cancelling does, where the contract documents it."""


def question(operation: Operation, trouble: Trouble, escalation_id: str, answer_within_s: float) -> Escalation:
    """Builds the question with its bounded options; nobody answering until `answer_by` means stop."""
    answer_by = trouble.at + timedelta(seconds=answer_within_s)
    word = _last_state(operation, trouble.observation)
    standing = Standing(
        operation.job_id, word, trouble.spend, operation.allowance, trouble.provider_wait, trouble.cancel_effects, trouble.planned
    )
    options = options_for(trouble.category, standing)
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
    seen, spend, allowance = trouble.observation or trouble.answer, trouble.spend, operation.allowance
    answered = seen is not None and seen.http_status is not None
    elapsed = trouble.at - operation.created_at
    return {
        "operation": operation.id,
        "contract": operation.contract,
        "account": operation.account,
        "job": operation.job_id,
        "category": trouble.category.value,
        "reason": _asked_because(operation, trouble),
        "last_state": _last_state(operation, trouble.observation),
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


def _asked_because(operation: Operation, trouble: Trouble) -> str:
    """The reason; for a submit that was refused also what the provider said, and what a person can do about it."""
    answer = trouble.answer
    if answer is None or answer.outcome is not CallOutcome.REFUSED or operation.job_id:
        return trouble.reason
    said = ": ".join(quoted(text, 300) for text in (answer.error_code, answer.error_text) if text)
    told = f"; the provider says {said}" if said else ""
    return f"{trouble.reason}{told}; correct the input and submit anew: sereno submit {operation.contract} --input …"


def _iso(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()


def tell_question(operation: Operation, asked: Escalation) -> Sequence[Effect]:
    """One message for each action, written to be decided on: what happened, what is known, what can be chosen with which effect and
    which command, and until when."""
    lines = [
        str(asked.statement["reason"]),
        *_known(asked.statement),
        "",
        "Choose one:",
        *(line for option in asked.options for line in _choice(asked, option)),
        "",
        f"Answer until {at_text(asked.answer_by)}; otherwise Sereno stops waiting and keeps the handle.",
    ]
    return _messages(
        operation,
        f"escalated-{operation.escalations + 1}",
        (f"{_what(operation)} needs a decision: {asked.category}", "\n".join(lines)),
        {
            "state": OperationState.ESCALATED.value,
            "escalation": asked.id,
            "category": asked.category.value,
            "digest": asked.digest,
            "untrusted": dict(asked.statement),
        },
    )


def _what(operation: Operation) -> str:
    if not operation.job_id:
        return f"The submit of {operation.id} to {operation.contract}"
    return f"Job {quoted(operation.job_id, 80)} at {operation.contract}"


def _known(statement: Mapping[str, Json]) -> Sequence[str]:
    """What is known when the question is asked; what the provider said is quoted."""
    shown = statement.get
    http = f"HTTP {shown('last_http_status')}" if shown("last_http_status") is not None else "no HTTP answer"
    state = f"Last state: {quoted(shown('last_state'), 200)} ({http}). " if shown("last_state") is not None else f"{http}. "
    counts = [
        f"{name}: {shown(f'{key}_used')} of {shown(f'{key}_max')}"
        for name, key in (
            ("Requests", "requests"),
            ("failed requests", "transport_failures"),
            ("rate-limit answers", "throttles"),
        )
    ]
    lines = [f"{state[0].upper()}{state[1:]}Elapsed: {shown('elapsed')}. {', '.join(counts)}."]
    lines += [f"{name}: {quoted(shown(key), 500)}" for name, key in _PROVIDER_SAID if shown(key) is not None]
    return lines


_PROVIDER_SAID = (("Error code", "error_code"), ("Error text", "error_text"), ("Provider request", "provider_request_id"))


def _choice(asked: Escalation, option: Option) -> Sequence[str]:
    command = f"sereno escalation answer {asked.id} {option.key} --digest {asked.digest[:SHOWN_DIGEST]}"
    return [f"- {option.key}: {option.says}", f"  {command}"]


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
        (f"{_what(operation)}: {state}", "\n".join([reason, *said])),
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
