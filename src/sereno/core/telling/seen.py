"""What one run of a poll saw, in a few words for a person."""

from collections.abc import Sequence

from sereno.core.change import ChangeKind, Comparison, Reading
from sereno.core.telling.message import counted
from sereno.core.telling.verdict import Judged, VerdictKind

UNCHANGED = "unchanged"


def baseline_text(reading: Reading, judged: Sequence[Judged], *, more: bool) -> str:
    """Says what a first run remembered."""
    if reading.unchanged:
        return "unchanged, no baseline yet"
    already = sum(one.verdict.kind is VerdictKind.MATCH for one in judged)
    rest = ", more to read" if more else ""
    held = f", {already} already {'matches' if already == 1 else 'match'}" if already else ""
    return f"baseline of {counted(len({found.external_id for found in reading.objects}))}{held}{rest}, nothing fired"


def seen_text(reading: Reading, comparison: Comparison, matched: int, *, newly: bool) -> str:
    """Says what a later run found; `newly` = what counts is that a state became true."""
    if reading.unchanged:
        return UNCHANGED
    removed = sum(change.kind is ChangeKind.REMOVED for change in comparison.changes)
    changed = len(comparison.changes) - removed
    checked = counted(len({found.external_id for found in reading.objects}))
    parts = [f"{changed} of {checked} changed" if changed else f"{checked}, none changed"]
    if removed:
        parts.append(f"{removed} removed")
    if matched or changed or removed:
        parts.append(f"{matched or 'none'} {'newly ' if newly else ''}matched")
    return ", ".join(parts)
