"""`sereno escalation`: questions to people, and their one answer."""

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from sereno.core.errors import RequestError
from sereno.core.escalation import Escalation
from sereno.faces.cli.given import typed
from sereno.faces.cli.nouns.states import one_of
from sereno.faces.cli.output import EXIT_REFUSED, Output
from sereno.faces.cli.session import DEFAULT, Flags, run
from sereno.faces.cli.show.escalations import escalation_row, list_escalations, show_escalation, show_statement
from sereno.faces.cli.show.operations import operation_row, stands_line

if TYPE_CHECKING:
    from sereno.app import Sereno

app = App(name="escalation", help="Look at questions to people, and answer them: once, and only for what was shown.")
Id = Annotated[str, Parameter(help="Escalation id, esc_….")]


@app.command(name="list")
def list_(
    *,
    state: Annotated[str, Parameter(help="open, answered, expired or all.")] = "open",
    limit: Annotated[int, Parameter(help="At most this many, newest first.")] = 50,
    flags: Flags = DEFAULT,
) -> int:
    """List questions, the open ones unless told otherwise."""

    async def body(sereno: "Sereno", out: Output) -> None:
        one_of(state, ("open", "answered", "expired", "all"))
        questions = await sereno.escalations.list(state=None if state == "all" else state, limit=limit)
        list_escalations(out, questions, sereno.kit.clock.now())
        out.answer("escalations", {"escalations": [escalation_row(question) for question in questions]})

    return run(flags, body)


@app.command
def show(escalation: Id, /, *, flags: Flags = DEFAULT) -> int:
    """Show one question: the statement, and each option with the command that answers it."""

    async def body(sereno: "Sereno", out: Output) -> None:
        question = await sereno.escalations.get(escalation)
        show_escalation(out, question, sereno.kit.clock.now())
        out.answer("escalation", escalation_row(question))

    return run(flags, body)


@app.command
def answer(
    escalation: Id,
    option: Annotated[str, Parameter(help="Key of the option, as `escalation show` prints it.")],
    /,
    *,
    digest: Annotated[
        str | None, Parameter(help="First 8 or more digits of the digest that was shown. Without it you are asked on a terminal.")
    ] = None,
    flags: Flags = DEFAULT,
) -> int:
    """Answer one question with one of its options. It is taken once, before its deadline, for exactly what was shown."""

    async def body(sereno: "Sereno", out: Output) -> int | None:
        shown = digest
        if shown is None:
            question = await sereno.escalations.get(escalation)
            sereno.escalations.option(question, option)
            if not _agreed(out, question, option, sereno):
                out.say("Nothing was answered.")
                return EXIT_REFUSED
            shown = question.digest
        record = await sereno.escalations.answer(escalation, option, digest=shown)
        operation = record.operation
        out.say(f"Answered {option}. {stands_line(operation, sereno.kit.clock.now())}")
        if record.due is not None:
            out.say(f"Follow it: sereno wait {operation.id}")
        out.answer("answered", {"escalation": escalation, "option": option, "operation": operation_row(record)})
        return None

    return run(flags, body)


def _agreed(out: Output, question: Escalation, option: str, sereno: "Sereno") -> bool:
    """Shows the statement and asks for a yes. Without a terminal that is not possible: then the digest is needed."""
    if out.as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise RequestError(
            "without a terminal an answer must name what was shown",
            subject=question.id,
            hint=f"add --digest with at least 8 digits of the digest that `sereno escalation show {question.id}` prints",
            code="digest_needed",
        )
    show_statement(out, question, sereno.kit.clock.now())
    chosen = next(one for one in question.options if one.key == option)
    out.say()
    out.paragraph(f"{chosen.key}: {chosen.says}")
    return typed("Answer so? Type yes: ") in ("y", "yes")
