"""Commits of operation steps: state, spend, call, job, the question to a person, effects and the audit row of W26, in one transaction."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sereno.core.call import CallKind, CallOutcome
from sereno.core.errors import AlreadyExists
from sereno.core.escalation import Escalation
from sereno.core.observation import DelaySource, Observation
from sereno.core.operation import Job, Operation, OperationDecision, OperationState
from sereno.core.values import Json
from sereno.core.waiting.lifecycle import LIVE, TERMINAL
from sereno.core.waiting.moved import moved_question
from sereno.core.work import OperationWork
from sereno.store.calls import settle_call, stays_open
from sereno.store.codec import (
    call_answer_json,
    dump_grants,
    dump_options,
    dump_parameters,
    dump_pins,
    dumps,
    load_pins,
    loads,
    micros,
    observation_json,
)
from sereno.store.named import named
from sereno.store.pools import wake_pools
from sereno.store.pushed import pushed_facts
from sereno.store.work.clock.steps import moved_plan, moved_since
from sereno.store.work.effects import Outgoing, insert
from sereno.store.work.fence import Values, held
from sereno.store.work.journal import DECISION, Entry, append

_LOCAL = (DelaySource.LOCAL_BACKOFF, DelaySource.CONTRACT_SCHEDULE)
"""Waits that a call-back may shorten (W35)."""


@dataclass(frozen=True, slots=True)
class OperationCommit:
    """One step to commit; `ids` are new delivery ids, one for each effect."""

    work: OperationWork
    decision: OperationDecision
    ids: Sequence[str]

    @property
    def key(self) -> dict[str, Any]:
        """Workspace and id of the operation."""
        return {"workspace": self.work.operation.workspace, "id": self.work.operation.id}


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the decision comes to on the row as it stands now; instants in microseconds, by the clock as it stood at the claim.
    `moved`: how far it was set since, which the row gets on top."""

    now: int
    moved: int
    edited: bool
    state: OperationState
    used: int
    due: int | None
    next_poll_at: int | None
    call: str | None
    """The call that stays open."""
    pushed_at: int | None
    """The call-back that stays unread."""
    pins: Mapping[str, str]


def commit_operation(connection: sqlite3.Connection, commit: OperationCommit, now: int) -> None:
    """Writes one step. Raises LeaseLost, and AlreadyExists before anything is written where the job that a submit named is that of
    another open operation. An operation that was edited meanwhile keeps its state: the facts count, nothing is told."""
    fence = held(connection, commit.work)
    _refuse_taken_job(connection, commit)
    plan = _planned(commit, fence, now, moved_since(connection, commit.work.lease))
    settle_call(connection, commit.work, commit.decision.call, ended=plan.state in TERMINAL, now=now)
    _settle(connection, commit, fence, plan)
    operation = commit.work.operation
    due, _ = _on_row(commit, plan)
    wakes = [(operation.workspace, fence["pool"], now if due is None else due)]
    suppressed = 0
    if not plan.edited:
        told = moved_question(operation, commit.decision, timedelta(microseconds=plan.moved))
        _questions(connection, operation, told)
        outgoing = Outgoing(operation.workspace, operation.user, None, told.effects, commit.ids, plan.moved)
        woken, suppressed = insert(connection, outgoing, now)
        wakes += woken
    _close_run(connection, commit, now)
    append(connection, [_entry(commit, plan, suppressed)])
    wake_pools(connection, wakes, now)


def _refuse_taken_job(connection: sqlite3.Connection, commit: OperationCommit) -> None:
    """W39: one open operation for one job of the same contract, account and parameters, as they are once the answer is merged."""
    job = commit.decision.job
    if job is None:
        return
    named_by = {**commit.key, "job_id": job.job_id, "parameters": _parameters(commit, job)}
    other = connection.execute(named("commit")["other_with_job"], named_by).fetchone()
    if other is not None:
        raise AlreadyExists(
            f"the job that the submit's answer named is being waited for by {other[0]}; nothing was written",
            subject=other[0],
            code="job_taken",
        )


def _parameters(commit: OperationCommit, job: Job) -> str:
    return dump_parameters({**commit.work.operation.parameters, **job.parameters})


def _planned(commit: OperationCommit, row: Values, now: int, moved: int) -> _Plan:
    """A step that made a call cannot be decided again, so its decision is written whole, whatever was edited meanwhile."""
    then, fence = now - moved, {**row, "woken_at": None if row["woken_at"] is None else row["woken_at"] - moved}
    decision = commit.decision
    edited = fence["revision"] != commit.work.lease.revision and decision.call is None
    state = OperationState(fence["state"]) if edited else decision.state
    call = fence["call"] if state not in TERMINAL and stays_open(decision.call) else None
    pushed_at = None if state in TERMINAL else _unread(commit, fence, edited=edited)
    due, next_poll_at = micros(decision.due), micros(decision.next_poll_at)
    if edited:
        due = _edited_due(fence, decision, then, calls=call is not None)
    if state in LIVE and due is not None and call is None:
        due, next_poll_at = _woken(commit, fence, (due, next_poll_at), now=then, unread=pushed_at is not None)
    pins = load_pins(fence["pins"])
    return _Plan(
        now=now,
        moved=moved,
        edited=edited,
        state=state,
        used=settled_requests(fence, commit),
        due=due,
        next_poll_at=next_poll_at,
        call=call,
        pushed_at=pushed_at,
        pins=pins if edited else {**pins, **decision.pins},
    )


def _on_row(commit: OperationCommit, plan: _Plan) -> tuple[int | None, int | None]:
    """`due` and `next_poll_at` by the clock as it stands now. What was told to somebody (the end of an older question) stays."""
    due, look = plan.due, plan.next_poll_at
    if due is not None and commit.decision.escalation is not None and not plan.edited:
        due += plan.moved
    if due is not None and plan.moved and plan.state in LIVE:
        stops_at, _ = commit.work.operation.allowance.stops_at()
        due = moved_plan(due, plan.moved, stops=micros(stops_at), look=look)
    return due, None if look is None else moved_plan(look, plan.moved)


def _unread(commit: OperationCommit, fence: Values, *, edited: bool) -> int | None:
    """The call-back that is still to be read: any but the one that this step decided on."""
    pushed_at: int | None = fence["pushed_at"]
    had = commit.work.operation.pushed
    read = had is not None and commit.decision.observation is not None and not edited
    return None if read and had is not None and micros(had.received_at) == pushed_at else pushed_at


def _woken(
    commit: OperationCommit, fence: Values, planned: tuple[int, int | None], *, now: int, unread: bool
) -> tuple[int, int | None]:
    """The plan where a call-back came while this step was under way: it is read next, or the look comes earlier, inside the smallest
    gap and never inside a wait that the provider asked for (W35)."""
    due, look = planned
    if unread:
        return min(due, now), look
    woken = fence["woken_at"] is not None and fence["woken_at"] >= (micros(commit.work.lease.claimed_at) or 0)
    if not woken or commit.decision.delay_source not in _LOCAL:
        return planned
    early = _gap_ends(fence, commit.decision, now)
    return min(due, early), early if look is None else min(look, early)


def settled_requests(fence: Values, commit: OperationCommit) -> int:
    """The request counter: the row's own (hops were counted there) plus what the decision gives back, never more than was reserved."""
    given_back = commit.work.operation.spend.status_requests - commit.decision.spend.status_requests
    reserved = int(commit.work.operation.reserved)
    return int(fence["status_requests_used"]) - max(0, min(given_back, reserved))


def _edited_due(fence: Values, decision: OperationDecision, now: int, *, calls: bool) -> int:
    """Decides again soon, but inside the smallest gap and what the provider asked for (W35). A cancel that was queued meanwhile does not
    wait for the next look of ours."""
    look = None if calls and decision.delay_source in _LOCAL else decision.next_poll_at
    return max(_gap_ends(fence, decision, now), micros(look) or 0)


def _gap_ends(fence: Values, decision: OperationDecision, now: int) -> int:
    """The smallest gap counts from the answer too: the instant of its receipt, measured by the worker, may be ahead of the database's."""
    return max(now, micros(decision.received_at) or 0) + int(fence["min_gap_us"])


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


def _settle(connection: sqlite3.Connection, commit: OperationCommit, fence: Values, plan: _Plan) -> None:
    operation, decision, edited = commit.work.operation, commit.decision, plan.edited
    due, next_poll_at = _on_row(commit, plan)
    received_at = (micros(decision.received_at) or 0) + plan.moved
    values = {
        **commit.key,
        "now": plan.now,
        "state": str(plan.state),
        "due": due,
        "next_poll_at": next_poll_at,
        "delay_source": str(decision.delay_source),
        "used": plan.used,
        "transport_failures": decision.spend.transport_failures,
        "throttles": decision.spend.throttles,
        "answered": decision.spend.answered,
        "not_found": decision.spend.not_found,
        "tolerated": decision.spend.tolerated,
        "steady": decision.spend.steady,
        "category": None if edited or decision.category is None else str(decision.category),
        "grants": dump_grants(operation.grants if edited else decision.grants),
        "pins": dump_pins(plan.pins),
        "url": decision.url,
        "call": plan.call,
        "pushed_at": plan.pushed_at,
        "escalated": int(decision.escalation is not None and not edited),
        "regressed": int("regression" in decision.facts),
        "checked_at": None if decision.observation is None else received_at,
        **seen(decision.observation),
    }
    connection.execute(named("commit")["settle_operation"], values)
    if fence["pushed_at"] is not None and plan.pushed_at is None:
        connection.execute(named("commit")["forget_pushed"], commit.key)
    if _cancelled(commit):
        connection.execute(named("commit")["cancel_taken"], {**commit.key, "cancelled_at": received_at})
    if decision.job is not None:
        job = {"job_id": decision.job.job_id, "url": decision.job.url, "parameters": _parameters(commit, decision.job)}
        connection.execute(named("commit")["name_job"], {**commit.key, **job, "submitted_at": received_at})


def _cancelled(commit: OperationCommit) -> bool:
    """The provider took on a cancel in this step."""
    settled, call = commit.decision.call, commit.work.operation.call
    if settled is None or call is None or call.kind is not CallKind.CANCEL or settled.answer is None:
        return False
    return settled.answer.outcome is CallOutcome.ACCEPTED


def _questions(connection: sqlite3.Connection, operation: Operation, decision: OperationDecision) -> None:
    """Closes a question that the operation has moved past, and stores a new one."""
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
    values = {
        **commit.key,
        "now": now,
        "run": commit.work.lease.run,
        "status": "ok",
        "summary": commit.decision.reason,
        "error": None,
        "requests": _requests(commit),
    }
    connection.execute(named("commit")["close_run"], values)


def _requests(commit: OperationCommit) -> int:
    """What left in this step: looks, or the call. A call-back that was read cost none."""
    seen, settled = commit.decision.observation, commit.decision.call
    if settled is not None:
        return 0 if settled.answer is None else settled.answer.requests
    return seen.requests if seen is not None and commit.work.operation.reserved else 0


def _entry(commit: OperationCommit, plan: _Plan, suppressed: int) -> Entry:
    """The audit row: everything that `explain` tells and `replay` needs."""
    operation, lease, decision = commit.work.operation, commit.work.lease, commit.decision
    facts: dict[str, Json] = {
        "decision": decision.reason,
        "event": str(decision.event),
        "state_before": str(operation.state),
        "state": str(plan.state),
        "category": None if decision.category is None else str(decision.category),
        "claimed_at": micros(lease.claimed_at),
        "received_at": micros(decision.received_at),
        "next_poll_at": plan.next_poll_at,
        "due": plan.due,
        "delay_source": str(decision.delay_source),
        "draw": decision.draw,
        "status_requests_used": plan.used,
        "max_status_requests": operation.allowance.max_status_requests,
        "transport_failures_used": decision.spend.transport_failures,
        "max_transport_failures": operation.allowance.max_transport_failures,
        "throttles_used": decision.spend.throttles,
        "max_throttles": operation.allowance.max_throttles,
        "deadline_at": micros(operation.allowance.deadline_at),
        "business_deadline_at": micros(operation.allowance.business_deadline_at),
        "observation": None if decision.observation is None else observation_json(decision.observation),
        "escalation": None if decision.escalation is None else decision.escalation.id,
        "effects": [] if plan.edited else [effect.dedupe_key for effect in decision.effects],
        "suppressed": suppressed,
        "edited": plan.edited,
        "facts": dict(decision.facts),
        **_more_facts(commit, plan),
    }
    return Entry(operation.workspace, operation.id, lease.run, DECISION, plan.now, facts)


def _more_facts(commit: OperationCommit, plan: _Plan) -> dict[str, Json]:
    """What only some steps have: a call and its answer, the job it named, a call-back, pins, grants, a new address, the
    digest of a new question."""
    decision, pushed, job = commit.decision, commit.work.operation.pushed, commit.decision.job
    settled, spend = decision.call, decision.spend
    found: dict[str, Json] = {
        "answered": spend.answered,
        "not_found": spend.not_found,
        "tolerated": spend.tolerated,
        "steady": spend.steady,
        "grants": loads(dump_grants(decision.grants)),
        "pins": dict[str, object](plan.pins),
        "url": decision.url,
        "call": None
        if settled is None
        else {
            "id": settled.call,
            "state": str(settled.state),
            "answer": None if settled.answer is None else call_answer_json(settled.answer),
        },
        "job": None if job is None else {"job_id": job.job_id, "url": job.url, "parameters": dict[str, object](job.parameters)},
        "pushed": pushed_facts(pushed),
        "question": None if decision.escalation is None else decision.escalation.digest,
    }
    return {name: value for name, value in found.items() if value not in (None, {}, [])}
