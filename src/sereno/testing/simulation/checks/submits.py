"""Submits and cancels: one key, one body, one job, nothing again that must not be repeated (I17, W21, W24)."""

from collections.abc import Iterator
from datetime import timedelta

from sereno.testing.hostile.contracts import is_keyed
from sereno.testing.simulation.checks.evidence import Case, Evidence
from sereno.testing.simulation.outside.contracts import KEY_WINDOW_S, MOST_CANCELS

WINDOW = timedelta(seconds=KEY_WINDOW_S)
"""How long the provider keeps keys."""


def submitted(world: Evidence) -> Iterator[str]:
    """I17, W21: one key and one body for each operation; one job where keys are honoured, and nothing after their window; elsewhere
    nothing after an answer that leaves it in doubt."""
    for case in world.cases:
        if case.submits:
            yield from _submitted(world, case)


def _submitted(world: Evidence, case: Case) -> Iterator[str]:
    keys, bodies = {request.key for request in case.submits}, {request.body for request in case.submits}
    if len(keys) > 1 or len(bodies) > 1:
        yield f"I17 {case.id}: {len(keys)} keys, {len(bodies)} bodies"
    first, last = case.submits[0], case.submits[-1]
    if not is_keyed(case.ref):
        yield from _without_a_key(case)
        return
    if sum(request.took for request in case.submits) > 1 and not case.broke:
        yield f"I17 {case.id}: {sum(request.took for request in case.submits)} jobs were started under one key"
    if last.at - first.at > WINDOW and not world.stepped(first.at, last.at):
        yield f"W21 {case.id}: submitted again {last.at - first.at} after the first time, and the key is kept for {WINDOW}"


def _without_a_key(case: Case) -> Iterator[str]:
    """Without a key a submit is repeated only where the answer that was written down says that nothing was done."""
    committed = case.committed()
    by_hand = sum(row.facts.get("verb") == "submit_again" for row in case.rows)
    for request, following in zip(case.submits, case.submits[1:], strict=False):
        row = committed.get(request.number)
        sure = row is not None and not request.doubt and not request.took
        if not sure and not by_hand:
            lost = "its answer was lost" if row is None else f"it was answered {request.fault or 'taken'!r}"
            yield f"W21 {case.id}: submitted again (request {following.number}) without a key after {lost}"
    if sum(request.took for request in case.submits) > 1 + by_hand:
        yield f"W21 {case.id}: {sum(request.took for request in case.submits)} submits were taken on"


def cancels(world: Evidence) -> Iterator[str]:
    """W24: a cancel is sent for a person alone, each one once; again only where its answer says that nothing was done, or where the
    provider documents that it may be repeated, as often as its contract says."""
    for case in world.cases:
        wanted = [call for call in case.calls if call["kind"] == "cancel"]
        asked = world.people.cancels(case.id)
        if len(wanted) > asked:
            yield f"W24 {case.id}: {len(wanted)} cancels were queued, and {asked} were asked for"
        if case.cancels and not wanted:
            yield f"W24 {case.id}: {len(case.cancels)} cancels arrived, and nobody asked for one"
        yield from _repeated(case, len(wanted))


def _repeated(case: Case, wanted: int) -> Iterator[str]:
    committed = case.committed()
    doubtful = [cancel for cancel in case.cancels if cancel.fault != "429" or cancel.number not in committed]
    each = MOST_CANCELS.get(case.operation.contract, 1)
    most = wanted * each
    if len(doubtful) > most:
        yield f"W24 {case.id}: {len(doubtful)} cancels may have been taken, of {most} that may be sent"
    last = max((cancel.at for cancel in doubtful), default=None)
    if each == 1 and wanted == 1 and doubtful and any(cancel.at > doubtful[0].at for cancel in case.cancels):
        yield f"W24 {case.id}: cancelled again (at {last}) after an answer that leaves it in doubt"
