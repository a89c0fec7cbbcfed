"""The story of one operation, told from the journal alone (W26)."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sereno.core.record import JournalEntry
from sereno.core.values import Json, from_micros
from sereno.faces.cli.output import Output, safe
from sereno.faces.cli.show.operations import because, job_of
from sereno.faces.cli.show.words import ANSWERS, CALLS, DELAYS, brief
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


_ASKED: Mapping[str, str] = {
    "cancel_requested": "asked for the job to be cancelled at the provider",
    "pushed": "handed over a call-back of the provider",
    "contract_changed": "moved the operation to the present contract",
}
"""What a person did, by the journal's word."""


def _headline(facts: Mapping[str, Json]) -> str:
    word = facts.get("decision")
    if word == "created":
        begun = "registered, to be submitted" if facts.get("state") == "submitting" else "registered"
        return f"{begun}; state {facts.get('state')}"
    if word == "answered":
        return f"{safe(facts.get('by'))} answered {safe(facts.get('option'))}: {safe(facts.get('says'), most=600)}"
    if isinstance(word, str) and word in _ASKED:
        return f"{safe(facts.get('by'))} {_ASKED[word]}"
    if word == "parked":
        return f"parked, a fault of Sereno's own: {safe(facts.get('reason'), most=600)}"
    if "state_before" not in facts:
        return safe(facts.get("reason") or word, most=600)
    before, after = facts.get("state_before"), facts.get("state")
    return f"{_seen(facts)}; state {after}" if before == after else f"{_seen(facts)}; state {before} → {after}"


def _seen(facts: Mapping[str, Json]) -> str:
    seen, call = facts.get("observation"), facts.get("call")
    if isinstance(call, dict):
        return _called(facts, call)
    if not isinstance(seen, dict):
        return "nothing was asked"
    status, state = seen.get("http_status"), seen.get("state")
    word = f", job state {safe(state)}" if state is not None else ""
    if facts.get("pushed"):
        return f"read the provider's call-back{word} ({safe(seen.get('kind'))})"
    answer = "no answer" if status is None else f"HTTP {status}"
    return f"saw {answer}{word} ({safe(seen.get('kind'))})"


def _called(facts: Mapping[str, Json], call: Mapping[str, object]) -> str:
    """What became of the submit or cancel of a step."""
    kind = "submit" if facts.get("state_before") == "submitting" else "cancel"
    answer, job = call.get("answer"), facts.get("job")
    if not isinstance(answer, dict):
        return f"the {kind}: {CALLS.get(str(call.get('state')), safe(call.get('state')))}"
    told = ANSWERS.get(str(answer.get("outcome")), safe(answer.get("outcome")))
    named = f" as job {safe(job.get('job_id'))}" if isinstance(job, dict) else ""
    status = f" (HTTP {answer['http_status']})" if answer.get("http_status") is not None else ""
    return f"the {kind} {told}{named}{status}"


def _details(out: Output, entry: JournalEntry) -> list[str]:
    facts = entry.facts
    word, lines, looks = facts.get("decision"), [], _instant(facts.get("next_poll_at"))
    if "state_before" in facts and word not in ("answered", "parked"):
        lines.append(f"why: {safe(_why(facts, looks), most=600)}")
    lines += _beside(facts)
    if looks is not None and facts.get("state") == "waiting":
        because_of = DELAYS.get(str(facts.get("delay_source")), str(facts.get("delay_source")))
        if word == "pushed" and str(facts.get("reason")).endswith("comes sooner"):
            because_of = "because of the call-back"
        lines.append(f"next look: {out.time(looks)} (in {brief(looks - entry.at)}); {because_of}")
    if facts.get("max_status_requests"):
        used = f"requests: {facts.get('status_requests_used')} of {facts['max_status_requests']}"
        deadline = _instant(facts.get("deadline_at"))
        lines.append(used if deadline is None else f"{used}; deadline {out.time(deadline)}")
    if facts.get("escalation") and word != "answered":
        lines.append(f"a person is asked: {facts['escalation']}")
    return lines


_PLANNED = re.compile(r"; (first|next) look at [^;]*$")
"""The end of a reason that says what the line of the next look says too."""


def _why(facts: Mapping[str, Json], looks: datetime | None) -> Json:
    word = facts.get("decision")
    if word in _ASKED:
        return facts.get("reason")
    return _PLANNED.sub("", word) if looks is not None and isinstance(word, str) else word


def _beside(facts: Mapping[str, Json]) -> list[str]:
    """What else the step learned: a tolerated answer, a new address, other pins, another contract, the effects that were shown."""
    seen, statement = facts.get("observation"), facts.get("statement")
    lines = []
    if isinstance(seen, dict) and seen.get("tolerated"):
        lines.append("only a count of the contract lets this answer pass; in a row it would not")
    if facts.get("url"):
        lines.append(f"the job goes on at {safe(facts['url'])}")
    if facts.get("contract_digest_before"):
        lines.append(f"contract {safe(facts['contract_digest_before'])[:12]} → {safe(facts.get('contract_digest'))[:12]}")
    if isinstance(statement, dict) and isinstance(statement.get("effects"), str):
        lines.append(f"what it does, as shown: {safe(statement['effects'], most=600)}")
    pushed = facts.get("pushed")
    if isinstance(pushed, dict):
        lines.append(
            f"call-back: {pushed.get('bytes')} bytes of {safe(pushed.get('content_type'))}, {safe(pushed.get('digest'))[:12]}"
        )
    return lines


def _instant(value: Json) -> datetime | None:
    return from_micros(value) if isinstance(value, int) else None
