"""A question that was decided before the host's clock was set, and is written after it: nobody was told its end yet, so that moves too."""

from dataclasses import replace
from datetime import datetime, timedelta

from sereno.core.escalation import Escalation, escalation_digest
from sereno.core.values import Json
from sereno.core.waiting.asking import tell_question
from sereno.core.waiting.lifecycle import Operation
from sereno.core.waiting.step import OperationDecision

_INSTANTS = ("answer_by", "not_before", "provider_wait_until")
"""What a statement says of instants ahead; deadlines were told before, and stay."""


def moved_question(operation: Operation, decision: OperationDecision, by: timedelta) -> OperationDecision:
    """The decision as it is told by the clock that stands now, `by` further than the one it was decided by: a person has as long to answer.

    A decision that asks nothing is handed back as it is. Texts of options keep the instants that they were written with.
    """
    asked = decision.escalation
    if asked is None or not by:
        return decision
    moved = _moved(operation, asked, by)
    job = decision.job
    subject = operation if job is None else replace(operation, job_id=job.job_id, url=job.url, parameters=job.parameters)
    return replace(decision, escalation=moved, effects=tell_question(subject, moved))


def _moved(operation: Operation, asked: Escalation, by: timedelta) -> Escalation:
    answer_by = asked.answer_by + by
    statement = {name: _shifted(value, by) if name in _INSTANTS else value for name, value in asked.statement.items()}
    digest = escalation_digest(operation.id, statement, asked.options, answer_by)
    return replace(asked, statement=statement, digest=digest, created_at=asked.created_at + by, answer_by=answer_by)


def _shifted(value: Json, by: timedelta) -> Json:
    return (datetime.fromisoformat(value) + by).isoformat() if isinstance(value, str) else value
