"""The story of one operation, told from the journal alone (W26)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sereno.core.record import JournalEntry
from sereno.core.values import Json, from_micros
from sereno.faces.cli.output import Output, safe
from sereno.faces.cli.show.operations import because, job_of
from sereno.faces.cli.show.words import DELAYS, brief
from sereno.service.operations import Story


def story_rows(story: Story) -> list[dict[str, Any]]:
    """The story as data: each journal entry with its instant."""
    return [
        {"seq": entry.seq, "at": entry.at, "run": entry.run, "kind": entry.kind, "facts": entry.facts} for entry in story.entries
    ]


def show_story(out: Output, story: Story) -> None:
    """The timeline of W26: time, what was seen, state, next time and why, requests used. From the journal alone."""
    operation = story.record.operation
    out.say(
        f"{operation.id}: {job_of(operation)[0].lower()}{job_of(operation)[1:]} at {operation.contract}, {operation.state}{because(operation)}"
    )
    for entry in story.entries:
        if entry.kind == "decision":
            _show_decision(out, entry)
        elif entry.facts.get("taken_over"):
            out.say(
                f"{out.time(entry.at)}  run {entry.run} takes over a try that ended without a word; what that one counted stays counted"
            )


def _show_decision(out: Output, entry: JournalEntry) -> None:
    facts = entry.facts
    out.say(f"{out.time(entry.at)}  {_headline(facts)}")
    for line in _details(out, entry):
        out.say(f"    {line}")


_ASKED = {
    "answered": lambda facts: f"answered {safe(facts.get('option'))}: {safe(facts.get('says'), most=600)}",
    "cancel_requested": lambda facts: "asked for the job to be cancelled at the provider",
    "pushed": lambda facts: "handed over a call-back of the provider",
    "contract_changed": lambda facts: "moved the operation to the present contract",
}
"""What a person did, by the journal's word."""


def _headline(facts: Mapping[str, Json]) -> str:
    word = facts.get("decision")
    if word == "created":
        return f"registered; state {facts.get('state')}"
    if isinstance(word, str) and word in _ASKED:
        return f"{safe(facts.get('by'))} {_ASKED[word](facts)}"
    if word == "parked":
        return f"parked, a fault of Sereno's own: {safe(facts.get('reason'), most=600)}"
    if "state_before" not in facts:
        return safe(facts.get("reason") or word, most=600)
    return f"{_seen(facts)}; state {facts.get('state_before')} → {facts.get('state')}"


def _seen(facts: Mapping[str, Json]) -> str:
    seen = facts.get("observation")
    if not isinstance(seen, dict):
        return "nothing was asked"
    status, state = seen.get("http_status"), seen.get("state")
    answer = "no answer" if status is None else f"HTTP {status}"
    return f"saw {answer}" + (f", job state {safe(state)}" if state is not None else "") + f" ({safe(seen.get('kind'))})"


def _details(out: Output, entry: JournalEntry) -> list[str]:
    facts = entry.facts
    lines = []
    if "state_before" in facts and facts.get("decision") not in ("answered", "parked"):
        lines.append(f"why: {safe(facts.get('decision'), most=600)}")
    looks = _instant(facts.get("next_poll_at"))
    if looks is not None and facts.get("state") == "waiting":
        because = DELAYS.get(str(facts.get("delay_source")), str(facts.get("delay_source")))
        lines.append(f"next look: {out.time(looks)} (in {brief(looks - entry.at)}); {because}")
    if "max_status_requests" in facts:
        used = f"requests: {facts.get('status_requests_used')} of {facts['max_status_requests']}"
        deadline = _instant(facts.get("deadline_at"))
        lines.append(used if deadline is None else f"{used}; deadline {out.time(deadline)}")
    if facts.get("escalation") and facts.get("decision") != "answered":
        lines.append(f"a person is asked: {facts['escalation']}")
    return lines


def _instant(value: Json) -> datetime | None:
    return from_micros(value) if isinstance(value, int) else None
