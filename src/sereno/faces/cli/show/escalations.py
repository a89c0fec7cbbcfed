"""Questions to people: a line, the whole statement, the options with the command that answers each."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sereno.core.escalation import Escalation
from sereno.faces.cli.output import Output, safe
from sereno.faces.cli.show.words import away

_LABELS = {
    "reason": "reason",
    "job": "job",
    "contract": "contract",
    "account": "account",
    "operation": "operation",
    "last_state": "last state",
    "elapsed": "elapsed",
    "last_http_status": "last HTTP status",
    "error_code": "error code",
    "error_text": "error text",
    "provider_request_id": "provider request",
}
_INSTANTS = {
    "last_answer_at": "last answer",
    "deadline_at": "deadline",
    "business_deadline_at": "business deadline",
    "not_before": "earliest next look",
    "provider_wait_until": "the provider asked to wait until",
}


def escalation_row(question: Escalation) -> dict[str, Any]:
    """A question as data; `digest` is what an answer must name."""
    return {
        "id": question.id,
        "workspace": question.workspace,
        "operation": question.operation,
        "category": question.category,
        "state": question.state,
        "digest": question.digest,
        "statement": question.statement,
        "options": question.options,
        "created_at": question.created_at,
        "answer_by": question.answer_by,
        "answer": question.answer,
    }


def list_escalations(out: Output, questions: Sequence[Escalation], now: datetime) -> None:
    """One line a question."""
    out.table(
        ["escalation", "state", "category", "job", "answer by", "options"],
        [
            (
                question.id,
                question.state,
                question.category,
                question.statement.get("job", "-"),
                away(question.answer_by, now),
                " ".join(option.key for option in question.options),
            )
            for question in questions
        ],
    )


def show_statement(out: Output, question: Escalation, now: datetime) -> None:
    """Exactly what the digest covers: the statement and the options."""
    said = question.statement
    out.say(f"Question {question.id} ({question.state}): {question.category}")
    rows: list[tuple[str, object]] = [(label, said.get(name)) for name, label in _LABELS.items()]
    for label, name in (
        ("requests", "requests"),
        ("transport failures", "transport_failures"),
        ("throttled answers", "throttles"),
    ):
        rows.append((label, f"{said.get(f'{name}_used')} of {said.get(f'{name}_max')}"))
    rows += [(label, _instant(out, said.get(name))) for name, label in _INSTANTS.items()]
    rows.append(("answer by", f"{out.time(question.answer_by)} ({away(question.answer_by, now)}); silence means stop"))
    rows.append(("digest", question.digest[:16]))
    out.pairs(rows, indent="  ")


def show_escalation(out: Output, question: Escalation, now: datetime) -> None:
    """The statement and, while it is open, each option with the command that answers it; else the answer."""
    show_statement(out, question, now)
    out.say()
    if question.state == "open":
        out.say("What you can answer (each once, and only for exactly this question):")
    for option in question.options:
        out.say(f"  {option.key}")
        out.paragraph(option.says, indent="    ")
        if question.state == "open":
            out.say(f"    sereno escalation answer {question.id} {option.key} --digest {question.digest[:12]}")
    if question.answer is not None:
        out.say(f"Answered: {safe(question.answer.get('option'))}, by {safe(question.answer.get('by'))}")


def _instant(out: Output, value: object) -> str | None:
    return out.time(datetime.fromisoformat(value)) if isinstance(value, str) else None
