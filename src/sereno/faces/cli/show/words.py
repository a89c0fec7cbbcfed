"""Sentences for what the records hold in codes."""

import shlex
from collections.abc import Mapping
from datetime import datetime, timedelta

from sereno.core.call import CallOutcome, CallState
from sereno.core.observation import DelaySource
from sereno.core.schedule import Interval, Schedule
from sereno.core.values import Json, format_duration

DELAYS: Mapping[str, str] = {
    DelaySource.PROVIDER_RETRY_AFTER: "not sooner than the provider asked (Retry-After)",
    DelaySource.PROVIDER_POLL_HINT: "the provider's answer says when to ask again",
    DelaySource.LOCAL_BACKOFF: "Sereno's own growing pause",
    DelaySource.CONTRACT_SCHEDULE: "the contract says when to look",
    DelaySource.MANUAL_EXTENSION: "a person decided to go on",
}
"""Why the next look is when it is."""


CALLS: Mapping[str, str] = {
    CallState.QUEUED: "not sent yet",
    CallState.SENDING: "being sent, or cut off while it was",
    CallState.DONE: "taken on",
    CallState.REFUSED: "refused; nothing was done",
    CallState.UNKNOWN: "it is not known whether it was taken on",
    CallState.DROPPED: "given up, unsent",
}
"""What became of a submit or a cancel."""

ANSWERS: Mapping[str, str] = {
    CallOutcome.ACCEPTED: "was taken on",
    CallOutcome.DUPLICATE: "had been taken on before",
    CallOutcome.TOO_LATE: "came too late: the job has ended or cannot be cancelled any more",
    CallOutcome.DENIED: "was denied; nothing was done",
    CallOutcome.THROTTLED: "was told to come later; nothing was done",
    CallOutcome.REFUSED: "was refused; nothing was done",
    CallOutcome.UNREADABLE: "was taken on, but the answer does not name the job",
    CallOutcome.UNKNOWN: "got no clear answer: it may have been done",
    CallOutcome.NOT_SENT: "was not sent",
}
"""What the answer to a submit or a cancel amounts to."""


def schedule_words(schedule: Schedule) -> str:
    """Restates a schedule."""
    if not isinstance(schedule, Interval):
        return f"cron `{schedule.expression}` in {schedule.zone}"
    jitter = "" if not schedule.jitter else f", at a fixed place of its own within {brief(schedule.jitter)}"
    return f"every {format_duration(schedule.every)}{jitter}"


def brief(span: timedelta) -> str:
    """A duration as exact as a person needs it: `350ms`, `12s`, `1h30m`, `3d4h`."""
    seconds = span.total_seconds()
    if abs(seconds) < 1:
        return format_duration(span)
    step = 1 if abs(seconds) < 3600 else 60 if abs(seconds) < 86_400 else 3600
    return format_duration(timedelta(seconds=round(seconds / step) * step))


def away(instant: datetime, now: datetime) -> str:
    """How far an instant is: `in 4m`, `12s ago`, `now`."""
    span = instant - now
    if abs(span) < timedelta(seconds=1):
        return "now"
    return f"in {brief(span)}" if span > timedelta(0) else f"{brief(-span)} ago"


def soon(due: datetime | None, now: datetime) -> str:
    """When something is due: `in 4m`, `due now`, or a dash."""
    return "-" if due is None else "due now" if due <= now else away(due, now)


def reference(source: Mapping[str, Json]) -> str:
    """What a source reads, in one line: its address, path or command."""
    argv = source.get("argv")
    if isinstance(argv, list):
        return shlex.join(str(part) for part in argv)
    return str(source.get("url") or source.get("path") or "")
