"""Steps as the journal holds them: intent and decision of one run, read back into what the core decided on (W28)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from sqlite3 import Connection, Row
from typing import Any

from sereno.core.budget import Spend
from sereno.core.call import CallKind, CallState, ProviderCall
from sereno.core.effect import ActionRef, Policy
from sereno.core.escalation import Category, Escalation, Option
from sereno.core.observation import DelaySource
from sereno.core.operation import Grant, Operation, OperationState, Pushed
from sereno.core.record import ChangeRecord, StepRecord
from sereno.core.values import from_micros
from sereno.store.codec import dumps, instant, load_call_answer, load_observation, load_options, loads_foreign
from sereno.store.rows import read_allowance

CHANGES = ("answered", "cancel_requested", "pushed", "contract_changed")
"""The journal's words for what is decided beside a step."""
MOST = 20_000
"""Rows of the journal that are read for one operation."""
_ROWS = """
SELECT seq, run, kind, at, facts FROM journal WHERE workspace = ? AND subject = ? AND kind IN ('intent', 'decision')
ORDER BY seq LIMIT ?
"""
_DECISIONS = """
SELECT seq, run, at, facts FROM journal WHERE workspace = ? AND subject = ? AND kind = 'decision' AND facts ->> 'by' IS NOT NULL
ORDER BY seq LIMIT ?
"""
Facts = Mapping[str, Any]


@dataclass(slots=True)
class _Run:
    """What the journal says of a run before its decision."""

    intent: Facts
    hops: int = 0
    woken: bool = False
    """A call-back came after it was claimed: told by the order of the rows, since the clock may have been set between the two."""


def steps(connection: Connection, workspace: str, operation: str) -> Sequence[StepRecord]:
    """Pairs each decision of a step with the intent of its run. What people decided, parked and released runs are no steps."""
    runs: dict[int, _Run] = {}
    found, pushed_at = [], 0
    for row in connection.execute(_ROWS, (workspace, operation, MOST)):
        facts, run = loads_foreign(row["facts"]), runs.get(row["run"])
        if row["kind"] == "intent" and "claimed_at" in facts:
            runs = {row["run"]: _Run(facts)}
        elif row["kind"] == "intent" and run is not None:
            run.hops += 1
        elif facts.get("decision") == "pushed":
            pushed_at = row["at"]
            if run is not None:
                run.woken = True
        elif "draw" in facts and run is not None:
            step = _step((workspace, operation), row, run.intent, facts)
            unread = "pushed_at" in run.intent and step.observation is None
            woken = run.woken or pushed_at == run.intent["claimed_at"]
            found.append(replace(step, hops=run.hops, woken=unread or woken))
    return found


def changes(connection: Connection, workspace: str, operation: str) -> Sequence[ChangeRecord]:
    """What was decided beside the steps: the rows that name who did it, and what they found."""
    found = []
    for row in connection.execute(_DECISIONS, (workspace, operation, MOST)):
        facts = loads_foreign(row["facts"])
        if facts.get("decision") in CHANGES:
            found.append(_change((workspace, operation), row, facts))
    return found


def _change(subject: tuple[str, str], row: Row, facts: Facts) -> ChangeRecord:
    before = facts.get("before")
    operation = None if before is None else _operation(subject, before, facts)
    answered = facts["decision"] == "answered"
    asked, chosen = _answered(subject, facts, operation) if answered else (None, None)
    return ChangeRecord(
        seq=row["seq"],
        run=row["run"],
        at=from_micros(row["at"]),
        word=facts["decision"],
        operation=None
        if operation is None
        else replace(operation, pushed=None, open_escalation=asked or operation.open_escalation),
        escalation=asked,
        option=chosen,
        decided=facts,
    )


def _answered(subject: tuple[str, str], facts: Facts, operation: Operation | None) -> tuple[Escalation | None, Option | None]:
    """The question with the options that it showed, and the one that was chosen; None where the statement does not hold them."""
    rows = facts["statement"].get("options")
    if operation is None or operation.open_escalation is None or not isinstance(rows, list):
        return None, None
    options = load_options(dumps(rows))
    asked = replace(
        operation.open_escalation,
        id=facts["escalation"],
        category=Category(facts["category"]),
        statement=facts["statement"],
        options=options,
        digest=facts["digest"],
    )
    return asked, next((option for option in options if option.key == facts["option"]), None)


def _step(subject: tuple[str, str], row: Row, intent: Facts, decided: Facts) -> StepRecord:
    call, observation = decided.get("call") or {}, decided["observation"]
    answer = call.get("answer")
    return StepRecord(
        seq=row["seq"],
        run=row["run"],
        operation=_operation(subject, intent, decided) if "created_at" in intent else None,
        claimed_at=from_micros(intent["claimed_at"]),
        received_at=from_micros(decided["received_at"]),
        observation=None if observation is None else load_observation(observation),
        answer=None if answer is None else load_call_answer(answer),
        draw=decided["draw"],
        edited=decided["edited"],
        decided=decided,
    )


def _operation(subject: tuple[str, str], facts: Facts, decided: Facts) -> Operation:
    workspace, identifier = subject
    return Operation(
        id=identifier,
        workspace=workspace,
        contract=facts["contract"],
        contract_digest=facts["contract_digest"],
        account=facts["account"],
        job_id=facts["job_id"],
        url=facts["url"],
        parameters=facts["parameters"],
        fingerprint=facts["fingerprint"],
        state=OperationState(facts["state"]),
        revision=facts["revision"],
        allowance=read_allowance(facts),
        spend=_spend(facts),
        pool=facts["pool"],
        created_at=from_micros(facts["created_at"]),
        next_poll_at=instant(facts["next_poll_at"]),
        delay_source=DelaySource(facts["delay_source"]),
        actions=tuple(ActionRef(name, "", {}, Policy.AT_MOST_ONCE) for name in facts["actions"]),
        grants=tuple(Grant(grant["word"], grant["checks_left"]) for grant in facts["grants"]),
        pins=facts["pins"],
        reserved=facts["asks"],
        call=_call(facts.get("call")),
        open_escalation=_question(subject, facts),
        pushed=_pushed(decided.get("pushed")),
        category=_category(facts),
        **_standing(facts),
    )


def _standing(facts: Facts) -> dict[str, Any]:
    """What is there only where it is not null."""
    kept = ("assistant_task_id", "last_state", "last_http_status", "result_ref", "error_code", "error_text", "previous")
    instants = ("last_checked_at", "expires_at", "submitted_at", "cancelled_at")
    return {
        "user": facts["user"],
        "regressions": facts["regressions"],
        "escalations": facts["escalations"],
        **{name: facts.get(name) for name in kept},
        **{name: instant(facts.get(name)) for name in instants},
    }


def _spend(facts: Facts) -> Spend:
    return Spend(
        status_requests=facts["status_requests_used"],
        transport_failures=facts["transport_failures_used"],
        throttles=facts["throttles_used"],
        answered=facts["answered"],
        not_found=facts["not_found"],
        tolerated=facts["tolerated"],
        steady=facts["steady"],
    )


def _call(facts: Facts | None) -> ProviderCall | None:
    if facts is None:
        return None
    return ProviderCall(
        id=facts["id"],
        kind=CallKind(facts["kind"]),
        dedupe_key=facts["dedupe_key"],
        key="",
        input=None,
        state=CallState(facts["state"]),
        created_at=from_micros(facts["created_at"]),
        attempts=facts["attempts"],
        first_sent_at=instant(facts["first_sent_at"]),
        interrupted=facts["interrupted"],
    )


def _category(facts: Facts) -> Category | None:
    return Category(facts["category"]) if "category" in facts else None


def _question(subject: tuple[str, str], facts: Facts) -> Escalation | None:
    asked = facts.get("escalation")
    if asked is None:
        return None
    workspace, operation = subject
    return Escalation(
        id=asked["id"],
        workspace=workspace,
        operation=operation,
        category=_category(facts) or Category.UNKNOWN_STATE,
        statement={},
        options=(),
        digest="",
        created_at=from_micros(asked["created_at"]),
        answer_by=from_micros(asked["answer_by"]),
    )


def _pushed(facts: Facts | None) -> Pushed | None:
    return None if facts is None else Pushed(b"", facts["content_type"], from_micros(facts["received_at"]))
