"""Polls and runs for the tests of watching: a poll, a reading, one run of it, and the poll as it is loaded next."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

from sereno.core.change import Change, Comparison, FailedReading, KnownObject, Reading, SourceObject, find_changes
from sereno.core.effect import ActionRef, Policy
from sereno.core.poll import (
    Judged,
    Poll,
    PollDecision,
    PollSpec,
    PollState,
    Verdict,
    VerdictKind,
    decide_poll,
    needs_judging,
)
from sereno.core.schedule import Interval

NOW = datetime(2026, 5, 1, 12, 0, 1, tzinfo=UTC)
DUE = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
MAIL = ActionRef("mail", "email", {}, Policy.AT_LEAST_ONCE, pool="host:smtp.example")
RUN = ActionRef("script", "command", {}, Policy.AT_MOST_ONCE)
KINDS = {True: VerdictKind.MATCH, False: VerdictKind.NO_MATCH, None: VerdictKind.ERROR}


def make(**changes: object) -> Poll:
    """A poll each minute that mails; names of PollSpec go there, others to Poll."""
    inside = {name: changes.pop(name) for name in list(changes) if name in PollSpec.__dataclass_fields__}
    spec = PollSpec(name="lamps", source_type="http", source={}, schedule=Interval(MINUTE, DUE), actions=(MAIL,))
    poll = Poll("poll_1", "main", spec, PollState.ACTIVE, 1, 1, "host:example", DUE, cursor="c0")
    return replace(poll, spec=replace(spec, **inside), **changes)  # type: ignore[arg-type]


def thing(external_id: str, content: str = "a", **fields: object) -> SourceObject:
    return SourceObject(
        external_id, f"h{content}", {"v": content, **fields}, title=f"Lamp {external_id}", url="https://shop.example/1"
    )


def read(*objects: SourceObject, cursor: str = "c1", **more: object) -> Reading:
    return Reading(objects=objects, cursor=cursor, requests=1, **more)  # type: ignore[arg-type]


def run(
    poll: Poll, reading: Reading | FailedReading, says: dict[str, bool | None] | bool | None = True, now: datetime = NOW
) -> PollDecision:
    """One run in which the condition says the same of all, or what the table says of each (None = an error)."""
    if isinstance(reading, FailedReading):
        return decide_poll(poll, reading, Comparison(), (), scheduled_for=DUE, now=now, rng=Random(1))
    comparison = find_changes(reading, poll.known, now, poll.spec.keep, poll.spec.fields)
    judged = [judgement(reading, id_, change, says) for id_, change in needs_judging(poll, reading, comparison)]
    return decide_poll(poll, reading, comparison, judged, scheduled_for=DUE, now=now, rng=Random(1))


def judgement(reading: Reading, external_id: str, change: Change | None, says: dict[str, bool | None] | bool | None) -> Judged:
    found = next((found for found in reading.objects if found.external_id == external_id), None)
    answer = says.get(external_id, False) if isinstance(says, dict) else says
    kind = KINDS[answer]
    verdict = Verdict(kind, "no such key" if kind is VerdictKind.ERROR else None)
    title, url, payload = (found.title, found.url, found.payload) if found is not None else ("", None, None)
    return Judged(external_id, verdict, change, title, url, payload, change.before if change is not None else None)


def after(poll: Poll, decision: PollDecision) -> Poll:
    """The poll as the store would load it next."""
    known: dict[str, KnownObject] = {**poll.known, **decision.remember}
    for forgotten in decision.forget:
        known.pop(forgotten, None)
    return replace(
        poll,
        known=known,
        cursor=decision.cursor,
        state=decision.state,
        baselined=decision.baselined,
        failures=decision.failures,
        auth_failures=decision.auth_failures,
        runs=poll.runs + 1,
        matches=poll.matches + decision.matched,
    )


def occurrences(decision: PollDecision) -> list[str]:
    return [effect.dedupe_key.split(":")[3] for effect in decision.effects]
