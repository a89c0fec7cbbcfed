"""Runs and deliveries: lines, and the seven questions of O04 answered for one run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sereno.core.record import DeliveryRecord, PollRecord, RunRecord
from sereno.faces.cli.output import Output, plain, safe
from sereno.faces.cli.show.words import brief, reference


def list_runs(out: Output, runs: Sequence[RunRecord], names: Mapping[str, str]) -> None:
    """One line a run; `names` are those of polls by id."""
    out.table(
        ["run", "of", "status", "started", "checked", "changed", "matched", "summary"],
        [
            (
                run.id,
                names.get(run.subject, run.kind),
                run.status,
                out.time(run.started_at),
                _count(run.checked),
                _count(run.changed),
                _count(run.matched),
                run.error or run.summary or "-",
            )
            for run in runs
        ],
    )


def _count(number: int | None) -> str:
    return "-" if number is None else str(number)


def delivery_row(record: DeliveryRecord) -> dict[str, Any]:
    """A delivery as data; its content is what was, or will be, sent."""
    delivery, effect = record.delivery, record.delivery.effect
    return {
        "id": delivery.id,
        "workspace": delivery.workspace,
        "subject": effect.subject,
        "source_object_id": effect.source_object_id,
        "condition_version": effect.condition_version,
        "dedupe_key": effect.dedupe_key,
        "action": effect.action.name,
        "action_type": effect.action.type,
        "policy": effect.action.policy,
        "title": effect.title,
        "body": effect.body,
        "state": delivery.state,
        "attempts": delivery.attempts,
        "max_attempts": delivery.max_attempts,
        "next_attempt_at": record.due,
        "last_outcome": record.last_outcome,
        "created_at": delivery.created_at,
        "delivered_at": record.delivered_at,
        "updated_at": record.updated_at,
    }


def list_deliveries(out: Output, records: Sequence[DeliveryRecord]) -> None:
    """One line a delivery."""
    out.table(
        ["delivery", "state", "action", "attempts", "title", "last outcome"],
        [
            (
                record.delivery.id,
                record.delivery.state,
                record.delivery.effect.action.name,
                f"{record.delivery.attempts}/{record.delivery.max_attempts}",
                record.delivery.effect.title,
                record.last_outcome or "-",
            )
            for record in records
        ],
    )


@dataclass(frozen=True, slots=True)
class Asked:
    """What the seven questions are answered from."""

    run: RunRecord
    poll: PollRecord | None
    deliveries: Sequence[DeliveryRecord]
    twins: Sequence[RunRecord]
    duplicates: int
    """Duplicates suppressed in the whole workspace."""


def answers(out: Output, asked: Asked) -> list[tuple[str, str, str]]:
    """The seven questions: a key for programs, the question, the answer."""
    return [
        ("what_ran", "What ran?", _what(asked)),
        ("why", "Why?", _why(out, asked.run)),
        ("what_it_read", "What did it read?", _read(asked)),
        ("what_changed", "What changed?", _changed(asked.run)),
        ("why_it_failed", "Why did it fail?", _failed(asked.run)),
        ("told_the_user", "Did it tell the user?", _told(asked)),
        ("ran_twice", "Did it run twice?", _twice(asked)),
    ]


def run_row(out: Output, asked: Asked) -> dict[str, Any]:
    """One run as data, with the answers."""
    return {
        "run": plain(asked.run),
        "answers": {key: answer for key, _, answer in answers(out, asked)},
        "deliveries": [delivery_row(record) for record in asked.deliveries],
        "same_instant": [run.id for run in asked.twins],
    }


def show_run(out: Output, asked: Asked) -> None:
    """One run: the questions and their answers."""
    out.say(f"Run {asked.run.id}: {asked.run.status}")
    for _, question, answer in answers(out, asked):
        out.say(question)
        out.say(f"  {safe(answer, most=2000)}")


def _what(asked: Asked) -> str:
    run, poll = asked.run, asked.poll
    subject = run.subject if poll is None else f"{poll.poll.spec.name} ({run.subject})"
    end = "it is still running" if run.finished_at is None else f"it took {brief(run.finished_at - run.started_at)}"
    return f"The {run.kind} {subject}, run by {run.claimed_by}; {end}, status {run.status}."


def _why(out: Output, run: RunRecord) -> str:
    missed = f" {run.missed} earlier instants had passed unseen and were not made up." if run.missed else ""
    return f"It was due at {out.time(run.scheduled_for)} and was taken at {out.time(run.started_at)}, try {run.attempt} at that instant.{missed}"


def _read(asked: Asked) -> str:
    run, poll = asked.run, asked.poll
    parts = [] if poll is None else [f"{poll.poll.spec.source_type} {reference(poll.poll.spec.source)}"]
    if run.requests is not None:
        parts.append(f"{run.requests} requests")
    if run.checked is not None:
        parts.append(f"{run.checked} objects")
    if run.kind == "poll":
        parts.append("the cursor moved" if run.cursor_before != run.cursor_after else "the cursor stayed")
    return ", ".join(parts) + "." if parts else "Nothing that was recorded."


def _changed(run: RunRecord) -> str:
    if run.changed is None:
        return run.summary or "Nothing that was recorded."
    return f"{run.changed} changed, {run.matched} matched: {run.summary}."


def _failed(run: RunRecord) -> str:
    if run.error:
        return run.error
    return {"running": "It is still running.", "ok": "It did not fail."}.get(run.status, run.summary or run.status)


def _told(asked: Asked) -> str:
    if not asked.deliveries:
        return "No: it made no delivery."
    each = "; ".join(f"{r.delivery.effect.action.name}: {r.delivery.state} ({r.delivery.id})" for r in asked.deliveries[:20])
    more = len(asked.deliveries) - 20
    return each + (f"; and {more} more" if more > 0 else "")


def _twice(asked: Asked) -> str:
    duplicates = f"Duplicates suppressed so far, all polls: {asked.duplicates}."
    if not asked.twins:
        return f"No: no other run served this instant. {duplicates}"
    others = ", ".join(f"{run.id} ({run.status})" for run in asked.twins)
    return f"The same instant was also tried by {others}. Each action has one key, so what is told is told once. {duplicates}"
