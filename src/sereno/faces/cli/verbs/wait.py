"""`sereno wait`: follows one job to its end, or to a question."""

import asyncio
import io
from contextlib import suppress
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sereno.core.errors import Fault, SetupError
from sereno.core.record import OperationRecord
from sereno.core.waiting.lifecycle import LIVE
from sereno.faces.cli.follow import Progress
from sereno.faces.cli.interrupts import Interrupts, counted_interrupts
from sereno.faces.cli.output import EXIT_OK, Output, safe
from sereno.faces.cli.pulse import is_running
from sereno.faces.cli.session import DEFAULT, Flags, run
from sereno.faces.cli.show.escalations import escalation_row, show_escalation
from sereno.faces.cli.show.operations import exit_code_of, operation_row, show_end
from sereno.faces.cli.terms import JOB, LIMITS, TELL, AllFlags, JobFlags, LimitFlags, TellFlags, terms_of
from sereno.service.operations import Wanted

if TYPE_CHECKING:
    from sereno.app import Sereno

LOOK_EVERY = 0.5
"""Seconds between two looks at the record. They read the database; the provider is not asked by them (W36)."""


def wait(
    contract: Annotated[
        str, Parameter(help="Contract of the provider (sereno contract list), or the id op_… of a wait to come back to.")
    ],
    job_id: Annotated[str | None, Parameter(help="Id of the job at the provider, or its status URL.")] = None,
    /,
    *,
    limits: LimitFlags = LIMITS,
    job: JobFlags = JOB,
    tell: TellFlags = TELL,
    flags: Flags = DEFAULT,
) -> int:
    """Wait for a job that somebody else runs, to its result, its end or a question to you. The same job attaches to its open wait."""

    async def body(sereno: "Sereno", out: Output) -> int:
        operation = await _operation(sereno, out, (contract, job_id), (limits, job, tell))
        if tell.detach:
            record = await sereno.operations.get(operation)
            out.say(f"Registered {operation}. `sereno up` drives it; sereno wait {operation} follows it.")
            out.answer("wait", {"operation": operation_row(record), "escalation": None})
            return EXIT_OK
        return await follow(sereno, out, operation, interrupts, schema="wait")

    # This terminal is told the end or the question in full below; the same words by the console action would come twice.
    with counted_interrupts() as interrupts:
        return run(flags, body, console=io.StringIO(), creates=not contract.startswith("op_"))


async def _operation(sereno: "Sereno", out: Output, words: tuple[str, str | None], flags: AllFlags) -> str:
    """The id of the wait: an open one, or a new one."""
    contract, job_id = words
    if job_id is None:
        if contract.startswith("op_"):
            _refuse_flags(contract, flags)
            return (await sereno.operations.get(contract)).operation.id
        raise SetupError(f"which job at {safe(contract)}? nothing was started", hint=f"sereno wait {safe(contract)} JOB_ID")
    faults: list[Fault] = []
    terms = terms_of(flags, sereno.kit.clock.now(), faults)
    if faults:
        raise SetupError("this wait is not right; nothing was stored", faults)
    registered = await sereno.operations.register(Wanted(contract, job_id, **terms))
    operation = registered.record.operation
    for warning in registered.warnings:
        out.remark(f"attention: {warning}")
    if registered.is_new:
        text = f"waiting for {safe(operation.job_id)} at {operation.contract} until {out.time(operation.allowance.deadline_at)}"
    else:
        used = f"{operation.spend.status_requests} of {operation.allowance.max_status_requests} requests used"
        text = f"this job is being waited for already ({used}); its limits stay as they are"
    out.handle(operation.id, f"{operation.id}: {text}")
    return operation.id


def _refuse_flags(operation: str, flags: AllFlags) -> None:
    """Limits, words and actions are set when a wait is registered; silence here would look like consent. Raises SetupError."""
    limits, job, tell = flags
    given = [
        f"--{field.name.replace('_', '-')}"
        for group, defaults in ((limits, LIMITS), (job, JOB), (tell, TELL))
        for field in fields(group)
        if field.name != "detach" and getattr(group, field.name) != getattr(defaults, field.name)
    ]
    if given:
        raise SetupError(
            f"{operation} is registered already, and its limits and words stay as they are; {', '.join(given)} cannot change them",
            hint=f"leave {'it' if len(given) == 1 else 'them'} out: sereno wait {operation}",
        )


async def follow(sereno: "Sereno", out: Output, operation: str, interrupts: Interrupts, *, schema: str) -> int:
    """Follows an open operation to its end, to a question or to an interrupt, and tells it; answers the exit code."""
    return _tell_end(sereno, out, await _follow(sereno, out, operation, interrupts), schema)


async def _follow(sereno: "Sereno", out: Output, operation: str, interrupts: Interrupts) -> OperationRecord:
    """Drives the wait and shows where it stands, until it stops waiting or somebody interrupts.

    The first interrupt lets a look that is under way finish; the second ends it at once: its lease runs out, nothing is lost.
    """
    progress, loop, rung = Progress(out), asyncio.get_running_loop(), asyncio.Event()
    driving = loop.create_task(sereno.operations.wait(operation))
    driving.add_done_callback(lambda _: rung.set())

    def tell() -> None:
        with suppress(RuntimeError):  # the loop has ended already
            loop.call_soon_threadsafe(rung.set)

    interrupts.tell = tell
    try:
        while not driving.done() and interrupts.count < 2:
            if interrupts.count:
                sereno.stop()
            progress.show((await sereno.operations.get(operation)).operation, sereno.kit.clock.now())
            rung.clear()
            if driving.done() or interrupts.count >= 2:
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY):
                    await rung.wait()
        if driving.done():
            return await driving
    finally:
        progress.end()
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
    return await sereno.operations.get(operation)


def _tell_end(sereno: "Sereno", out: Output, record: OperationRecord, schema: str) -> int:
    operation, now = record.operation, sereno.kit.clock.now()
    question = operation.open_escalation
    if operation.state in LIVE:
        out.remark(
            f"Interrupted; {operation.id} is still open. {driven(sereno, record, now)} Come back: sereno wait {operation.id}"
        )
    elif question is not None:
        show_escalation(out, question, now)
    else:
        show_end(out, operation)
    out.answer(schema, {"operation": operation_row(record), "escalation": None if question is None else escalation_row(question)})
    return exit_code_of(operation)


def driven(sereno: "Sereno", record: OperationRecord, now: datetime) -> str:
    """Says whether any process drives the wait now."""
    if is_running(sereno.loaded.database):
        return "A running `sereno up` goes on with it."
    if record.leased_until is not None and record.leased_until > now:
        return "Another process is looking at it right now; after that nobody drives it."
    return "No process drives it now; nothing is asked until one does."
