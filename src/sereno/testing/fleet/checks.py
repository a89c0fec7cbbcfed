"""What must hold of a fleet, read off the provider's own book, and the figures of it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sereno.core.operation import Operation
from sereno.testing.books import burst_over, busiest_second, spread
from sereno.testing.fleet.provider import MIN_GAP_S, Job
from sereno.testing.fleet.run import Sailed

_ROUNDING = 0.001
"""Sends, and seconds: instants are floats here and whole microseconds in the store."""
_ENDS = {"done": "succeeded", "failed": "failed"}


def paced(sailed: Sailed) -> Iterator[str]:
    """I7, W29: `sends(Δ) ≤ burst + rate·Δ` in every window, after an outage and a sleep too."""
    fleet = sailed.fleet
    if fleet.rate is not None:
        over = burst_over(sailed.provider.sent, rate=fleet.rate, burst=fleet.burst)
        if over > _ROUNDING:
            yield f"I7: a window holds {over:.2f} sends more than burst {fleet.burst} + rate {fleet.rate:g}·Δ"


def alone(sailed: Sailed) -> Iterator[str]:
    """I9: never two requests of one operation at once; nobody dies here."""
    yield from (f"I9 {job.id}: {job.overlaps} requests while one was open" for job in _jobs(sailed) if job.overlaps)


def gaps(sailed: Sailed) -> Iterator[str]:
    """I6: two requests of one operation are never closer than the contract's smallest gap."""
    for job in _jobs(sailed):
        least = min((after - before for before, after in zip(job.looks, job.looks[1:], strict=False)), default=MIN_GAP_S)
        if least < MIN_GAP_S - _ROUNDING:
            yield f"I6 {job.id}: two requests within {least:.3f} s"


def waits(sailed: Sailed) -> Iterator[str]:
    """I4: no request of an operation inside a Retry-After that it was given."""
    for job in _jobs(sailed):
        for answered, until in job.waits:
            if any(answered < at < until - _ROUNDING for at in job.looks):
                yield f"I4 {job.id}: a request inside the Retry-After of {until - answered:g} s"


def ends(sailed: Sailed) -> Iterator[str]:
    """I10: each operation ended as its job did, and nothing was asked after that."""
    for operation, job in _pairs(sailed):
        if operation.state != _ENDS[job.word]:
            yield f"I10 {job.id}: {operation.state}, and the job is {job.word}"
        if job.told_at is not None and job.looks[-1] > job.told_at:
            yield f"I11 {job.id}: asked after its end had been told"


def counts(sailed: Sailed) -> Iterator[str]:
    """I1, I3: on the wire = counted, since nobody dies here; and no more than allowed."""
    for operation, job in _pairs(sailed):
        wire, counted, allowed = len(job.looks), operation.spend.status_requests, operation.allowance.max_status_requests
        if wire != counted or counted > allowed:
            yield f"I1 {job.id}: {wire} on the wire, {counted} counted, {allowed} allowed"


def spread_out(sailed: Sailed) -> Iterator[str]:
    """W29: looks that were planned in one instant do not fall into one second: at most half of the first ones do, and a tenth of
    the third ones."""
    for number, most in ((0, 0.5), (2, 0.1)):
        planned = _planned(sailed, number)
        busiest = busiest_second(planned)
        if len(planned) >= 200 and busiest > most * len(planned):
            yield f"W29: {busiest} of {len(planned)} looks number {number + 1} were planned for one second"


CHECKS: Sequence[Callable[[Sailed], Iterator[str]]] = (paced, alone, gaps, waits, ends, counts, spread_out)


def violations(sailed: Sailed) -> list[str]:
    """All that must not have happened."""
    return [found for check in CHECKS for found in check(sailed)]


def figures(sailed: Sailed) -> dict[str, Any]:
    """How much happened, and how late."""
    fleet, provider, jobs = sailed.fleet, sailed.provider, _jobs(sailed)
    pairs = [pair for looks in sailed.looks.values() for pair in zip(looks.planned, looks.claimed, strict=True)]
    late = [claimed - planned for planned, claimed in pairs]
    awake = [claimed - planned for planned, claimed in pairs if not _disturbed(sailed, planned)]
    told = [(job.ends_at, job.told_at) for job in jobs if job.told_at is not None]
    firsts, laters = _planned(sailed, 0), [at for looks in sailed.looks.values() for at in looks.planned[1:]]
    return {
        "operations": fleet.operations,
        "seed": fleet.seed,
        "pool": {"rate": fleet.rate, "burst": fleet.burst},
        "requests": len(provider.sent),
        "requests_per_job": spread([len(job.looks) for job in jobs]),
        "busiest_second_sent": busiest_second(provider.sent),
        "sends_over_the_limit": None
        if fleet.rate is None
        else round(burst_over(provider.sent, rate=fleet.rate, burst=fleet.burst), 3),
        "busiest_second_after": {
            f"{name}_{at:g}s": busiest_second([sent for sent in provider.sent if at <= sent < at + 60])
            for name, at in _returns(sailed)
        },
        "look_lateness_s": spread(late),
        "look_lateness_undisturbed_s": spread(awake),
        "end_learnt_after_s": spread([at - end for end, at in told]),
        "end_learnt_after_undisturbed_s": spread([at - end for end, at in told if not _disturbed(sailed, end, at)]),
        "first_looks_planned_for_one_second": busiest_second(firsts),
        "later_looks_planned_for_one_second": busiest_second(laters),
        "throttled": provider.throttled,
        "unanswered": provider.silences,
        "counted": sum(operation.spend.status_requests for operation in sailed.operations),
    }


def _returns(sailed: Sailed) -> list[tuple[str, float]]:
    """When the provider, or our process, came back."""
    back = [("outage", end) for _, end in sailed.fleet.outages]
    return back if sailed.fleet.asleep is None else [*back, ("sleep", sailed.fleet.asleep[1])]


def _disturbed(sailed: Sailed, *instants: float) -> bool:
    """True where an outage or the sleep lies at one of the instants, or between them."""
    fleet = sailed.fleet
    spans = [*fleet.outages, *([] if fleet.asleep is None else [fleet.asleep])]
    return any(start <= max(instants) and min(instants) < end for start, end in spans)


def _jobs(sailed: Sailed) -> Sequence[Job]:
    return list(sailed.provider.jobs.values())


def _pairs(sailed: Sailed) -> Iterator[tuple[Operation, Job]]:
    return ((operation, sailed.provider.jobs[operation.job_id]) for operation in sailed.operations)


def _planned(sailed: Sailed, number: int) -> list[float]:
    """When the looks of one number (0 = first) were planned."""
    return [looks.planned[number] for looks in sailed.looks.values() if len(looks.planned) > number]
