"""Truth: what an operation ended as is what the provider said of this job, and whatever contradicts stops (I13–I16, W38)."""

from collections.abc import Iterator, Sequence

from sereno.core.operation import TERMINAL, OperationState
from sereno.testing.hostile.book import Request
from sereno.testing.simulation.checks.evidence import Case, Evidence, Row

_SAID = {
    OperationState.SUCCEEDED: "done",
    OperationState.FAILED: "failed",
    OperationState.CANCELLED: "cancelled",
    OperationState.EXPIRED: "expired",
}
STEADY = 2
"""How often in a row a patient contract wants to see a success."""
_BY_EXPIRY = "expired yet running"


def said(world: Evidence) -> Iterator[str]:
    """I13: an end that an answer brought is what the provider really said of this job in that very answer."""
    for case in world.cases:
        by_number = {request.number: request for request in case.looks}
        for row in case.rows:
            state = row.facts.get("state")
            if not str(row.facts.get("event", "")).startswith("saw_") or state not in TERMINAL or row.number is None:
                continue
            look = by_number.get(row.number)
            if look is None:
                yield f"I15 {case.id}: {state} by request {row.number}, which was not about its job"
            elif not _agrees(str(state), look):
                yield f"I13 {case.id}: {state} by request {row.number}, which was answered {look.fault or look.ends_as or 'running'!r}"


def _agrees(state: str, look: Request) -> bool:
    if state == OperationState.EXPIRED and look.fault == _BY_EXPIRY:
        return True
    return look.ends_as == _SAID.get(OperationState(state))


def own_answers(world: Evidence) -> Iterator[str]:
    """I15: every answer that was written down for an operation is one to a request about it."""
    for case in world.cases:
        own = {request.number for request in case.sent()}
        for number, row in case.committed().items():
            if number not in own:
                yield f"I15 {case.id}: the answer to request {number} was taken (run {row.run}), and that was about another"


def results(world: Evidence) -> Iterator[str]:
    """I14: what succeeded by an answer has its result, that of its own job."""
    for case in world.cases:
        operation = case.operation
        by_hand = any(row.facts.get("verb") == "accept_partial" for row in case.rows)
        if operation.state is not OperationState.SUCCEEDED or by_hand or not case.looks:
            continue
        if not operation.result_ref:
            yield f"I14 {case.id}: succeeded without a result"
        elif not operation.result_ref.endswith(f"/{operation.job_id}"):
            yield f"I14 {case.id}: succeeded with the result {operation.result_ref[:100]!r} of another job"


def stopped(world: Evidence) -> Iterator[str]:
    """W38, I13, I16: after a committed answer that nobody can go on from, or that told the end, nothing is asked before a person has
    decided."""
    for case in world.cases:
        committed = case.committed()
        for at, look in enumerate(case.looks):
            row = committed.get(look.number)
            stops = row is not None and (look.stops or look.ends_as) and not look.tolerable
            if row is None or not stops or _let_pass(case, look, row) or _known_since(world, case, look, row):
                continue
            yield from _asked_again(case, look, row, case.looks[at + 1 :])


def _let_pass(case: Case, look: Request, row: Row) -> bool:
    """A person had let exactly this pass for a while, the contract's own count did, or it was edited while the answer was on its way."""
    seen = row.facts.get("observation") or {}
    if row.facts.get("edited") or (case.patient and look.ends_as == "done" and int(row.facts.get("steady", 0)) < STEADY):
        return True
    granted = any(one.facts.get("verb") == "treat_as_pending" for one in case.rows if one.seq < row.seq)
    return bool(seen.get("tolerated")) or (granted and seen.get("kind") == "unknown_state")


def _known_since(world: Evidence, case: Case, look: Request, row: Row) -> bool:
    """A later version of the contract, which people had published by then, knows the word that the first one does not."""
    if look.fault != "unknown state" or (row.facts.get("observation") or {}).get("kind") != "pending":
        return False
    acts = world.people.taken(case.operation.contract, "publish")
    return any(act.at <= look.at for act in acts)


def _asked_again(case: Case, look: Request, row: Row, later: Sequence[Request]) -> Iterator[str]:
    says = f"W38 {case.id}: asked again after {look.fault or look.ends_as!r} (request {look.number})"
    following = [claim for claim in case.claims if claim.asks and claim.row.seq > row.seq and not claim.given_back]
    if following:
        first = following[0].row.seq
        if not any(row.seq < one.seq < first and one.word in ("answered", "contract_changed") for one in case.rows):
            yield says
        return
    lost = sum(claim.settled is None for claim in case.claims if claim.asks and claim.row.seq < row.seq)
    if look.answered is not None and sum(one.at > look.answered for one in later) > lost:
        yield says
