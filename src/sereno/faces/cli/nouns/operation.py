"""`sereno operation`: looking at waits, and what a person may decide about one. Looking never asks the provider (W36)."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from sereno.core.operation import OperationState
from sereno.core.record import OperationRecord
from sereno.faces.cli.given import confirmed, read_given
from sereno.faces.cli.nouns.result import result
from sereno.faces.cli.nouns.review import check, replay
from sereno.faces.cli.nouns.states import at_least_one, one_of
from sereno.faces.cli.output import EXIT_OK, EXIT_REFUSED, Output
from sereno.faces.cli.session import DEFAULT, Flags, run
from sereno.faces.cli.show.decisions import show_change, show_proposal
from sereno.faces.cli.show.operations import copy_row, list_operations, operation_row, show_operation, stands_line
from sereno.faces.cli.show.story import show_story, story_rows
from sereno.faces.cli.verbs.wait import driven
from sereno.service.waiting.changes import MAX_PUSH

if TYPE_CHECKING:
    from sereno.app import Sereno

app = App(name="operation", help="Look at waits for other people's jobs, and decide about one. Looking never asks the provider.")
Id = Annotated[str, Parameter(help="Operation id, op_….")]
app.command(result)
app.command(replay)
app.command(check)
Yes = Annotated[bool, Parameter(name="--yes", help="Decide without being asked; needed where there is no terminal.")]


@app.command(name="list")
def list_(
    *,
    state: Annotated[
        str | None,
        Parameter(help="Only these: open, submitting, waiting, escalated, succeeded, failed, cancelled, expired, stopped."),
    ] = None,
    limit: Annotated[int, Parameter(help="At most this many, newest first.")] = 50,
    flags: Flags = DEFAULT,
) -> int:
    """List waits, newest first."""

    async def body(sereno: "Sereno", out: Output) -> None:
        at_least_one(limit)
        records = await sereno.operations.list(state=one_of(state, ("open", *OperationState)), limit=limit)
        list_operations(out, records, sereno.kit.clock.now())
        out.answer("operations", {"operations": [operation_row(record) for record in records]})

    return run(flags, body)


@app.command
def show(operation: Id, /, *, flags: Flags = DEFAULT) -> int:
    """Show one wait: state, limits and what is used, next look, submit and cancels, result."""

    async def body(sereno: "Sereno", out: Output) -> None:
        record = await sereno.operations.get(operation)
        calls = await sereno.operations.calls(record.operation.id)
        copies = await sereno.operations.copies(record.operation.id)
        later = await sereno.operations.next_of(record)
        show_operation(out, record, (calls, copies), sereno.kit.clock.now())
        if later is not None:
            out.say(f"Submitted anew as {later}.")
        beside = {"result_copies": [copy_row(copy) for copy in copies], "next_operation": later}
        out.answer("operation", {**operation_row(record, calls), **beside})

    return run(flags, body)


@app.command
def explain(operation: Id, /, *, flags: Flags = DEFAULT) -> int:
    """Tell the story of one wait from the journal: when it looked, what it saw, when it looks next and why."""

    async def body(sereno: "Sereno", out: Output) -> None:
        story = await sereno.operations.explain(operation)
        show_story(out, story)
        out.answer("story", {"operation": operation_row(story.record), "entries": story_rows(story)})

    return run(flags, body)


@app.command
def cancel(operation: Id, /, *, yes: Yes = False, flags: Flags = DEFAULT) -> int:
    """Have the job cancelled at the provider, where its contract documents how. Shows what that does, and asks."""

    async def body(sereno: "Sereno", out: Output) -> int:
        proposal = await sereno.operations.propose_cancel(operation)
        show_proposal(out, proposal)
        if not confirmed(out, yes=yes, question="Cancel it?", subject=operation):
            out.say("Nothing was changed.")
            return EXIT_REFUSED
        record = await sereno.operations.cancel(operation, shown=proposal)
        _tell_changed(sereno, out, record, "The cancel is recorded; the next step sends it.")
        out.answer("cancel", {"operation": operation_row(record)})
        return EXIT_OK

    return run(flags, body)


@app.command
def resubmit(operation: Id, /, *, yes: Yes = False, flags: Flags = DEFAULT) -> int:
    """Register a job that ended without success anew, under a new key; `sereno wait` or `up` submits it."""

    async def body(sereno: "Sereno", out: Output) -> int:
        proposal = await sereno.operations.propose_resubmit(operation)
        show_proposal(out, proposal)
        if not confirmed(out, yes=yes, question="Submit it anew?", subject=operation):
            out.say("Nothing was changed.")
            return EXIT_REFUSED
        registered = await sereno.operations.resubmit(operation, shown=proposal)
        _tell_changed(sereno, out, registered.record, f"Registered {registered.record.operation.id}, for {operation}.")
        out.answer("resubmit", {"operation": operation_row(registered.record)})
        return EXIT_OK

    return run(flags, body)


@app.command
def push(
    operation: Id,
    /,
    *,
    body: Annotated[
        str | None,
        Parameter(
            name="--body",
            allow_leading_hyphen=True,
            help="What the provider called back with: text, @FILE, or - for standard input.",
        ),
    ] = None,
    content_type: Annotated[str, Parameter(name="--content-type", help="Its media type.")] = "application/json",
    flags: Flags = DEFAULT,
) -> int:
    """Hand over a provider's call-back. The next look comes earlier, but never inside a wait that the provider asked for."""

    async def hand_over(sereno: "Sereno", out: Output) -> int:
        given = b"" if body is None else read_given("--body", body, MAX_PUSH)
        doubts = await sereno.operations.push_doubts(operation, given, content_type)
        record = await sereno.operations.push(operation, given, content_type)
        for doubt in doubts:
            out.remark(f"attention: {doubt}")
        _tell_changed(sereno, out, record, "The call-back is recorded.")
        out.answer("push", {"operation": operation_row(record)})
        return EXIT_OK

    return run(flags, hand_over)


@app.command
def contract(operation: Id, /, *, yes: Yes = False, flags: Flags = DEFAULT) -> int:
    """Show how the operation's contract differs from the present one of that name; with --yes, follow the present one."""

    async def body(sereno: "Sereno", out: Output) -> int:
        change = await sereno.operations.contract_change(operation)
        show_change(out, change, taken=yes)
        record = await sereno.operations.get(operation)
        if yes and change.lines:
            record = await sereno.operations.update_contract(operation, shown=change)
            _tell_changed(sereno, out, record, "The operation follows the present contract from now on.")
        rows = {"contract": change.contract, "pinned": change.pinned, "present": change.present, "differences": change.lines}
        out.answer("operation_contract", {"operation": operation_row(record), **rows})
        return EXIT_OK

    return run(flags, body)


def _tell_changed(sereno: "Sereno", out: Output, record: OperationRecord, says: str) -> None:
    operation, now = record.operation, sereno.kit.clock.now()
    out.say(f"{says} {stands_line(operation, now)}")
    if record.due is not None:
        out.say(f"{driven(sereno, record, now)} Follow it: sereno wait {operation.id}")
