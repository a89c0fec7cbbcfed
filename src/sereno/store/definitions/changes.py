"""Changes to an operation that no question asked for: a cancel, a call-back, another contract (W20, W24, W35)."""

from sereno.core.errors import InvariantBroken, NotAllowed, NotNow
from sereno.core.operation import AnswerDecision, Operation
from sereno.core.values import Json
from sereno.core.waiting.lifecycle import LIVE, TERMINAL
from sereno.ports import Change
from sereno.store.codec import micros
from sereno.store.definitions.changed import Found, Wanted, apply, find, leaves_question
from sereno.store.definitions.request import Request
from sereno.store.intents import standing_facts
from sereno.store.named import named
from sereno.store.pools import ensure_pool, wake_pool
from sereno.store.pushed import keep_pushed, pushed_facts

PUSHED = "pushed"
"""The one change that is no person's decision: it may come from the system, and decides nothing."""


def change(request: Request, operation_id: str, wanted: Change) -> str:
    """Applies one change inside this transaction; returns the operation's id. Raises NotFound, NotAllowed, NotNow, and what the rule
    raises.

    A step that is under way is not thrown away: what it learns still counts. Only while a call may be on its way nothing but a
    call-back is taken, since its answer decides what there is to change.
    """
    _refuse_strangers(request, operation_id, wanted.word)
    found = find(request, operation_id)
    operation, run = found.operation, int(found.row["run"])
    if wanted.word == PUSHED:
        decision = wanted.decide(operation, request.now)
        _refuse_decided(operation, decision)
        _note_pushed(request, found, decision)
        facts = _pushed_facts(operation, decision)
    else:
        under_way = found.leased(request.micros) and operation.state in LIVE
        if under_way and found.row["call"] is not None:
            raise NotNow(
                "a call to the provider is under way", subject=operation.id, hint="try again in a moment", code="under_way"
            )
        decision = wanted.decide(operation, request.now)
        keeps = under_way and decision.state in LIVE
        if not keeps:
            run = request.revoke("operation", found.row, f"{wanted.word} by {request.who.user} while this run was under way")
        facts = apply(request, found, Wanted(decision, wanted.statement, wanted.document, keeps_lease=keeps))
    if leaves_question(operation, decision):
        request.connection.execute(named("commit")["expire_question"], {"workspace": request.workspace, "id": operation.id})
    before = standing_facts(dict(found.row), operation)
    request.decided(operation.id, run, wanted.word, {"statement": dict(wanted.statement), **facts, "before": before})
    return operation.id


def _refuse_strangers(request: Request, operation: str, word: str) -> None:
    """A cancel or another contract is a person's decision (W20). A call-back is the provider's: it comes through the system, or a person
    hands it in."""
    kind = request.who.kind
    if kind == "human" or (word == PUSHED and kind == "system"):
        return
    raise NotAllowed(
        f"only a person may do this ({word}); a principal of kind {kind!r} may not", subject=operation, code="needs_person"
    )


def _refuse_decided(operation: Operation, decision: AnswerDecision) -> None:
    """The last line of W35: a call-back moves no state and no limit, and starts no call."""
    moves = decision.state is not operation.state or decision.allowance != operation.allowance
    if moves or decision.new_call is not None or decision.drop_call or decision.repin or decision.effects:
        raise InvariantBroken("a call-back may wake a look and nothing else", subject=operation.id)


_PUSH = """
UPDATE operation SET pushed_at = coalesce(:pushed_at, pushed_at), woken_at = CASE WHEN :held THEN :now ELSE woken_at END,
    due = CASE WHEN :held OR NOT :live THEN due ELSE min(due, coalesce(:due, due)) END,
    next_poll_at = CASE WHEN :held OR NOT :live THEN next_poll_at ELSE :next_poll_at END, updated_at = :now
WHERE workspace = :workspace AND id = :id
"""


def _note_pushed(request: Request, found: Found, decision: AnswerDecision) -> None:
    """Keeps the call-back and moves the look. The revision stays: a step under way is decided as it would have been, and its commit
    sees that something came meanwhile."""
    operation, due = found.operation, micros(decision.due)
    kept = decision.pushed if operation.state not in TERMINAL else None
    pushed_at = None if kept is None else keep_pushed(request.connection, request.workspace, operation.id, kept)
    held = found.row["lease_until"] is not None
    # A call that is to be made comes first, at its own time; a parked row waits for its end.
    live = operation.state in LIVE and found.row["parked"] is None and found.row["call"] is None
    values = {
        "workspace": request.workspace,
        "id": operation.id,
        "now": request.micros,
        "pushed_at": pushed_at,
        "held": int(held),
        "live": int(live),
        "due": due,
        "next_poll_at": micros(decision.next_poll_at),
    }
    request.connection.execute(_PUSH, values)
    if live and not held and due is not None:
        ensure_pool(request.connection, request.workspace, operation.pool)
        wake_pool(request.connection, request.workspace, operation.pool, due)


def _pushed_facts(operation: Operation, decision: AnswerDecision) -> dict[str, Json]:
    return {
        "state": operation.state.value,
        "reason": decision.reason,
        "next_poll_at": micros(decision.next_poll_at),
        "due": micros(decision.due),
        "delay_source": decision.delay_source.value,
        "pushed": pushed_facts(decision.pushed),
    }
