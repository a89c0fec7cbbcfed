"""What a decision beside a step changes on an operation: a person's answer, a cancel, a call-back, another contract.

A part of a write transaction: state, limits, call, pinned contract and messages change together or not at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from sqlite3 import Row

from sereno.core.errors import InvariantBroken
from sereno.core.operation import AnswerDecision, Operation, OperationState
from sereno.core.values import Json
from sereno.core.waiting.lifecycle import LIVE, TERMINAL
from sereno.store.calls import give_up_call
from sereno.store.codec import dump_grants, micros, span_us
from sereno.store.definitions.calls import queue_again
from sereno.store.definitions.operations import limits_as_facts, pin_contract
from sereno.store.definitions.request import Request
from sereno.store.missing import not_found
from sereno.store.named import named
from sereno.store.pools import ensure_pool, wake_pool, wake_pools
from sereno.store.pushed import load_pushed
from sereno.store.rows import read_call, read_escalation, read_operation
from sereno.store.work.effects import Outgoing, insert

_OPERATION = "SELECT * FROM operation WHERE workspace = ? AND id = ?"
_QUESTION = "SELECT * FROM escalation WHERE workspace = ? AND operation = ? AND state = 'open'"
_CALL = "SELECT * FROM provider_call WHERE workspace = ? AND id = ?"


@dataclass(frozen=True, slots=True)
class Found:
    """One operation as it stands in this transaction, whole."""

    row: Row
    operation: Operation

    def leased(self, now: int) -> bool:
        """Whether a step is under way and may still commit in its lease."""
        return self.row["lease_until"] is not None and self.row["lease_until"] > now


def find(request: Request, operation: str) -> Found:
    """Reads an operation with its open question, its open call and its call-back. Raises NotFound."""
    row: Row | None = request.connection.execute(_OPERATION, (request.workspace, operation)).fetchone()
    if row is None:
        raise not_found("operation", operation, ())
    question = request.connection.execute(_QUESTION, (request.workspace, operation)).fetchone()
    call = None if row["call"] is None else request.connection.execute(_CALL, (request.workspace, row["call"])).fetchone()
    found = read_operation(
        dict(row),
        escalation=None if question is None else read_escalation(dict(question)),
        call=None if call is None else read_call(dict(call)),
        pushed=None if row["pushed_at"] is None else load_pushed(request.connection, request.workspace, operation),
    )
    return Found(row, found)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A decision to apply: what was shown to whoever made it, the contract to pin where it says so, and how a held row is treated."""

    decision: AnswerDecision
    statement: Mapping[str, Json]
    document: Mapping[str, Json] | None
    keeps_lease: bool = False
    """The step under way goes on: what it learns counts, and it decides nothing (its revision is old then)."""


def apply(request: Request, found: Found, wanted: Wanted) -> dict[str, Json]:
    """Writes the decision; returns the facts for the journal. Raises InvariantBroken, NotNow (a call that cannot be queued)."""
    operation = found.operation
    decision = _never_asking(operation, wanted.decision)
    given_up = decision.drop_call or decision.state in TERMINAL
    if given_up:
        give_up_call(request.connection, request.workspace, operation.id, request.micros)
    call = None if given_up else found.row["call"]
    if decision.new_call is not None:
        call = queue_again(request, operation, decision.new_call, wanted.statement, busy=call)
    if decision.state is OperationState.SUBMITTING and call is None:
        raise InvariantBroken("it is to be submitted and has no submit to send", subject=operation.id)
    pinned = _pinned(request, operation, decision, wanted.document)
    _write(request, found, decision, call=call, pinned=pinned, keeps_lease=wanted.keeps_lease)
    return {
        **_facts(operation, decision),
        "call": call,
        **_contracts(operation, pinned),
        **_address_facts(found, decision),
        "suppressed": _tell(request, operation, decision),
    }


def _never_asking(operation: Operation, decision: AnswerDecision) -> AnswerDecision:
    """A wait for a call-back has no status requests, and no answer gives it any."""
    if operation.allowance.max_status_requests > 0 or decision.repin:
        return decision
    return replace(decision, allowance=replace(decision.allowance, max_status_requests=0))


def _pinned(request: Request, operation: Operation, decision: AnswerDecision, document: Mapping[str, Json] | None) -> str:
    if not decision.repin:
        return operation.contract_digest
    if document is None:
        raise InvariantBroken("a contract is to be pinned anew, and none was handed over", subject=operation.id)
    return pin_contract(request, operation.contract, document)


def _contracts(operation: Operation, pinned: str) -> dict[str, Json]:
    if pinned == operation.contract_digest:
        return {}
    return {"contract_digest_before": operation.contract_digest, "contract_digest": pinned}


def _address_facts(found: Found, decision: AnswerDecision) -> dict[str, Json]:
    """From which address and gap to which; nothing where they stay."""
    facts: dict[str, Json] = {}
    if decision.url is not None:
        facts |= {"url_before": found.operation.url, "url": decision.url}
    if decision.min_gap is not None:
        facts |= {"min_gap_us_before": found.row["min_gap_us"], "min_gap_us": span_us(decision.min_gap)}
    return facts


_UPDATE = """
UPDATE operation SET state = :state, next_poll_at = :next_poll_at,
    due = CASE WHEN :keeps_lease THEN due WHEN :planned AND call IS NOT NULL THEN min(due, :due) ELSE :due END,
    delay_source = :delay_source, grants = :grants, deadline_at = :deadline_at, business_deadline_at = :business_deadline_at,
    max_status_requests = :max_status_requests, max_transport_failures = :max_transport_failures, max_throttles = :max_throttles,
    category = :category, call = :call, contract_digest = :pinned, parked = NULL,
    url = coalesce(:url, url), min_gap_us = coalesce(:min_gap_us, min_gap_us),
    pushed_at = CASE WHEN :ended THEN NULL ELSE pushed_at END,
    attempt = CASE WHEN :keeps_lease THEN attempt ELSE 0 END, revision = revision + 1, updated_at = :now
WHERE workspace = :workspace AND id = :id
"""


def _write(request: Request, found: Found, decision: AnswerDecision, *, call: str | None, pinned: str, keeps_lease: bool) -> None:
    """The category stays with an operation that ends, as the reason; one that goes on has none. A call that is planned already is not
    put off by what else changes."""
    operation, due = found.operation, micros(decision.due)
    goes_on = decision.state in LIVE
    values = {
        "workspace": request.workspace,
        "id": operation.id,
        "now": request.micros,
        "state": decision.state.value,
        "due": due,
        "next_poll_at": micros(decision.next_poll_at),
        "delay_source": decision.delay_source.value,
        "grants": dump_grants(decision.grants),
        **limits_as_facts(decision.allowance),
        "category": None if goes_on or operation.category is None else operation.category.value,
        "call": call,
        "pinned": pinned,
        "url": decision.url,
        "min_gap_us": None if decision.min_gap is None else span_us(decision.min_gap),
        "ended": int(decision.state in TERMINAL),
        "keeps_lease": int(keeps_lease),
        "planned": int(goes_on and operation.state in LIVE and due is not None),
    }
    request.connection.execute(_UPDATE, values)
    if decision.state in TERMINAL and found.row["pushed_at"] is not None:
        request.connection.execute(named("commit")["forget_pushed"], {"workspace": request.workspace, "id": operation.id})
    if due is not None and not keeps_lease:
        ensure_pool(request.connection, request.workspace, operation.pool)
        wake_pool(request.connection, request.workspace, operation.pool, due)


def leaves_question(operation: Operation, decision: AnswerDecision) -> bool:
    """Whether the decision leaves the state in which a question is open."""
    return operation.state is OperationState.ESCALATED and decision.state is not OperationState.ESCALATED


def _tell(request: Request, operation: Operation, decision: AnswerDecision) -> int:
    """Queues the messages of an end; returns how many had been queued before under their key."""
    ids = [request.ids.new("dlv_") for _ in decision.effects]
    outgoing = Outgoing(operation.workspace, operation.user, None, decision.effects, ids)
    wakes, suppressed = insert(request.connection, outgoing, request.micros)
    wake_pools(request.connection, wakes, request.micros)
    return suppressed


def _facts(operation: Operation, decision: AnswerDecision) -> dict[str, Json]:
    """What the decision changes, for the journal (W20, W26)."""
    return {
        "state_before": operation.state.value,
        "state": decision.state.value,
        "status_requests_used": operation.spend.status_requests,
        "event": decision.event.value,
        "reason": decision.reason,
        "effects": [effect.dedupe_key for effect in decision.effects],
        "next_poll_at": micros(decision.next_poll_at),
        "due": micros(decision.due),
        "delay_source": decision.delay_source.value,
        "limits_before": dict[str, object](limits_as_facts(operation.allowance)),
        **limits_as_facts(decision.allowance),
    }
