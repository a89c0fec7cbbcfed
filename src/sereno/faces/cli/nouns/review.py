"""`sereno operation replay` and `check`: what the journal of a wait shows, decided again and checked. Nothing is sent (W28, W44)."""

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sereno.faces.cli.output import EXIT_BUG, EXIT_OK, Output
from sereno.faces.cli.session import DEFAULT, Flags, run
from sereno.faces.cli.show.reports import Counting, fault_rows, replay_rows, show_faults, show_replay
from sereno.service.reports import Reviewed

if TYPE_CHECKING:
    from sereno.app import Sereno

MOST_FAULTS = 1000
"""So many faults are listed; the rest is counted."""


def replay(
    operation: Annotated[str, Parameter(help="Operation id, op_….")],
    /,
    *,
    run_: Annotated[int | None, Parameter(name="--run", help="Only the run of this number.")] = None,
    flags: Flags = DEFAULT,
) -> int:
    """Decide every recorded step again from the journal alone; exit code 1 where one differs or cannot be decided again."""

    async def body(sereno: "Sereno", out: Output) -> int:
        found = await sereno.reports.replay(operation, run=run_)
        show_replay(out, found)
        out.answer("replay", replay_rows(found))
        return EXIT_OK if found.replay.same else EXIT_BUG

    return run(flags, body)


def check(
    operation: Annotated[str | None, Parameter(help="Operation id, op_…; default: all.")] = None,
    /,
    *,
    flags: Flags = DEFAULT,
) -> int:
    """Look in the journal for what should not have been sent, and for ends that no answer shows; exit code 1 if there are."""

    async def body(sereno: "Sereno", out: Output) -> int:
        listing = _Listing(out)
        if operation is not None:
            listing.take(await sereno.reports.check(operation))
        else:
            async for found in sereno.reports.check_all():
                listing.take(found)
        return listing.end()

    return run(flags, body)


class _Listing:
    """Lists faults as they are found, the first `MOST_FAULTS` of them."""

    def __init__(self, out: Output):
        self._out = out
        self._counting = Counting(out, "checking")
        self._rows: list[dict[str, Any]] = []
        self._checked = 0
        self._found = 0

    def take(self, found: Reviewed) -> None:
        self._checked += 1
        self._counting.show(self._checked)
        shown = found.faults[: max(0, MOST_FAULTS - self._found)]
        self._found += len(found.faults)
        if shown:
            self._counting.end()
            show_faults(self._out, found.record.operation.id, shown)
            self._rows += fault_rows(found.record.operation.id, shown) if self._out.as_json else []

    def end(self) -> int:
        """Says how many, and answers the exit code."""
        self._counting.end()
        left = max(0, self._found - MOST_FAULTS)
        faults = "no fault" if not self._found else "1 fault" if self._found == 1 else f"{self._found} faults"
        operations = "1 operation" if self._checked == 1 else f"{self._checked} operations"
        self._out.say(f"{operations} checked: {faults}{f', {left} of them not listed' if left else ''}.")
        self._out.answer("check", {"operations": self._checked, "found": self._found, "faults": self._rows})
        return EXIT_BUG if self._found else EXIT_OK
