"""The pace of polls: a paused one reads nothing, a failing one waits longer each time, and nothing changes more often than it did (P05, P09, P10)."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from sereno.core.values import to_micros
from sereno.testing.simulation.checks.evidence import Evidence, Row
from sereno.testing.simulation.outside.people import Act
from sereno.testing.simulation.outside.sources import Feed, ReadingTaken

LONGEST = timedelta(days=1)
"""The backoff of a failing source grows up to this."""


def paused(world: Evidence) -> Iterator[str]:
    """P09: a poll that a person paused is not read until somebody resumes it; a lease later nothing is on its way any more."""
    for poll, feed in world.feeds.items():
        acts = [act for act in world.people.acts if act.accepted and act.subject == feed.name]
        for act in acts:
            if act.word != "pause_poll":
                continue
            since, until = act.at + world.times.lease, _resumed(acts, act)
            read = next((one for one in feed.readings if since < one.at and (until is None or one.at < until)), None)
            if read is not None:
                yield f"P09 {poll}: read {read.at - act.at} after it was paused (reading {read.number})"


def _resumed(acts: Sequence[Act], pause: Act) -> datetime | None:
    later = (act for act in acts if act.number > pause.number and act.word == "resume_poll")
    return next((act.began or act.at for act in later), None)


def spared(world: Evidence) -> Iterator[str]:
    """P10: after the n-th failure in a row a poll is left alone for half of its interval times 2^(n-1) at least, times 4^n where the source
    throttled it, where nobody asked for a run. A lease is let pass between the answer and the commit."""
    every = {
        row["poll"]: json.loads(row["spec"]).get("schedule", {}).get("every_s", 0) for row in world.rows.get("poll_spec", ())
    }
    for poll, feed in world.feeds.items():
        interval = timedelta(seconds=float(every.get(poll, 0)))
        for row in world.journal.get(poll, ()):
            if row.facts.get("status") == "failed" and not row.facts.get("edited"):
                yield from _spared(world, feed, row, interval)


def _spared(world: Evidence, feed: Feed, row: Row, interval: timedelta) -> Iterator[str]:
    failures = int(row.facts.get("failures") or 1)
    doublings = 2 * failures if "throttled" in str(row.facts.get("error")) else failures - 1
    least = min(LONGEST, interval * 2 ** min(doublings, 20)) / 2 - world.times.lease
    following = _after(feed, row.instant)
    if following is None:
        return
    failed = _failed_before(feed, row.instant)
    if failed is None or any(failed.at <= act.at and (act.began or act.at) <= following.at for act in _asked(world, feed)):
        return
    gone = world.planned(failed.at, following.at)
    if gone < least:
        yield f"P10 {row.subject}: read again {gone} after failure {failures} in a row (reading {following.number})"


def _asked(world: Evidence, feed: Feed) -> Iterator[Act]:
    return (act for act in world.people.acts if act.accepted and act.subject == feed.name)


def _after(feed: Feed, instant: int) -> ReadingTaken | None:
    return next((one for one in feed.readings if to_micros(one.at) > instant), None)


def _failed_before(feed: Feed, instant: int) -> ReadingTaken | None:
    """The reading that was committed then: the last one before it."""
    return next((one for one in reversed(feed.readings) if to_micros(one.at) <= instant), None)


def versions(world: Evidence) -> Iterator[str]:
    """P05: a stored object has changed no more often than in its feed, so that nothing is told twice as another change."""
    for row in world.rows.get("poll_object", ()):
        feed = world.feeds.get(row["poll"])
        if feed is None:
            continue
        changes = sum(version.object == row["external_id"] for version in feed.versions)
        if int(row["version"]) > changes:
            yield f"P05 {row['poll']}: version {row['version']} of {row['external_id']}, which changed {changes} times"
