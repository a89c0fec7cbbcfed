"""`sereno report`: how well waiting works, from records and journal. Nothing is sent (W28)."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from sereno.core.errors import Fault, SetupError
from sereno.core.reviewing.quality import WaitingQuality
from sereno.core.values import format_duration, parse_duration
from sereno.faces.cli.output import Output
from sereno.faces.cli.session import DEFAULT, Flags, run
from sereno.faces.cli.show.reports import Counting, quality_row, show_quality

if TYPE_CHECKING:
    from sereno.app import Sereno

app = App(name="report", help="Measure how well Sereno works, from its own records and journal.")


@app.command
def waiting(
    *,
    since: Annotated[str | None, Parameter(name="--since", help="Only waits registered within this span: 12h, 7d.")] = None,
    contract: Annotated[str | None, Parameter(name="--contract", help="Only waits under the contract of this name.")] = None,
    flags: Flags = DEFAULT,
) -> int:
    """Report on waits: ends within limits, provider waits respected, decisions reached again, requests, lateness, questions."""

    async def body(sereno: "Sereno", out: Output) -> None:
        span = _span(since)
        quality = WaitingQuality(sereno.kit.clock.now())
        counting = Counting(out, "reading")
        async for quality in sereno.reports.waiting(since=span, contract=contract):
            counting.show(quality.operations)
        counting.end()
        show_quality(out, quality, _read(quality.operations, span, contract))
        out.answer("waiting_report", {"since": span, "contract": contract, **quality_row(quality)})

    return run(flags, body)


def _span(text: str | None) -> timedelta | None:
    try:
        return None if text is None else parse_duration(text)
    except ValueError as error:
        raise SetupError("the report was not made", [Fault("--since", str(error))]) from error


def _read(count: int, span: timedelta | None, contract: str | None) -> str:
    """Says what the figures rest on."""
    which = "" if contract is None else f" under the contract {contract}"
    when = "" if span is None else f" registered in the last {format_duration(span)}"
    if not count:
        return f"There is no wait{which}{when}."
    return f"Read: {count} {'wait' if count == 1 else 'waits'}{which}{when}, with all of their journal."
