"""`sereno contract new`: the start of a contract, from saved answers."""

from os.path import relpath
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from sereno.core.contract import Via
from sereno.core.writing.toml import toml_text
from sereno.faces.cli.files import refuse_existing, write_new
from sereno.faces.cli.given import read_given
from sereno.faces.cli.nouns.trial import MOST_ANSWER, contracts_here
from sereno.faces.cli.output import Output, safe
from sereno.faces.cli.session import DEFAULT, Flags, run_plain
from sereno.settings import Loaded

Out = Annotated[
    Path | None, Parameter(name=["--output", "-o"], help="Write it into this file; one that is there is left as it is.")
]


def own_folder(loaded: Loaded) -> Path:
    """The first folder of contracts that the settings name, else the current one."""
    folders = _folders(loaded)
    if not folders:
        return Path()
    here = Path.cwd()
    return folders[0].relative_to(here) if folders[0].is_relative_to(here) else folders[0]


def say_unlisted(loaded: Loaded, out: Output, file: Path) -> None:
    """Says that a contract outside the settings' folders is found by no wait, and what would change that."""
    folder = file.parent.resolve()
    if folder in [one.resolve() for one in _folders(loaded)]:
        return
    beside = relpath(folder, (loaded.path.parent if loaded.path else Path()).resolve())
    move, listed = ("move it into the folder contracts, and ", "contracts") if beside == "." else ("", beside)
    out.say(f"To wait with it: {move}name the folder in sereno.toml, before every table: contracts = [{safe(toml_text(listed))}]")


def _folders(loaded: Loaded) -> list[Path]:
    beside = loaded.path.parent if loaded.path else Path()
    return [beside / folder for folder in loaded.settings.contracts]


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
        file = output or own_folder(loaded) / f"{name}.toml"
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
        say_unlisted(loaded, out, file)
        out.answer("contract_new", {"file": str(file), "cases": str(cases), "words": started.words})

    return run_plain(flags, body)
