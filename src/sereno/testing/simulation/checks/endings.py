"""Endings: each wait ends in time, an end stays, and every move is one of the table (I10, I11, I12, W32)."""

from collections.abc import Iterator, Sequence

from sereno.core.operation import LIVE, TERMINAL, TRANSITIONS, Event, OperationState
from sereno.core.values import to_micros
from sereno.testing.simulation.checks.evidence import Case, Evidence, Row

_OVER = TERMINAL | {OperationState.ESCALATED}


def ended(world: Evidence) -> Iterator[str]:
    """I10: what should have ended by now has, or asks a person; a question that nobody answered in time is closed."""
    if world.ended < world.calm + world.grace:
        return
    by = world.end_us - round(world.grace.total_seconds() * 1_000_000)
    for case in world.cases:
        operation = case.operation
        if operation.state in LIVE and to_micros(operation.allowance.stops_at()[0]) <= by:
            yield f"I10 {case.id}: still {operation.state} at the end"
        for question in case.questions:
            if question["state"] == "open" and int(question["answer_by"]) <= by:
                yield f"I10 {case.id}: the question {question['id']} is open though its time is over"


def in_time(world: Evidence) -> Iterator[str]:
    """I10: a wait that stopped after the calm stopped within G of its deadline, or of the calm."""
    calm, grace = to_micros(world.calm), round(world.grace.total_seconds() * 1_000_000)
    for case in world.cases:
        for row in case.rows:
            if "draw" not in row.facts or row.facts.get("state_before") not in LIVE or row.facts.get("state") in LIVE:
                continue
            ends = [int(end) for name in ("deadline_at", "business_deadline_at") if (end := row.facts.get(name)) is not None]
            true = row.straight if row.true is None else row.true
            late = min(row.at - min(ends), true - calm) if ends else 0
            if late > grace and (row.true is not None or not world.set_back):
                yield f"I10 {case.id}: stopped {late / 1e6:.0f} s after its deadline"


def moves(world: Evidence) -> Iterator[str]:
    """I11, I12, I21: every committed move is one of the table, each row begins where the last one ended, and no end is left again."""
    for case in world.cases:
        yield from _moves(case, case.rows)


def _moves(case: Case, rows: Sequence[Row]) -> Iterator[str]:
    state: str | None = None
    for row in rows:
        after, before, event = row.facts.get("state"), row.facts.get("state_before"), row.facts.get("event")
        if row.kind == "intent":
            if "claimed_at" in row.facts and state in TERMINAL:
                yield f"I11 {case.id}: claimed (run {row.run}) though it was {state}"
            continue
        if not isinstance(after, str):
            continue
        if state in TERMINAL and after != state:
            yield f"I11 {case.id}: {state} became {after} (run {row.run})"
        edited = bool(row.facts.get("edited"))
        if before is not None and event is not None and not edited:
            yield from _legal(case, str(before), str(event), after)
            if state is not None and before != state:
                yield f"I12 {case.id}: run {row.run} moved it from {before}, and it was {state}"
        elif state is not None and after != state:
            yield f"I12 {case.id}: {state} became {after} without a move (run {row.run})"
        state = after
    if state is not None and state != case.operation.state:
        yield f"I12 {case.id}: it is {case.operation.state}, and the journal ends with {state}"


def _legal(case: Case, before: str, event: str, after: str) -> Iterator[str]:
    try:
        wanted = TRANSITIONS.get((OperationState(before), Event(event)))
    except ValueError:
        wanted = None
    if wanted != after:
        yield f"I12 {case.id}: {before} took {event} to {after}, and the table says {wanted or 'nothing'}"


def deadlines(world: Evidence) -> Iterator[str]:
    """W32: nothing is sent at or after the end that held when it was claimed; what came after the end is used by a person alone."""
    for case in world.cases:
        claims = case.claimed()
        for request in case.sent():
            claim = claims.get(request.number)
            facts = case.claims[-1].row.facts if claim is None and case.claims else claim.row.facts if claim is not None else {}
            ends = [int(end) for name in ("deadline_at", "business_deadline_at") if (end := facts.get(name)) is not None]
            since = request.at - world.times.lease
            if ends and to_micros(request.host_at) >= min(ends) and not world.stepped(since, request.at):
                yield f"W32 {case.id}: request {request.number} left {to_micros(request.host_at) - min(ends)} µs after the end"
        for row in case.rows:
            yield from _late(case, row)


_SEEN = ("saw_success", "saw_failure", "saw_cancelled", "saw_expired")


def _late(case: Case, row: Row) -> Iterator[str]:
    if row.facts.get("event") not in _SEEN or row.facts.get("state") not in TERMINAL:
        return
    ends = [int(end) for name in ("deadline_at", "business_deadline_at") if (end := row.facts.get(name)) is not None]
    if ends and int(row.facts["received_at"]) >= min(ends):
        yield f"W32 {case.id}: an answer that came after the end (run {row.run}) ended the wait as {row.facts['state']}"


def strangers(world: Evidence) -> Iterator[str]:
    """W05: no request goes to another origin, or about what was never here."""
    yield from (f"W05 provider: a request to {url[:200]}" for url in world.strangers)
