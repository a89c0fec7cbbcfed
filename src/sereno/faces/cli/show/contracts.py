"""How contracts are shown: one whole, faults of a file at their lines, cases that were tried, one saved answer."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sereno.core.contract import Contract
from sereno.core.errors import Fault
from sereno.core.observation import ReadHint
from sereno.core.reading.calls import Call, Keep, Submit, Via
from sereno.faces.cli.output import Output, safe
from sereno.faces.cli.show.words import brief
from sereno.service.contracting.cases import Trial, Tried
from sereno.service.contracting.foreseen import Foreseen

_AT = re.compile(r"(.*):(\d+):(\d+)", re.DOTALL)
_MOST_SHOWN = 256 * 1024
"""Bytes of a file that are read to show the lines of its faults."""
_LINE = 110
"""Characters of a line of the file that are shown."""


def show_contract(out: Output, contract: Contract) -> None:
    """Shows one contract."""
    delays, limits = contract.delays, contract.limits
    out.say(f"{contract.name} {contract.version}: {safe(contract.title, most=500)}")
    out.pairs(
        [
            ("status call", _call(contract.status) if contract.via is not Via.PUSH else "none: the provider calls back"),
            ("parameters", ", ".join(contract.parameters)),
            ("credential", contract.credential),
            ("origins", ", ".join(contract.origins) or _no_origins(contract)),
            ("only observes", contract.observational or "no evidence: each wait needs --allow-unproven-status"),
            ("first look", f"after {brief(delays.first)}"),
            ("pauses", f"{brief(delays.base)} growing to {brief(delays.maximum)}, at least {brief(delays.min_gap)}"),
            ("limits", "you give them" if limits is None else _limits(limits)),
            ("success brings", ", ".join(f"{field.path.expression} ({field.type})" for field in contract.result)),
            ("result", contract.result_ref.expression if contract.result_ref else contract.result_header),
            ("kept", _keep(contract.keep)),
            ("error code", contract.error_code.expression if contract.error_code else None),
            ("error text", contract.error_text.expression if contract.error_text else None),
            ("success allows", contract.allows),
            ("without success", f"the {contract.decides_next} decides"),
            ("submitting", "not described" if contract.submit is None else _submit(contract.submit)),
            ("cancelling", "not documented" if contract.cancel is None else contract.cancel.effects),
            ("source", contract.source),
            ("evidence", contract.verified),
        ],
        indent="  ",
    )
    words: dict[str, list[str]] = {}
    for word, meaning in contract.states.items():
        words.setdefault(meaning.value, []).append(word)
    out.say("  states" if words else "  states: you give them with --success, --failure, --pending …")
    out.pairs([(meaning, ", ".join(found)) for meaning, found in words.items()], indent="    ")


def _no_origins(contract: Contract) -> str:
    return "of the AWS service and region" if contract.via is Via.AWS else "that of the address you give"


def _keep(keep: Keep | None) -> str | None:
    """What is copied on success."""
    if keep is None:
        return None
    parts = [keep.path.expression if keep.path is not None else "", _call(keep.call) if keep.call is not None else ""]
    return ", then ".join(part for part in parts if part) or keep.source.value


def _call(call: Call) -> str:
    return f"{call.service or 'mcp'} {call.operation} {call.url}".rstrip() if call.operation else f"{call.method} {call.url}"


def _submit(submit: Submit) -> str:
    key = submit.idempotency
    honoured = "no key: a lost answer asks a person" if key is None else f"a key in the {key.place}, kept {brief(key.window)}"
    return f"{_call(submit.call)}; {submit.effects or 'its effects are not described'}; {honoured}"


def _limits(limits: Any) -> str:
    return (
        f"{brief(timedelta(seconds=limits.deadline_s))}, {limits.max_status_requests} requests, {limits.max_transport_failures} failures,"
        f" {limits.max_throttles} throttled answers"
    )


def in_order(faults: Sequence[Fault]) -> list[Fault]:
    """Faults in the order of the file's lines; those without a line first."""
    return sorted(faults, key=lambda fault: (int(found[2]), int(found[3])) if (found := _AT.fullmatch(fault.where)) else (0, 0))


def fault_lines(faults: Sequence[Fault], file: Path) -> Iterator[str]:
    """Each fault, the line of the file that it is about with a mark under the column, and what would be right."""
    placed = any(_AT.fullmatch(fault.where) for fault in faults)  # else it could not be read, or is no file that may be
    text = _lines(file) if placed else []
    for fault in in_order(faults):
        yield f"{safe(fault.where, most=300)}: {safe(fault.message, most=500)}"
        found = _AT.fullmatch(fault.where)
        if found is not None and 0 < int(found[2]) <= len(text):
            yield from _quoted(text[int(found[2]) - 1], found[2], int(found[3]))
        if fault.hint:
            yield f"         {safe(fault.hint, most=300)}"


def _lines(file: Path) -> list[str]:
    try:
        if not file.is_file():
            return []
        with file.open("rb") as stream:
            return stream.read(_MOST_SHOWN).decode("utf-8", "replace").split("\n")
    except OSError:
        return []


def _quoted(line: str, number: str, column: int) -> Iterator[str]:
    """The line with a mark under the column; one that says itself what is to be decided was shown already."""
    if "TODO" in line:
        return
    shown = "".join(char if char.isprintable() else " " for char in line)[:_LINE]
    yield f"  {number:>4} | {shown}"
    if column <= _LINE:
        yield f"       | {' ' * (column - 1)}^"


def show_trial(out: Output, trial: Trial) -> None:
    """Each case: ok, or what differs; then the words that no case shows, and the count."""
    for tried in trial.tried:
        out.say(f"{'ok   ' if not tried.differences else 'WRONG'}  {safe(_named(tried))}{_read(tried)}")
        for difference in tried.differences:
            out.say(f"         {safe(difference, most=500)}")
    if trial.missing:
        out.say(f"no case shows {_words(trial.missing)}")
    if trial.untried_submit:
        out.say("no [[submit]] case shows an answer to [submit]")
    if trial.untried_cancel:
        out.say("no [[cancel]] case shows the request of [cancel]")
    wrong = sum(bool(tried.differences) for tried in trial.tried)
    missing = f", {len(trial.missing)} word{'s' if len(trial.missing) != 1 else ''} without a case" if trial.missing else ""
    out.say(f"{len(trial.tried)} cases: {len(trial.tried) - wrong} as expected, {wrong} not{missing}")


def trial_row(trial: Trial) -> dict[str, Any]:
    """The same for programs."""
    rows = [
        {
            "name": tried.name,
            "part": tried.part,
            "ok": not tried.differences,
            "kind": tried.kind,
            "state": tried.state,
            "reason": tried.reason,
            "differences": tried.differences,
        }
        for tried in trial.tried
    ]
    return {
        "cases": rows,
        "missing": trial.missing,
        "untried_submit": trial.untried_submit,
        "untried_cancel": trial.untried_cancel,
    }


def _named(tried: Tried) -> str:
    return tried.name if tried.part == "case" else f"{tried.part}: {tried.name}"


def _read(tried: Tried) -> str:
    if not tried.kind:
        return ""
    return f"  →  {tried.kind}" + (f" ({safe(tried.state, most=60)})" if tried.state is not None else "")


def _words(words: Sequence[str]) -> str:
    return f"the word{'s' if len(words) > 1 else ''} {', '.join(safe(word, most=60) for word in words)}"


def show_foreseen(out: Output, found: Foreseen) -> None:
    """What one answer amounts to, and what comes next."""
    seen = found.observation
    out.pairs(
        [
            ("job", found.job_id),
            ("kind", seen.kind.value),
            ("state", seen.state),
            ("because", seen.reason),
            ("result", seen.result_ref),
            ("error", " ".join(text for text in (seen.error_code, seen.error_text) if text)),
            ("progress", seen.progress),
            ("expires", out.time(seen.expires_at) if seen.expires_at else None),
            *(("hint", _hint(hint, found.received_at)) for hint in seen.hints),
            ("then", next_step(found)),
        ]
    )


def _hint(hint: ReadHint, at: datetime) -> str:
    asks = f"in {brief(hint.until - at)}" if hint.until is not None else f"not believed: {hint.rejected}"
    return f"{hint.source.value} {hint.raw}: {asks}"


def next_step(found: Foreseen) -> str:
    """What a wait would do after this answer, in one sentence."""
    decision = found.decision
    if found.earliest is not None and found.latest is not None:
        early, late = brief(found.earliest), brief(found.latest)
        when = f"in {early}" if early == late else f"in {early} to {late}"
        return f"it looks again {when} ({decision.delay_source.value})"
    if decision.escalation is not None:
        return f"it stops and asks you ({decision.category.value if decision.category else 'a question'})"
    return f"the wait ends as {decision.state.value}"
