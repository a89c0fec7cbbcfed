"""`sereno wait`: follows one job to its end, or to a question."""

import asyncio
import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sereno.core.errors import Fault, SetupError
from sereno.core.operation import OperationState
from sereno.core.record import OperationRecord
from sereno.core.values import parse_duration
from sereno.faces.cli.follow import Progress
from sereno.faces.cli.interrupts import Interrupts, counted_interrupts
from sereno.faces.cli.output import EXIT_OK, Output, safe
from sereno.faces.cli.pulse import is_running
from sereno.faces.cli.session import DEFAULT, Flags, run
from sereno.faces.cli.show.escalations import escalation_row, show_escalation
from sereno.faces.cli.show.operations import exit_code_of, operation_row, show_end
from sereno.service.operations import Wanted

if TYPE_CHECKING:
    from sereno.app import Sereno

LOOK_EVERY = 0.5
"""Seconds between two looks at the record. They read the database; the provider is not asked by them (W36)."""
_STATES = ("success", "failure", "pending", "cancelled", "expired")


@Parameter(name="*")
@dataclass(frozen=True)
class LimitFlags:
    """The limits of one wait; what is left out comes from the contract (W41)."""

    deadline: Annotated[str | None, Parameter(name="--deadline", help="Longest wait from now: 90s, 2h.")] = None
    business_deadline: Annotated[
        str | None,
        Parameter(name="--business-deadline", help="When the result is of no use any more: 2h, or 2026-12-01T18:00:00Z."),
    ] = None
    max_requests: Annotated[int | None, Parameter(name="--max-requests", help="Most status requests.")] = None
    max_failures: Annotated[int | None, Parameter(name="--max-failures", help="Most requests that got no answer.")] = None
    max_throttles: Annotated[int | None, Parameter(name="--max-throttles", help="Most answers that said: too many requests.")] = (
        None
    )


@Parameter(name="*")
@dataclass(frozen=True)
class JobFlags:
    """Where the job is and how its answers are read."""

    credential: Annotated[str, Parameter(name="--credential", help="Name of the [credentials.NAME] of the account.")] = ""
    param: Annotated[
        tuple[str, ...], Parameter(name="--param", help="Another parameter of the contract, as name=value; may be repeated.")
    ] = ()
    base: Annotated[
        str | None, Parameter(name="--base", help="Base URL of the service, for contracts without an address of their own.")
    ] = None
    state_path: Annotated[
        str | None, Parameter(name="--state-path", help="JMESPath to the state word, for generic contracts.")
    ] = None
    error_path: Annotated[
        str | None, Parameter(name="--error-path", help="JMESPath to the provider's error text, for generic contracts.")
    ] = None
    success: Annotated[str | None, Parameter(name="--success", help="State words that mean success, with commas.")] = None
    failure: Annotated[str | None, Parameter(name="--failure", help="State words that mean failure.")] = None
    pending: Annotated[str | None, Parameter(name="--pending", help="State words that mean: still at it.")] = None
    cancelled: Annotated[str | None, Parameter(name="--cancelled", help="State words that mean cancelled.")] = None
    expired: Annotated[str | None, Parameter(name="--expired", help="State words that mean expired.")] = None
    allow_unproven_status: Annotated[
        bool,
        Parameter(name="--allow-unproven-status", help="Grant status requests although nothing proves that they only observe."),
    ] = False

    def states(self) -> Mapping[str, Sequence[str]] | None:
        """The state words that were given, by meaning; None where none were."""
        given = {name: getattr(self, name) for name in _STATES}
        return {name: [word.strip() for word in words.split(",")] for name, words in given.items() if words} or None


@Parameter(name="*")
@dataclass(frozen=True)
class TellFlags:
    """Who is told, and whether this command stays."""

    action: Annotated[
        tuple[str, ...],
        Parameter(
            name="--action", help="Action that carries the end or a question; may be repeated. Default: [waiting] actions."
        ),
    ] = ()
    task_id: Annotated[str | None, Parameter(name="--task-id", help="Id of the assistant's task that this wait belongs to.")] = (
        None
    )
    detach: Annotated[bool, Parameter(name="--detach", help="Only register it; `sereno up` or `sereno wait op_…` drives it.")] = (
        False
    )


_LIMITS, _JOB, _TELL = LimitFlags(), JobFlags(), TellFlags()


def wait(
    contract: Annotated[
        str, Parameter(help="Contract of the provider (sereno contract list), or the id op_… of a wait to come back to.")
    ],
    job_id: Annotated[str | None, Parameter(help="Id of the job at the provider, or its status URL.")] = None,
    /,
    *,
    limits: LimitFlags = _LIMITS,
    job: JobFlags = _JOB,
    tell: TellFlags = _TELL,
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
        record = await _follow(sereno, out, operation, interrupts)
        return _tell_end(sereno, out, record)

    # This terminal is told the end or the question in full below; the same words by the console action would come twice.
    with counted_interrupts() as interrupts:
        return run(flags, body, console=io.StringIO(), creates=not contract.startswith("op_"))


async def _operation(
    sereno: "Sereno", out: Output, words: tuple[str, str | None], flags: tuple[LimitFlags, JobFlags, TellFlags]
) -> str:
    """The id of the wait: an open one, or a new one."""
    contract, job_id = words
    if job_id is None:
        if contract.startswith("op_"):
            _refuse_flags(contract, flags)
            return (await sereno.operations.get(contract)).operation.id
        raise SetupError(f"which job at {safe(contract)}? nothing was started", hint=f"sereno wait {safe(contract)} JOB_ID")
    registered = await sereno.operations.register(_wanted(contract, job_id, *flags, now=sereno.kit.clock.now()))
    operation = registered.record.operation
    for warning in registered.warnings:
        out.remark(f"attention: {warning}")
    if registered.is_new:
        out.remark(
            f"{operation.id}: waiting for {safe(operation.job_id)} at {operation.contract} until {out.time(operation.allowance.deadline_at)}"
        )
    else:
        used = f"{operation.spend.status_requests} of {operation.allowance.max_status_requests} requests used"
        out.remark(f"{operation.id}: this job is being waited for already ({used}); its limits stay as they are")
    return operation.id


def _refuse_flags(operation: str, flags: tuple[LimitFlags, JobFlags, TellFlags]) -> None:
    """Limits, words and actions are set when a wait is registered; silence here would look like consent. Raises SetupError."""
    limits, job, tell = flags
    given = [
        f"--{field.name.replace('_', '-')}"
        for group, defaults in ((limits, _LIMITS), (job, _JOB), (tell, _TELL))
        for field in fields(group)
        if field.name != "detach" and getattr(group, field.name) != getattr(defaults, field.name)
    ]
    if given:
        raise SetupError(
            f"{operation} is registered already, and its limits and words stay as they are; {', '.join(given)} cannot change them",
            hint=f"leave {'it' if len(given) == 1 else 'them'} out: sereno wait {operation}",
        )


def _wanted(contract: str, job_id: str, limits: LimitFlags, job: JobFlags, tell: TellFlags, *, now: datetime) -> Wanted:
    faults: list[Fault] = []
    deadline = _span("--deadline", limits.deadline, faults)
    business = _instant("--business-deadline", limits.business_deadline, now, faults)
    parameters = _pairs("--param", job.param, faults)
    if faults:
        raise SetupError("this wait is not right; nothing was stored", faults)
    return Wanted(
        contract=contract,
        job_id=job_id,
        account=job.credential,
        parameters=parameters,
        base=job.base,
        states=job.states(),
        state_path=job.state_path,
        error_path=job.error_path,
        deadline=deadline,
        business_deadline_at=business,
        max_status_requests=limits.max_requests,
        max_transport_failures=limits.max_failures,
        max_throttles=limits.max_throttles,
        assistant_task_id=tell.task_id,
        actions=tell.action or None,
        allow_unproven_status=job.allow_unproven_status,
    )


def _span(flag: str, text: str | None, faults: list[Fault]) -> timedelta | None:
    try:
        return None if text is None else parse_duration(text)
    except ValueError as error:
        faults.append(Fault(flag, str(error)))
        return None


def _instant(flag: str, text: str | None, now: datetime, faults: list[Fault]) -> datetime | None:
    """A duration from now, or an instant with its zone (without one: the system's)."""
    if text is None:
        return None
    try:
        return now + parse_duration(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        faults.append(Fault(flag, f"{text[:80]!r} is neither a duration nor an instant", "write 2h or 2026-12-01T18:00:00Z"))
        return None


def _pairs(flag: str, pairs: Sequence[str], faults: list[Fault]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if name and equals:
            found[name] = value
        else:
            faults.append(Fault(flag, "is not name=value", f"write for example {flag} repo=name"))
    return found


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


def _tell_end(sereno: "Sereno", out: Output, record: OperationRecord) -> int:
    operation, now = record.operation, sereno.kit.clock.now()
    question = operation.open_escalation
    if operation.state is OperationState.WAITING:
        out.remark(
            f"Interrupted; {operation.id} is still open. {_driven(sereno, record, now)} Come back: sereno wait {operation.id}"
        )
    elif question is not None:
        show_escalation(out, question, now)
    else:
        show_end(out, operation)
    out.answer("wait", {"operation": operation_row(record), "escalation": None if question is None else escalation_row(question)})
    return exit_code_of(operation)


def _driven(sereno: "Sereno", record: OperationRecord, now: datetime) -> str:
    """Says whether any process drives the wait now."""
    if is_running(sereno.loaded.database):
        return "A running `sereno up` goes on with it."
    if record.leased_until is not None and record.leased_until > now:
        return "Another process is looking at it right now; after that nobody drives it."
    return "No process drives it now; nothing is asked until one does."
