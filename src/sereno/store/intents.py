"""What a claim writes down about an operation's step: everything that deciding it depends on, so that a replay decides the same (W28)."""

from collections.abc import Mapping
from typing import Any

from sereno.core.operation import Operation
from sereno.core.values import digest
from sereno.store.codec import loads, loads_foreign, micros

_LIMITS = (
    "status_requests_used", "max_status_requests", "transport_failures_used", "max_transport_failures", "throttles_used",
    "max_throttles", "deadline_at", "business_deadline_at", "min_gap_us", "next_poll_at", "delay_source", "contract_digest",
)  # fmt: skip
"""Always there."""
_STANDING = (
    "state", "revision", "contract", "account", "job_id", "url", "fingerprint", "user", "assistant_task_id", "answered", "not_found",
    "tolerated", "steady", "escalations", "regressions", "category", "last_state", "last_http_status", "last_checked_at", "result_ref",
    "error_code", "error_text", "expires_at", "created_at", "submitted_at", "cancelled_at", "pushed_at", "previous", "pool",
)  # fmt: skip
"""There unless they are null."""
_TEXTS = ("parameters", "grants", "pins")


def step_facts(row: Mapping[str, Any], question: Mapping[str, Any] | None) -> dict[str, Any]:
    """The facts of one claimed row; of its actions the names alone, of its open question the id and its end."""
    facts = {name: row[name] for name in _LIMITS}
    facts.update((name, row[name]) for name in _STANDING if row[name] is not None)
    facts.update((name, _json(row[name])) for name in _TEXTS)
    facts["actions"] = _names(row["actions"])
    if question is not None:
        facts["escalation"] = {"id": question["id"], "answer_by": question["answer_by"], "created_at": question["created_at"]}
    return facts


def call_facts(call: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of the call of a step: its key as a digest, its input not at all. `taken` = this step may make it."""
    names = ("id", "kind", "dedupe_key", "state", "attempts", "first_sent_at", "created_at", "interrupted", "taken")
    return {**{name: call[name] for name in names}, "key_digest": digest(call["key"].encode())}


def standing_facts(row: Mapping[str, Any], operation: Operation) -> dict[str, Any]:
    """The same for a decision beside a step: the operation as whoever decided found it."""
    question, call = operation.open_escalation, operation.call
    facts = {**step_facts(row, None), "asks": False}
    if question is not None:
        instants = {"answer_by": micros(question.answer_by), "created_at": micros(question.created_at)}
        facts["escalation"] = {"id": question.id, **instants}
    if call is not None:
        kept = {"id": call.id, "kind": str(call.kind), "dedupe_key": call.dedupe_key, "state": str(call.state)}
        instants = {"first_sent_at": micros(call.first_sent_at), "created_at": micros(call.created_at)}
        facts["call"] = {**kept, **instants, "attempts": call.attempts, "interrupted": call.interrupted}
    return facts


def _json(text: str) -> Any:
    """A text that cannot be read is kept as it is: the row is parked with the reason."""
    try:
        return loads(text)
    except ValueError:
        return text


def _names(actions: str) -> list[str]:
    if actions == "[]":
        return []
    try:
        return [str(action["name"]) for action in loads_foreign(actions)]
    except (ValueError, KeyError, TypeError):
        return []
