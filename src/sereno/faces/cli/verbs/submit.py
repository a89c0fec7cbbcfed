"""`sereno submit`: starts a job at a provider, tells its handle, and waits for it."""

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sereno.core.errors import Fault, SetupError
from sereno.faces.cli.given import read_json
from sereno.faces.cli.interrupts import counted_interrupts
from sereno.faces.cli.output import EXIT_OK, Output, safe
from sereno.faces.cli.session import DEFAULT, Flags, run
from sereno.faces.cli.show.operations import operation_row
from sereno.faces.cli.terms import JOB, LIMITS, TELL, AllFlags, JobFlags, LimitFlags, TellFlags, terms_of
from sereno.faces.cli.verbs.wait import follow
from sereno.service.operations import Registered, WantedSubmit
from sereno.service.waiting.submits import MAX_INPUT

if TYPE_CHECKING:
    from sereno.app import Sereno


@Parameter(name="*")
@dataclass(frozen=True)
class SubmitFlags:
    """What is submitted, and under which key."""

    input: Annotated[
        str,
        Parameter(
            name="--input",
            allow_leading_hyphen=True,
            help="What the job is given: JSON, @FILE, or - for standard input. Default: {}.",
        ),
    ] = "{}"
    key: Annotated[
        str | None,
        Parameter(name="--key", help="Idempotency key: the same one gives the same operation back. Default: a new one."),
    ] = None


_GIVEN = SubmitFlags()


def submit(
    contract: Annotated[str, Parameter(help="Contract of the provider; it says how a job is submitted (sereno contract show).")],
    /,
    *,
    given: SubmitFlags = _GIVEN,
    limits: LimitFlags = LIMITS,
    job: JobFlags = JOB,
    tell: TellFlags = TELL,
    flags: Flags = DEFAULT,
) -> int:
    """Start a job at a provider, once, and wait for it. The handle op_… is told before anything is sent."""

    async def body(sereno: "Sereno", out: Output) -> int:
        wanted = _wanted(contract, given, (limits, job, tell), sereno)
        registered = await sereno.operations.submit(wanted)
        operation = registered.record.operation.id
        _tell(sereno, out, registered, wanted)
        if tell.detach:
            out.say(f"Registered {operation}. `sereno up` submits and follows it; so does sereno wait {operation}.")
            out.answer("submit", {"operation": operation_row(registered.record), "escalation": None})
            return EXIT_OK
        return await follow(sereno, out, operation, interrupts, schema="submit")

    with counted_interrupts() as interrupts:
        return run(flags, body, console=io.StringIO(), creates=True)


def _wanted(contract: str, given: SubmitFlags, flags: AllFlags, sereno: "Sereno") -> WantedSubmit:
    faults: list[Fault] = []
    terms = terms_of(flags, sereno.kit.clock.now(), faults)
    if faults:
        raise SetupError("this submit is not right; nothing was stored", faults)
    return WantedSubmit(contract, read_json("--input", given.input, MAX_INPUT), key=given.key, **terms)


def _tell(sereno: "Sereno", out: Output, registered: Registered, wanted: WantedSubmit) -> None:
    """The handle first, then what the submit does, as the contract says it."""
    operation = registered.record.operation
    if not registered.is_new:
        says = f"this key was submitted already, and the operation is {operation.state}; nothing is sent again"
        out.handle(operation.id, f"{operation.id}: {says}")
        return
    says = f"submits to {operation.contract}, and waits until {out.time(operation.allowance.deadline_at)}"
    out.handle(operation.id, f"{operation.id}: {says}")
    for warning in registered.warnings:
        out.remark(f"attention: {warning}")
    effects = sereno.contracts.get(wanted.contract).submit
    if effects is not None and effects.effects:
        out.remark(f"What submitting does, says the contract: {safe(effects.effects, most=500)}")
