"""`sereno run`: what ran."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from sereno.core.poll import PollState
from sereno.faces.cli.output import Output, plain
from sereno.faces.cli.session import DEFAULT, Flags
from sereno.faces.cli.session import run as run_session
from sereno.faces.cli.show.runs import Asked, list_runs, run_row, show_run

if TYPE_CHECKING:
    from sereno.app import Sereno

app = App(name="run", help="Look at what ran, why, and what came of it.")


@app.command(name="list")
def list_(
    subject: Annotated[
        str | None, Parameter(help="Name or id of a poll, or the id of an operation or delivery; default: all.")
    ] = None,
    /,
    *,
    limit: Annotated[int, Parameter(help="At most this many, newest first.")] = 20,
    flags: Flags = DEFAULT,
) -> int:
    """List runs, newest first."""

    async def body(sereno: "Sereno", out: Output) -> None:
        runs = await sereno.runs.list(subject, limit=limit)
        names = await _names(sereno) if any(one.kind == "poll" for one in runs) else {}
        list_runs(out, runs, names)
        rows = [{**plain(one), "subject_name": names.get(one.subject)} for one in runs]
        out.answer("runs", {"runs": rows})

    return run_session(flags, body)


async def _names(sereno: "Sereno") -> dict[str, str]:
    """The names of all polls by their id, those of removed ones too."""
    records = [*await sereno.polls.all(), *await sereno.polls.all(state=PollState.REMOVED)]
    return {record.poll.id: record.poll.spec.name for record in records}


@app.command
def show(run: Annotated[str, Parameter(help="Run id: SUBJECT.NUMBER.")], /, *, flags: Flags = DEFAULT) -> int:
    """Answer for one run: what ran, why, what it read, what changed, why it failed, whether it told you, whether it ran twice."""

    async def body(sereno: "Sereno", out: Output) -> None:
        record, deliveries = await sereno.runs.get(run)
        poll = await sereno.polls.get(record.subject) if record.kind == "poll" else None
        health = await sereno.doctor.look(whole=False)
        duplicates = 0 if health.counts is None else health.counts.suppressed_duplicates
        asked = Asked(record, poll, deliveries, await sereno.runs.same_instant(record), duplicates)
        show_run(out, asked)
        out.answer("run", run_row(out, asked))

    return run_session(flags, body)
