"""`sereno contract new`: the start of a contract, from saved answers."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from sereno.core.contract import Via
from sereno.faces.cli.files import refuse_existing, write_new
from sereno.faces.cli.given import read_given
from sereno.faces.cli.nouns.trial import MOST_ANSWER, contracts_here
from sereno.faces.cli.output import Output, safe
from sereno.faces.cli.session import DEFAULT, Flags, run_plain
from sereno.settings import Loaded

Out = Annotated[
    Path | None, Parameter(name=["--output", "-o"], help="Write it into this file; one that is there is left as it is.")
]


def new(
    name: Annotated[str, Parameter(help="Name of the contract: lower-case letters, digits, hyphens.")],
    /,
    *,
    url: Annotated[
        str | None, Parameter(name="--url", help="Address of the status call, of one job or with {job_id} in it.")
    ] = None,
    from_: Annotated[
        tuple[Path, ...],
        Parameter(name="--from", help="A saved answer to a look: JSON, or what `curl -i` printed; may be repeated."),
    ] = (),
    via: Annotated[
        Literal["http", "aws", "mcp", "push"],
        Parameter(name="--via", help="Who carries the call: http, aws, mcp, or push where the provider calls back."),
    ] = "http",
    output: Out = None,
    flags: Flags = DEFAULT,
) -> int:
    """Start a contract and its cases from saved answers; what is to be decided is marked TODO."""

    async def body(loaded: Loaded, out: Output) -> None:
        contracts = contracts_here(loaded)
        file = output or Path(f"{name}.toml")
        cases = file.parent / "cases" / file.name
        answers = [contracts.answer(read_given("--from", f"@{one}", MOST_ANSWER), one.name) for one in from_]
        started = contracts.start(name, via=Via(via), url=url, answers=answers)
        refuse_existing(file, cases)
        write_new(file, started.contract)
        write_new(cases, started.cases)
        out.say(f"Wrote {file} and {cases}.")
        if started.words:
            out.say(f"Words seen, for you to sort by what they mean: {safe(', '.join(started.words), most=500)}")
        out.say(f"Next: sereno contract check {file} lists what is still to be decided, then sereno contract test {file}.")
        out.answer("contract_new", {"file": str(file), "cases": str(cases), "words": started.words})

    return run_plain(flags, body)
