"""Commits of operation steps: state, spend, the question to a person, effects and the audit row of W26, in one transaction."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sereno.core.escalation import Escalation
from sereno.core.observation import Observation
from sereno.core.operation import OperationDecision, OperationState
from sereno.core.values import Json
from sereno.core.work import OperationWork
from sereno.store.codec import dump_grants, dump_options, dumps, micros, observation_json
from sereno.store.named import named
from sereno.store.pools import wake_pools
from sereno.store.work.effects import Outgoing, insert
from sereno.store.work.fence import Values, held
from sereno.store.work.journal import DECISION, Entry, append


@dataclass(frozen=True, slots=True)
class OperationCommit:
    """One step to commit; `ids` are new delivery ids, one for each effect."""

    work: OperationWork
    decision: OperationDecision
    ids: Sequence[str]


def commit_operation(connection: sqlite3.Connection, commit: OperationCommit, now: int) -> None:
    """Writes one step. Raises LeaseLost. An operation that was edited meanwhile keeps its state: the facts count, nothing is told."""
    fence = held(connection, commit.work)
    edited = fence["revision"] != commit.work.lease.revision
    used = settled_requests(fence, commit)
    due = _edited_due(fence, commit.decision, now) if edited else micros(commit.decision.due)
    _settle(connection, commit, fence, {"used": used, "due": due, "now": now, "edited": edited})
    wakes = [(commit.work.operation.workspace, fence["pool"], now if due is None else due)]
    suppressed = 0
    if not edited:
        _questions(connection, commit, now)
        operation = commit.work.operation
        outgoing = Outgoing(operation.workspace, operation.user, None, commit.decision.effects, commit.ids)
        woken, suppressed = insert(connection, outgoing, now)
        wakes += woken
    _close_run(connection, commit, now)
    append(
        connection, [_entry(commit, fence, {"used": used, "due": due, "edited": edited, "suppressed": suppressed, "now": now})]
    )
    wake_pools(connection, wakes, now)


def settled_requests(fence: Values, commit: OperationCommit) -> int:
    """The request counter: the row's own (hops were counted there) plus what the decision gives back, never more than was reserved."""
    given_back = commit.work.operation.spend.status_requests - commit.decision.spend.status_requests
    reserved = int(commit.work.operation.reserved)
    return int(fence["status_requests_used"]) - max(0, min(given_back, reserved))


def _edited_due(fence: Values, decision: OperationDecision, now: int) -> int:
    """Decides again soon, but inside the smallest gap and what the provider asked for (W35)."""
    return max(now + int(fence["min_gap_us"]), micros(decision.next_poll_at) or 0)


def seen(observation: Observation | None) -> dict[str, Any]:
    """The columns that keep what was last seen; None leaves the old value."""
    if observation is None:
        names = ("last_state", "http_status", "result_ref", "error_code", "error_text", "expires_at")
        return dict.fromkeys(names)
    return {
        "last_state": observation.state,
        "http_status": observation.http_status,
        "result_ref": observation.result_ref,
        "error_code": observation.error_code,
        "error_text": observation.error_text,
        "expires_at": micros(observation.expires_at),
    }


def _settle(connection: sqlite3.Connection, commit: OperationCommit, fence: Values, plan: Mapping[str, Any]) -> None:
    operation, decision = commit.work.operation, commit.decision
    edited = plan["edited"]
    values = {
        "workspace": operation.workspace,
        "id": operation.id,
        "now": plan["now"],
        "state": fence["state"] if edited else str(decision.state),
        "due": plan["due"],
        "next_poll_at": micros(decision.next_poll_at),
        "delay_source": str(decision.delay_source),
        "used": plan["used"],
        "transport_failures": decision.spend.transport_failures,
        "throttles": decision.spend.throttles,
        "answered": decision.spend.answered,
        "not_found": decision.spend.not_found,
        "category": None if edited or decision.category is None else str(decision.category),
        "grants": dump_grants(operation.grants if edited else decision.grants),
        "escalated": int(decision.escalation is not None and not edited),
        "regressed": int("regression" in decision.facts),
        "checked_at": None if decision.observation is None else micros(decision.received_at),
        **seen(decision.observation),
    }
    connection.execute(named("commit")["settle_operation"], values)


def _questions(connection: sqlite3.Connection, commit: OperationCommit, now: int) -> None:
    """Closes a question that the operation has moved past, and stores a new one."""
    operation, decision = commit.work.operation, commit.decision
    if decision.escalation is not None or decision.state is not OperationState.ESCALATED:
        connection.execute(named("commit")["expire_question"], {"workspace": operation.workspace, "id": operation.id})
    if decision.escalation is not None:
        connection.execute(named("commit")["ask_question"], _question_row(decision.escalation))


def _question_row(escalation: Escalation) -> dict[str, Any]:
    return {
        "workspace": escalation.workspace,
        "id": escalation.id,
        "operation": escalation.operation,
        "category": str(escalation.category),
        "statement": dumps(dict(escalation.statement)),
        "options": dump_options(escalation.options),
        "digest": escalation.digest,
        "created_at": micros(escalation.created_at),
        "answer_by": micros(escalation.answer_by),
    }


def _close_run(connection: sqlite3.Connection, commit: OperationCommit, now: int) -> None:
    operation, decision = commit.work.operation, commit.decision
    values = {
        "workspace": operation.workspace,
        "id": operation.id,
        "now": now,
        "run": commit.work.lease.run,
        "status": "ok",
        "summary": decision.reason,
        "error": None,
        "requests": 0 if decision.observation is None else decision.observation.requests,
    }
    connection.execute(named("commit")["close_run"], values)


def _entry(commit: OperationCommit, fence: Values, plan: Mapping[str, Any]) -> Entry:
    """The audit row: everything that `explain` tells and `replay` needs."""
    operation, lease, decision = commit.work.operation, commit.work.lease, commit.decision
    facts: dict[str, Json] = {
        "decision": decision.reason,
        "event": str(decision.event),
        "state_before": str(operation.state),
        "state": fence["state"] if plan["edited"] else str(decision.state),
        "category": None if decision.category is None else str(decision.category),
        "claimed_at": micros(lease.claimed_at),
        "received_at": micros(decision.received_at),
        "next_poll_at": micros(decision.next_poll_at),
        "due": plan["due"],
        "delay_source": str(decision.delay_source),
        "draw": decision.draw,
        "status_requests_used": plan["used"],
        "max_status_requests": operation.allowance.max_status_requests,
        "transport_failures_used": decision.spend.transport_failures,
        "max_transport_failures": operation.allowance.max_transport_failures,
        "throttles_used": decision.spend.throttles,
        "max_throttles": operation.allowance.max_throttles,
        "deadline_at": micros(operation.allowance.deadline_at),
        "business_deadline_at": micros(operation.allowance.business_deadline_at),
        "observation": None if decision.observation is None else observation_json(decision.observation),
        "escalation": None if decision.escalation is None else decision.escalation.id,
        "effects": [] if plan["edited"] else [effect.dedupe_key for effect in decision.effects],
        "suppressed": plan["suppressed"],
        "edited": plan["edited"],
        "facts": dict(decision.facts),
    }
    return Entry(operation.workspace, operation.id, lease.run, DECISION, plan["now"], facts)
