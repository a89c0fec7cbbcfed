"""Calls of a step as rows: settled with the step, given up with the wait, given back with the work (W24, W31)."""

import sqlite3

from sereno.core.call import CallOutcome, CallSettled, CallState
from sereno.core.errors import InvariantBroken
from sereno.core.work import OperationWork
from sereno.store.codec import call_answer_json, dumps, micros
from sereno.store.named import named

_OPEN = (CallState.QUEUED, CallState.SENDING)


def stays_open(settled: CallSettled | None) -> bool:
    """Whether the open call of the operation is still open after a step that settled this; None settled none."""
    return settled is None or settled.state in _OPEN


def settle_call(
    connection: sqlite3.Connection, work: OperationWork, settled: CallSettled | None, *, ended: bool, now: int
) -> None:
    """Writes what became of the call. Where the wait ends no call stays open: what was never tried is dropped, the rest unknown.

    A doubt stays: a call that is to be tried again is `queued` only where every attempt so far certainly did nothing; else it is
    `sending`, and the next claim says that it was interrupted.
    """
    operation = work.operation
    key = {"workspace": operation.workspace, "id": operation.id, "now": now, "answer": None, "answered_at": None}
    if settled is not None:
        call, answer = operation.call, settled.answer
        if call is None or call.id != settled.call:
            raise InvariantBroken(f"the step settled {settled.call}, which is not its call", subject=operation.id)
        if answer is not None:
            key.update(answer=dumps(call_answer_json(answer)), answered_at=now)
        unsent = (answer is None or answer.outcome is CallOutcome.NOT_SENT) and not call.interrupted
        doubt = call.interrupted or (answer is not None and answer.outcome is CallOutcome.UNKNOWN)
        state = CallState.SENDING if settled.state is CallState.QUEUED and doubt else settled.state
        first = micros(call.first_sent_at) == micros(work.lease.claimed_at)
        values = {**key, "call": call.id, "state": str(state), "unsent": int(unsent and first and state is CallState.QUEUED)}
        connection.execute(named("commit")["settle_call"], values)
    if ended and (settled is None or settled.state in _OPEN):
        connection.execute(named("commit")["give_up_call"], key)


def give_up_call(connection: sqlite3.Connection, workspace: str, operation: str, now: int) -> None:
    """Closes the open call of an operation, if there is one."""
    key = {"workspace": workspace, "id": operation, "now": now, "answer": None, "answered_at": None}
    connection.execute(named("commit")["give_up_call"], key)


def release_call(connection: sqlite3.Connection, work: OperationWork, now: int) -> None:
    """Gives the attempt back of a step that sent nothing. A call that the claim only looked at (past the deadline) stays as it is."""
    operation, claimed_at = work.operation, work.lease.claimed_at
    call = operation.call
    if call is None or call.state is not CallState.SENDING or claimed_at >= operation.allowance.stops_at()[0]:
        return
    values = {
        "workspace": operation.workspace,
        "call": call.id,
        "interrupted": int(call.interrupted),
        "claimed_at": micros(claimed_at),
        "now": now,
    }
    connection.execute(named("commit")["release_call"], values)
