"""Polls: a line, a page, a preview, a difference."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sereno.core.change import Change
from sereno.core.poll import FireOn, PollSpec, PollState, VerdictKind
from sereno.core.record import PollRecord
from sereno.core.schedule import Interval
from sereno.core.telling.message import counted
from sereno.core.values import Json
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
            ("options", option_words(spec.source, beside=_PLACES)),
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


def show_preview(out: Output, preview: Preview, *, paused: bool = False) -> None:
    """What the source shows now, what the condition says of it, and when it would run."""
    spec = preview.spec
    out.say(f"Reads {spec.source_type} {safe(reference(spec.source))}")
    if options := option_words(spec.source):
        out.say(f"  {safe(_shape(spec.source))}: {safe(options, most=500)}")
    if preview.failure is not None:
        out.say(f"  It cannot be read now ({preview.failure.failure}): {safe(preview.failure.message)}")
    else:
        out.say(f"  It shows {counted(preview.count, 'object', 'objects')}" + _of_them(preview))
    for found in preview.sample:
        out.say(f"  - {safe(found.title or found.external_id, most=90)}  [{_verdict(found, spec.fire_on)}]")
        if fields := _fields(found.payload):
            out.say(f"      {fields}")
    for warning in preview.warnings:
        out.say(f"  Attention: {safe(warning, most=500)}")
    does = ", ".join(action.name for action in spec.actions) or "nothing"
    out.say(f"When {safe(spec.condition, most=500)}, it does: {does}.")
    out.say(f"Runs {schedule_words(spec.schedule)}: {'once it is resumed, at' if paused else 'the first time at once, then at'}")
    for instant in preview.next_instants:
        out.say(f"  {out.time(instant)}")


def _of_them(preview: Preview) -> str:
    shown = len(preview.sample)
    return ":" if shown == preview.count else f"; the first {shown}:"


_SAYS = {VerdictKind.MATCH: "would match", VerdictKind.NO_MATCH: "would not match", VerdictKind.ERROR: "condition error"}
SHOWN_FIELDS = 3
MOST_FIELDS = 10


def _verdict(found: Sampled, on: FireOn) -> str:
    """What the condition says of an object when it is new and when it has changed: a sample is asked, nothing is told."""
    new, updated = found.as_new.kind, found.as_updated.kind
    if new is updated is not VerdictKind.MATCH:
        return _SAYS[new]
    if new is updated:
        return "true now" if on is FireOn.STATE else "would match when new or updated"
    if VerdictKind.ERROR in (new, updated):
        return f"new: {_SAYS[new]}, updated: {_SAYS[updated]}"
    return "would match when new" if new is VerdictKind.MATCH else "would match when updated"


def _fields(payload: object) -> str:
    """A few fields under the names that a condition uses, short ones of plain values first come first served."""
    if not isinstance(payload, Mapping):
        return ""
    shown = []
    for name, value in payload.items():
        text = json.dumps(value, ensure_ascii=False) if isinstance(value, str | int | float) else ""
        if 2 < len(text) + len(str(name)) <= 60:
            shown.append(f"object.{safe(name, most=40)} = {safe(text)}")
    return ", ".join(shown[:SHOWN_FIELDS])


_PLACES = ("url", "path", "argv")
_FIRST = ("items", "id", "title", "link")


def option_words(source: Mapping[str, Json], *, beside: Sequence[str] = (*_PLACES, "format")) -> str:
    """The options of a source, those of `beside` left out: `items = tickets, id = number`."""
    names = [*(name for name in _FIRST if name in source), *(name for name in source if name not in _FIRST)]
    shown = {name: source[name] for name in names if name not in beside}
    return ", ".join(f"{name} = {value if isinstance(value, str) else json.dumps(value)}" for name, value in shown.items())


def _shape(source: Mapping[str, Json]) -> str:
    """What kind of thing the options make of the answer."""
    if source.get("items"):
        return "as a JSON list"
    return f"as {str(source['format']).upper()}" if source.get("format") else "with"


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
        for line in _changed_fields(change, whole=difference.whole):
            out.say(f"    {line}")
    out.say("Nothing was stored and nothing fired.")


def _changed_fields(change: Change, *, whole: bool) -> list[str]:
    """`price: 39.0 → 35.0` for each field that differs, where what it was is kept."""
    if change.before is None or change.after is None:
        return []
    old, new = change.before, change.after.payload
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return [_step("", old, new)]
    # A poll may keep some fields only: what it does not keep cannot be compared.
    names = [name for name in {**old, **new} if old.get(name) != new.get(name) and (name in old or whole)]
    more = [f"and {len(names) - MOST_FIELDS} more fields"] if len(names) > MOST_FIELDS else []
    return [_step(f"{safe(name, most=60)}: ", old.get(name), new.get(name)) for name in names[:MOST_FIELDS]] + more


def _step(name: str, old: object, new: object) -> str:
    was, now = (safe(json.dumps(value, ensure_ascii=False), most=80) for value in (old, new))
    return f"{name}{was} → {now}"
