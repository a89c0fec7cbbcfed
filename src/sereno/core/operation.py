"""Decides on one wait: what to do next, and what an answer of the provider amounts to. Pure.

The whole subject is reached through this module: the record and its table (`lifecycle`), the next step (`next`), what an
observation (`deciding`) or the answer to a call (`answering`, `calling`) amounts to, people's choices (`choice`) and other changes (`changing`).
"""

from sereno.core.errors import NotNow
from sereno.core.values import canonical, digest
from sereno.core.waiting.answering import read_call
from sereno.core.waiting.calling import decide_call, decide_taken
from sereno.core.waiting.changing import decide_cancel, decide_push, decide_repin
from sereno.core.waiting.choice import AnswerDecision, Repin, decide_answer
from sereno.core.waiting.deciding import decide_operation
from sereno.core.waiting.ending import KEEP_RESULT, close_operation
from sereno.core.waiting.lifecycle import (
    LIVE,
    TERMINAL,
    TRANSITIONS,
    Event,
    Grant,
    Operation,
    OperationState,
    Pushed,
    diagram,
    move,
)
from sereno.core.waiting.next import next_call
from sereno.core.waiting.step import Ask, Close, Job, OperationDecision, Read, Send

__all__ = [
    "KEEP_RESULT",
    "LIVE",
    "TERMINAL",
    "TRANSITIONS",
    "AnswerDecision",
    "Ask",
    "Close",
    "Event",
    "Grant",
    "Job",
    "Operation",
    "OperationDecision",
    "OperationState",
    "Pushed",
    "Read",
    "Repin",
    "Send",
    "close_operation",
    "decide_answer",
    "decide_call",
    "decide_cancel",
    "decide_operation",
    "decide_push",
    "decide_repin",
    "decide_taken",
    "diagram",
    "fingerprint",
    "move",
    "next_call",
    "read_call",
    "ready_result",
]


def fingerprint(contract: str, account: str, job_id: str, url: str) -> str:
    """SHA-256 over the canonical JSON of what identifies the original request (W05)."""
    return digest(canonical({"contract": contract, "account": account, "job_id": job_id, "url": url}))


def ready_result(operation: Operation) -> str | None:
    """Where the result is, once the operation has succeeded. Raises NotNow before: pending allows only another look (W02)."""
    if operation.state is not OperationState.SUCCEEDED:
        question = operation.open_escalation
        hint = (
            "it will not come: the operation has ended"
            if operation.state in TERMINAL
            else f"wait for it: sereno wait {operation.id}"
        )
        if question is not None:
            hint = f"a person is asked first: sereno escalation show {question.id}"
        raise NotNow(f"the operation is {operation.state}, not succeeded", subject=operation.id, hint=hint)
    return operation.result_ref
