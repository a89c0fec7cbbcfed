"""What reports look like: a replay, the faults of journals, and the figures of waiting."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sereno.core.reviewing.checking import JournalFault
from sereno.core.reviewing.quality import Spread, WaitingQuality
from sereno.core.reviewing.replay import Difference, Replay, Replayed, Verdict
from sereno.core.values import Json, from_micros
from sereno.faces.cli.output import Output, safe
from sereno.faces.cli.show.words import brief
from sereno.service.reports import Reviewed

_INSTANTS = ("due", "next_poll_at", "deadline_at", "business_deadline_at")
_VERDICTS: Mapping[Verdict, str] = {
    Verdict.SAME: "the same",
    Verdict.DIFFERENT: "DIFFERENT",
    Verdict.CANNOT: "cannot be decided again",
}


class Counting:
    """Says on a terminal's standard error how many operations were read; elsewhere nothing."""

    def __init__(self, out: Output, doing: str):
        self._live = sys.stderr.isatty() and not out.as_json
        self._doing = doing

    def show(self, count: int) -> None:
        """Replaces the line before."""
        if self._live and count % 20 == 0:
            sys.stderr.write(f"\r{self._doing}: {count:,} operations")
            sys.stderr.flush()

    def end(self) -> None:
        """Takes the line away."""
        if self._live:
            sys.stderr.write("\r" + " " * 60 + "\r")
            sys.stderr.flush()


# --- replay


def show_replay(out: Output, found: Reviewed) -> None:
    """One row a decision, then what differs, then the verdict."""
    steps = found.replay.steps
    out.table(
        ("run", "at", "what", "state", "decided again"),
        [(step.run, out.time(step.at), step.what, step.state, _VERDICTS[step.verdict]) for step in steps],
    )
    for step in steps:
        _show_difference(out, step)
    out.say(_verdict(found.replay))


def _show_difference(out: Output, step: Replayed) -> None:
    where = f"run {step.run}, {step.what}"
    if step.why:
        out.paragraph(f"{where}: {step.why}")
    for difference in step.differences:
        was, again = _value(out, difference, difference.recorded), _value(out, difference, difference.again)
        out.paragraph(f"{where}: {difference.field} was {was}, and is now {again}")


def _value(out: Output, difference: Difference, value: Json) -> str:
    if difference.field in _INSTANTS and isinstance(value, int):
        return out.time(from_micros(value))
    return "nothing" if value in (None, [], {}) else safe(value, most=300)


def _verdict(found: Replay) -> str:
    whole, same = len(found.steps), found.count(Verdict.SAME)
    if not whole:
        return "Nothing was decided yet."
    if same == whole:
        return f"All {whole} decisions were reached again." if whole > 1 else "The one decision was reached again."
    different, cannot = found.count(Verdict.DIFFERENT), found.count(Verdict.CANNOT)
    return f"{same} of {whole} decisions were reached again; different: {different}; cannot be decided again: {cannot}."


def replay_rows(found: Reviewed) -> dict[str, Any]:
    """The replay as data."""
    counts = {str(verdict): found.replay.count(verdict) for verdict in Verdict}
    rows = [
        {
            "seq": step.seq, "run": step.run, "at": step.at, "what": step.what, "state": step.state, "verdict": step.verdict,
            "why": step.why or None,
            "differences": [
                {"field": one.field, "recorded": one.recorded, "again": one.again} for one in step.differences
            ],
        }
        for step in found.replay.steps
    ]  # fmt: skip
    return {"operation": found.record.operation.id, "decisions": len(rows), **counts, "steps": rows}


# --- faults


def show_faults(out: Output, operation: str, faults: Sequence[JournalFault]) -> None:
    """One paragraph a fault."""
    for fault in faults:
        out.paragraph(f"{operation} run {fault.run} {out.time(fault.at)} {fault.name}: {fault.says}")


def fault_rows(operation: str, faults: Sequence[JournalFault]) -> list[dict[str, Any]]:
    """The same as data."""
    return [
        {"operation": operation, "name": fault.name, "run": fault.run, "seq": fault.seq, "at": fault.at, "says": fault.says}
        for fault in faults
    ]


# --- the figures of waiting


def show_quality(out: Output, quality: WaitingQuality, read: str) -> None:
    """The figures as a page: what was read first."""
    out.say(read)
    if not quality.operations:
        return
    same, decided = quality.reconstructed
    out.pairs(
        [
            ("within their limits", _ended(quality)),
            ("still waiting", f"{quality.waiting} before their deadline, {quality.overdue} past it and driven by nobody"),
            ("provider waits respected", f"{quality.waits - quality.waits_broken} of {quality.waits}"),
            ("decisions reached again", f"{same} of {decided}"),
            ("faults in the journal", _counts(quality.faults) or "none"),
            ("requests an operation", _spread(quality.requests)),
            ("share of the budget", _spread(quality.budget, "%")),
            ("requests lost with a step", quality.wasted),
            ("later than planned", _late(quality.late_ms)),
            ("questions", _counts(quality.questions) or "none"),
            ("answers", f"{quality.answered} by people, {quality.expired} by silence"),
            ("copies of results", _counts(quality.copies) or "none"),
        ],
        indent="  ",
    )
    out.say()
    rows = [(name, sum(states.values()), _counts(states)) for name, states in sorted(quality.contracts.items())]
    out.table(("contract", "operations", "states"), rows)


def _ended(quality: WaitingQuality) -> str:
    share, over = quality.share_ended, quality.ended + quality.beyond + quality.overdue
    if share is None:
        return "none is over yet"
    parts = f"{quality.terminal} ended, {quality.asking} wait for an answer"
    return f"{quality.ended} of {over} ({100 * share:.1f} %): {parts}"


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def _spread(spread: Spread, unit: str = "") -> str:
    if spread.most is None:
        return "none"
    median, most = spread.at(0.5), spread.at(0.95)
    return f"median {median}{unit}, 95 of 100 at most {most}{unit}, largest {spread.most}{unit}"


def _late(spread: Spread) -> str:
    median, most = spread.at(0.5), spread.at(0.95)
    if median is None or most is None or spread.most is None:
        return "nothing was sent yet"
    said = [brief(timedelta(milliseconds=value)) for value in (median, most, spread.most)]
    return f"median {said[0]}, 95 of 100 at most {said[1]}, largest {said[2]}"


def quality_row(quality: WaitingQuality) -> dict[str, Any]:
    """The same as data; shares between 0 and 1."""
    same, decided = quality.reconstructed
    return {
        "operations": quality.operations,
        "within_limits": {
            "share": quality.share_ended, "ended": quality.ended, "beyond": quality.beyond, "overdue": quality.overdue,
            "waiting": quality.waiting,
        },
        "provider_waits": {"respected": quality.waits - quality.waits_broken, "of": quality.waits},
        "decisions": {"same": same, "of": decided, **{str(verdict): quality.decisions[verdict] for verdict in Verdict}},
        "faults": dict(quality.faults),
        "requests": _numbers(quality.requests),
        "budget_percent": _numbers(quality.budget),
        "wasted_requests": quality.wasted,
        "late_ms": _numbers(quality.late_ms),
        "states": dict(quality.states),
        "contracts": {name: dict(states) for name, states in sorted(quality.contracts.items())},
        "questions": dict(quality.questions),
        "answered": quality.answered,
        "expired": quality.expired,
        "copies": dict(quality.copies),
    }  # fmt: skip


def _numbers(spread: Spread) -> dict[str, int | None]:
    return {"median": spread.at(0.5), "p95": spread.at(0.95), "max": spread.most}
