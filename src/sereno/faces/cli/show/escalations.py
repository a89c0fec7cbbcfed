"""Questions to people: a line, the whole statement, the options with the command that answers each."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sereno.core.escalation import Escalation
from sereno.faces.cli.output import Output, safe
from sereno.faces.cli.show.words import away

_LABELS = {
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
_COUNTED = ("requests", "transport_failures", "throttles")
_SHOWN = {"reason", *_LABELS, *_INSTANTS, *(f"{name}_{end}" for name in _COUNTED for end in ("used", "max"))} | {
    "category", "elapsed_s", "answer_by", "options",
}  # fmt: skip


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
        ["escalation", "operation", "state", "category", "job", "answer by, or answer"],
        [
            (
                question.id,
                question.operation,
                question.state,
                question.category,
                question.statement.get("job") or "-",
                _answered(question) if question.state != "open" else away(question.answer_by, now),
            )
            for question in questions
        ],
    )


def _answered(question: Escalation) -> str:
    return "nobody answered" if question.answer is None else str(question.answer.get("option") or "-")


def show_statement(out: Output, question: Escalation, now: datetime) -> None:
    """Exactly what the digest covers, but for the options: what is asked, until when, and what is known."""
    _headline(out, question, now)
    out.say()
    _known(out, question)


def show_escalation(out: Output, question: Escalation, now: datetime) -> None:
    """A decision: what is asked first, then what can be answered with the command for each, then what is known."""
    _headline(out, question, now)
    out.say()
    if question.state == "open":
        out.say("What you can answer (each once, and only for exactly this question):")
    for option in question.options:
        out.say(f"  {option.key}")
        out.paragraph(option.says, indent="    ")
        if question.state == "open":
            out.say(f"    sereno escalation answer {question.id} {option.key} --digest {question.digest[:12]}")
    out.say()
    _known(out, question)
    if question.answer is not None:
        out.say(f"Answered: {safe(question.answer.get('option'))}, by {safe(question.answer.get('by'))}")


def _headline(out: Output, question: Escalation, now: datetime) -> None:
    """What is asked, in the words of the reason; and until when."""
    said = question.statement
    contract = safe(said.get("contract"))
    what = f"Job {safe(said['job'])} at {contract}" if said.get("job") else f"The submit of {question.operation} to {contract}"
    out.say(f"{what} needs a decision: {question.category}")
    out.paragraph(str(said.get("reason")), indent="  ")
    asked = f"answer by {out.time(question.answer_by)} ({away(question.answer_by, now)}); silence means stop"
    out.say(f"  {question.id} is {question.state}" + (f"; {asked}" if question.state == "open" else ""))


def _known(out: Output, question: Escalation) -> None:
    said = question.statement
    rows: list[tuple[str, object]] = [(label, said.get(name)) for name, label in _LABELS.items()]
    for name, label in zip(_COUNTED, ("requests", "transport failures", "throttled answers"), strict=True):
        rows.append((label, f"{said.get(f'{name}_used')} of {said.get(f'{name}_max')}"))
    looked = [name for name in _INSTANTS if name != "not_before" or said.get("job")]  # without a job there is nothing to look at
    rows += [(_INSTANTS[name], _instant(out, said.get(name))) for name in looked]
    more = [name for name in said if name not in _SHOWN and not isinstance(said[name], dict | list)]
    rows += [(name.replace("_", " "), said[name]) for name in more]
    rows.append(("digest", question.digest[:16]))
    out.say("What is known:")
    out.pairs(rows, indent="  ")


def _instant(out: Output, value: object) -> str | None:
    return out.time(datetime.fromisoformat(value)) if isinstance(value, str) else None
