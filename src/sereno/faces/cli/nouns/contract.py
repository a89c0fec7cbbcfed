"""`sereno contract`: how providers behave, as data."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from sereno.core.budget import Limits
from sereno.core.contract import Contract
from sereno.core.reading.calls import Call, Submit, Via
from sereno.faces.cli.output import Output, safe
from sereno.faces.cli.session import DEFAULT, Flags, run_plain
from sereno.faces.cli.show.words import brief
from sereno.settings import Loaded

if TYPE_CHECKING:
    from sereno.service.contracts import Contracts

app = App(name="contract", help="Look at how providers behave, as Sereno reads it; check a contract of your own.")


@app.command(name="list")
def list_(*, flags: Flags = DEFAULT) -> int:
    """List the contracts that ship with Sereno and those of your folders."""

    async def body(loaded: Loaded, out: Output) -> None:
        known = _contracts(loaded)
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
        contracts = _contracts(loaded)
        _show(out, contracts.get(name))
        out.answer("contract", {"name": name, "document": contracts.document(name)})

    return run_plain(flags, body)


@app.command
def check(file: Annotated[Path, Parameter(help="A contract file, TOML.")], /, *, flags: Flags = DEFAULT) -> int:
    """Check a contract file; every fault is listed at once."""

    async def body(loaded: Loaded, out: Output) -> None:
        contract = _contracts(loaded).check(file)
        out.say(f"{file} is a valid contract: {contract.name} {contract.version}, {len(contract.states)} states")
        out.answer(
            "contract_check", {"file": str(file), "name": contract.name, "version": contract.version, "digest": contract.digest}
        )

    return run_plain(flags, body)


def _contracts(loaded: Loaded) -> "Contracts":
    from sereno.app import contracts_of

    return contracts_of(loaded)


def _show(out: Output, contract: Contract) -> None:
    delays, limits = contract.delays, contract.limits
    out.say(f"{contract.name} {contract.version}: {contract.title}")
    out.pairs(
        [
            ("status call", _call(contract.status) if contract.via is not Via.PUSH else "none: the provider calls back"),
            ("parameters", ", ".join(contract.parameters)),
            ("credential", contract.credential),
            ("origins", ", ".join(contract.origins) or "that of the address you give"),
            ("only observes", contract.observational or "no evidence: each wait needs --allow-unproven-status"),
            ("first look", f"after {brief(delays.first)}"),
            ("pauses", f"{brief(delays.base)} growing to {brief(delays.maximum)}, at least {brief(delays.min_gap)}"),
            ("limits", "you give them" if limits is None else _limits(limits, pushed=contract.via is Via.PUSH)),
            ("success allows", contract.allows),
            ("without success", f"the {contract.decides_next} decides"),
            ("submitting", "not described" if contract.submit is None else _submit(contract.submit)),
            ("cancelling", "not documented" if contract.cancel is None else contract.cancel.effects),
            ("source", contract.source),
            ("evidence", contract.verified),
        ],
        indent="  ",
    )
    words: dict[str, list[str]] = {}
    for word, meaning in contract.states.items():
        words.setdefault(meaning.value, []).append(word)
    out.say("  states" if words else "  states: you give them with --success, --failure, --pending …")
    out.pairs([(meaning, ", ".join(found)) for meaning, found in words.items()], indent="    ")


def _call(call: Call) -> str:
    return f"{call.service or 'mcp'} {call.operation} {call.url}".rstrip() if call.operation else f"{call.method} {call.url}"


def _submit(submit: Submit) -> str:
    key = submit.idempotency
    honoured = "no key: a lost answer asks a person" if key is None else f"a key in the {key.place}, kept {brief(key.window)}"
    return f"{_call(submit.call)}; {submit.effects or 'its effects are not described'}; {honoured}"


def _limits(limits: Limits, *, pushed: bool) -> str:
    deadline = brief(timedelta(seconds=limits.deadline_s))
    if pushed:
        return f"{deadline} for the call-back"
    return (
        f"{deadline}, {limits.max_status_requests} requests, {limits.max_transport_failures} failures,"
        f" {limits.max_throttles} throttled answers"
    )
