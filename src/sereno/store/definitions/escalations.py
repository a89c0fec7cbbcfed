"""Answers of people to escalations (W19, W20, W40): once, in time, for exactly what was shown. A part of a write transaction."""

from datetime import timedelta
from sqlite3 import Row

from sereno.core.errors import InvariantBroken, NotAllowed, NotNow
from sereno.core.escalation import Escalation, Option, Verb
from sereno.core.operation import AnswerDecision, Operation, OperationState
from sereno.core.values import Json
from sereno.ports import AnswerRule, Given
from sereno.store.codec import dumps
from sereno.store.definitions.changed import Wanted, apply, find
from sereno.store.definitions.request import Request
from sereno.store.intents import standing_facts
from sereno.store.missing import not_found
from sereno.store.rows import read_escalation


def answer(request: Request, escalation_id: str, given: Given, decide: AnswerRule) -> str:
    """Records one answer and applies it to the operation; returns the operation's id.

    Of two people who answer at once, one wins and the other is told who. Only a person may give anything but `stop` (W20).
    """
    escalation = _open_question(request, escalation_id, given.digest)
    option = _chosen(escalation, given.option)
    if request.who.kind != "human" and option.verb is not Verb.STOP:
        raise NotAllowed(
            f"only a person may answer {option.key!r}; a principal of kind {request.who.kind!r} may only stop",
            subject=escalation_id,
            code="needs_person",
        )
    found = find(request, escalation.operation)
    operation = found.operation
    if operation.state is not OperationState.ESCALATED:
        raise NotNow(f"the operation is {operation.state.value} and waits for no answer", subject=operation.id)
    decision = decide(operation, escalation, option, request.now)
    _refuse_wider(operation, option, decision, request)
    _close(request, escalation, option, given)
    run = request.revoke(
        "operation", found.row, f"the escalation was answered by {request.who.user} while this run was under way"
    )
    changes = apply(request, found, Wanted(decision, given.statement, given.document))
    facts: dict[str, Json] = {"digest": escalation.digest, "statement": dict(given.statement)}
    facts["before"] = standing_facts(dict(found.row), operation)
    request.decided(operation.id, run, "answered", {**facts, **_asked(escalation, option), **changes})
    return operation.id


def _asked(escalation: Escalation, option: Option) -> dict[str, Json]:
    """What was asked and what was chosen, for the journal (W20, W26)."""
    return {
        "escalation": escalation.id,
        "category": escalation.category.value,
        "option": option.key,
        "verb": option.verb.value,
        "says": option.says,
    }


_ESCALATION = "SELECT * FROM escalation WHERE workspace = ? AND id = ?"


def _open_question(request: Request, escalation_id: str, digest: str) -> Escalation:
    row: Row | None = request.connection.execute(_ESCALATION, (request.workspace, escalation_id)).fetchone()
    if row is None:
        raise not_found("escalation", escalation_id, ())
    if row["state"] == "answered":
        raise NotNow(
            f"the escalation was answered already by {row['answered_by']}; an answer counts once",
            subject=escalation_id,
            code="answered",
        )
    if row["state"] != "open" or row["answer_by"] <= request.micros:
        raise NotNow(
            "the time for an answer is over, which counts as stop; nothing was changed",
            subject=escalation_id,
            hint="register the job again to go on waiting: that is a new decision",
            code="expired",
        )
    if row["digest"] != digest:
        raise NotAllowed(
            "the digest is not that of the question as it stands; nothing was changed",
            subject=escalation_id,
            hint=f"look again: sereno escalation show {escalation_id}",
            code="digest_differs",
        )
    return read_escalation(dict(row))


def _chosen(escalation: Escalation, key: str) -> Option:
    for option in escalation.options:
        if option.key == key:
            return option
    keys = [option.key for option in escalation.options]
    raise not_found(f"option (there are {', '.join(keys)})", key, keys)


def _refuse_wider(operation: Operation, option: Option, decision: AnswerDecision, request: Request) -> None:
    """The last line of I22: an answer widens no limit by more than the option said, whatever the rule decided."""
    before, after, spend = operation.allowance, decision.allowance, operation.spend
    latest = max(before.deadline_at, request.now) + timedelta(minutes=option.minutes)
    wider = (
        after.max_status_requests > before.max_status_requests + option.checks
        or after.deadline_at > latest
        or (after.business_deadline_at or before.deadline_at) > max(before.business_deadline_at or before.deadline_at, latest)
        or after.max_transport_failures > max(before.max_transport_failures, spend.transport_failures) + option.checks
        or after.max_throttles > max(before.max_throttles, spend.throttles) + option.checks
    )
    if wider or (option.verb is Verb.STOP and after != before):
        raise InvariantBroken(f"the answer {option.key!r} would widen the limits by more than it says", subject=operation.id)


def _close(request: Request, escalation: Escalation, option: Option, given: Given) -> None:
    said: dict[str, Json] = {
        "option": option.key,
        "verb": option.verb.value,
        "by": request.who.user,
        "by_kind": request.who.kind,
        "at": request.now.isoformat(),
        "statement": dict(given.statement),
    }
    closed = request.connection.execute(
        "UPDATE escalation SET state = 'answered', answer = ?, answered_by = ?, answered_at = ?"
        " WHERE workspace = ? AND id = ? AND state = 'open'",
        (dumps(said), request.who.user, request.micros, request.workspace, escalation.id),
    )
    if closed.rowcount != 1:
        raise InvariantBroken("an escalation changed inside its own transaction", subject=escalation.id)
