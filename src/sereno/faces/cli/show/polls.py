"""Polls: a line, a page, a preview, a difference."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sereno.core.poll import PollSpec, PollState, VerdictKind
from sereno.core.record import PollRecord
from sereno.core.schedule import Interval
from sereno.core.telling.message import counted
from sereno.faces.cli.output import Output, safe
from sereno.faces.cli.show.words import away, reference, schedule_words, soon
from sereno.service.polls import Difference
from sereno.service.preview import Preview, Sampled
from sereno.settings import poll_to_model


def poll_row(record: PollRecord) -> dict[str, Any]:
    """A poll as data, under the names of the minimal schema (P18)."""
    poll, spec = record.poll, record.poll.spec
    interval = spec.schedule if isinstance(spec.schedule, Interval) else None
    return {
        "id": poll.id,
        "name": spec.name,
        "workspace": poll.workspace,
        "user_id": spec.user,
        "source_type": spec.source_type,
        "source_ref": reference(spec.source),
        "condition_text": spec.condition,
        "condition_version": poll.condition_version,
        "schedule_type": "cron" if interval is None else "interval",
        "interval_seconds": None if interval is None else interval.every.total_seconds(),
        "timezone": getattr(spec.schedule, "zone", None),
        "priority": spec.priority,
        "status": poll.state,
        "next_run_at": record.due,
        "last_run_at": poll.last_run_at,
        "cursor_value": poll.cursor,
        "failure_count": poll.failures,
        "last_error": poll.last_error,
        "matches": poll.matches,
        "runs": poll.runs,
        "known_objects": record.known_objects,
        "managed_by": record.managed_by,
        "created_at": poll.created_at,
        "updated_at": record.updated_at,
        "definition": poll_to_model(spec),
    }


def list_polls(out: Output, records: Sequence[PollRecord], now: datetime) -> None:
    """One line a poll."""
    out.table(
        ["name", "state", "source", "schedule", "next run", "matches", "last error"],
        [
            (
                record.poll.spec.name,
                record.poll.state,
                f"{record.poll.spec.source_type} {reference(record.poll.spec.source)}",
                _short_schedule(record.poll.spec),
                soon(record.due, now),
                record.poll.matches,
                record.poll.last_error or "-",
            )
            for record in records
        ],
    )


def _short_schedule(spec: PollSpec) -> str:
    return schedule_words(spec.schedule).partition(",")[0]


def show_poll(out: Output, record: PollRecord, now: datetime) -> None:
    """All about one poll."""
    poll, spec = record.poll, record.poll.spec
    out.pairs(
        [
            ("name", spec.name),
            ("id", poll.id),
            ("state", poll.state),
            ("reads", f"{spec.source_type} {reference(spec.source)}"),
            ("schedule", schedule_words(spec.schedule)),
            ("next run", _when(out, record.due, now)),
            ("last run", _when(out, poll.last_run_at, now)),
            ("condition", f"{spec.condition}  (on {spec.fire_on}, version {poll.condition_version})"),
            ("actions", ", ".join(action.name for action in spec.actions) or "none"),
            ("keeps", f"{spec.keep} of {counted(record.known_objects, 'object', 'objects')}"),
            ("matches", f"{poll.matches} in {counted(poll.runs, 'run', 'runs')}"),
            ("failures", f"{poll.failures} in a row" if poll.failures else "none"),
            ("last error", poll.last_error),
            ("managed by", record.managed_by),
        ]
    )
    out.say()
    out.say(f"Its runs: sereno run list {spec.name}")


def _when(out: Output, instant: datetime | None, now: datetime) -> str:
    return "-" if instant is None else f"{out.time(instant)} ({away(instant, now)})"


def preview_row(preview: Preview) -> dict[str, Any]:
    """A preview as data."""
    return {
        "definition": poll_to_model(preview.spec),
        "count": preview.count,
        "sample": [
            {
                "id": found.external_id,
                "title": found.title,
                "url": found.url,
                "payload": found.payload,
                "as_new": found.as_new,
                "as_updated": found.as_updated,
            }
            for found in preview.sample
        ],
        "next_instants": preview.next_instants,
        "failure": preview.failure,
        "warnings": preview.warnings,
    }


def show_preview(out: Output, preview: Preview) -> None:
    """What the source shows now, what the condition says of it, and when it would run."""
    spec = preview.spec
    out.say(f"Reads {spec.source_type} {safe(reference(spec.source))}")
    if preview.failure is not None:
        out.say(f"  It cannot be read now ({preview.failure.failure}): {safe(preview.failure.message)}")
    else:
        out.say(f"  It shows {counted(preview.count, 'object', 'objects')}" + _of_them(preview))
    for found in preview.sample:
        out.say(f"  - {safe(found.title or found.external_id, most=90)}  [{_verdict(found)}]")
    for warning in preview.warnings:
        out.say(f"  Attention: {safe(warning, most=500)}")
    out.say(f"Runs {schedule_words(spec.schedule)}. The next five times:")
    for instant in preview.next_instants:
        out.say(f"  {out.time(instant)}")


def _of_them(preview: Preview) -> str:
    shown = len(preview.sample)
    return ":" if shown == preview.count else f"; the first {shown}:"


def _verdict(found: Sampled) -> str:
    says = {
        VerdictKind.MATCH: "would match",
        VerdictKind.NO_MATCH: "would not match",
        VerdictKind.ERROR: "condition error",
    }
    new, updated = says[found.as_new.kind], says[found.as_updated.kind]
    return new if new == updated else f"new: {new}, updated: {updated}"


def first_run_words(preview: Preview) -> str:
    """Says what the first run will do (P05)."""
    spec, count = preview.spec, counted(preview.count, "object", "objects")
    if not spec.baseline:
        return f"The first run fires for what is there already ({count}), as the condition says (--no-baseline)."
    if preview.failure is not None:
        return "The first run that can read it takes a baseline: what is there then is remembered and not told."
    return f"The first run takes a baseline: it remembers {count} and tells nothing of what is there already."


def next_command(record: PollRecord) -> str:
    """Names the command that comes next."""
    if record.poll.state is PollState.PAUSED:
        return f"It is paused. Next: sereno poll resume {record.poll.spec.name}"
    return "Next: `sereno up` keeps watch; or `sereno once` does what is due now, for cron."


def difference_row(difference: Difference) -> dict[str, Any]:
    """A difference as data."""
    return {
        "poll": difference.poll,
        "changes": [
            {
                "kind": change.kind,
                "id": change.external_id,
                "version": change.version,
                "before": change.before,
                "after": change.after,
            }
            for change in difference.comparison.changes
        ],
        "failure": difference.failure,
        "note": difference.note,
    }


def show_difference(out: Output, difference: Difference) -> None:
    """What the source shows now against what is remembered."""
    changes = difference.comparison.changes
    if difference.failure is not None:
        out.say(f"The source cannot be read now ({difference.failure.failure}): {safe(difference.failure.message)}")
        return
    if difference.note:
        out.say(safe(difference.note))
    if not changes:
        out.say("Nothing differs from what the poll remembers.")
    marks = {"new": "+", "updated": "~", "removed": "-"}
    for change in changes:
        title = "" if change.after is None else change.after.title
        out.say(f"{marks[change.kind]} {safe(change.external_id, most=80)}  {safe(title, most=100)}".rstrip())
    out.say("Nothing was stored and nothing fired.")
