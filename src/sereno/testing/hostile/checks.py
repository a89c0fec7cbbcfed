"""What must hold of a hostile world, read off the books of provider and people, and the figures of it."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from sereno.core.operation import TERMINAL, Operation, OperationState
from sereno.core.reviewing.replay import Verdict
from sereno.testing.books import spread
from sereno.testing.hostile.options import MIN_GAP_S
from sereno.testing.hostile.provider import Job, Look, Ordered, is_keyed
from sereno.testing.hostile.run import Lived
from sereno.testing.yard import TIMES

GRACE = 2 * TIMES.lease + TIMES.tick + timedelta(seconds=60)
"""G of I10."""
_ROUNDING = timedelta(milliseconds=1)
KEY_WINDOW = timedelta(hours=1)
MOST_CANCELS = 3


def ends(lived: Lived) -> Iterator[str]:
    """I10: each operation has ended, or asks a person; each wait stopped within its deadline and G."""
    for operation in lived.operations:
        if operation.state not in TERMINAL and operation.state is not OperationState.ESCALATED:
            yield f"I10 {operation.id}: {operation.state} at the end"
    for stop in lived.stops:
        if stop.at > stop.stops_at + GRACE:
            yield f"I10 {stop.operation}: stopped {stop.at - stop.stops_at} after its deadline"


def counts(lived: Lived) -> Iterator[str]:
    """I1, I3: on the wire = counted, since nobody dies here, and no more than allowed; submits and cancels are no status requests."""
    for operation, job, _ in _each(lived):
        wire, counted, allowed = len(_looks(job)), operation.spend.status_requests, operation.allowance.max_status_requests
        if wire != counted or counted > allowed:
            yield f"I1 {operation.id}: {wire} on the wire, {counted} counted, {allowed} allowed"


def submits(lived: Lived) -> Iterator[str]:
    """I17, W21: one key and one body for each operation; where keys are honoured one job and nothing after their window, elsewhere
    nothing after an answer was lost, so never two jobs."""
    for operation, _, order in _each(lived):
        if order is None:
            continue
        if len(order.keys) > 1 or len(order.bodies) > 1:
            yield f"I17 {operation.id}: {len(order.keys)} keys, {len(order.bodies)} bodies"
        if len(order.jobs) > 1:
            yield f"I17 {operation.id}: {len(order.jobs)} jobs were started"
        if is_keyed(order.ref) and order.doubt is not None and order.arrivals[-1] > order.doubt + KEY_WINDOW:
            yield f"I17 {operation.id}: sent again after the window of its key"
        if not is_keyed(order.ref) and order.doubt is not None and order.arrivals[-1] > order.doubt:
            yield f"W21 {operation.id}: submitted again after an answer was lost, without a key"


def waits(lived: Lived) -> Iterator[str]:
    """I4: no look, submit or cancel of an operation inside a Retry-After that can be believed, whatever form it has."""
    for operation, job, order in _each(lived):
        asked = [*(job.waits if job else ()), *(order.waits if order else ())]
        sent = [look.at for look in _looks(job)] + (job.cancelled if job else []) + (order.arrivals if order else [])
        for answered, until in asked:
            early = [at for at in sent if answered < at < until - _ROUNDING]
            if early:
                yield f"I4 {operation.id}: a request {until - early[0]} before the end of a wait"


def gaps(lived: Lived) -> Iterator[str]:
    """I5, I6: whatever the provider asks for, two looks are never closer than the smallest gap."""
    for operation, job, _ in _each(lived):
        looks = _looks(job)
        for first, second in zip(looks, looks[1:], strict=False):
            if second.at - first.at < timedelta(seconds=MIN_GAP_S) - _ROUNDING:
                yield f"I6 {operation.id}: two looks within {second.at - first.at}"


def stopped(lived: Lived) -> Iterator[str]:
    """W38, I11–I16: after an answer that nobody can go on from, or that told the end, nothing is asked before a person has answered,
    or has cancelled or handed in a call-back while that answer was on its way."""
    for operation, job, _ in _each(lived):
        looks, people = _looks(job), lived.people
        answers = [*people.answered.get(operation.id, []), *people.disturbed.get(operation.id, [])]
        for look, following in zip(looks, looks[1:], strict=False):
            granted = look.fault == "unknown state" and operation.id in lived.people.granted
            if (look.stops or look.ends_as) and not granted and not _between(answers, look, following):
                yield f"W38 {operation.id}: asked again after {look.fault or look.ends_as!r}"


def _between(answers: Sequence[datetime], look: Look, following: Look) -> bool:
    return any(look.at < at <= following.at for at in answers)


_SAID = {
    OperationState.SUCCEEDED: ("done", ()),
    OperationState.FAILED: ("failed", ()),
    OperationState.CANCELLED: ("cancelled", ()),
    OperationState.EXPIRED: ("expired", ("expired yet running",)),
}


def truth(lived: Lived) -> Iterator[str]:
    """I13, I14: an end is what the provider said of this job in an honest answer, or what a person chose."""
    for operation, job, _ in _each(lived):
        chosen = lived.people.accepted if operation.state is OperationState.SUCCEEDED else lived.people.failed_by_hand
        if operation.state not in _SAID or operation.id in chosen:
            continue
        word, faults = _SAID[operation.state]
        if not any(look.ends_as == word or look.fault in faults for look in _looks(job)):
            yield f"I13 {operation.id}: {operation.state}, which the provider never said"


def cancels(lived: Lived) -> Iterator[str]:
    """W24: a cancel is sent for a person alone: once, or three times where the provider documents that this does no harm."""
    for operation, job, _ in _each(lived):
        most = lived.people.cancels[operation.id] * (MOST_CANCELS if operation.contract == "hostile-plain" else 1)
        if job is not None and len(job.cancelled) > most:
            yield f"W24 {operation.id}: {len(job.cancelled)} cancels, {lived.people.cancels[operation.id]} were asked for"


def deadlines(lived: Lived) -> Iterator[str]:
    """W32: nothing is sent at or after the end; and W05: nothing to another place."""
    for operation, job, order in _each(lived):
        sent = [look.at for look in _looks(job)] + (job.cancelled if job else []) + (order.arrivals if order else [])
        if sent and max(sent) >= operation.allowance.stops_at()[0]:
            yield f"W32 {operation.id}: a request after the deadline"
    yield from (f"W05: a request to {url[:200]}" for url in lived.provider.strangers)


def reported(lived: Lived) -> Iterator[str]:
    """W28: `report waiting` says the same as the books, and every decision is reached again from the journal."""
    said, wanted = report(lived), book(lived)
    for name, count in wanted.items():
        if said[name] != count:
            yield f"W28: the report says {name} = {said[name]}, and the books say {count}"
    if said["decisions_same"] != said["decisions"]:
        yield f"W28: {said['decisions'] - said['decisions_same']} of {said['decisions']} decisions are not reached again"
    if said["journal_faults"]:
        yield f"W44: the journal shows {said['journal_faults']}"


CHECKS: Sequence[Callable[[Lived], Iterator[str]]] = (
    ends, counts, submits, waits, gaps, stopped, truth, cancels, deadlines, reported,
)  # fmt: skip


def violations(lived: Lived) -> list[str]:
    """All that must not have happened."""
    return [found for check in CHECKS for found in check(lived)]


def report(lived: Lived) -> dict[str, Any]:
    """What `report waiting` says."""
    quality = lived.quality
    return {
        "operations": quality.operations,
        "ended_or_asked_within_limits": quality.ended,
        "beyond_limits": quality.beyond,
        "open": quality.waiting + quality.overdue,
        "waits_followed": quality.waits,
        "waits_broken": quality.waits_broken,
        "decisions": sum(quality.decisions.values()),
        "decisions_same": quality.decisions[Verdict.SAME],
        "journal_faults": dict(quality.faults),
    }


def book(lived: Lived) -> dict[str, Any]:
    """The same figures, as far as the provider's books and the checks on them tell."""
    late = {text.split()[1] for text in ends(lived)}
    return {
        "operations": len(lived.refs),
        "ended_or_asked_within_limits": len(lived.refs) - len(late | {text.split()[1] for text in counts(lived)}),
        "beyond_limits": len(list(counts(lived))),
        "open": sum(operation.state not in TERMINAL and operation.open_escalation is None for operation in lived.operations),
        "waits_followed": sum(lived.provider.waited.values()),
        "waits_broken": len(list(waits(lived))),
    }


def figures(lived: Lived) -> dict[str, Any]:
    """How much happened."""
    looks = [len(_looks(job)) for _, job, _ in _each(lived)]
    orders = lived.provider.orders.values()
    return {
        "operations": lived.options.operations,
        "seed": lived.options.seed,
        "states": dict(Counter(str(operation.state) for operation in lived.operations)),
        "stopped_for": dict(Counter(str(operation.category) for operation in lived.operations if operation.category)),
        "status_requests": {
            "on_the_wire": sum(looks),
            "counted": sum(operation.spend.status_requests for operation in lived.operations),
            "allowed": sum(operation.allowance.max_status_requests for operation in lived.operations),
        },
        "requests_per_operation": spread(looks),
        "submits": {
            "arrived": sum(len(order.arrivals) for order in orders),
            "jobs": sum(len(order.jobs) for order in orders),
            "repeated_under_their_key": sum(len(order.arrivals) > 1 and is_keyed(order.ref) for order in orders),
            "answers_lost": sum(order.doubt is not None for order in orders),
        },
        "people": {**{str(verb): count for verb, count in lived.people.verbs.items()}, "call_backs": lived.people.pushes},
        "faults": sum(lived.provider.faults.values()),
        "kinds_of_faults": len(lived.provider.faults),
        "report_waiting": report(lived),
        "books": book(lived),
    }


def _each(lived: Lived) -> Iterator[tuple[Operation, Job | None, Ordered | None]]:
    for operation in lived.operations:
        yield operation, lived.provider.jobs.get(operation.job_id), lived.provider.orders.get(lived.refs[operation.id])


def _looks(job: Job | None) -> Sequence[Look]:
    return job.looks if job is not None else ()
