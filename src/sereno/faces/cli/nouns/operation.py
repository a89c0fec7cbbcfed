"""`sereno operation`: looking at waits. Looking reads the record and never asks the provider (W36)."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from sereno.core.operation import OperationState
from sereno.faces.cli.nouns.states import one_of
from sereno.faces.cli.output import Output
from sereno.faces.cli.session import DEFAULT, Flags, run
from sereno.faces.cli.show.operations import list_operations, operation_row, show_operation, show_story, story_rows

if TYPE_CHECKING:
    from sereno.app import Sereno

app = App(name="operation", help="Look at waits for other people's jobs. Looking never asks the provider.")
Id = Annotated[str, Parameter(help="Operation id, op_….")]


@app.command(name="list")
def list_(
    *,
    state: Annotated[
        str | None, Parameter(help="Only these: open, waiting, escalated, succeeded, failed, cancelled, expired, stopped.")
    ] = None,
    limit: Annotated[int, Parameter(help="At most this many, newest first.")] = 50,
    flags: Flags = DEFAULT,
) -> int:
    """List waits, newest first."""

    async def body(sereno: "Sereno", out: Output) -> None:
        records = await sereno.operations.list(state=one_of(state, ("open", *OperationState)), limit=limit)
        list_operations(out, records, sereno.kit.clock.now())
        out.answer("operations", {"operations": [operation_row(record) for record in records]})

    return run(flags, body)


@app.command
def show(operation: Id, /, *, flags: Flags = DEFAULT) -> int:
    """Show one wait: state, limits and what is used, next look, result."""

    async def body(sereno: "Sereno", out: Output) -> None:
        record = await sereno.operations.get(operation)
        show_operation(out, record, sereno.kit.clock.now())
        out.answer("operation", operation_row(record))

    return run(flags, body)


@app.command
def explain(operation: Id, /, *, flags: Flags = DEFAULT) -> int:
    """Tell the story of one wait from the journal: when it looked, what it saw, when it looks next and why."""

    async def body(sereno: "Sereno", out: Output) -> None:
        story = await sereno.operations.explain(operation)
        show_story(out, story)
        out.answer("story", {"operation": operation_row(story.record), "entries": story_rows(story)})

    return run(flags, body)
