"""`sereno delivery`: what was told, what waits, what could not be told."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from sereno.core.delivery import DeliveryState
from sereno.faces.cli.nouns.states import one_of
from sereno.faces.cli.output import Output
from sereno.faces.cli.session import DEFAULT, Flags, run
from sereno.faces.cli.show.runs import delivery_row, list_deliveries

if TYPE_CHECKING:
    from sereno.app import Sereno

app = App(name="delivery", help="Look at what was told; try again, or drop, what could not be.")
Id = Annotated[str, Parameter(help="Delivery id, dlv_….")]


@app.command(name="list")
def list_(
    subject: Annotated[str | None, Parameter(help="Id of the poll or operation it speaks of; default: all.")] = None,
    /,
    *,
    state: Annotated[str | None, Parameter(help="Only these: queued, sending, delivered, dead, ambiguous, dropped.")] = None,
    limit: Annotated[int, Parameter(help="At most this many, newest first.")] = 50,
    flags: Flags = DEFAULT,
) -> int:
    """List deliveries, newest first."""

    async def body(sereno: "Sereno", out: Output) -> None:
        records = await sereno.deliveries.list(state=one_of(state, DeliveryState), subject=subject, limit=limit)
        list_deliveries(out, records)
        out.answer("deliveries", {"deliveries": [delivery_row(record) for record in records]})

    return run(flags, body)


@app.command
def retry(delivery: Id, /, *, flags: Flags = DEFAULT) -> int:
    """Queue a dead or ambiguous delivery again, under the same key."""

    async def body(sereno: "Sereno", out: Output) -> None:
        record = await sereno.deliveries.retry(delivery)
        out.say(f"{delivery} is {record.delivery.state} again, under the same key. `sereno up` or `sereno once` sends it.")
        out.answer("delivery", delivery_row(record))

    return run(flags, body)


@app.command
def drop(delivery: Id, /, *, flags: Flags = DEFAULT) -> int:
    """Close a queued, dead or ambiguous delivery without sending it."""

    async def body(sereno: "Sereno", out: Output) -> None:
        record = await sereno.deliveries.drop(delivery)
        out.say(f"{delivery} is {record.delivery.state}. Nothing was sent.")
        out.answer("delivery", delivery_row(record))

    return run(flags, body)
