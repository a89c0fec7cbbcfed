"""Waits that the provider asked for, and the cool-down that stands in where an answer was lost (I4, I5)."""

from collections.abc import Iterator
from datetime import timedelta

from sereno.core.observation import DelaySource
from sereno.core.values import to_micros
from sereno.testing.hostile.book import Request
from sereno.testing.simulation.checks.evidence import Case, Evidence, Row

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
