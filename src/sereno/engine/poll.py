"""Performs one poll run: read, compare, judge, decide, commit."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from sereno.core.change import Change, Comparison, FailedReading, KnownObject, ReadFailure, Reading, find_changes
from sereno.core.errors import LeaseLost
from sereno.core.poll import Judged, Poll, PollDecision, Verdict, VerdictKind, decide_poll, needs_judging
from sereno.core.values import Json
from sereno.core.work import PollWork
from sereno.engine import guard
from sereno.engine.guard import Broken, SendGuard
from sereno.engine.kit import Kit
from sereno.engine.telling import tell_poll

YIELD_EVERY = 50
"""Judgements between two breaths of the event loop."""


async def perform_poll(kit: Kit, work: PollWork, sender: SendGuard) -> None:
    """Ends in one commit, or in LeaseLost: where nothing left, the work is to be given back."""
    reading = await _read(kit, work.poll, sender)
    if sender.nothing_left:
        raise LeaseLost("nothing was sent", subject=work.poll.id)
    kit.crash_point("poll.read")
    decision = await _decide(kit, work, reading, sender)
    if isinstance(decision, Broken):
        await kit.store.park(work, reason=decision.message)
        return
    await kit.store.commit_poll(work, decision)
    tell_poll(work, decision)


async def _read(kit: Kit, poll: Poll, sender: SendGuard) -> Reading | FailedReading:
    source = kit.plugins.sources.get(poll.spec.source_type)
    if source is None:
        return FailedReading(ReadFailure.BROKEN, f"no source plug-in named {poll.spec.source_type}")
    guarded = sender.guarded(total_deadline=kit.times.total_deadline)
    found = await guard.call(source.read(poll.spec.source, poll.cursor, guarded))
    return kit.redact(FailedReading(ReadFailure.BROKEN, found.message) if isinstance(found, Broken) else found)


async def _decide(kit: Kit, work: PollWork, reading: Reading | FailedReading, sender: SendGuard) -> PollDecision | Broken:
    if isinstance(reading, FailedReading) or (reading.unchanged and not reading.objects):  # most runs: nothing to compare
        return _conclude(kit, work, reading, Comparison(), (), sender.now())
    # What is known is loaded only here. Raises LeaseLost.
    work = replace(work, poll=replace(work.poll, known=await kit.store.snapshot(work)))
    poll, now = work.poll, sender.now()
    comparison = guard.decide(lambda: find_changes(reading, poll.known, now, poll.spec.keep, poll.spec.fields))
    if isinstance(comparison, Broken):
        return comparison
    judged = await _judge(kit, poll, reading, comparison, sender)
    return _conclude(kit, work, reading, comparison, judged, now)


def _conclude(
    kit: Kit,
    work: PollWork,
    reading: Reading | FailedReading,
    comparison: Comparison,
    judged: Sequence[Judged],
    now: datetime,
) -> PollDecision | Broken:
    rng = kit.ids.random(f"{work.poll.id}.{work.lease.run}")
    return guard.decide(
        lambda: decide_poll(work.poll, reading, comparison, judged, scheduled_for=work.scheduled_for, now=now, rng=rng)
    )


async def _judge(kit: Kit, poll: Poll, reading: Reading, comparison: Comparison, sender: SendGuard) -> list[Judged]:
    asked = needs_judging(poll, reading, comparison)
    if not asked:
        return []
    condition = guard.decide(lambda: kit.condition(poll.spec.condition))
    objects = {found.external_id: found for found in reading.objects}
    about: dict[str, Json] = {"id": poll.id, "name": poll.spec.name, "user": poll.spec.user}
    now, judged = sender.now(), list[Judged]()
    for number, (external_id, change) in enumerate(asked, start=1):
        found = change.after if change is not None else objects.get(external_id)
        before = _before(change, poll.known.get(external_id))
        payload = found.payload if found is not None else None
        if isinstance(condition, Broken):
            verdict = Verdict(VerdictKind.ERROR, condition.message)
        else:
            kind = change.kind.value if change is not None else ""
            # A removed object is judged by what was kept of it.
            subject = payload if found is not None else before
            verdict = condition.judge(change=kind, object=subject, before=before, poll=about, now=now)
        title, url = (found.title, found.url) if found is not None else ("", None)
        judged.append(Judged(external_id, verdict, change, title, url, payload, before))
        if number % YIELD_EVERY == 0:
            await kit.clock.sleep(0)
    return judged


def _before(change: Change | None, known: KnownObject | None) -> Json:
    if change is not None:
        return change.before
    return known.kept if known is not None else None
