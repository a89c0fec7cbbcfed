"""Counts: what reached the provider against what was counted before (I1, I2, I3, I30, W33)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sereno.core.values import to_micros
from sereno.testing.hostile.book import Request
from sereno.testing.simulation.checks.evidence import Case, Claim, Evidence


def on_the_wire(world: Evidence) -> Iterator[str]:
    """I1, W33: no more looks arrived than were counted, no more were counted than allowed, and none where there is no job."""
    for case in world.cases:
        spend, allowed = case.operation.spend.status_requests, case.operation.allowance.max_status_requests
        wire = len(case.looks)
        if wire > spend or spend > allowed:
            yield f"I1 {case.id}: {wire} on the wire, {spend} counted, {allowed} allowed"
        if spend and not case.operation.job_id:
            yield f"W33 {case.id}: {spend} status requests counted, and there was no job"
        counted = [claim for claim in case.claims if claim.asks and not claim.given_back]
        hops = sum(row.kind == "intent" and "claimed_at" not in row.facts for row in case.rows)
        if spend != len(counted) + hops:
            yield f"I1 {case.id}: {spend} counted, and the journal holds {len(counted) + hops}"


def before_the_send(world: Evidence) -> Iterator[str]:
    """I2, I30: the j-th look, submit or cancel arrives only when j claims are known to be durable, each by its number."""
    for case in world.cases:
        looks = [claim for claim in case.claims if claim.asks]
        yield from _in_order(case, case.looks, looks, "look")
        for kind, requests in (("submit", case.submits), ("cancel", case.cancels)):
            yield from _in_order(case, requests, [claim for claim in case.claims if claim.call.get("kind") == kind], kind)


def _in_order(case: Case, requests: Sequence[Request], claims: Sequence[Claim], kind: str) -> Iterator[str]:
    if len(requests) > len(claims):
        yield f"I2 {case.id}: {len(requests)} {kind}s arrived, and {len(claims)} were claimed"
        return
    for count, request in enumerate(requests, 1):
        durable = sum(claim.row.true is None or claim.row.true <= to_micros(request.at) for claim in claims)
        if durable < count:
            yield f"I2 {case.id}: {kind} {count} (request {request.number}) left when {durable} claims were durable"
    place = {claim.settled.number: at for at, claim in enumerate(claims, 1) if claim.settled is not None}
    for count, request in enumerate(requests, 1):
        claimed = place.get(request.number)
        if claimed is not None and count > claimed:
            yield f"I30 {case.id}: {kind} {count} (request {request.number}) left with claim {claimed}"


def wasted(world: Evidence) -> Iterator[str]:
    """I3: a count without a look on the wire needs a reason of its own: a death, a pause, a database fault, a step of the clock, or a
    person's decision, at the time of that very claim."""
    reasons = _reasons(world)
    for case in world.cases:
        asks = [claim for claim in case.claims if claim.asks and not claim.given_back]
        missing = len(asks) - len(case.looks)
        unsettled = [claim for claim in asks if claim.settled is None]
        excused = sum(_excused(world, case, claim, reasons) for claim in unsettled) if missing > 0 else 0
        if missing > excused:
            yield f"I3 {case.id}: {missing} counts never left; {len(unsettled)} steps were lost, {excused} of them with a reason"


@dataclass(frozen=True, slots=True)
class _Reason:
    """Something that loses a step: to one process, or ("") to all."""

    process: str
    since: int
    until: int


_SLACK = 61_000_000
"""The clock of the rows is known to a minute."""


def _reasons(world: Evidence) -> Sequence[_Reason]:
    book, at = world.processes, to_micros
    found = [_Reason(death.process, at(death.at), at(death.at)) for death in book.deaths]
    found += [_Reason(fault[0], at(fault[1]), at(fault[1])) for fault in book.store_faults]
    found += [_Reason(pause.process, at(pause.at), at(pause.until)) for pause in book.pauses]
    return found + [_Reason("", at(step.at), at(step.at)) for step in book.steps]


def _excused(world: Evidence, case: Case, claim: Claim, reasons: Sequence[_Reason]) -> bool:
    """Something happened to whoever had claimed it, or a person's decision took it away, or the world ended in the middle of it."""
    since = claim.row.instant - _SLACK
    until = claim.row.instant + claim.until - claim.row.at + 2 * round(world.times.lease.total_seconds() * 1_000_000) + _SLACK
    if any(one.process in ("", claim.worker) and one.since <= until and one.until >= since for one in reasons):
        return True
    return claim is case.claims[-1] or any(row.word and row.seq > claim.row.seq for row in case.rows)
