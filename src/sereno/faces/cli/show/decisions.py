"""What a person is about to decide: cancelling, submitting anew, another contract."""

from sereno.core.operation import TERMINAL
from sereno.faces.cli.output import Output, safe
from sereno.service.operations import ContractChange, Proposal

_LABELS = {
    "job": "job",
    "contract": "contract",
    "operation": "operation",
    "state": "state",
    "last_state": "last state",
    "elapsed": "elapsed",
}
MOST_LINES = 200
"""Lines of a difference that are shown to a person; --json has all."""


def show_proposal(out: Output, proposal: Proposal) -> None:
    """What is asked first; then where the operation stands, and what the contract says the decision does."""
    said = proposal.statement
    out.say(f"{safe(proposal.title)}?")
    rows: list[tuple[str, object]] = [
        (label, said.get(name))
        for name, label in _LABELS.items()
        if name != "elapsed" or said.get("state") not in TERMINAL  # of what has ended it would go on growing
    ]
    rows.append(("requests", f"{said.get('requests_used')} of {said.get('requests_max')}"))
    out.pairs([*rows, ("what it does", proposal.effects or "the contract does not say")], indent="  ")


def show_change(out: Output, change: ContractChange, *, taken: bool = False) -> None:
    """The plain difference, and how to take it on, unless it is being `taken`."""
    if not change.lines:
        out.say(f"{change.operation} has the present contract {change.contract} ({change.pinned[:12]}).")
        return
    out.say(
        f"{change.operation} was registered with {change.contract} {change.pinned[:12]}; the present one is {change.present[:12]}:"
    )
    for line in change.lines[:MOST_LINES]:
        out.say(f"  {safe(line, most=400)}")
    if len(change.lines) > MOST_LINES:
        out.say(f"  … and {len(change.lines) - MOST_LINES} more lines (--json shows all)")
    if not taken:
        out.say(f"Nothing changes for it until a person says so: sereno operation contract {change.operation} --yes")
