"""Waits that the provider asked for, the cool-down where an answer was lost, the smallest gap, and who slept (I4–I7, I23, I24)."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from sereno.core.observation import DelaySource
from sereno.core.values import to_micros
from sereno.testing.hostile.book import Request
from sereno.testing.simulation.checks.evidence import Case, Evidence, Row
from sereno.testing.simulation.terms import Pause

NOTHING = ("none", "nonsense", "past", "zero")
"""Kinds of a Retry-After that ask for nothing."""


def kept(world: Evidence) -> Iterator[str]:
    """I4: after an answer that was committed, no look, submit or cancel of the operation before its wait is over. An answer that was
    lost is excused, that one alone."""
    for case in world.cases:
        committed, sent = case.committed(), case.sent()
        for asked in sent:
            if asked.waits_until is None or asked.answered is None or asked.number not in committed:
                continue
            wait = asked.waits_until - asked.answered - world.rounding
            for later in sent:
                if later.at > asked.answered and world.planned(asked.answered, later.at) < wait:
                    yield f"I4 {case.id}: request {later.number} came {wait - world.planned(asked.answered, later.at)} too early"
                    break


def cooled_down(world: Evidence) -> Iterator[str]:
    """I4, second half: a step that was claimed and never settled is taken up again when its lease has ended, not before."""
    for case in world.cases:
        for claim, following in zip(case.claims, case.claims[1:], strict=False):
            if claim.settled is not None or not (claim.asks or claim.call):
                continue
            until = claim.until - claim.row.moved
            if claim.asks:
                until = max(until, claim.row.straight + int(claim.row.facts.get("min_gap_us", 0)))
            taken_away = any(claim.row.seq < row.seq < following.row.seq and row.word for row in case.rows)
            if following.row.straight < until - _SLACK_US and not taken_away:
                early = timedelta(microseconds=until - following.row.straight)
                yield f"I4 {case.id}: run {following.row.run} was claimed {early} before the cool-down of run {claim.row.run} ended"


_SLACK_US = 2_000


def believed(world: Evidence) -> Iterator[str]:
    """I5: what was written down of a Retry-After is what the provider asked for: nonsense, the past and zero ask for nothing, and what
    can be read is never shortened."""
    for case in world.cases:
        committed = case.committed()
        for asked in case.sent():
            row = committed.get(asked.number)
            if row is None or asked.wait is None or asked.answered is None:
                continue
            yield from _read_alike(case, asked, row)


def _read_alike(case: Case, asked: Request, row: Row) -> Iterator[str]:
    received, until = int(row.facts.get("received_at", row.at)), _until(row)
    if asked.waits_until is None:
        if asked.wait in NOTHING and until is not None and until > received + 1_000_000:
            yield f"I5 {case.id}: a Retry-After of the kind {asked.wait!r} was believed (request {asked.number})"
        return
    assert asked.answered is not None
    length = to_micros(asked.waits_until) - to_micros(asked.answered)
    if until is None or until - received < length - 1_000_000:
        yield f"I5 {case.id}: a Retry-After of {length / 1e6:g} s was not read whole (request {asked.number})"


def _until(row: Row) -> int | None:
    """The latest Retry-After that was believed."""
    call = row.facts.get("call")
    answer = (call.get("answer") if isinstance(call, dict) else None) or row.facts.get("observation") or {}
    found = [
        int(hint["until"])
        for hint in answer.get("hints", ())
        if hint.get("source") == DelaySource.PROVIDER_RETRY_AFTER and isinstance(hint.get("until"), int)
    ]
    return max(found, default=None)


def smallest(world: Evidence) -> Iterator[str]:
    """I6, I23: two looks of an operation are never closer than its smallest gap, in true time, whoever sends them and
    whatever is done to the host's clock."""
    for case in world.cases:
        for first, second in zip(case.looks, case.looks[1:], strict=False):
            gone = world.planned(first.at, second.at)
            if gone < case.min_gap - world.rounding:
                yield f"I6 {case.id}: two looks within {gone} (requests {first.number}, {second.number})"


def after_a_pause(world: Evidence) -> Iterator[str]:
    """I7: in the first gap after a process, or the host, slept, an operation is looked at once at most."""
    pauses = sorted(world.processes.pauses, key=lambda pause: pause.until)
    for case in world.cases:
        looks, at = case.looks, 0
        for pause in pauses:
            while at < len(looks) and looks[at].at < pause.until:
                at += 1
            upto = at
            while upto < len(looks) and looks[upto].at < pause.until + case.min_gap - world.rounding:
                upto += 1
            if upto - at > 1:
                yield f"I7 {case.id}: {upto - at} looks in the first {case.min_gap} after a pause"


def asleep(world: Evidence) -> Iterator[str]:
    """I24: what sleeps sends nothing, and nothing leaves under a lease that has ended, but for the guard's second."""
    pauses = sorted(world.processes.pauses, key=lambda pause: pause.at)
    for case in world.cases:
        committed = {number: row.run for number, row in case.committed().items()}
        ends = {int(run["number"]): int(run["claim_expires_at"]) for run in case.runs}
        for request in case.sent():
            for pause in pauses:
                if pause.at < request.at < _stopped_until(world, pause) and pause.process in ("", request.process):
                    yield f"I24 {case.id}: request {request.number} came from {request.process or 'a host'} that slept"
            end = ends.get(committed.get(request.number, -1))
            since = request.at - world.times.lease
            if end is not None and not world.stepped(since, request.at) and to_micros(request.host_at) > end + _guard(world):
                over = timedelta(microseconds=to_micros(request.host_at) - end)
                yield f"I24 {case.id}: request {request.number} left {over} after its lease"


def _stopped_until(world: Evidence, pause: Pause) -> datetime:
    """A stopped process goes on when the faults end; who sleeps does not."""
    return min(pause.until, world.calm) if pause.process else pause.until


def _guard(world: Evidence) -> int:
    return round(world.times.guard.total_seconds() * 1_000_000)
