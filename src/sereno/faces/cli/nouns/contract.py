"""`sereno contract`: how providers behave, as data."""

import json
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from sereno.core.errors import SetupError
from sereno.faces.cli.files import refuse_existing, write_new
from sereno.faces.cli.nouns.starting import Out, new, say_unlisted
from sereno.faces.cli.nouns.trial import File, contracts_here, tell_faults, test
from sereno.faces.cli.output import EXIT_OK, Output, safe
from sereno.faces.cli.session import DEFAULT, Flags, run_plain
from sereno.faces.cli.show.contracts import show_contract
from sereno.settings import Loaded

app = App(name="contract", help="Look at how providers behave; write and test contracts of your own.")


@app.command(name="list")
def list_(*, flags: Flags = DEFAULT) -> int:
    """List the contracts that ship with Sereno and those of your folders."""

    async def body(loaded: Loaded, out: Output) -> None:
        known = contracts_here(loaded)
        contracts, faults = known.list(), known.faults()
        out.table(["contract", "version", "title", "evidence"], [(c.name, c.version, c.title, c.verified) for c in contracts])
        rows = [
            {"name": c.name, "version": c.version, "title": c.title, "verified": c.verified, "digest": c.digest}
            for c in contracts
        ]
        for fault in faults:
            out.remark(f"attention: {safe(fault, most=500)}")
        out.answer("contracts", {"contracts": rows, "faults": faults})

    return run_plain(flags, body)


@app.command
def show(name: Annotated[str, Parameter(help="Name of the contract.")], /, *, flags: Flags = DEFAULT) -> int:
    """Show one contract: the status call, the state table, delays, limits and where the facts come from."""

    async def body(loaded: Loaded, out: Output) -> None:
        contracts = contracts_here(loaded)
        show_contract(out, contracts.get(name))
        out.answer("contract", {"name": name, "document": contracts.document(name)})

    return run_plain(flags, body)


app.command(new)


@app.command
def check(file: File, /, *, flags: Flags = DEFAULT) -> int:
    """Check a contract file; every fault is listed at once, with its line."""

    async def body(loaded: Loaded, out: Output) -> int:
        try:
            contract = contracts_here(loaded).check(file)
        except SetupError as error:
            return tell_faults(out, error, file)
        out.say(f"{file} is a valid contract: {contract.name} {contract.version}, {len(contract.states)} states")
        out.answer(
            "contract_check", {"file": str(file), "name": contract.name, "version": contract.version, "digest": contract.digest}
        )
        return EXIT_OK

    return run_plain(flags, body)


app.command(test)


@app.command(name="import")
def import_(
    kind: Annotated[Literal["botocore"], Parameter(help="What it is made of: botocore, for one of its waiters.")],
    service: Annotated[str, Parameter(help="Service, as botocore names it, such as ecs.")],
    waiter: Annotated[str, Parameter(help="Waiter, such as ServicesStable.")],
    /,
    *,
    name: Annotated[
        str | None, Parameter(name="--name", help="Name of the contract. Default: made of service and waiter.")
    ] = None,
    output: Out = None,
    flags: Flags = DEFAULT,
) -> int:
    """Make a contract of a waiter of botocore; what you should review is marked. Needs the extra aws."""

    async def body(loaded: Loaded, out: Output) -> None:
        found = contracts_here(loaded).import_waiter(service, waiter, name)
        if output is None:
            out.say(found.text.rstrip())
        else:
            refuse_existing(output)
            write_new(output, found.text)
            out.say(f"Wrote the contract {found.name} into {output}.")
        for says in found.review:
            out.remark(f"review: {safe(says, most=500)}")
        for says in found.differs:
            out.remark(f"differs: {safe(says, most=500)}")
        if output is not None:
            _say_next(loaded, out, found.name, output)
        row = {"name": found.name, "review": found.review, "differs": found.differs, "text": found.text}
        out.answer("contract_import", {"file": str(output) if output else None, **row})

    return run_plain(flags, body)


def _say_next(loaded: Loaded, out: Output, name: str, file: Path) -> None:
    """What comes after an import; no recorded answer comes with one, so the cases are a person's."""
    out.say(f"Next: sereno contract check {file}, then sereno wait {name} JOB_ID --param region=eu-central-1")
    out.say(
        f"To test it: sereno contract test {file} --answer SAVED.json reads one answer; a whole test needs a case for each word in"
    )
    out.say(f"      {file.with_suffix('.cases.toml')}")
    say_unlisted(loaded, out, file)


@app.command
def schema(*, flags: Flags = DEFAULT) -> int:
    """Print the JSON schema of the contract format, for editors."""

    async def body(loaded: Loaded, out: Output) -> None:
        found = contracts_here(loaded).schema()
        out.say(json.dumps(found, indent=2))
        out.answer("contract_schema", {"document": found})

    return run_plain(flags, body)
