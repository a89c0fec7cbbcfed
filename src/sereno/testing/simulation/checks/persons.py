"""People and call-backs: limits rise by an accepted answer alone, and a call-back wakes a look and nothing else (I20–I22, W20, W35)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sereno.core.operation import LIVE, TERMINAL
from sereno.core.values import to_micros
from sereno.testing.simulation.checks.evidence import Case, Evidence, Facts, Row

LIMITS = ("max_status_requests", "max_transport_failures", "max_throttles", "deadline_at", "business_deadline_at")
_DECIDES = ("answered", "contract_changed", "cancel_requested")


def limits(world: Evidence) -> Iterator[str]:
    """I22: the limits are those that were registered until a person's decision, and rise by no more than it says."""
    for case in world.cases:
        known: Mapping[str, Any] | None = None
        for row in case.rows:
            if not set(LIMITS) <= set(row.facts):
                continue
            now = {name: row.facts[name] for name in LIMITS}
            if known is not None and now != known:
                yield from _changed(case, row, known, now)
            known = now
        registered = world.people.allowed.get(case.id)
        decided = world.people.answers(case.id) or world.people.taken(case.id, "update_contract")
        if registered is not None and case.operation.allowance.max_status_requests > registered[1] and not decided:
            yield f"I22 {case.id}: more than the registered {registered[1]} status requests are allowed, and nobody was asked"
        if known is not None and known["max_status_requests"] != case.operation.allowance.max_status_requests:
            most = case.operation.allowance.max_status_requests
            yield f"I22 {case.id}: {most} status requests are allowed, and {known['max_status_requests']} were granted"
        if known is not None and known["deadline_at"] != to_micros(case.operation.allowance.deadline_at):
            yield f"I22 {case.id}: the deadline is another than was granted"


def _changed(case: Case, row: Row, known: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    if row.word not in _DECIDES or row.facts.get("by_kind") != "human":
        changed = [name for name in LIMITS if known[name] != now[name]]
        yield f"I22 {case.id}: {', '.join(changed)} changed in run {row.run}, and no person decided that"
        return
    option = _chosen(row)
    if option is None:
        return
    used, checks = int(row.facts.get("status_requests_used", 0)), int(option.get("checks") or 0)
    most = max(int(known["max_status_requests"]), used + checks)
    if int(now["max_status_requests"]) > most:
        yield f"I22 {case.id}: {now['max_status_requests']} status requests were granted, and the answer says {most}"
    latest = max(int(known["deadline_at"]), row.at) + int(option.get("minutes") or 0) * 60_000_000
    if int(now["deadline_at"]) > latest:
        yield f"I22 {case.id}: the deadline moved further than the answer says"


def _chosen(row: Row) -> Facts | None:
    """The option as it was shown."""
    statement = row.facts.get("statement")
    shown = statement.get("options") if isinstance(statement, dict) else None
    for option in shown if isinstance(shown, list) else ():
        if isinstance(option, dict) and option.get("key") == row.facts.get("option"):
            return option
    return None


def answers(world: Evidence) -> Iterator[str]:
    """I22: a question is answered once, in time, by a person, for exactly what was shown."""
    for case in world.cases:
        questions = {question["id"]: question for question in case.questions}
        seen = set[str]()
        for row in case.rows:
            if row.word != "answered":
                continue
            name = str(row.facts.get("escalation"))
            question = questions.get(name)
            if name in seen:
                yield f"I22 {case.id}: {name} was answered twice"
            seen.add(name)
            if question is None:
                yield f"I22 {case.id}: {name} was answered, and nobody had asked"
                continue
            yield from _answered(case, row, question)
        for act in world.people.answers(case.id):
            if act.wrong_digest:
                yield f"I22 {case.id}: {act.escalation} was answered under a digest that is not its own"
            if act.escalation not in seen:
                yield f"I22 {case.id}: the answer to {act.escalation} was taken and is not in the journal"
        answered = {name for name, question in questions.items() if question["state"] == "answered"}
        if answered != seen & set(questions):
            yield f"I22 {case.id}: {sorted(answered ^ seen)} answered without a row in the journal, or the other way"


def _answered(case: Case, row: Row, question: Facts) -> Iterator[str]:
    if row.at >= int(question["answer_by"]):
        yield f"I22 {case.id}: {question['id']} was answered after its time"
    if row.facts.get("digest") != question["digest"]:
        yield f"I22 {case.id}: {question['id']} was answered for other parameters than were shown"
    if row.facts.get("by_kind") != "human" and row.facts.get("verb") != "stop":
        yield f"W20 {case.id}: {question['id']} was answered by {row.facts.get('by_kind')}"


def call_backs(world: Evidence) -> Iterator[str]:
    """I20, W35: a call-back changes neither state nor limits, and nothing is sent of what has ended or asks a person."""
    for case in world.cases:
        state: str | None = None
        for row in case.rows:
            if row.word == "pushed" and state is not None and row.facts.get("state") != state:
                yield f"I20 {case.id}: a call-back moved it from {state} to {row.facts.get('state')}"
            if row.kind == "intent" and "claimed_at" in row.facts and state is not None and state not in LIVE:
                call = row.facts.get("call")
                if row.facts.get("asks") or (isinstance(call, dict) and call.get("taken")):
                    yield f"W35 {case.id}: run {row.run} may send, and the operation is {state}"
            found = row.facts.get("state")
            state = found if isinstance(found, str) and row.kind != "intent" else state


def one_end(world: Evidence) -> Iterator[str]:
    """I21: whoever reports the end, by a look or after a call-back, it is one transition with its actions once."""
    for case in world.cases:
        ends = [row for row in case.rows if _ends(row)]
        if len(ends) > 1:
            yield f"I21 {case.id}: it ended {len(ends)} times (runs {', '.join(str(row.run) for row in ends)})"
        told: Sequence[str] = [key for row in ends for key in row.facts.get("effects") or ()]
        if len(told) != len(set(told)):
            yield f"I21 {case.id}: an action of its end was queued twice"


def _ends(row: Row) -> bool:
    return row.facts.get("state") in TERMINAL and row.facts.get("state_before") not in (None, row.facts.get("state"))
